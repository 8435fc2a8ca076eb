// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/levels.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// The kinds of steps of a collective, each with its effect on the rank's buffer. A rank reads chunks of its peers'
/// buffers, writes its own, and may write the result of a reduction into the buffers of its `destinations`, too.
///
/// | kind   | effect on the own buffer                                                                     |
/// |--------|----------------------------------------------------------------------------------------------|
/// | idle   | none                                                                                         |
/// | wait   | none, but the sources have completed `after` steps                                           |
/// | copy   | own[chunk] = source[chunk]                                                                   |
/// | reduce | own[chunk] = (own[chunk] + source_0[chunk]) + source_1[chunk] + ..., in the order of sources; |
/// |        | the same into destination[chunk] of every destination                                        |
///
/// Before the effect the rank waits until every source has completed `after` steps (0: has entered the collective, so
/// that its input is in place). After it the rank signals: its count of completed steps grows by one. A rank leaves
/// after its last step; from then on its buffer may be overwritten.
enum class step_kind : std::uint8_t { idle, wait, copy, reduce };

/// `count` ranks: base + scale * x for x = first, first + stride, ..., modulo `modulus`. Most lists are plain, with x
/// itself for a rank and the number of ranks for a modulus (0 says so); the rest is for groups within groups.
struct rank_list {
    int first = 0;   ///< the first x
    int count = 0;   ///< ranks in the list
    int stride = 1;  ///< distance of one x from the next
    int modulus = 0; ///< modulus of x; 0: the number of ranks
    int base = 0;    ///< first rank of the group, added to each
    int scale = 1;   ///< factor of x, the distance of ranks in a group

    constexpr int at(int i, int ranks) const noexcept {
        return (base + scale * ((first + i * stride) % (modulus == 0 ? ranks : modulus))) % ranks;
    }
};

constexpr rank_list one_rank(int rank) noexcept { return {rank, 1, 1}; }

/// Two ranks in this order; the stride is taken modulo `ranks`, so that any pair fits.
constexpr rank_list two_ranks(int a, int b, int ranks) noexcept { return {a, 2, (b - a + ranks) % ranks}; }

/// All ranks but `rank`, beginning with its successor.
constexpr rank_list all_others(int rank, int ranks) noexcept { return {(rank + 1) % ranks, ranks - 1, 1}; }

/// `count` chunks one after the other, the first behind the last; a number is one chunk.
struct chunk_list {
    int first = 0;
    int count = 1;

    constexpr chunk_list() = default;
    constexpr chunk_list(int chunk) noexcept : first(chunk) {}
    constexpr chunk_list(int begin, int n) noexcept : first(begin), count(n) {}

    constexpr int at(int i, int chunks) const noexcept { return (first + i) % chunks; }
    constexpr bool has(int chunk, int chunks) const noexcept { return (chunk - first + chunks) % chunks < count; }
};

/// One step of a rank in a collective.
struct collective_step {
    step_kind kind = step_kind::idle; ///< the effect of the step
    chunk_list chunk = {};            ///< chunks that it writes
    rank_list sources = {};           ///< ranks that it reads from, or waits for
    int after = 0;                    ///< steps that each source has completed before
    rank_list destinations = {};      ///< ranks that the result of a reduction is written to, too
    int source_chunk = -1;            ///< chunk that a copy reads, if it is not the one that is written; -1: it is
};

constexpr bool reads(step_kind k) noexcept { return k == step_kind::copy || k == step_kind::reduce; }

/// The nine collectives, each with the state of the ranks before and after. `root` is the schedule's.
///
/// | collective     | before                        | after                                   |
/// |----------------|-------------------------------|-----------------------------------------|
/// | all_reduce     | every rank has a buffer       | every rank has the sum                  |
/// | reduce_scatter | every rank has a buffer       | rank r has block r of the sum           |
/// | all_gather     | rank r has block r            | every rank has all blocks               |
/// | broadcast      | the root has a buffer         | every rank has it                       |
/// | reduce         | every rank has a buffer       | the root has the sum                    |
/// | gather         | rank r has block r            | the root has all blocks                 |
/// | scatter        | the root has all blocks       | rank r has block r                      |
/// | all_to_all     | rank r has a block for each q | rank q has block q of each r, in order  |
/// | barrier        | every rank has entered        | every rank knows so                     |
enum class collective : std::uint8_t {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    reduce,
    gather,
    scatter,
    all_to_all,
    barrier
};
inline constexpr int collectives = 9;

constexpr bool has_root(collective c) noexcept {
    return c == collective::broadcast || c == collective::reduce || c == collective::gather || c == collective::scatter;
}

constexpr char const* name_of(collective c) noexcept {
    constexpr char const* names[collectives] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                                "gather",     "scatter",        "all_to_all", "barrier"};
    return names[static_cast<int>(c)];
}

/// A collective as a value: the compiler verifies it (schedule/verify.hpp), communicators execute it (collective/),
/// schedule/cost.hpp prices it, schedule/draw.hpp draws it. It is a function of (rank, step), not a stored table, so it
/// costs no memory at any size.
///
/// The buffer is cut into `chunks` equal parts. Where blocks belong to ranks, `chunks` is a multiple of `ranks`, and
/// block r is the r-th `chunks / ranks` of them. Every rank has the same number of steps; spare ones are idle.
struct schedule {
    char const* name = "";                                            ///< the name in errors and pictures
    int ranks = 1;                                                    ///< ranks of the collective
    int chunks = 1;                                                   ///< equal parts of the buffer
    int steps = 0;                                                    ///< steps of each rank
    collective_step (*step)(int ranks, int rank, int step) = nullptr; ///< a rank's step

    int root = 0;        ///< the rank in rank 0's place; all others follow, round and round
    bool blocks = false; ///< chunks belong to ranks, and move round with them if the root is not 0
    levels groups = {};  ///< levels that `step_in_groups` is asked with, in place of `ranks`; none: `step` is asked
    /// Likewise, of ranks in levels.
    collective_step (*step_in_groups)(levels const& groups, int rank, int step) = nullptr;
    bool reversed =
        false; ///< blocks lie in the order of `groups.reversed`, so that those of a group's phase are together

    bool of_a_transport = false; ///< stands for a transport's own, of which nobody knows the steps

    constexpr collective_step at(int rank, int s) const noexcept {
        int const seat = root == 0 ? rank : (rank - root + ranks) % ranks;
        auto made = groups.count != 0 ? step_in_groups(groups, seat, s) : step(ranks, seat, s);
        if (root != 0) {
            turn(made.sources);
            turn(made.destinations);
            if (blocks) made.chunk.first = (made.chunk.first + root * (chunks / ranks)) % chunks;
        }
        return made;
    }

    /// The place of chunk `c` among the buffer's equal parts.
    constexpr int place(int c) const noexcept {
        if (!reversed) return c;
        int const per = chunks / ranks;
        return groups.reversed(c / per) * per + c % per;
    }

    /// True if `rank` writes `chunk` itself in its first `steps_taken` steps.
    constexpr bool writes(int rank, int chunk, int steps_taken) const noexcept {
        for (int i = 0; i < steps_taken; ++i)
            if (auto const s = at(rank, i); reads(s.kind) && s.chunk.has(chunk, chunks)) return true;
        return false;
    }

    /// True if another schedule for as many ranks does the same; schedules with groups are not compared.
    constexpr bool same_steps(schedule const& other) const noexcept {
        return step == other.step && step_in_groups == other.step_in_groups && steps == other.steps &&
               chunks == other.chunks && root == other.root && groups.count == 0 && other.groups.count == 0;
    }

    /// The rank that owns chunk `c`, where blocks belong to ranks.
    constexpr int owner(int c) const noexcept { return place(c) / (chunks / ranks); }

private:
    constexpr void turn(rank_list& list) const noexcept {
        if (list.modulus == 0)
            list.first = (list.first + root) % ranks;
        else
            list.base += root;
    }
};

/// Anything that answers like `schedule`; the verifier takes it, so that tests can hand it broken tables.
template<class S>
concept collective_schedule = requires(S const& s, int i) {
    requires std::same_as<std::remove_cvref_t<decltype(s.ranks)>, int>;
    requires std::same_as<std::remove_cvref_t<decltype(s.chunks)>, int>;
    requires std::same_as<std::remove_cvref_t<decltype(s.steps)>, int>;
    requires std::same_as<std::remove_cvref_t<decltype(s.at(i, i))>, collective_step>;
};

/// A strategy that chooses among others by the size of the buffer: best_of.
template<class S>
concept choosing_strategy = requires { typename S::candidates; };

namespace detail {

template<class S>
concept all_reducing_strategy = requires(int ranks) {
    { S::all_reduce(ranks) } -> std::same_as<schedule>;
};

template<class S>
concept named_strategy = requires {
    { S::name } -> std::convertible_to<char const*>;
};

} // namespace detail

/// A strategy names itself and makes the schedules of one or more collectives for any number of ranks; those with a
/// root take it as a second argument. A reduction strategy makes all-reduces. Its type is what counts: objects, which
/// options take, are made where they are needed.
template<class S>
concept reduction_strategy = detail::named_strategy<S> && std::default_initializable<S> &&
                             (choosing_strategy<S> || detail::all_reducing_strategy<S>);

/// A strategy that can stop half-way, with block r complete on rank r: enough where the ranks share what they update.
template<class S>
concept scattering_strategy = requires(int ranks) {
    { S::reduce_scatter(ranks) } -> std::same_as<schedule>;
};

} // namespace trireme
