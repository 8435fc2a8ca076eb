// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/group/transport/nccl/communicator.hpp>
#include <trireme/group/transport/nccl/errors.hpp>
#include <trireme/group/transport/nccl/id_file.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// The operation that a group is in, for messages: "all_reduce 2 (ring, 4096 bytes)".
struct nccl_operation {
    char const* name = "nothing yet";
    char const* strategy = "";
    std::size_t number = 0; ///< of the reduction
    bytes_t bytes = 0;

    std::string text() const {
        if (*strategy == 0) return name;
        return std::string(name) + " " + std::to_string(number) + " (" + strategy + ", " + std::to_string(bytes) +
               " bytes)";
    }
};

/// A call of NCCL within a group of calls; `local` says which of the process's communicators it is on.
struct nccl_call {
    enum class kind : int { send, receive, all_reduce };
    kind what = kind::send;
    int local = 0;
    int peer = 0;
    ncclDataType_t dtype = ncclUint8;
    void* data = nullptr; ///< of the device; all-reduce is in place, a sum
    std::size_t count = 0;
    cudaStream_t stream = nullptr;
};

template<class T>
constexpr ncclDataType_t nccl_dtype() {
    if constexpr (std::is_same_v<T, float>)
        return ncclFloat32;
    else if constexpr (std::is_same_v<T, double>)
        return ncclFloat64;
    else if constexpr (std::is_same_v<T, bf16>)
        return ncclBfloat16;
    else if constexpr (std::is_same_v<T, std::int32_t>)
        return ncclInt32;
    else {
        static_assert(std::is_same_v<T, std::uint64_t>, "NCCL adds float, double, bf16, int32_t and uint64_t");
        return ncclUint64;
    }
}

/// The ranks of one process in a group of accelerators that NCCL joins, of this process alone or of several. Processes
/// have as many ranks each, in order; one thread drives all of a process. Every rank needs a GPU of its own: rank r is
/// device r modulo those that the process sees.
///
/// Nothing here waits without the deadline. What goes wrong gives the whole group up (`abandon`), since NCCL cannot go
/// on without any of its ranks.
template<accelerator Device>
class nccl_group {
public:
    using span_of_time = nccl_runtime::span_of_time;

    /// `who.world` ranks in `who.count` processes. Throws usage_error for numbers that do not fit together or with
    /// those of another process, or GPUs that are not there; deadline_error if others do not come.
    nccl_group(nccl_runtime::attendance who, bool share_devices) : who_(std::move(who)) {
        check_numbers();
        nccl_runtime::require_version();
        int const present = Device::count(), local = who_.world / who_.count;
        if (share_devices)
            throw usage_error(
                "share_devices is for transport<peer>: NCCL takes each device of a process once; leave it "
                "out, and use as many devices as there are");
        if (local > present) refuse_number(local, present);
        first_ = local * who_.index;
        for (int i = 0; i < local; ++i) device_.push_back((first_ + i) % present), number_.push_back(first_ + i);
        all_of_ = who_.world;
        make();
    }
    nccl_group(nccl_group const&) = delete;
    nccl_group& operator=(nccl_group const&) = delete;
    ~nccl_group() { nccl_runtime::close_all(released(), who_.limit); }

    int size() const noexcept { return who_.world; }
    span_of_time wait_limit() const noexcept { return who_.limit; }
    int processes() const noexcept { return who_.count; }
    int first_rank() const noexcept { return first_; }
    int local_ranks() const noexcept { return static_cast<int>(device_.size()); }
    int device_of(int local) const noexcept { return device_[static_cast<std::size_t>(local)]; }
    nccl_communicator& at(int local) noexcept { return all_[static_cast<std::size_t>(local)]; }

    /// The groups along some axes of a mesh of all ranks, those that this process has ranks in; in the order of their
    /// first ranks. A rank's number in one is its place along these axes. Every process calls it at the same time, with
    /// the same arguments, and has neighbouring places in each group. Throws usage_error where it has not, and what
    /// NCCL says of communicators that it cannot make. This group must outlive them.
    std::vector<std::unique_ptr<nccl_group>> along(mesh_value const& mesh, axis_set axes) {
        std::vector<int> colors, keys;
        std::vector<std::unique_ptr<nccl_group>> groups;
        for (int const rank : number_) {
            colors.push_back(mesh.member(rank, axes, 0));
            keys.push_back(mesh.place(rank, axes));
        }
        auto made = split(colors, keys);
        for (std::size_t i = 0; i < made.size(); ++i) {
            auto const same = [&](auto const& g) { return g->color_ == colors[i]; };
            auto found = std::find_if(groups.begin(), groups.end(), same);
            if (found == groups.end()) found = groups.insert(found, part(mesh.size(axes), colors[i], keys[i]));
            auto& g = **found;
            if (keys[i] != g.first_ + g.local_ranks())
                throw usage_error("process " + std::to_string(who_.index) + " has places " + std::to_string(g.first_) +
                                  " and " + std::to_string(keys[i]) +
                                  " of an axis, and none between: give it neighbouring ones, as processes of whole "
                                  "replicas, or of equal parts of one, have");
            g.device_.push_back(device_[i]);
            g.number_.push_back(number_[i]);
            g.handles_.push_back(made[i].handle());
            g.all_.push_back(std::move(made[i]));
        }
        return groups;
    }

    /// Hands calls over, as one group: none waits for another of them. May be captured. The first time connections are
    /// made, which waits for peers: let that be outside a capture, so that it can fail by itself.
    void run(std::span<nccl_call const> calls, nccl_operation const& operation, bool first_time) {
        last_ = operation;
        if (calls.empty()) return;
        require_alive();
        try {
            if (!first_time) {
                post(handles_, calls, number_, operation);
            } else {
                auto owned = std::vector<nccl_call>(calls.begin(), calls.end());
                if (!nccl_runtime::finishes_within(
                        deadline::in(who_.limit),
                        [owned, handles = handles_, numbers = number_, operation, device = device_[0]] {
                            static_cast<void>(cudaSetDevice(device)); // else it wakes gpu 0
                            post(handles, owned, numbers, operation);
                        }))
                    late("the others", "connect");
            }
        } catch (accelerator_error const&) {
            abandon();
            throw;
        }
        settle();
    }

    /// Waits until NCCL has put the calls of `run` on their streams; not for what they do there.
    void settle() {
        auto const limit = deadline::in(who_.limit);
        for (std::uint64_t turn = 0;; ++turn) {
            bool busy = false;
            for (auto const& c : all_) busy = busy || state(c) == ncclInProgress;
            if (!busy) return check();
            if (turn < 1024) continue;
            if (limit.passed()) late("NCCL", "take it");
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }

    /// Throws accelerator_error if anything has gone wrong on any of the process's ranks, and gives the group up. For
    /// the loops of whoever waits for a stream.
    void check() {
        for (std::size_t i = 0; i < all_.size(); ++i) {
            auto const& c = all_[i];
            auto const status = state(c);
            if (status == ncclSuccess || status == ncclInProgress) continue;
            auto const text =
                nccl_runtime::failure("NCCL", number_[i], last_.text(), status, nccl_runtime::last_words(c.handle()));
            abandon();
            throw accelerator_error(text);
        }
    }

    /// Aborts all communicators of the process: their kernels end, and so do their peers', with an error. Returns
    /// within seconds whether or not NCCL does.
    void abandon() noexcept { nccl_runtime::abort_all(released(), who_.limit); }

    /// Communicators of the ranks that give the same colour, for the axes of a mesh: one per local rank.
    std::vector<nccl_communicator> split(std::span<int const> colors, std::span<int const> keys) {
        require_alive();
        return nccl_communicator::split_all(all_, colors, keys);
    }

    nccl_operation const& last() const noexcept { return last_; }

private:
    nccl_group() = default;
    /// A group of `size` ranks, the first of which has number `color` among all; its ranks of this process are still to
    /// come, from place `first` on.
    std::unique_ptr<nccl_group> part(int size, int color, int first) const {
        std::unique_ptr<nccl_group> g(new nccl_group);
        g->who_ = who_;
        g->who_.world = size;
        g->first_ = first;
        g->color_ = color;
        g->all_of_ = all_of_;
        return g;
    }

    static ncclResult_t state(nccl_communicator const& c) noexcept {
        return c ? nccl_runtime::state_of(c.handle()) : ncclSuccess;
    }

    std::vector<ncclComm_t> released() noexcept {
        std::vector<ncclComm_t> comms;
        for (auto& c : all_)
            if (auto* const comm = c.release(); comm != nullptr) comms.push_back(comm);
        return comms;
    }

    static void post(std::vector<ncclComm_t> const& comms, std::span<nccl_call const> calls,
                     std::vector<int> const& numbers, nccl_operation const& operation) {
        using nccl_runtime::check;
        check(ncclGroupStart(), "ncclGroupStart", numbers[0], operation);
        auto status = ncclSuccess;
        char const* name = "";
        int rank = numbers[0];
        ncclComm_t comm = nullptr;
        for (auto const& c : calls) {
            comm = comms[static_cast<std::size_t>(c.local)];
            rank = numbers[static_cast<std::size_t>(c.local)];
            if (c.what == nccl_call::kind::send) {
                name = "ncclSend";
                status = ncclSend(c.data, c.count, c.dtype, c.peer, comm, c.stream);
            } else if (c.what == nccl_call::kind::receive) {
                name = "ncclRecv";
                status = ncclRecv(c.data, c.count, c.dtype, c.peer, comm, c.stream);
            } else {
                name = "ncclAllReduce";
                status = ncclAllReduce(c.data, c.data, c.count, c.dtype, ncclSum, comm, c.stream);
            }
            if (status != ncclSuccess && status != ncclInProgress) break;
        }
        auto const ended = ncclGroupEnd(); // also after an error, or the thread would stay in the group
        check(status, name, rank, operation, comm);
        check(ended, "ncclGroupEnd", numbers[0], operation, comm);
    }

    // ---- how a group comes to be ----

    struct making {
        ncclUniqueId id = {};
        int world = 1;
        int first = 0;
        std::vector<int> devices;
        std::vector<ncclComm_t> comms;
        std::atomic<bool> posted{false};
    };

    void make() {
        auto const m = std::make_shared<making>();
        m->world = who_.world;
        m->first = first_;
        m->devices = device_;
        m->comms.assign(device_.size(), nullptr);
        if (who_.index == 0) nccl_runtime::check(ncclGetUniqueId(&m->id), "ncclGetUniqueId", first_, "the group's id");
        using exchange_type = nccl_runtime::id_exchange<sizeof(ncclUniqueId)>;
        std::optional<exchange_type> exchange; // its files stay until all ranks have met
        if (who_.share != nullptr) {
            share_id(*m);
        } else if (who_.count > 1) {
            exchange.emplace(who_);
            typename exchange_type::id_type bytes;
            if (who_.index == 0) {
                std::memcpy(bytes.data(), &m->id, sizeof m->id);
                exchange->give(bytes);
            } else {
                bytes = exchange->take();
                std::memcpy(&m->id, bytes.data(), sizeof m->id);
            }
        }
        auto const limit = deadline::in(who_.limit);
        bool over = false;
        try {
            over = nccl_runtime::finishes_within(limit, [m] { begin(*m); });
        } catch (...) {
            nccl_runtime::abort_all(begun(*m), who_.limit);
            throw;
        }
        auto status = ncclSuccess;
        std::size_t failed = 0;
        for (std::size_t i = 0; over && i < m->comms.size() && status == ncclSuccess; ++i) {
            while ((status = nccl_runtime::state_of(m->comms[i])) == ncclInProgress && over) {
                over = !limit.passed();
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
            failed = i;
        }
        if (!over || status != ncclSuccess) {
            auto const words = nccl_runtime::last_words(nullptr);
            nccl_runtime::abort_all(begun(*m), who_.limit);
            if (!over) nobody_came();
            throw accelerator_error(nccl_runtime::failure("ncclCommInitRankConfig", first_ + static_cast<int>(failed),
                                                          nccl_runtime::meeting_of{who_.world}.text(), status, words));
        }
        for (auto* const comm : m->comms) {
            all_.push_back(nccl_communicator::own(comm, who_.limit));
            handles_.push_back(comm);
        }
    }

    /// Through whoever has started the processes.
    TRIREME_COLD void share_id(making& m) const {
        struct {
            int world, count;
            ncclUniqueId id;
        } shared{who_.world, who_.count, m.id};
        who_.share(who_.with, &shared, sizeof shared);
        m.id = shared.id;
        if (shared.world != who_.world || shared.count != who_.count)
            throw usage_error("process " + std::to_string(who_.index) + " has " + std::to_string(who_.world) +
                              " devices over " + std::to_string(who_.count) + " processes, process 0 has " +
                              std::to_string(shared.world) + " over " + std::to_string(shared.count) +
                              ": start one program in all processes");
    }

    /// The communicators that there are, once nobody makes any more.
    static std::vector<ncclComm_t> begun(making const& m) {
        std::vector<ncclComm_t> all;
        if (m.posted.load())
            for (auto* const comm : m.comms)
                if (comm != nullptr) all.push_back(comm);
        return all;
    }

    static void begin(making& m) {
        using nccl_runtime::check;
        nccl_runtime::meeting_of const what{m.world};
        check(ncclGroupStart(), "ncclGroupStart", m.first, what);
        auto status = ncclSuccess;
        int rank = m.first;
        for (std::size_t i = 0; i < m.comms.size(); ++i) {
            rank = m.first + static_cast<int>(i);
            if (cudaSetDevice(m.devices[i]) != cudaSuccess) { // of this thread, which is ours
                status = ncclUnhandledCudaError;
                break;
            }
            ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
            config.blocking = 0;
            status = ncclCommInitRankConfig(&m.comms[i], m.world, m.id, rank, &config);
            if (status != ncclSuccess && status != ncclInProgress) break;
        }
        m.posted.store(true);
        auto const ended = ncclGroupEnd();
        check(status, "ncclCommInitRankConfig", rank, what);
        check(ended, "ncclCommInitRankConfig", m.first, what);
    }

    std::string whom() const {
        auto text = (local_ranks() == 1 ? "rank " : "ranks ") + std::to_string(number_[0]);
        if (who_.world == all_of_ && local_ranks() != 1)
            text += " to " + std::to_string(number_.back());
        else
            for (std::size_t i = 1; i < number_.size(); ++i) text += ", " + std::to_string(number_[i]);
        return text + " of " + std::to_string(all_of_);
    }

    TRIREME_COLD [[noreturn]] void nobody_came() const {
        auto const file = who_.file.empty() ? std::string() : ", id file " + who_.file;
        throw deadline_error(
            first_, late_text(whom() + " (process " + std::to_string(who_.index) + " of " + std::to_string(who_.count) +
                                  file + ")",
                              "meet the others in NCCL", who_.limit,
                              "start all processes, look at NCCL_SOCKET_IFNAME and with NCCL_DEBUG=INFO at what they "
                              "say"));
    }
    TRIREME_COLD [[noreturn]] void late(char const* who, char const* did) {
        abandon();
        throw deadline_error(number_[0],
                             late_text(last_.text() + " on " + whom() + ": " + who, did, who_.limit,
                                       "look whether all processes still run, and with NCCL_DEBUG=INFO at what they "
                                       "say"));
    }
    void require_alive() const {
        for (auto const& c : all_)
            if (!c)
                throw accelerator_error("rank " + std::to_string(number_[0]) + ": the group of " +
                                        std::to_string(who_.world) +
                                        " ranks has been given up after an error; make a new one, in all processes");
    }

    void check_numbers() const {
        auto const number = [](int n) { return std::to_string(n); };
        if (who_.world < 1) throw usage_error("a group of " + number(who_.world) + " ranks: at least one is needed");
        if (who_.count < 1 || who_.index < 0 || who_.index >= who_.count)
            throw usage_error("process " + number(who_.index) + " of " + number(who_.count) +
                              ": processes are counted from 0, and there is at least one");
        if (who_.world % who_.count != 0)
            throw usage_error(number(who_.world) + " devices over " + number(who_.count) +
                              " processes: every process drives as many devices as any other; make the number of "
                              "devices a multiple of that of processes");
    }
    TRIREME_COLD [[noreturn]] static void refuse_number(int local, int present) {
        throw usage_error("a mesh with " + std::to_string(local) + " devices of kind " + Device::name +
                          " in each process was asked for, and " + std::to_string(present) +
                          (present == 1 ? " is" : " are") +
                          " there: use a smaller mesh, spread it over more processes, or let ranks share a device with "
                          "transport<peer> and the option share_devices");
    }

    nccl_runtime::attendance who_ = {};
    int first_ = 0;                    ///< of this process, in the group
    int color_ = 0;                    ///< number of the group's first rank, among all
    int all_of_ = 1;                   ///< ranks, of all groups
    std::vector<int> device_, number_; ///< of the ranks of this process: their devices, and their numbers among all
    std::vector<nccl_communicator> all_;
    std::vector<ncclComm_t> handles_; ///< of all_, for calls
    nccl_operation last_;
};

} // namespace trireme
