// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstdint>

namespace trireme {

/// What one rank does in one step of a collective. Data moves by *pulling*: a rank reads chunks of its peers' buffers
/// and writes only its own, in place.
///
/// | kind   | effect on the own buffer                                                                    |
/// |--------|---------------------------------------------------------------------------------------------|
/// | idle   | none                                                                                        |
/// | wait   | none, but the sources have completed `after` steps                                          |
/// | copy   | own[chunk] = source[chunk]                                                                  |
/// | reduce | own[chunk] = (own[chunk] + source_0[chunk]) + source_1[chunk] + ..., in the order of sources |
///
/// Before the effect the rank waits until every source has completed `after` steps (0: has entered the collective, so
/// that its input is in place). After it the rank signals: its count of completed steps grows by one. A rank leaves
/// after its last step; from then on its buffer may be overwritten.
enum class step_kind : std::uint8_t { idle, wait, copy, reduce };

/// Ranks first, first + stride, first + 2 stride, ... modulo the number of ranks: `count` of them.
struct rank_list {
    int first = 0;
    int count = 0;
    int stride = 1;

    constexpr int at(int i, int ranks) const noexcept { return (first + i * stride) % ranks; }
};

constexpr rank_list one_rank(int rank) noexcept { return {rank, 1, 1}; }

/// Two ranks in this order; the stride is taken modulo `ranks`, so that any pair fits.
constexpr rank_list two_ranks(int a, int b, int ranks) noexcept { return {a, 2, (b - a + ranks) % ranks}; }

/// Everyone but `rank`, beginning with its successor.
constexpr rank_list all_others(int rank, int ranks) noexcept { return {(rank + 1) % ranks, ranks - 1, 1}; }

struct collective_step {
    step_kind kind = step_kind::idle;
    int chunk = 0;
    rank_list sources = {};
    int after = 0;
};

/// A collective as a value: the compiler verifies it (verify.hpp), communicators execute it
/// (collective/all_reduce.hpp), the plan prices it (cost.hpp). It is a function of (rank, step), not a stored table, so
/// it costs no memory at any size.
///
/// The buffer is cut into `chunks` equal parts. Every rank has the same number of steps; spare ones are idle.
struct schedule {
    char const* name = "";
    int ranks = 1;
    int chunks = 1;
    int steps = 0;
    collective_step (*step)(int ranks, int rank, int step) = nullptr;

    constexpr collective_step at(int rank, int s) const noexcept { return step(ranks, rank, s); }
};

/// Anything that answers like `schedule`; the verifier takes it, so that tests can hand it broken tables.
template<class S>
concept collective_schedule = requires(S const& s, int i) {
    { s.ranks } -> std::convertible_to<int>;
    { s.chunks } -> std::convertible_to<int>;
    { s.steps } -> std::convertible_to<int>;
    { s.at(i, i) } -> std::convertible_to<collective_step>;
};

/// A reduction strategy: an empty struct that names itself and makes the schedule for any number of ranks.
template<class S>
concept reduction_strategy = requires(int ranks) {
    { S::name } -> std::convertible_to<char const*>;
    { S::all_reduce(ranks) } -> std::same_as<schedule>;
};

/// A strategy that can stop half-way, with chunk r complete on rank r: enough where the ranks share what they update.
template<class S>
concept scattering_strategy = reduction_strategy<S> && requires(int ranks) {
    { S::reduce_scatter(ranks) } -> std::same_as<schedule>;
};

} // namespace trireme
