// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <cstdint>

namespace trireme {

/// Schedule: two stages a role in the shape of a V, where a forward task of one micro-batch stands beside a backward
/// one of another, so that the communication within the one can hide behind the other.
///
/// Phases, on role r: 2 (p - 1 - r) times forward in the first stage; r + 1 times in both; p - 1 - r times
/// backward_input, backward_weights and forward in the second one; then forward in one stage and backward in the other,
/// in turn; at the end only backward, whose weights are done apart, and fill the gaps. Needs m >= 2 p: for fewer it
/// writes nothing, and verify refuses it (incomplete). Bubble: a sixth of (p - 1)(F + B + W), half a unit per role
/// where the three take one; tasks are played one behind the other, what overlapping gains is not priced. Peak: 2 p + 1
/// values of a stage; a stage is half of one of one_f_one_b. Wins where layers communicate among experts. Else
/// zero_bubble_v waits less, for less memory. As with zero_bubble_v, over messages in one queue it is refused from p =
/// 3 on (verify: mismatch); rendezvous deadlock. Source: DeepSeek-AI, "DeepSeek-V3 technical report", 2024, DualPipe,
/// cut in half.
struct dual_pipe_v {
    static constexpr char const* name = "dual_pipe_v";
    static constexpr int chunks = 2;
    static constexpr int stage(int roles, int role, int chunk) { return chunk == 0 ? role : 2 * roles - 1 - role; }

    TRIREME_COLD static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        if (micro_batches < 2 * roles) return 0;
        int const below = roles - 1 - role; // roles between this one and the V's turn
        int n = 0, forward[2] = {}, back[2] = {}, weights[2] = {}, owed = 0;
        std::uint8_t owes[2 * max_owed] = {}; // chunks whose weights' gradients are still to be done, in order
        auto const add = [&](task_kind kind, int chunk, int& i) {
            out[n++] = {kind, static_cast<std::uint8_t>(chunk), static_cast<std::uint16_t>(i++)};
        };
        auto const there = [&](int chunk) { add(task_kind::forward, chunk, forward[chunk]); };
        auto const whole = [&](int chunk) { ++weights[chunk], add(task_kind::backward, chunk, back[chunk]); };
        int done = 0;
        auto const half = [&](int chunk) {
            add(task_kind::backward_input, chunk, back[chunk]);
            owes[owed++] = static_cast<std::uint8_t>(chunk);
        };
        auto const pay = [&] {
            int const chunk = owes[done++];
            add(task_kind::backward_weights, chunk, weights[chunk]);
        };
        for (int i = 0; i < 2 * below; ++i) there(0);
        for (int i = 0; i <= role; ++i) there(0), there(1);
        for (int i = 0; i < below; ++i) half(1), pay(), there(1);
        for (int i = 0; i < micro_batches - 2 * roles + role + 1; ++i) there(0), whole(1), there(1), whole(0);
        for (int i = 0; i < below; ++i) whole(1), there(1), whole(0);
        for (int i = 0; i <= role; ++i) {
            if (i < (role + 1) / 2)
                whole(1), whole(0);
            else if (i == (role + 1) / 2 && role % 2 == 0)
                whole(1), half(0);
            else
                half(1), half(0);
        }
        for (int i = 0; i < below; ++i) pay(), half(0);
        while (done < owed) pay();
        return n;
    }

private:
    static constexpr int max_owed = 2 * 64; // twice the most roles
};

} // namespace trireme
