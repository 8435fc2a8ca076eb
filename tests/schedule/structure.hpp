// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/verify.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

/// Laws that hold for every strategy, and the trace of a schedule as text.
namespace structure {

using namespace trireme;

template<class Strategy, int Ranks, collective Goal = collective::all_reduce>
inline constexpr bool proved = compiler_verdict<Strategy, Goal, Ranks>.ok();

template<class Strategy, int First, collective Goal, int... I>
constexpr bool proved_each(std::integer_sequence<int, I...>) {
    return (proved<Strategy, First + I, Goal> && ...);
}

/// The compiler proves `Strategy` for First..Last ranks, each in constant expressions of its own.
template<class Strategy, int First, int Last, collective Goal = collective::all_reduce>
inline constexpr bool proved_for =
    proved_each<Strategy, First, Goal>(std::make_integer_sequence<int, Last - First + 1>{});

/// "reduce 2 from 1 3 after 0 to 4", "copy 1-3 from 0 after 2", "wait for 1 after 5", "idle".
inline std::string event(schedule const& s, int rank, int i) {
    auto const step = s.at(rank, i);
    if (step.kind == step_kind::idle) return "idle";
    auto chunks = std::to_string(step.chunk.first);
    if (step.chunk.count > 1) chunks += '-' + std::to_string(step.chunk.at(step.chunk.count - 1, s.chunks));
    std::string text = step.kind == step_kind::wait   ? "wait for"
                       : step.kind == step_kind::copy ? "copy " + chunks + " from"
                                                      : "reduce " + chunks + " from";
    for (int k = 0; k < step.sources.count; ++k) text += ' ' + std::to_string(step.sources.at(k, s.ranks));
    text += " after " + std::to_string(step.after);
    if (step.destinations.count > 0) text += " to";
    for (int k = 0; k < step.destinations.count; ++k) text += ' ' + std::to_string(step.destinations.at(k, s.ranks));
    return text;
}

inline std::vector<std::string> trace(schedule const& s, int rank) {
    std::vector<std::string> events;
    for (int i = 0; i < s.steps; ++i) events.push_back(event(s, rank, i));
    return events;
}

struct total {
    std::uint64_t messages = 0;
    bytes_t bytes = 0;
};

/// All ranks together read this total.
inline total traffic_of_all(schedule const& s, std::size_t elements, std::size_t element_bytes) {
    total sum;
    for (int r = 0; r < s.ranks; ++r) {
        auto const t = traffic_of(s, r, elements, element_bytes);
        sum.messages += t.messages;
        sum.bytes += t.bytes;
    }
    return sum;
}

} // namespace structure
