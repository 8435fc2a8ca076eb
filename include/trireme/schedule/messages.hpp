// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/rounds.hpp>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme {

// A schedule that pulls, as messages: for transports whose ranks cannot read one another's memory. Every rank computes
// the same lists from the schedule alone, so that the two ends of a message agree without having spoken.
//
// A round has two halves. First every step's sources send what the step reads; then sums are formed; then sums are sent
// to the steps' destinations. Each half is one group: its messages are all under way at once, none waits in a buffer.
//
// Why that is the pulling schedule that has been proved. The proof covers every interleaving that the waits allow, so
// any one of them gives the result. Running the rounds one after the other is one: a step's round comes after those of
// all it waits for. Within a round the proof lets no step touch what another writes, since no wait orders them, so it
// makes no difference that all of them read before any of them writes. And ranks need no common clock: what a rank
// sends in a round is in its own memory, which only its own earlier rounds have written, by its steps or by what it
// received.
//
// Why it cannot deadlock without buffers. All ranks go through the same groups in the same order, and a message is in
// the same group at both of its ends: a rank in the earliest group that is not over finds all its peers there, or on
// their way. Between two ranks messages of one group are in one order at both ends, for the lists are sorted.

/// `count` places of the buffer, one behind the other, from one rank to the same places of another.
struct round_message {
    int from = 0;
    int to = 0;
    int first = 0;        ///< place of the buffer (schedule::place)
    int count = 1;        ///< 0: nothing but a sign that `from` has come as far
    int read = 0;         ///< the first place that is read: `first`, but in an all_to_all
    bool written = false; ///< `from` has it in its output; else in its input
    bool added = false;   ///< to be added by the sum of the same rank and places; else it is what `to` has from now on
    int source = 0;       ///< which of the sum's sources it is, in the order of addition
};

/// A sum that a rank forms of numbers it has received: output = (own + source_0) + source_1 + ..., in this order.
struct round_sum {
    int rank = 0;
    int first = 0;
    int count = 1;
    bool written = false; ///< own is in the output; else in the input
    int sources = 0;
    int step = 0; ///< of the schedule, on this rank
};

struct message_round {
    std::vector<round_message> reads;
    std::vector<round_sum> sums;
    std::vector<round_message> pushes; ///< of sums; they replace what `to` has
};

struct message_schedule {
    int ranks = 1;
    int places = 1;
    std::vector<message_round> rounds = {};
};

/// The elements of `count` places.
constexpr range elements_of(buffer_cut const& cut, int first, int count) noexcept {
    if (count == 0) return {};
    return {cut.at(first).begin, cut.at(first + count - 1).end};
}

/// Bytes that a rank needs to receive in what it adds: of its largest reduction, all sources side by side, each
/// beginning on `staging_unit`.
inline constexpr std::size_t staging_unit = 16;
constexpr std::size_t staging_bytes(schedule const& s, buffer_cut const& cut, int rank) noexcept {
    std::size_t most = 0;
    for (int i = 0; i < s.steps; ++i) {
        auto const step = s.at(rank, i);
        if (step.kind != step_kind::reduce) continue;
        auto const each = round_up<std::size_t>(detail::bytes_of(s, step, cut), staging_unit);
        most = std::max(most, each * static_cast<std::size_t>(step.sources.count));
    }
    return most;
}

/// The memory in which a rank keeps the sources of a sum until it adds them: source k is `offset + k * stride` bytes
/// from the beginning.
struct staged_sum {
    std::size_t offset = 0;
    std::size_t stride = 0;
};
inline staged_sum staged_at(message_round const& round, int rank, int first, buffer_cut const& cut) {
    staged_sum at;
    for (auto const& sum : round.sums) {
        if (sum.rank != rank) continue;
        auto const bytes = elements_of(cut, sum.first, sum.count).size() * cut.element_bytes;
        if (sum.first < first) at.offset += bytes;
        at.stride += bytes;
    }
    at.stride = round_up<std::size_t>(at.stride, staging_unit);
    return at;
}

/// The messages of a proved schedule. Where data moves, waits need none of their own: what is read has come after them.
/// A schedule that moves nothing, a barrier, is messages without contents.
inline message_schedule messages_of(schedule const& s) {
    message_schedule all{s.ranks, s.chunks};
    // a rank's output counts where the rank has written, or has been written to; elsewhere its input does
    std::vector<char> written(static_cast<std::size_t>(s.ranks) * static_cast<std::size_t>(s.chunks));
    auto const at = [&](int rank, int place) -> char& {
        return written[static_cast<std::size_t>(rank) * static_cast<std::size_t>(s.chunks) +
                       static_cast<std::size_t>(place)];
    };
    auto const moving = steps_in_rounds(s);
    auto const steps = moving.empty() ? steps_in_rounds(s, true) : moving;
    auto const sorted = [](std::vector<round_message>& list) {
        std::sort(list.begin(), list.end(), [](round_message const& a, round_message const& b) {
            return std::tie(a.from, a.to, a.first) < std::tie(b.from, b.to, b.first);
        });
    };
    for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
        message_round round;
        while (end < steps.size() && steps[end].round == steps[begin].round) ++end;
        for (auto i = begin; i < end; ++i) {
            int const rank = steps[i].rank;
            auto const& step = steps[i].step;
            bool const adds = step.kind == step_kind::reduce;
            auto const source = [&](int k) { return step.sources.at(k, s.ranks); };
            if (!reads(step.kind)) {
                for (int k = 0; k < step.sources.count; ++k) round.reads.push_back({source(k), rank, 0, 0});
                continue;
            }
            auto const read_of = [&](int place) { return step.source_chunk >= 0 ? s.place(step.source_chunk) : place; };
            std::vector<int> places;
            for (int j = 0; j < step.chunk.count; ++j) places.push_back(s.place(step.chunk.at(j, s.chunks)));
            std::sort(places.begin(), places.end());
            auto const joins = [&](int a, int b) { // whether two places can share their messages
                bool same = b == a + 1 && step.source_chunk < 0 && (!adds || at(rank, a) == at(rank, b));
                for (int k = 0; same && k < step.sources.count; ++k) same = at(source(k), a) == at(source(k), b);
                return same;
            };
            for (std::size_t p = 0, next = 0; p < places.size(); p = next) {
                for (next = p + 1; next < places.size() && joins(places[next - 1], places[next]);) ++next;
                int const first = places[p], count = static_cast<int>(next - p), read = read_of(first);
                for (int k = 0; k < step.sources.count; ++k) {
                    bool const out = step.source_chunk < 0 && at(source(k), read) != 0;
                    round.reads.push_back({source(k), rank, first, count, read, out, adds, k});
                }
                if (!adds) continue;
                round.sums.push_back({rank, first, count, at(rank, first) != 0, step.sources.count, steps[i].index});
                for (int k = 0; k < step.destinations.count; ++k)
                    round.pushes.push_back(
                        {rank, step.destinations.at(k, s.ranks), first, count, first, true, false, 0});
            }
        }
        sorted(round.reads);
        sorted(round.pushes);
        for (auto const* list : {&round.reads, &round.pushes})
            for (auto const& m : *list)
                for (int p = m.first; p < m.first + m.count; ++p) at(m.to, p) = 1;
        all.rounds.push_back(std::move(round));
    }
    return all;
}

/// The part of one rank: what it sends and receives, in the order of the lists, and what it forms.
struct rank_round {
    std::vector<round_message> sent, received; ///< of what steps read
    std::vector<round_sum> sums;
    std::vector<round_message> pushed, taken; ///< of sums
};
inline std::vector<rank_round> rounds_of_rank(message_schedule const& all, int rank) {
    std::vector<rank_round> own(all.rounds.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
        for (auto const& m : all.rounds[i].reads) {
            if (m.from == rank) own[i].sent.push_back(m);
            if (m.to == rank) own[i].received.push_back(m);
        }
        for (auto const& s : all.rounds[i].sums)
            if (s.rank == rank) own[i].sums.push_back(s);
        for (auto const& m : all.rounds[i].pushes) {
            if (m.from == rank) own[i].pushed.push_back(m);
            if (m.to == rank) own[i].taken.push_back(m);
        }
    }
    return own;
}

/// The traffic that `rank` gets from its peers, or pushes to them, counted as traffic_of counts it for a schedule: all
/// that goes between two ranks in one half of a round is one message.
inline traffic traffic_of(message_schedule const& all, int rank, buffer_cut const& cut) {
    traffic sum;
    auto const count = [&](std::vector<round_message> const& list, int round_message::* mine) {
        for (std::size_t i = 0; i < list.size(); ++i) {
            auto const& m = list[i];
            if (m.*mine != rank || m.count == 0) continue;
            sum.messages += i == 0 || list[i - 1].from != m.from || list[i - 1].to != m.to;
            sum.bytes += elements_of(cut, m.first, m.count).size() * cut.element_bytes;
        }
    };
    for (auto const& round : all.rounds) {
        count(round.reads, &round_message::to);
        count(round.pushes, &round_message::from);
    }
    return sum;
}

} // namespace trireme
