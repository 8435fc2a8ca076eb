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

/// A building block of V-shaped schedules: the times from a role to the next, in tasks, of one micro-batch: down the
/// first stages, back up the second ones, and the gradients the same way back. The longer they are, the longer values
/// are kept, and the more of the waiting at the beginning and the end is filled: blocks are repeated every six units,
/// the tasks of a micro-batch on a role, so that a role keeps a sixth of roles * (the sum of the four) stages' values.
struct v_block {
    int forward_down = 1; ///< from role to role + 1, in stage `role`
    int forward_up = 1;   ///< from role + 1 to role, in stage 2 * roles - 1 - role
    int backward_down = 1;
    int backward_up = 1;
};

/// Writes V-shaped schedules: the block again and again, six units apart, so that no two tasks of a role meet; then,
/// all roles played unit by unit, a role that would wait does the next of its tasks that is ready, if no more values
/// are kept than the repeated block keeps.
class v_shape_writer {
public:
    TRIREME_COLD constexpr v_shape_writer(v_block const& block, int roles, int micro_batches, int most_frames)
        : p_(roles), m_(micro_batches), most_frames_(most_frames), at_(6 * count(roles)), done_(6 * count(roles)),
          begun_(6 * count(roles)), kept_(count(roles)) {
        place(block);
    }

    TRIREME_COLD constexpr void write(role_order* lists) {
        for (int left = 6 * p_ * m_; left > 0;) {
            for (int r = 0; r < p_; ++r)
                for (int k = 0; k < 6; ++k) done(k, r) = begun(k, r);
            int const before = left;
            for (int r = 0; r < p_; ++r)
                if (int const k = choose(r); k != none) {
                    lists[r].add({kinds[k / 2], static_cast<std::uint8_t>(k % 2), number(begun(k, r))});
                    begin(k, r);
                    --left;
                }
            if (left == before) return; // cannot be: the repeated block alone goes on
        }
    }

private:
    static constexpr int none = -1;
    static constexpr task_kind kinds[3] = {task_kind::forward, task_kind::backward_input, task_kind::backward_weights};
    /// Tasks of a micro-batch on a role: kind * 2 + chunk.
    enum : int { f0, f1, b0, b1, w0, w1 };

    static constexpr std::size_t count(int n) { return static_cast<std::size_t>(n); }
    static constexpr std::uint16_t number(int n) { return static_cast<std::uint16_t>(n); }
    constexpr int& at(int k, int r) { return at_[count(6 * r + k)]; }       ///< when, of micro-batch 0 in the block
    constexpr int& done(int k, int r) { return done_[count(6 * r + k)]; }   ///< micro-batches, before this unit
    constexpr int& begun(int k, int r) { return begun_[count(6 * r + k)]; } ///< and with it
    constexpr int& kept(int r) { return kept_[count(r)]; }

    /// True if the first n tasks of every role are apart, whatever the micro-batches.
    constexpr bool apart(int n) {
        for (int r = 0; r < p_; ++r)
            for (int i = 0; i < n; ++i)
                for (int k = 0; k < i; ++k)
                    if ((at(order[i], r) - at(order[k], r)) % 6 == 0) return false;
        return true;
    }
    static constexpr int order[4] = {f0, f1, b1, b0};

    /// The earliest places for the block's parts, one behind the other, with which a role keeps no more than it may.
    constexpr void place(v_block const& b) {
        auto const line = [&](int k, int first, int step) {
            for (int r = 0; r < p_; ++r) at(k, r) = first + r * step;
        };
        line(f0, 0, b.forward_down);
        for (int up = at(f0, p_ - 1) + 1, i = 0; i < 6; ++i) {
            line(f1, up + i + (p_ - 1) * b.forward_up, -b.forward_up);
            if (!apart(2)) continue;
            for (int down = at(f1, 0) + 1, j = 0; j < 6; ++j) {
                line(b1, down + j, b.backward_down);
                if (!apart(3)) continue;
                for (int back = at(b1, p_ - 1) + 1, k = 0; k < 6; ++k) {
                    line(b0, back + k + (p_ - 1) * b.backward_up, -b.backward_up);
                    if (apart(4) && place_weights() <= most_frames_) return;
                }
            }
        }
    }
    /// The weights' gradients take the two units that are left, in the order in which fewer values are kept. Returns
    /// the most values that a role keeps.
    constexpr int place_weights() {
        int most = 0;
        for (int r = 0; r < p_; ++r) {
            int best = 0, when[2] = {};
            for (int const first : {w1, w0}) {
                int const second = w0 + w1 - first;
                at(first, r) = gap(r, at(first - 2, r) + 1, none);
                at(second, r) = gap(r, at(second - 2, r) + 1, at(first, r));
                int const cost = 100000 * most_kept(r) + at(w0, r) + at(w1, r);
                if (first == w1 || cost < best) best = cost, when[0] = at(w0, r), when[1] = at(w1, r);
            }
            at(w0, r) = when[0], at(w1, r) = when[1];
            most = std::max(most, best / 100000);
        }
        return most;
    }
    /// The first unit from `t` that the role has nothing else to do in; `but`: another that is taken.
    constexpr int gap(int r, int t, int but) {
        for (;; ++t) {
            bool taken = but != none && (t - but) % 6 == 0;
            for (int const k : order) taken = taken || (t - at(k, r)) % 6 == 0;
            if (!taken) return t;
        }
    }
    /// The most stages' values that the repeated block keeps on a role.
    constexpr int most_kept(int r) {
        int const late = 6 * (1 + std::max(at(w0, r), at(w1, r)) / 6);
        int most = 0;
        for (int t = late; t < late + 6; ++t) {
            int now = 0;
            for (int c = 0; c < 2; ++c) now += (t - at(f0 + c, r)) / 6 - (t - at(w0 + c, r) - 1 + 6) / 6 + 1;
            most = std::max(most, now);
        }
        return most;
    }

    // ---- the play ----

    /// The next task of a role, in the order of the repeated block: the first that is ready, if it may come so early.
    constexpr int choose(int r) {
        int first = none, best = none;
        bool const all_forward = begun(f0, r) == m_ && begun(f1, r) == m_; // then weights' gradients wait for gaps
        auto const when = [&](int k) { return at(k, r) + 6 * begun(k, r) + (k >= w0 && all_forward ? 6 * m_ : 0); };
        for (int k = 0; k < 6; ++k) {
            if (begun(k, r) == m_) continue;
            if (first == none || when(k) < when(first)) first = k;
            if ((best == none || when(k) < when(best)) && ready(k, r)) best = k;
        }
        if (best == first || best == none) return best;
        best = none;
        for (int k = 0; k < 6; ++k)
            if (begun(k, r) < m_ && (best == none || when(k) < when(best)) && ready(k, r) &&
                has_room(k, r, when(first)))
                best = k;
        return best;
    }
    constexpr bool ready(int k, int r) {
        int const i = begun(k, r);
        switch (k) {
        case f0:
            return r == 0 || done(f0, r - 1) > i;
        case f1:
            return r == p_ - 1 ? done(f0, r) > i : done(f1, r + 1) > i;
        case b1:
            return r == 0 ? done(f1, 0) > i : done(b1, r - 1) > i;
        case b0:
            return r == p_ - 1 ? done(b1, r) > i : done(b0, r + 1) > i;
        default:
            return done(k - 2, r) > i;
        }
    }
    /// True if the task may come now: those before it, from time `from`, still find room for their values.
    constexpr bool has_room(int k, int r, int from) {
        if (k > f1) return true;
        int now = kept(r), most = now;
        for (int t = from, until = at(k, r) + 6 * begun(k, r); t < until; ++t)
            for (int const other : {f0, f1, w0, w1})
                if (int const i = (t - at(other, r)) / 6;
                    (t - at(other, r)) % 6 == 0 && t >= at(other, r) && i >= begun(other, r) && i < m_) {
                    now += other <= f1 ? 1 : -1;
                    most = std::max(most, now);
                }
        return most < most_frames_;
    }
    constexpr void begin(int k, int r) {
        ++begun(k, r);
        if (k <= f1) ++kept(r);
        if (k >= w0) --kept(r);
    }

    int p_, m_, most_frames_;
    scratch<int> at_, done_, begun_, kept_;
};

/// The parts that V-shaped schedules share: two stages a role, there and back again; role 0 has the first and the last.
template<class Self>
struct v_shape {
    static constexpr int chunks = 2;
    static constexpr int stage(int roles, int role, int chunk) { return chunk == 0 ? role : 2 * roles - 1 - role; }
    TRIREME_COLD static constexpr void write_all(int roles, int micro_batches, role_order* lists) {
        v_shape_writer(Self::block, roles, micro_batches, Self::most_frames(roles)).write(lists);
    }
};

} // namespace detail

} // namespace trireme
