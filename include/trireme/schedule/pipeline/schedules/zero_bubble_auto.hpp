// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme {

namespace detail {

/// Times of a stage and of a transfer, in any unit, and the micro-batches that a role may keep.
struct zero_bubble_costs {
    int forward, backward_input, backward_weights, transfer, frames;
};

/// Searches orders of zero-bubble schedules: plays all roles in the order of time, by a few rules, once per setting of
/// the rules, and keeps the setting whose busiest role is done soonest.
class zero_bubble_search {
public:
    constexpr zero_bubble_search(zero_bubble_costs const& costs, int roles, int micro_batches)
        : c_(costs), p_(roles), m_(micro_batches), roles_(count(roles)), forward_(count(roles) * count(micro_batches)),
          backward_(count(roles) * count(micro_batches)) {}

    TRIREME_COLD constexpr void write(role_order* lists) {
        int best = 0;
        price least;
        for (int setting = 0; setting < settings; ++setting) {
            auto const is = play(setting, nullptr);
            if (setting == 0 || is.own < least.own || (is.own == least.own && is.span < least.span))
                best = setting, least = is;
        }
        play(best, lists);
    }

private:
    static constexpr int none = -1, settings = 12;
    /// The busiest role's time from its first task to its last, and all roles' together.
    struct price {
        long own = 0, span = 0;
    };
    struct state {
        long now = 0, begin = -1;
        int f = 0, b = 0, w = 0; ///< micro-batches that have been forward, back, and all the way
        bool waits = false;      ///< for a role that is at the same time
        bool back = false;       ///< its last task but for weights' gradients was a backward one
    };

    static constexpr std::size_t count(int n) { return static_cast<std::size_t>(n); }
    constexpr state& at(int r) { return roles_[count(r)]; }
    constexpr long& forward(int r, int i) { return forward_[count(r * m_ + i)]; } ///< when it ended
    constexpr long& backward(int r, int i) { return backward_[count(r * m_ + i)]; }

    /// The time at which a role's next forward task can begin; none: not known yet.
    constexpr long forward_comes(int r) {
        int const i = at(r).f;
        if (r == 0) return 0;
        return i < at(r - 1).f ? forward(r - 1, i) + c_.transfer : none;
    }
    constexpr long backward_comes(int r) {
        int const i = at(r).b;
        if (r == p_ - 1) return i < at(r).f ? forward(r, i) : none;
        return i < at(r + 1).b ? backward(r + 1, i) + c_.transfer : none;
    }
    /// The forward tasks that a role may be ahead of its backward ones.
    constexpr int ahead(int setting, int r) const {
        int const most = setting % 3 == 0 ? p_ - r : setting % 3 == 1 ? 2 * (p_ - r) - 1 : c_.frames;
        return std::max(1, std::min(most, c_.frames));
    }

    TRIREME_COLD constexpr price play(int setting, role_order* lists) {
        for (int r = 0; r < p_; ++r) at(r) = {};
        price is;
        for (int left = 3 * p_ * m_; left > 0;) {
            int r = none;
            for (int q = 0; q < p_; ++q)
                if (at(q).w < m_ &&
                    (r == none || at(q).now < at(r).now || (at(q).now == at(r).now && !at(q).waits && at(r).waits)))
                    r = q;
            auto& s = at(r);
            auto const kind = choose(setting, r);
            if (kind == task_kind::move) {
                wait(r);
                continue;
            }
            auto& i = kind == task_kind::forward ? s.f : kind == task_kind::backward_input ? s.b : s.w;
            if (lists != nullptr) lists[r].add({kind, 0, static_cast<std::uint16_t>(i)});
            if (s.begin < 0) s.begin = s.now;
            s.now += kind == task_kind::forward          ? c_.forward
                     : kind == task_kind::backward_input ? c_.backward_input
                                                         : c_.backward_weights;
            if (kind == task_kind::forward) forward(r, i) = s.now;
            if (kind == task_kind::backward_input) backward(r, i) = s.now;
            if (kind != task_kind::backward_weights) s.back = kind == task_kind::backward_input;
            ++i;
            --left;
            for (int q = 0; q < p_; ++q) at(q).waits = false;
            is.own = std::max(is.own, s.now - s.begin);
            is.span = std::max(is.span, s.now);
        }
        return is;
    }

    /// The next task of a role; move: it waits.
    constexpr task_kind choose(int setting, int r) {
        auto const& s = at(r);
        long const there = s.f < m_ ? forward_comes(r) : none, back = s.b < m_ ? backward_comes(r) : none;
        bool const room = s.f - s.w < c_.frames, may_go = room && s.f - s.b < ahead(setting, r);
        bool const goes = there != none && there <= s.now && may_go, returns = back != none && back <= s.now;
        bool const takes_turns = setting / 3 % 2 == 0, fills = setting / 6 == 0;
        if (returns && !(takes_turns && goes && s.back)) return task_kind::backward_input;
        if (goes) return task_kind::forward;
        if (s.w == s.b) return task_kind::move;
        // a gap: that of a weights' gradient, if nothing comes sooner, or all that comes must wait for one
        if (fills || s.b == m_ || (s.f < m_ && !room)) return task_kind::backward_weights;
        bool const soon = (there != none && may_go && there < s.now + c_.backward_weights) ||
                          (back != none && back < s.now + c_.backward_weights);
        return soon ? task_kind::move : task_kind::backward_weights;
    }
    /// Lets a role wait for what it knows to come, else for the next task of another role.
    constexpr void wait(int r) {
        auto& s = at(r);
        long next = none;
        auto const no_later = [&](long t) {
            if (t > s.now && (next == none || t < next)) next = t;
        };
        if (s.f < m_) no_later(forward_comes(r));
        if (s.b < m_) no_later(backward_comes(r));
        for (int q = 0; q < p_; ++q)
            if (q != r && at(q).w < m_) no_later(at(q).now);
        s.waits = next == none;
        if (next != none) s.now = next;
    }

    zero_bubble_costs c_;
    int p_, m_;
    scratch<state> roles_;
    scratch<long> forward_, backward_;
};

} // namespace detail

/// Schedule: the best order that a search finds for these times: F of forward, B of backward_input, W of
/// backward_weights, Comm of a transfer between two roles, all in one unit, with the values of at most Frames
/// micro-batches on a role. `zero_bubble_auto<>` takes all three times for equal, and moves for nothing.
///
/// Phases: forward while memory lasts or until the first gradient comes, then both in turn, backward_weights in gaps
/// and where memory is full; twelve settings of these rules are played, and the one whose busiest role is done soonest
/// is written. Bubble: that of zero_bubble_h1 with Frames = p, of zero_bubble_h2 with 2 p - 1 if F = B = W; with more
/// frames it falls to none for unequal times, too. Peak: at most min(Frames, m). Wins where times are known and not
/// equal. A role keeps a micro-batch's whole frame until its backward_weights. Cost: 39 p m tasks are played, each
/// among p roles. Source: Qi et al., "Zero bubble pipeline parallelism", 2024, section 3.1.
template<int F = 1, int B = 1, int W = 1, int Comm = 0, int Frames = 16>
struct zero_bubble_auto {
    static_assert(
        F >= 1 && B >= 1 && W >= 1 && Comm >= 0 && Frames >= 1,
        "zero_bubble_auto<F, B, W, Comm, Frames>: tasks take time, and a role keeps at least one micro-batch");
    static constexpr char const* name = "zero_bubble_auto";
    static constexpr int frames = Frames;
    static constexpr int chunks = 1;
    static constexpr bool searches = true;

    TRIREME_COLD static constexpr void write_all(int roles, int micro_batches, role_order* lists) {
        detail::zero_bubble_search({F, B, W, Comm, Frames}, roles, micro_batches).write(lists);
    }
};

} // namespace trireme
