// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/schedules/gpipe.hpp>
#include <trireme/schedule/pipeline/schedules/one_f_one_b.hpp>

#include <algorithm>
#include <cstdint>

// Orders of computing that a user might write, right ones and wrong ones.
namespace own_schedules {
using namespace trireme;

/// The gradients by the weights right behind those by the input, as tasks of their own.
struct eager_weights {
    static constexpr char const* name = "eager_weights";
    static constexpr int chunks = 1;
    static constexpr int write(int p, int m, int role, scheduled_work* out) {
        int n = 0, f = 0, b = 0;
        auto const number = [](int i) { return static_cast<std::uint16_t>(i); };
        while (f < std::min(p - role, m)) out[n++] = {task_kind::forward, 0, number(f++)};
        while (b < m) {
            out[n++] = {task_kind::backward_input, 0, number(b)};
            out[n++] = {task_kind::backward_weights, 0, number(b++)};
            if (f < m) out[n++] = {task_kind::forward, 0, number(f++)};
        }
        return n;
    }
};

/// The gradients by the weights at the end, when nobody waits for anything: their frames are kept till then.
struct late_weights {
    static constexpr char const* name = "late_weights";
    static constexpr int chunks = 1;
    static constexpr int write(int p, int m, int role, scheduled_work* out) {
        auto n = one_f_one_b::write(p, m, role, out);
        for (int i = 0; i < n; ++i)
            if (out[i].kind == task_kind::backward) out[i].kind = task_kind::backward_input;
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::backward_weights, 0, static_cast<std::uint16_t>(i)};
        return n;
    }
};

/// Two stages a role, there and back again: the last one is on the first role.
struct folded {
    static constexpr char const* name = "folded";
    static constexpr int chunks = 2;
    static constexpr int stage(int roles, int role, int chunk) { return chunk == 0 ? role : 2 * roles - 1 - role; }
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
        for (int i = 0; i < m; ++i)
            for (auto const kind : {task_kind::forward, task_kind::backward})
                for (int c : {0, 1})
                    out[n++] = {kind, static_cast<std::uint8_t>(kind == task_kind::forward ? c : 1 - c),
                                static_cast<std::uint16_t>(i)};
        return n;
    }
};

// ---- and wrong ones ----

/// All forward, then back from the last micro-batch to the first.
struct last_first {
    static constexpr char const* name = "last_first";
    static constexpr int chunks = 1;
    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (int m = 0; m < micro_batches; ++m) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(m)};
        for (int m = micro_batches; m-- > 0;) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(m)};
        return n;
    }
};

/// The last role goes back before it has gone forward.
struct too_early {
    static constexpr char const* name = "too_early";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        for (int i = 0; i < m; ++i) {
            out[2 * i] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
            out[2 * i + 1] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        }
        return 2 * m;
    }
};
/// The last role counts micro-batches from 1.
struct from_one : one_f_one_b {
    static constexpr char const* name = "from_one";
    static constexpr int write(int roles, int m, int role, scheduled_work* out) {
        auto const n = one_f_one_b::write(roles, m, role, out);
        for (int i = 0; i < n && role == roles - 1; ++i) ++out[i].micro_batch;
        return n;
    }
};
/// The first role has one stage, and names a second one.
struct one_stage_more : one_f_one_b {
    static constexpr char const* name = "one_stage_more";
    static constexpr int write(int roles, int m, int role, scheduled_work* out) {
        auto const n = one_f_one_b::write(roles, m, role, out);
        if (role == 0) out[n - 1].chunk = 1;
        return n;
    }
};
/// Roles have the stages of their numbers, counted from `First`; or all of them have the first one.
template<int First, int PerRole = 1>
struct stages_from : one_f_one_b {
    static constexpr char const* name = "stages_from";
    static constexpr int stage(int, int role, int) { return First + PerRole * role; }
};
/// Both stages of a role are one.
struct one_stage_twice : folded {
    static constexpr char const* name = "one_stage_twice";
    static constexpr int stage(int, int role, int) { return role; }
};
/// Goes forward with all micro-batches, again and again.
struct only_forward {
    static constexpr char const* name = "only_forward";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        for (int i = 0; i < 3 * m; ++i) out[i] = {task_kind::forward, 0, static_cast<std::uint16_t>(i % m)};
        return 3 * m;
    }
};
/// The first role wants its gradient back before it sends what the last one needs for it.
struct impatient : one_f_one_b {
    static constexpr int write(int roles, int m, int role, scheduled_work* out) {
        auto const n = one_f_one_b::write(roles, m, role, out);
        if (role == 0 && roles > 2) // as if it were the last
            for (int i = 0; i < m; ++i) {
                out[2 * i] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
                out[2 * i + 1] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
            }
        return n;
    }
};
struct backwards_in_turn : gpipe { // last in, first out
    static constexpr int write(int, int m, int, scheduled_work* out) {
        for (int i = 0; i < m; ++i) {
            out[i] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            out[m + i] = {task_kind::backward, 0, static_cast<std::uint16_t>(m - 1 - i)};
        }
        return 2 * m;
    }
};
struct forgets_one : gpipe {
    static constexpr int write(int roles, int m, int role, scheduled_work* out) {
        return gpipe::write(roles, m, role, out) - (role == 0 ? 1 : 0);
    }
};

} // namespace own_schedules
