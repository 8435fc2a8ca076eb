// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/fixed_tree.hpp>

#include <cstddef>
#include <cstring>
#include <string>

namespace trireme::detail::inline TRIREME_ISA {

template<class T>
TRIREME_NOINLINE void add_into(T* TRIREME_RESTRICT sum, T const* TRIREME_RESTRICT term, std::size_t n) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        (vector::load(sum + i, count) + vector::load(term + i, count)).store(sum + i, count);
    });
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// How `reduce` steps add: one source after the other into the own chunk.
struct add_in_order {
    template<class T, pull_communicator C>
    static void reduce(C& comm, arena const& a, collective_step const& step, range chunk) {
        auto* const own = static_cast<T*>(a.data) + chunk.begin;
        for (int k = 0; k < step.sources.count; ++k) {
            detail::add_into(own, comm.template peer<T>(a, step.sources.at(k, comm.size())) + chunk.begin,
                             chunk.size());
            comm.count(chunk.size() * sizeof(T));
        }
    }
};

/// How `reduce` steps add under `reproducible<fixed_tree, V>`: all blocks of all ranks (an arena holds a rank's blocks
/// one behind the other, `elements` apart) are added in the tree of schedule/fixed_tree.hpp. For the `direct` schedule,
/// where one step reduces a chunk from everybody.
class add_in_fixed_tree {
public:
    /// `shards` of the whole group, at most max_shards; `elements` between two blocks of an arena.
    constexpr add_in_fixed_tree(std::size_t shards, std::size_t elements) : shards_(shards), elements_(elements) {
        if (shards < 1 || shards > max_shards)
            throw usage_error("add_in_fixed_tree was given " + std::to_string(shards) + " shards; it takes 1 to " +
                              std::to_string(max_shards));
    }
    static constexpr std::size_t max_shards = std::size_t{1} << 15;

    template<class T, pull_communicator C>
    void reduce(C& comm, arena const& a, collective_step const& step, range chunk) const {
        if (step.sources.count != comm.size() - 1)
            throw usage_error(
                "add_in_fixed_tree reduces a chunk from all ranks at once: use it with the schedule direct");
        constexpr std::size_t piece = 256; // elements; the whole stack of partial sums stays in the first-level cache
        alignas(cache_line) T sums[16][piece];
        auto* const own = static_cast<T*>(a.data) + chunk.begin;
        for (int r = 0; r < comm.size(); ++r) { // a chunk without elements is a message, too
            auto const blocks = r == comm.rank() ? 0 : fixed_tree::blocks(shards_of(r, comm.size(), shards_)).depth();
            for (std::size_t b = 0; b < blocks; ++b) comm.count(chunk.size() * sizeof(T));
        }
        for (std::size_t at = 0; at < chunk.size(); at += piece) {
            auto const n = chunk.size() - at < piece ? chunk.size() - at : piece;
            fixed_tree::stack tree;
            auto const merge = [&](std::size_t i, std::size_t j) { detail::add_into(sums[i], sums[j], n); };
            for (int r = 0; r < comm.size(); ++r) {
                auto const blocks = fixed_tree::blocks(shards_of(r, comm.size(), shards_));
                auto const* const theirs = comm.template peer<T>(a, r) + chunk.begin + at;
                for (std::size_t b = 0; b < blocks.depth(); ++b) {
                    std::memcpy(sums[tree.depth()], theirs + b * elements_, n * sizeof(T));
                    tree.push(blocks.block(b), merge);
                }
            }
            tree.finish(merge);
            std::memcpy(own + at, sums[0], n * sizeof(T));
        }
    }

private:
    std::size_t shards_;
    std::size_t elements_;
};

/// Executes a schedule that has been proved, by pulling; `reduced(chunk)` is called after every reduction, before other
/// ranks hear of it. What all_reduce and reduce_scatter have in common; see there.
template<class T, pull_communicator C, class Add, class Reduced>
void pull_schedule(C& comm, schedule const& s, arena const& a, std::size_t elements, operation const& what,
                   Add const& add, Reduced&& reduced) {
    static_assert(sizeof(T) <= cache_line);
    if (s.ranks != comm.size())
        throw usage_error(std::string(what.name) + " was given the schedule " + s.name + " for " +
                          std::to_string(s.ranks) + " ranks in a group of " + std::to_string(comm.size()) +
                          ": make it for the group's size");
    if (elements > a.bytes / sizeof(T))
        throw usage_error(std::string(what.name) + " was asked to add " + std::to_string(elements) + " elements of " +
                          std::to_string(sizeof(T)) + " bytes in an arena of " + std::to_string(a.bytes) + " bytes");
    comm.enter();
    for (int i = 0; i < s.steps; ++i) {
        auto const step = s.at(comm.rank(), i);
        auto const chunk = chunk_range(elements, step.chunk, s.chunks, sizeof(T));
        if (step.kind != step_kind::idle)
            for (int k = 0; k < step.sources.count; ++k)
                comm.wait_for(step.sources.at(k, comm.size()), step.after, {what.name, s.name, i});
        if (step.kind == step_kind::reduce) {
            add.template reduce<T>(comm, a, step, chunk);
            reduced(chunk);
        }
        if (step.kind == step_kind::copy) {
            auto const* const theirs = comm.template peer<T>(a, step.sources.at(0, comm.size())) + chunk.begin;
            if (chunk.size() != 0) // an arena of 0 bytes has no address, which memcpy must not be given
                std::memcpy(static_cast<T*>(a.data) + chunk.begin, theirs, chunk.size() * sizeof(T));
            comm.count(chunk.size() * sizeof(T));
        }
        comm.complete(i);
    }
    comm.leave(s.steps);
}

/// Adds the first `elements` of type T in every rank's arena `a`, in place: afterwards all ranks hold the same sum.
/// Every rank of the group calls it with the same arguments. Executes `s`, which must have been proved, by pulling.
///
/// Throws usage_error if schedule, group and arena do not fit together; deadline_error if a peer does not arrive,
/// group_stopped if one has failed; the arena then holds partial sums. Cost: traffic_of(s, rank, elements, sizeof(T))
/// read from peers; no allocation.
template<class T, pull_communicator C, class Add = add_in_order>
void all_reduce(C& comm, schedule const& s, arena const& a, std::size_t elements, Add const& add = {}) {
    pull_schedule<T>(comm, s, a, elements, {"all_reduce"}, add, [](range) {});
}

/// The same up to the half: afterwards chunk r of chunk_range(elements, r, ranks, sizeof(T)) holds the sum on rank r,
/// and nothing is said of the other chunks. `use(chunk)` is called with the own chunk while all ranks are still in the
/// collective: what it writes, others may read after they have returned. With one rank nothing is done, and `use` is
/// not called.
template<class T, pull_communicator C, class Add, class Use>
void reduce_scatter(C& comm, schedule const& s, arena const& a, std::size_t elements, Add const& add, Use&& use) {
    pull_schedule<T>(comm, s, a, elements, {"reduce_scatter"}, add, use);
}

} // namespace trireme::inline TRIREME_ISA
