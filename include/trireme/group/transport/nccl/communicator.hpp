// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/transport/nccl/errors.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trireme {

namespace nccl_runtime {

using span_of_time = std::chrono::duration<double>;

/// The result of the last call on a communicator: ncclInProgress while it goes on.
inline ncclResult_t state_of(ncclComm_t comm) noexcept {
    auto state = ncclSuccess;
    auto const asked = ncclCommGetAsyncError(comm, &state);
    return asked != ncclSuccess ? asked : state;
}

/// f(comm) on a thread of its own for each: of communicators of one process NCCL may let one wait for the others. A
/// thread begins on GPU 0, and would wake it in a process that has another one.
template<class F>
void for_each_at_once(std::vector<ncclComm_t> const& comms, F const& f) {
    std::vector<std::thread> threads;
    for (auto* const comm : comms) {
        try {
            threads.emplace_back([f, comm] {
                int device = 0;
                if (ncclCommCuDevice(comm, &device) == ncclSuccess) static_cast<void>(cudaSetDevice(device));
                f(comm);
            });
        } catch (...) {
            f(comm);
        }
    }
    for (auto& t : threads) t.join();
}

/// Aborts communicators: what waits in them, on the host or on a GPU, ends. The abort itself has been seen to hang, so
/// after a while it is left behind, with the memory of NCCL.
inline void abort_all(std::vector<ncclComm_t> const& comms, span_of_time limit) noexcept {
    if (comms.empty()) return;
    try {
        finishes_within(deadline::in(abort_span(limit)), [comms] {
            for_each_at_once(comms, [](ncclComm_t comm) { static_cast<void>(ncclCommAbort(comm)); });
        });
    } catch (...) { // no thread to be had: the process will have to end
    }
}

/// Takes leave of communicators whose work is done: their peers do so, too, or the deadline passes and they are
/// aborted. NCCL keeps a communicator until the last graph that holds its work is gone.
inline void close_all(std::vector<ncclComm_t> const& comms, span_of_time limit) noexcept {
    if (comms.empty()) return;
    try {
        auto const late = std::make_shared<std::atomic<bool>>(false);
        bool const over = finishes_within(deadline::in(limit), [comms, late] {
            for_each_at_once(comms, [late](ncclComm_t comm) {
                auto state = ncclCommFinalize(comm);
                while ((state == ncclSuccess || state == ncclInProgress) && !late->load()) {
                    state = state_of(comm);
                    if (state != ncclInProgress) break;
                    std::this_thread::sleep_for(std::chrono::microseconds(200));
                }
                static_cast<void>(state == ncclSuccess ? ncclCommDestroy(comm) : ncclCommAbort(comm));
            });
        });
        if (!over) late->store(true);
    } catch (...) {}
}

} // namespace nccl_runtime

/// One rank's handle on NCCL: `own`ed, or `borrow`ed from a program that has made it and will destroy it. Waits for
/// NCCL end with the deadline. An owned one is best made with ncclConfig_t::blocking = 0, as nccl_group does.
class nccl_communicator {
public:
    using span_of_time = nccl_runtime::span_of_time;

    nccl_communicator() = default;
    static nccl_communicator own(ncclComm_t comm, span_of_time limit) { return {comm, limit, true}; }
    static nccl_communicator borrow(ncclComm_t comm, span_of_time limit) { return {comm, limit, false}; }

    nccl_communicator(nccl_communicator&& other) noexcept { swap(other); }
    nccl_communicator& operator=(nccl_communicator&& other) noexcept {
        swap(other);
        return *this;
    }
    ~nccl_communicator() {
        if (owned_ && comm_ != nullptr) nccl_runtime::close_all({comm_}, limit_);
    }

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    int device() const noexcept { return device_; }
    ncclComm_t handle() const noexcept { return comm_; }
    bool owned() const noexcept { return owned_; }
    /// False for one that stands for "no part", or has been given up.
    explicit operator bool() const noexcept { return comm_ != nullptr; }

    /// Throws what has gone wrong since; `operation` is what was under way.
    template<class Operation>
    void check(Operation const& operation) const {
        if (comm_ != nullptr) nccl_runtime::check(nccl_runtime::state_of(comm_), "NCCL", rank_, operation, comm_);
    }

    /// A communicator of the ranks that give the same colour, in the order of their keys; none for a colour below 0.
    /// All ranks of this one call it together. Of several communicators of one process: nccl_group::split.
    nccl_communicator split(int color, int key) {
        return std::move(split_all(std::span(this, 1), std::array{color}, std::array{key}).front());
    }

    static std::vector<nccl_communicator> split_all(std::span<nccl_communicator> all, std::span<int const> colors,
                                                    std::span<int const> keys) {
        struct splitting {
            std::vector<ncclComm_t> from, to;
            std::vector<int> colors, keys;
        };
        auto const s = std::make_shared<splitting>();
        for (auto const& c : all) s->from.push_back(c.comm_);
        s->to.assign(all.size(), nullptr);
        s->colors.assign(colors.begin(), colors.end());
        s->keys.assign(keys.begin(), keys.end());
        auto const& first = all.front();
        auto const limit = deadline::in(first.limit_);
        bool const called = nccl_runtime::finishes_within(limit, [s, rank = first.rank_, device = first.device_] {
            static_cast<void>(cudaSetDevice(device)); // else it wakes gpu 0
            nccl_runtime::check(ncclGroupStart(), "ncclGroupStart", rank, "a split");
            auto status = ncclSuccess;
            for (std::size_t i = 0; i < s->from.size(); ++i)
                if (status == ncclSuccess || status == ncclInProgress)
                    status = ncclCommSplit(s->from[i], s->colors[i] < 0 ? NCCL_SPLIT_NOCOLOR : s->colors[i], s->keys[i],
                                           &s->to[i], nullptr);
            auto const ended = ncclGroupEnd();
            nccl_runtime::check(status, "ncclCommSplit", rank, "a split", s->from[0]);
            nccl_runtime::check(ended, "ncclGroupEnd", rank, "a split", s->from[0]);
        });
        bool over = called;
        for (auto const* list : {&s->from, &s->to})
            for (auto* const comm : *list)
                while (over && comm != nullptr && nccl_runtime::state_of(comm) == ncclInProgress) {
                    over = !limit.passed();
                    std::this_thread::sleep_for(std::chrono::microseconds(200));
                }
        if (!over) {
            if (called) { // else the call may still write them
                std::erase(s->to, nullptr);
                nccl_runtime::abort_all(s->to, first.limit_);
            }
            throw deadline_error(first.rank_,
                                 late_text("rank " + std::to_string(first.rank_) + " of " + std::to_string(first.size_),
                                           "meet the others in ncclCommSplit", first.limit_,
                                           "all ranks have to split together"));
        }
        std::vector<nccl_communicator> made;
        for (auto* const comm : s->to) made.push_back(comm == nullptr ? nccl_communicator() : own(comm, first.limit_));
        try {
            for (auto& c : all) c.check("a split");
        } catch (...) {
            for (auto& c : made) c.abandon();
            throw;
        }
        return made;
    }

    /// Gives it up: what waits in it ends with an error. One that is borrowed is left to its owner.
    void abandon() noexcept {
        if (auto* const comm = release(); comm != nullptr) nccl_runtime::abort_all({comm}, limit_);
    }
    /// The handle, if it is ours to destroy; this object has none from now on.
    ncclComm_t release() noexcept {
        auto* const comm = std::exchange(comm_, nullptr);
        return owned_ ? comm : nullptr;
    }

private:
    nccl_communicator(ncclComm_t comm, span_of_time limit, bool owned) : comm_(comm), limit_(limit), owned_(owned) {
        nccl_runtime::check(ncclCommUserRank(comm, &rank_), "ncclCommUserRank", 0, "a communicator", comm);
        nccl_runtime::check(ncclCommCount(comm, &size_), "ncclCommCount", rank_, "a communicator", comm);
        nccl_runtime::check(ncclCommCuDevice(comm, &device_), "ncclCommCuDevice", rank_, "a communicator", comm);
    }
    void swap(nccl_communicator& other) noexcept {
        std::swap(comm_, other.comm_);
        std::swap(limit_, other.limit_);
        std::swap(rank_, other.rank_);
        std::swap(size_, other.size_);
        std::swap(device_, other.device_);
        std::swap(owned_, other.owned_);
    }

    ncclComm_t comm_ = nullptr;
    span_of_time limit_{30};
    int rank_ = 0;
    int size_ = 1;
    int device_ = 0;
    bool owned_ = false;
};

} // namespace trireme
