// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/nothing_kept.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

// An accelerator computes beside the host, in its own memory; the host hands work to its streams and does not wait.
// A step on an accelerator is written once, against the words of this file; device/cuda speaks them to CUDA, and
// device/rehearsal plays them on the host, as late and in the worst order they allow.

/// The position of a thread in a block program.
struct block_place {
    std::uint32_t block;
    std::uint32_t blocks;
    std::uint32_t thread;
};

/// A kernel, written in phases: what the threads of a block do between two barriers.
///
///     static constexpr std::uint32_t threads;       // per block, at most 1024
///     struct shared;                                // one per block, at most 48 KiB; begins undefined
///     struct own;                                   // one per thread, kept from phase to phase; begins undefined
///     int phases() const;                           // the same for all blocks
///     void phase(int k, block_place at, shared&, own&) const;
///
/// `phases` and `phase` are TRIREME_HOST_DEVICE. Within a phase the threads of a block run in any order, blocks in any
/// order at all; what one phase has written, to `shared` or to memory, the next may read if its block wrote it. There
/// are no atomic operations, so results never depend on the order. Programs for warps take the warp of their stream as
/// a template parameter W: `threads` is a multiple of W::lanes, and lanes of a warp do together what W has words for
/// (device/cuda/warp.hpp; docs/decisions/0055-warps-multiply-tiles.md). Template arguments of programs are numbers,
/// types of numbers and types with a name at namespace scope: nvcc takes nothing else (docs/gpu.md).
template<class P>
concept block_program = std::is_trivially_copyable_v<P> &&
                        requires(P const& p, block_place at, typename P::shared& shared, typename P::own& own) {
                            { P::threads } -> std::convertible_to<std::uint32_t>;
                            { p.phases() } -> std::convertible_to<int>;
                            p.phase(0, at, shared, own);
                        };

inline constexpr std::uint32_t most_threads_of_block = 1024;
inline constexpr std::size_t most_shared_bytes = 48 * 1024;

/// f(i) for every i in [0, n), in any order, by any number of blocks.
template<class F>
struct index_program {
    static constexpr std::uint32_t threads = 256;
    using shared = nothing_kept;
    using own = nothing_kept;

    F f;
    std::size_t n;

    TRIREME_HOST_DEVICE int phases() const { return 1; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        for (std::size_t i = std::size_t{at.block} * threads + at.thread; i < n; i += std::size_t{at.blocks} * threads)
            f(i);
    }

    /// One index per thread, as long as there are not too many.
    std::uint32_t blocks() const noexcept {
        std::size_t const enough = (n + threads - 1) / threads, most = 8192;
        return static_cast<std::uint32_t>(enough < most ? enough : most);
    }
};

/// A stream: work is done in the order it is handed over, some time after the call. Between two streams events order:
/// what is handed to a stream after `wait(e)` begins when all that the recording stream had before `record(e)` is done.
/// From `begin_capture` on nothing is done, but noted; other streams are drawn in when they wait for an event of a
/// stream that notes, and have to be waited for in turn before `end_capture` returns all of it as one graph.
template<class S>
concept accelerator_stream =
    requires(S& s, typename S::event& e, typename S::graph& g, void* to, void const* from, std::size_t bytes) {
        typename S::warp; // of programs for warps
        { s.device() } -> std::same_as<int>;
        s.copy(to, from, bytes); // between any two of: pinned host memory, memory of any device
        s.zero(to, bytes);
        s.record(e);
        s.wait(e);
        { e.reached() } -> std::same_as<bool>; // also where nothing was recorded; throws what went wrong on the device
        s.begin_capture();
        { s.end_capture() } -> std::same_as<typename S::graph>;
        s.abandon_capture(); // ends one whose work is not wanted; nothing happens without one
        s.launch(g);
    };

/// A kind of accelerator. Devices of one kind are numbered from 0.
template<class D>
concept accelerator = accelerator_stream<typename D::stream> && requires(int device, std::size_t bytes) {
    { D::name } -> std::convertible_to<char const*>;
    { D::count() } -> std::same_as<int>; // throws usage_error if the system has none that work
    D::use(device);                      // makes it the calling thread's, where that means something
    D::enable_peers(device, device);     // two that reach each other
    requires std::constructible_from<typename D::range, char const*>; // names host time for a profiler while it lives
    { D::reaches(device, device) } -> std::same_as<bool>;             // its memory from the other
    requires std::constructible_from<typename D::memory, int, std::size_t, char const*>; // zeroed; throws usage_error
    requires std::constructible_from<typename D::pinned_memory, std::size_t>; // of the host, for copies that go on
    typename D::libraries; // handles that kernels need, one per rank, and notes of what is done without them
    { std::declval<typename D::libraries const&>().notes() } -> std::convertible_to<std::vector<std::string>>;
    typename D::kernels; // the default kernel policy: from (stream&, samples, workspace, libraries&)
    { D::workspace_bytes } -> std::convertible_to<std::size_t>;
};

/// Waits for an event: spins briefly, then yields, then sleeps. False if the deadline passed first.
template<class Event>
[[nodiscard]] bool await(Event& e, deadline const& limit) {
    for (std::uint64_t turn = 0; !e.reached(); ++turn) {
        if (turn < 1024) continue;
        if (limit.passed()) return false;
        if (turn < 4096)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}

} // namespace trireme
