// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/schedule/pipeline/program.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace trireme {

/// Times of one micro-batch in one stage, in any unit, and of a transfer between two roles.
struct stage_times {
    double forward = 1;          ///< time of the forward pass
    double backward_input = 1;   ///< time of the gradient by the stage's input
    double backward_weights = 1; ///< time of the gradients by its parameters
    double transfer = 0; ///< time from the end of the task that sends to the earliest begin of the one that receives

    constexpr double of(task_kind kind) const noexcept {
        switch (kind) {
        case task_kind::forward:
        case task_kind::evaluate:
            return forward;
        case task_kind::backward:
            return backward_input + backward_weights;
        case task_kind::backward_input:
            return backward_input;
        case task_kind::backward_weights:
            return backward_weights;
        case task_kind::train:
            return forward + backward_input + backward_weights;
        default:
            return 0;
        }
    }
};

namespace detail {
struct told_to_nobody {
    constexpr void operator()(auto const&...) const noexcept {}
};
} // namespace detail

/// Plays a proved program, each role doing its next task as soon as it can: `times(kind, stage)` is how long one takes,
/// moves nothing; `done(role, task, begin, end)` is told of each. What has been sent from a frame or a slot stays there
/// until its receiver gets to it. Between two roles that takes `transfer` at least, beside what both compute: seconds,
/// or a function of the transfer and the role that receives it. `took(role, task, transfer, when)` is told when a
/// message is taken. Returns when the last task ends.
template<class Times, class Done, class Transfer = double, class Took = detail::told_to_nobody>
constexpr double play_step(step_program const& p, Times const& times, Done&& done, Transfer const& transfer = {},
                           Took const& took = {}) {
    auto const crossing = [&](stage_transfer const& m, int to) -> double {
        if constexpr (std::is_arithmetic_v<Transfer>) {
            static_cast<void>(m), static_cast<void>(to);
            return transfer;
        } else {
            return transfer(m, to);
        }
    };
    auto const roles = static_cast<std::size_t>(p.shape.roles), stages = static_cast<std::size_t>(p.stage_count()),
               micro_batches = static_cast<std::size_t>(p.shape.micro_batches);
    std::size_t frames = 0, slots = 0;
    for (std::size_t r = 0; r < roles; ++r) {
        frames = std::max<std::size_t>(frames, p.frames[r]);
        slots = std::max<std::size_t>(slots, p.slots[r]);
    }
    auto const number = [&](stage_transfer const& m) { return m.way() * micro_batches + m.micro_batch; };
    detail::scratch<double> sent(2 * stages * micro_batches, -1.0), taken(2 * stages * micro_batches, -1.0),
        now(roles, 0.0);
    detail::scratch<std::size_t> next(roles), left(roles * (frames + slots) + 1, npos); // the last message from a place
    auto const place = [&](std::size_t role, bool slot, std::size_t i) -> std::size_t& {
        return left[role * (frames + slots) + (slot ? frames : 0) + i];
    };
    double end = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < roles; ++r) {
            auto const list = p.list(static_cast<int>(r));
            for (; next[r] < list.size(); ++next[r], moved = true) {
                auto const& t = list[next[r]];
                auto const stage = p.stage(static_cast<int>(r), t.chunk);
                bool waits = false;
                auto const wait_for = [&](double when) {
                    if (when < 0) waits = true;
                    now[r] = std::max(now[r], when);
                };
                auto const wait_until_free = [&](bool slot, std::size_t i) {
                    if (auto const message = place(r, slot, i); message != npos) wait_for(taken[message]);
                };
                for (int k = 0; k < t.transfers; ++k)
                    if (auto const& m = t.moves[k]; m.sends && sent[number(m)] < 0) {
                        sent[number(m)] = now[r];
                        place(r, m.gradient, m.place) = number(m);
                        moved = true;
                    }
                for (int k = 0; k < t.transfers; ++k) {
                    auto const& m = t.moves[k];
                    if (m.sends || taken[number(m)] >= 0) continue;
                    if (!m.gradient) wait_until_free(false, m.place);
                    auto const when = sent[number(m)];
                    wait_for(when < 0 || m.role == r ? when : when + crossing(m, static_cast<int>(r)));
                    if (waits) break;
                    taken[number(m)] = now[r];
                    took(static_cast<int>(r), next[r], k, now[r]);
                    moved = true;
                }
                if (t.computes() && stage == 0 && (goes_forward(t.kind) || t.kind == task_kind::evaluate))
                    wait_until_free(false, t.frame);
                if (t.computes() && stage > 0 && gives_input(t.kind)) wait_until_free(true, t.slot);
                if (waits) break;
                auto const begin = now[r];
                if (t.computes()) now[r] += times(t.kind, stage);
                done(static_cast<int>(r), next[r], begin, now[r]);
                end = std::max(end, now[r]);
            }
        }
    }
    return end;
}

/// The time from the first task to the last gradient, if all stages take the same times. For a proved program.
constexpr double step_span(step_program const& p, stage_times const& times = {}) {
    return play_step(
        p, [&](task_kind kind, int) { return times.of(kind); }, [](int, std::size_t, double, double) {},
        times.transfer);
}

/// The longest time from a role's first task to its last gradient: what a step costs where steps follow one another and
/// roles do not meet between them, so that each role begins the next one as soon as it is done.
constexpr double busiest_role_span(step_program const& p, stage_times const& times = {}) {
    detail::scratch<double> begin(static_cast<std::size_t>(p.shape.roles), -1.0);
    double longest = 0;
    auto const done = [&](int role, std::size_t task, double from, double to) {
        if (!p.list(role)[task].computes()) return;
        auto& first = begin[static_cast<std::size_t>(role)];
        if (first < 0) first = from;
        longest = std::max(longest, to - first);
    };
    play_step(p, [&](task_kind kind, int) { return times.of(kind); }, done, times.transfer);
    return longest;
}

/// The part of a step in which devices have nothing to do, over all of a replica's: `times(kind, stage)` is how long a
/// task takes.
template<class Times>
    requires std::is_invocable_r_v<double, Times const&, task_kind, int>
constexpr double bubble_fraction(step_program const& p, Times const& times, double transfer = 0) {
    double busy = 0;
    auto const add = [&](int, std::size_t, double begin, double end) { busy += end - begin; };
    auto const span = play_step(p, times, add, transfer);
    return 1 - busy / (span * p.shape.roles);
}
/// Likewise, if all stages take the same times.
constexpr double bubble_fraction(step_program const& p, stage_times const& times = {}) {
    return bubble_fraction(p, [&](task_kind kind, int) { return times.of(kind); }, times.transfer);
}

} // namespace trireme
