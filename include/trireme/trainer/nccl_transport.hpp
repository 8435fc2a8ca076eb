// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/on_streams/nccl.hpp>
#include <trireme/core/deadline.hpp>
#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/transport/nccl/group.hpp>
#include <trireme/group/transport/stop_reason.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/local_ranks.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/messages.hpp>
#include <trireme/trainer/policy_arguments.hpp>
#include <trireme/trainer/process_table.hpp>
#include <trireme/trainer/stream_transport.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme {

/// The ranks of a trainer are spread over processes, and joined by NCCL. Strategies other than `native` give the bits
/// that they give everywhere.
///
/// A process has whole replicas, or a part of one. The stages that it has read one another's memory, as with
/// transport<peer>; those of other processes get messages. NCCL joins the ranks of a role, by a communicator for each,
/// and those of a replica in several processes.
///
/// Messages, like all that ranks wait for one another with, are handed over in the same order by all processes: what is
/// first in it waits for nobody.
///
/// Graphs that hold its work have to be gone before it is: NCCL keeps what they use until then. A process with several
/// GPUs hands its steps over without graphs: NVIDIA says that with them a launch may block for ever.
template<accelerator Device, class T>
class nccl_transport : public prepared_collectives<nccl_collective<Device, T>> {
    using base = prepared_collectives<nccl_collective<Device, T>>;
    using base::layout_, base::here_, base::made_, base::sums_, base::in_step_;
    using typename base::collective_type;

public:
    using typename base::stream;
    static constexpr bool has_messages = true;

    /// The bytes that a rank needs for the numbers that it receives.
    static constexpr bytes_t table_bytes(parallel_layout const& l, int rank, arena_extent const& arena,
                                         std::size_t element_bytes) {
        if (l.replicas == 1) return 0;
        if (l.reproducible()) {
            auto const tree = tree_of(l, arena.elements, element_bytes);
            return tree.staging(l.replica_of(rank)) + tree.table();
        }
        return staging_of(l, l.replica_of(rank), arena.elements, element_bytes);
    }

    static constexpr bytes_t sum_bytes(int ranks, int rank, std::size_t elements, std::size_t element_bytes) {
        if (ranks == 1) return 0;
        auto const s = direct::all_reduce(ranks);
        return staging_bytes(s, {elements, element_bytes, s.chunks}, rank);
    }

    /// The bytes of a rank through which numbers of other processes come to the host, piece by piece.
    static constexpr bytes_t relay_bytes(parallel_layout const& l) noexcept { return l.devices() == 1 ? 0 : 64 * 1024; }

    /// Throws launch_error unless all processes have `agreed` in common.
    nccl_transport(parallel_layout const& l, auto const& r, std::string const& agreed = {})
        : base(l, detail::local_ranks::of(l, r.processes.value.index, std::max(r.processes.value.count, 1))),
          group_(std::make_unique<group_type>(attendance_of(r), r.share_devices.value)) {
        Device::use(device_of(0)); // what is allocated wakes no other one
        for (int i = 0; i < here_.count; ++i) {
            relay_.emplace_back(device_of(i), relay_bytes(l), "numbers for the host");
            relay_words_.push_back(static_cast<std::uint64_t*>(relay_.back().data()));
        }
        require_agreed(r.processes.value.index, agreed); // before groups are made of groups, as the layout says
        if (l.stages == 1) return;
        if (l.replicas != 1) roles_ = group_->along(l.mesh(), {l.mesh().find("dp")});
        if (here_.is_part()) replica_ = std::move(group_->along(l.mesh(), {l.mesh().find("pp")})[0]);
        for (int i = 0; i < here_.count; ++i)
            for (int k = 0; k < here_.count; ++k)
                if (i != k && Device::reaches(device_of(i), device_of(k)))
                    Device::enable_peers(device_of(i), device_of(k)); // else copies go through the host
    }

    int device_of(int local) const noexcept { return group_->device_of(local); }
    bool captures() const noexcept { return here_.count == 1; }

    void prepare(int role, std::vector<T*> const& gradients, arena_extent const& arena,
                 std::vector<layer_sum<T>> const& sums = {}) {
        auto& made = made_.emplace_back();
        if (layout_.replicas == 1) return;
        auto& group = group_of(role);
        auto const elements = arena.elements;
        auto const in_place = [](std::vector<T*> const& numbers, std::size_t begin) {
            std::vector<stream_buffers<T>> buffers;
            for (auto* const n : numbers) buffers.push_back({n + begin, n + begin});
            return buffers;
        };
        auto const staged = [&](int local, bytes_t bytes, char const* what) {
            staging_.emplace_back(group.device_of(local), bytes, what);
            return staging_.back().data();
        };
        for (auto const& sum : sums) {
            std::vector<void*> memory;
            for (int i = 0; i < group.local_ranks(); ++i)
                memory.push_back(staged(i, sum_bytes(layout_.replicas, group.first_rank() + i, sum.count, sizeof(T)),
                                        "messages of the layers' sums"));
            auto const s = direct::all_reduce(layout_.replicas);
            sums_.push_back(std::make_unique<collective_type>(group, s, layout_.reductions() + sums_.size(),
                                                              buffer_cut{sum.count, sizeof(T), s.chunks},
                                                              in_place(sum.numbers, 0), memory));
            in_step_.push_back(sum.in_step);
        }
        std::vector<void*> staging, tables;
        auto const tree = tree_of(layout_, elements, sizeof(T));
        for (int i = 0; i < group.local_ranks(); ++i) {
            int const place = group.first_rank() + i;
            auto const bytes =
                layout_.reproducible() ? tree.staging(place) : staging_of(layout_, place, elements, sizeof(T));
            staging.push_back(staged(i, bytes, "messages of the collectives"));
            if (layout_.reproducible()) tables.push_back(staged(i, tree.table(), "tables of the collectives"));
        }
        if (layout_.reproducible()) {
            made.push_back(std::make_unique<collective_type>(group, tree, gradients, staging, tables));
            return;
        }
        for (std::size_t i = 0; i < layout_.reductions(); ++i) {
            auto const part = layout_.reduced_by(i, elements);
            if (layout_.strategy_of(i).template is<native>()) {
                std::vector<T*> data;
                for (auto* const g : gradients) data.push_back(g + part.begin);
                made.push_back(std::make_unique<collective_type>(group, native{}, i, part.size(), data));
            } else {
                auto const s = layout_.reduction(i, elements, sizeof(T));
                made.push_back(std::make_unique<collective_type>(group, s, i, layout_.cut_of(i, s, elements, sizeof(T)),
                                                                 in_place(gradients, part.begin), staging));
            }
        }
    }

    int processes() const noexcept { return group_->processes(); }
    bool shares_scores() const noexcept { return processes() != 1; }
    /// Every rank has filled in its own words, and all others are zero: their sum is all of them, bit for bit.
    void enqueue_scores(std::span<std::uint64_t* const> words, std::size_t count, std::span<stream* const> streams) {
        if (shares_scores()) add_words(*group_, words, count, streams, "scores");
    }
    /// Gives all processes of a replica the numbers that each of them has filled in, where all others are zero.
    /// `wait()` waits for the streams. All of these processes call it.
    void share(std::span<std::byte> numbers, std::span<stream* const> streams, auto const& wait) {
        if (here_.is_part()) share_in(*replica_, numbers, streams, wait);
    }
    /// Gives all processes these likewise.
    void share_with_all(std::span<std::byte> numbers, std::span<stream* const> streams, auto const& wait) {
        if (processes() != 1) share_in(*group_, numbers, streams, wait);
    }

    void enqueue_send(int role, int to, void const* from, bytes_t bytes, stream& on) {
        enqueue_message({nccl_call::kind::send, 0, to, ncclUint8, const_cast<void*>(from), bytes, on.handle()}, role);
    }
    void enqueue_receive(int role, int from, void* to, bytes_t bytes, stream& on) {
        enqueue_message({nccl_call::kind::receive, 0, from, ncclUint8, to, bytes, on.handle()}, role);
    }

    void check() {
        try {
            for_each_group([](group_type& g) { g.check(); });
        } catch (...) { // the others wait for it, too
            abandon();
            throw;
        }
    }
    void abandon() noexcept {
        for_each_group([](group_type& g) { g.abandon(); });
    }

private:
    using group_type = nccl_group<Device>;

    nccl_runtime::attendance attendance_of(auto const& r) const {
        auto const& p = r.processes.value;
        if (p.count > 1 && layout_.devices() % p.count == 0 && !here_.fit()) refuse_processes(layout_, p.count);
        return {p.index, p.count, layout_.devices(), p.id_file, std::chrono::duration<double>(r.deadline),
                p.share, p.with};
    }
    TRIREME_COLD [[noreturn]] static void refuse_processes(parallel_layout const& l, int count) {
        std::string would;
        for (int n = 1; n <= l.devices(); ++n)
            if (l.devices() % n == 0 && detail::local_ranks::of(l, 0, n).fit())
                would += (would.empty() ? "" : ", ") + std::to_string(n);
        throw usage_error(std::to_string(l.replicas) + (l.replicas == 1 ? " replica of " : " replicas of ") +
                          std::to_string(l.stages) + " stages over " + std::to_string(count) +
                          " processes: a process has whole replicas, or replicas have whole processes; start another "
                          "number of them (" +
                          would + "), or choose other `devices` and `stages`");
    }

    /// A group of its own, so that it waits for its other end alone.
    void enqueue_message(nccl_call c, int role) {
        c.local = static_cast<int>(here_.place(0, role));
        bool const sends = c.what == nccl_call::kind::send;
        replica_->run({&c, 1}, {sends ? "send" : "receive", "stages", static_cast<std::size_t>(c.peer), c.count},
                      connected_.insert({sends, role, c.peer}).second);
    }
    void share_in(group_type& group, std::span<std::byte> numbers, std::span<stream* const> streams, auto const& wait) {
        constexpr auto word = sizeof(std::uint64_t);
        auto const room = static_cast<std::size_t>(relay_bytes(layout_));
        if (pinned_.data() == nullptr) pinned_ = typename Device::pinned_memory(room);
        for (std::size_t begin = 0; begin < numbers.size(); begin += room) {
            auto const some = numbers.subspan(begin, std::min(room, numbers.size() - begin));
            auto const count = (some.size() + word - 1) / word;
            std::memset(pinned_.data(), 0, count * word);
            std::memcpy(pinned_.data(), some.data(), some.size());
            streams[0]->copy(relay_words_[0], pinned_.data(), count * word);
            for (std::size_t i = 1; i < relay_words_.size(); ++i) streams[i]->zero(relay_words_[i], count * word);
            add_words(group, relay_words_, count, streams, "numbers");
            streams[0]->copy(pinned_.data(), relay_words_[0], count * word);
            wait();
            std::memcpy(some.data(), pinned_.data(), some.size());
        }
    }
    /// The processes compare digests, and what these are of where they differ.
    TRIREME_COLD void require_agreed(int index, std::string const& agreed) {
        if (processes() == 1) return;
        std::vector<stream> streams;
        std::vector<stream*> all;
        for (int i = 0; i < here_.count; ++i) streams.emplace_back(device_of(i));
        for (auto& s : streams) all.push_back(&s);
        auto const table_of = [&]<class Entry>(Entry const& own) {
            std::vector<Entry> table;
            detail::share_table(
                table, processes(), static_cast<std::size_t>(index), own,
                [&](std::span<std::byte> bytes) { share_with_all(bytes, all, [&] { wait_for(all); }); });
            return table;
        };
        auto const digests = table_of(digest_of(std::as_bytes(std::span(agreed))));
        if (std::ranges::all_of(digests, [&](auto digest) { return digest == digests[0]; })) return;
        agreed_text mine;
        mine.set(agreed);
        auto const texts = table_of(mine);
        for (std::size_t k = 0; k < texts.size(); ++k)
            require_one_program(index, mine.get(), static_cast<int>(k), texts[k].get(), "process");
    }
    /// The host waits for what all ranks of this process have got.
    TRIREME_COLD void wait_for(std::span<stream* const> streams) {
        auto const limit = deadline::in(group_->wait_limit());
        for (auto* const s : streams) {
            typename Device::event done(s->device());
            s->record(done);
            while (!await(done, deadline::in(std::min<std::chrono::duration<double>>(limit.left(),
                                                                                     std::chrono::milliseconds(20))))) {
                group_->check();
                if (!limit.passed()) continue;
                group_->abandon();
                throw deadline_error(here_.first, late_text("rank " + std::to_string(here_.first) + " of " +
                                                                std::to_string(group_->size()),
                                                            "hear what the other processes train", group_->wait_limit(),
                                                            "look whether these still run"));
            }
        }
    }
    void add_words(group_type& group, std::span<std::uint64_t* const> words, std::size_t count,
                   std::span<stream* const> streams, char const* what) {
        if (count == 0) return;
        calls_.resize(words.size());
        for (std::size_t i = 0; i < words.size(); ++i)
            calls_[i] = {nccl_call::kind::all_reduce, static_cast<int>(i), 0, ncclUint64, words[i], count,
                         streams[i]->handle()};
        group.run(calls_, {"all_reduce", what, 0, count * sizeof(std::uint64_t)}, added_by_.insert(&group).second);
    }

    static constexpr staged_tree tree_of(parallel_layout const& l, std::size_t elements,
                                         std::size_t element_bytes) noexcept {
        return {l.replicas, l.shards(), elements, element_bytes};
    }
    /// One place for all reductions: they come one after the other.
    static constexpr std::size_t staging_of(parallel_layout const& l, int rank, std::size_t elements,
                                            std::size_t element_bytes) {
        std::size_t most = 0;
        for (std::size_t i = 0; i < l.reductions(); ++i) {
            if (l.strategy_of(i).is<native>()) continue;
            auto const s = l.reduction(i, elements, element_bytes);
            most = std::max(most, staging_bytes(s, l.cut_of(i, s, elements, element_bytes), rank));
        }
        return most;
    }

    /// The ranks of a role.
    group_type& group_of(int role) noexcept { return roles_.empty() ? *group_ : *roles_[here_.place(0, role)]; }
    template<class F>
    void for_each_group(F const& f) {
        if (replica_ != nullptr) f(*replica_);
        for (auto& g : roles_) f(*g);
        f(*group_);
    }

    std::unique_ptr<group_type> group_;
    std::vector<std::unique_ptr<group_type>> roles_; ///< of this process, if there are several stages and replicas
    std::unique_ptr<group_type> replica_;            ///< if this process has a part of it
    std::vector<typename Device::memory> staging_, relay_;
    std::vector<std::uint64_t*> relay_words_;
    typename Device::pinned_memory pinned_;
    std::vector<nccl_call> calls_;
    std::set<group_type*> added_by_;                 ///< those that have done so before
    std::set<std::tuple<bool, int, int>> connected_; ///< so have messages: whether sent, and the roles of both ends
};

/// `transport<nccl>`: accelerators reach one another through NCCL, in one process or several. Strategies run as they do
/// elsewhere, as messages, with the same bits; `reduce_by<native>` leaves the reduction to NCCL. Stages of one process
/// read one another's memory, those of several send.
struct nccl : transport_traits {
    static constexpr bool has_native = true, has_stages = true;
    static constexpr lowering moves = in_one_order;
    template<class Device, class T>
    using streams = nccl_transport<Device, T>;
};

} // namespace trireme
