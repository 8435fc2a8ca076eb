// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/scratch.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/proof/table.hpp>
#include <trireme/schedule/proof/verdict.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::detail::proof {

// The second phase of a proof plays the schedule, and keeps for each chunk of each rank whose contributions are in it.
// The smallest all-reduce, of one chunk on two ranks:
//
//             rank 0                            rank 1                           in chunk 0 of rank 0, of rank 1
//     before                                                                     {0}       {1}
//     step 0  reduce chunk 0 from 1, after 0    idle                             {0, 1}    {1}
//     step 1  idle                              copy chunk 0 from 0, after 1     {0, 1}    {0, 1}
//     step 2  wait for 1, after 2               idle
//
// The schedule ends as an all-reduce should, with both in each chunk, once and in one order of addition. Refused are:
// `after 3` in rank 1's step, for rank 0's third step waits for that one (deadlock); a reduction in place of the copy,
// by which {0, 1} meets {1} (added_twice); and nothing in place of it, so that rank 1 ends with {1} (missing). Whether
// the copy finds its chunk in any other order of events, too, is a question for the phases of conflicts and races.

constexpr std::uint64_t mix(std::uint64_t x) noexcept { // splitmix64's finaliser
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/// Names the value a + b. Symmetric, because IEEE addition is commutative; not associative, because it is not.
constexpr std::uint64_t name_of_sum(std::uint64_t a, std::uint64_t b) noexcept {
    return mix((a + b) * 0x9E3779B97F4A7C15u + (a ^ b)) + mix(a) + mix(b);
}

/// Word w of the set of all ranks.
constexpr std::uint64_t all_ranks(table const& s, std::size_t w) noexcept {
    auto const left = index(s.ranks) - 64 * w;
    return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}
/// Word w of the set of one rank.
constexpr std::uint64_t only(int rank, std::size_t w) noexcept {
    return index(rank) / 64 == w ? std::uint64_t{1} << (rank % 64) : 0;
}

/// The content of a place, but for the set of ranks that have contributed to it.
struct content {
    int id = -1;             ///< the chunk it belongs to; -1: nothing
    std::uint64_t value = 0; ///< the name of the sum
    bool written = false;    ///< by its owner
    bool pushed = false;     ///< by another rank
};

/// True if a rank has something in a chunk before the first step.
constexpr bool starts_with(table const& s, int rank, int chunk) noexcept {
    switch (s.goal) {
    case collective::all_gather:
    case collective::gather:
        return s.owners[chunk] == rank;
    case collective::broadcast:
    case collective::scatter:
        return rank == s.root;
    default:
        return true;
    }
}

/// Class `contents` does the steps of a schedule to all places, with sets of contributions instead of numbers.
class contents {
public:
    constexpr explicit contents(table const& s)
        : s_(s), sets_(count(s.ranks, s.chunks) * s.words), places_(count(s.ranks, s.chunks)), has_(sets_.data()),
          holds_(places_.data()) {
        for (int r = 0; r < s.ranks; ++r) {
            auto const name = mix(static_cast<std::uint64_t>(r) + 1);
            for (int c = 0; c < s.chunks; ++c)
                if (starts_with(s, r, c)) {
                    has_[index(r * s.chunks + c) * s.words + index(r) / 64] = std::uint64_t{1} << (r % 64);
                    holds_[r * s.chunks + c] = {c, name};
                }
        }
    }

    /// The effect of a step of `rank` on one of its chunks, and on those of its destinations.
    constexpr schedule_fault apply(int rank, collective_step const& step, int chunk) {
        bool const exchange = s_.goal == collective::all_to_all; // reads inputs, which nobody writes
        bool const add = step.kind == step_kind::reduce;
        auto& own = holds_[rank * s_.chunks + chunk];
        auto* const own_set = has_ + index(rank * s_.chunks + chunk) * s_.words;
        if (add && own.pushed && !own.written) return schedule_fault::reused;
        for (int k = 0; k < step.sources.count; ++k) {
            int const source = step.sources.at(k, s_.ranks);
            if (exchange) {
                own = {step.source_chunk >= 0 ? step.source_chunk : chunk, mix(static_cast<std::uint64_t>(source) + 1)};
                for (std::size_t w = 0; w < s_.words; ++w) own_set[w] = only(source, w);
                continue;
            }
            auto const& theirs = holds_[source * s_.chunks + chunk];
            auto const* const their_set = has_ + index(source * s_.chunks + chunk) * s_.words;
            if (theirs.id < 0 || (add && own.id < 0)) return schedule_fault::too_early;
            if (theirs.pushed && !theirs.written) return schedule_fault::reused;
            for (std::size_t w = 0; w < s_.words; ++w) {
                if (add && (own_set[w] & their_set[w]) != 0) return schedule_fault::added_twice;
                own_set[w] = add ? own_set[w] | their_set[w] : their_set[w];
            }
            own.id = theirs.id;
            own.value = add ? name_of_sum(own.value, theirs.value) : theirs.value;
        }
        own.written = true;
        for (int k = 0; k < step.destinations.count; ++k) {
            int const there = step.destinations.at(k, s_.ranks) * s_.chunks + chunk;
            for (std::size_t w = 0; w < s_.words; ++w) has_[index(there) * s_.words + w] = own_set[w];
            holds_[there].id = own.id;
            holds_[there].value = own.value;
            holds_[there].pushed = true;
        }
        return schedule_fault::none;
    }

    /// The fault of a place after all steps, if it does not hold what the collective wants there.
    constexpr schedule_fault ends_wrong(int rank, int chunk) const {
        auto const& here = holds_[rank * s_.chunks + chunk];
        auto const* const set = has_ + index(rank * s_.chunks + chunk) * s_.words;
        int const owner = s_.owners[chunk];
        int id = chunk;
        int from = -1; // whose it is to be; -1: everybody's sum
        switch (s_.goal) {
        case collective::all_reduce:
            break;
        case collective::reduce_scatter:
            if (rank != owner) return schedule_fault::none;
            break;
        case collective::reduce:
            if (rank != s_.root) return schedule_fault::none;
            break;
        case collective::all_gather:
            from = owner;
            break;
        case collective::gather:
            if (rank != s_.root) return schedule_fault::none;
            from = owner;
            break;
        case collective::broadcast:
            from = s_.root;
            break;
        case collective::scatter:
            if (rank != owner) return schedule_fault::none;
            from = s_.root;
            break;
        case collective::all_to_all:
            from = owner;
            id = rank * (s_.chunks / s_.ranks) + chunk % (s_.chunks / s_.ranks);
            break;
        case collective::barrier:
            return schedule_fault::none;
        }
        if (here.id < 0) return schedule_fault::missing;
        bool exact = true, enough = true;
        for (std::size_t w = 0; w < s_.words; ++w) {
            auto const wanted = from < 0 ? all_ranks(s_, w) : only(from, w);
            exact = exact && set[w] == wanted;
            enough = enough && (set[w] & wanted) == wanted;
        }
        if (!exact) return from < 0 && !enough ? schedule_fault::missing : schedule_fault::misplaced;
        if (here.id != id) return schedule_fault::misplaced;
        if (s_.goal == collective::all_reduce && here.value != holds_[chunk].value) return schedule_fault::ranks_differ;
        return schedule_fault::none;
    }

private:
    table const& s_;
    scratch<std::uint64_t> sets_;
    scratch<content> places_;
    std::uint64_t* const has_;
    content* const holds_;
};

/// Phase 2: runs the schedule, each rank as far as it can go, with sets of contributions instead of numbers. Any
/// other interleaving gives the same sets, which is what phases 4 and 5 prove. Leaves the order of completion in
/// `order`.
constexpr verdict contributions(table const& s, int* order) {
    contents places(s);
    scratch<int> done_by(count(1, s.ranks));
    int* const done = done_by.data();

    int completed = 0;
    for (bool progress = true; progress;) {
        progress = false;
        for (int r = 0; r < s.ranks; ++r)
            for (; done[r] < s.steps; ++done[r]) {
                int const i = done[r];
                auto const& step = s.at(r, i);
                if (step.kind != step_kind::idle) {
                    bool ready = true;
                    for (int k = 0; ready && k < step.sources.count; ++k)
                        ready = done[step.sources.at(k, s.ranks)] >= step.after;
                    if (!ready) break;
                    if (reads(step.kind))
                        for (int j = 0; j < step.chunk.count; ++j)
                            if (auto const fault = places.apply(r, step, step.chunk.at(j, s.chunks));
                                fault != schedule_fault::none)
                                return {fault, r, i, step.chunk.at(j, s.chunks)};
                }
                order[completed++] = r * s.steps + i;
                progress = true;
            }
    }

    verdict stuck{schedule_fault::none, 0, s.steps, 0};
    for (int r = 0; r < s.ranks; ++r)
        if (done[r] < stuck.step) stuck = {schedule_fault::deadlock, r, done[r], s.at(r, done[r]).chunk.first};
    if (!stuck.ok() || s.goal == collective::barrier) return stuck;

    for (int c = 0; c < s.chunks; ++c)
        for (int r = 0; r < s.ranks; ++r)
            if (auto const fault = places.ends_wrong(r, c); fault != schedule_fault::none)
                return {fault, r, s.steps, c};
    return {};
}

} // namespace trireme::detail::proof
