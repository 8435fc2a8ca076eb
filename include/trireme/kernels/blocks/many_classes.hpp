// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/candidate.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace trireme::blocks {

/// Softmax and cross-entropy of rows with thousands of logits, each by a block of its own: see
/// softmax_cross_entropy_program. Threads keep their logits, if these are not more than 128 bytes, so that the row is
/// read once; else it is read three times, the last two of them near.
template<u32 Classes, bool Gradient, class A, class T, u32 Tokens>
struct many_classes_program {
    using number = accumulate_t<T>;
    using vector = values_at_once<A>;
    static constexpr u32 threads = 1024, side = 32; ///< numbers of all threads are joined as a square
    static constexpr u32 turns = divide_up(Classes, vector::count* threads);
    static constexpr bool kept = turns * sizeof(vector) <= 128;
    static constexpr int phase_count = 5;
    struct shared {
        candidate<number> largest[threads], largest_of_column[side];
        number sum[threads], sum_of_column[side];
    };
    struct own {
        vector logits[kept ? turns : 1];
    };

    A const* logits;
    int const* labels;
    T const* weight;
    A* dlogits;
    T* loss;
    int* correct;
    std::size_t rows;

    u32 blocks() const noexcept { return static_cast<u32>(rows); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own& mine) const {
        A const* const x = logits + std::size_t{at.block} * Classes;
        if (k == 0) {
            if constexpr (kept) {
                TRIREME_UNROLL
                for (u32 t = 0; t < turns; ++t) mine.logits[t] = load(x, t, at.thread);
            }
            candidate<number> best = none();
            for_logits(x, at.thread, mine, [&](u32 c, number logit) { meet(best, {logit, c}); });
            s.largest[at.thread] = best;
        } else if (k == 1) {
            if (at.thread >= side) return;
            candidate<number> best = none();
            for (u32 i = 0; i < side; ++i) meet(best, s.largest[i * side + at.thread]);
            s.largest_of_column[at.thread] = best;
        } else if (k == 2) {
            number const largest = best_of(s).value;
            number sum = 0;
            for_logits(x, at.thread, mine, [&](u32, number logit) { sum += std::exp(logit - largest); });
            s.sum[at.thread] = sum;
        } else if (k == 3) {
            if (at.thread >= side) return;
            number sum = 0;
            for (u32 i = 0; i < side; ++i) sum += s.sum[i * side + at.thread];
            s.sum_of_column[at.thread] = sum;
        } else {
            finish(x, at, s, mine);
        }
    }

private:
    static constexpr number smallest = -std::numeric_limits<number>::infinity();
    TRIREME_HOST_DEVICE static candidate<number> none() { return {smallest, ~u32{0}}; }
    /// A gradient needs no place; with a NaN among the logits the sum is one, too.
    TRIREME_HOST_DEVICE static void meet(candidate<number>& best, candidate<number> const& other) {
        if constexpr (Gradient)
            best.value = std::fmax(best.value, other.value);
        else
            best.meet(other.value, other.place);
    }
    TRIREME_HOST_DEVICE static candidate<number> best_of(shared const& s) {
        candidate<number> best = none();
        for (u32 i = 0; i < side; ++i) meet(best, s.largest_of_column[i]);
        return best;
    }

    TRIREME_HOST_DEVICE static u32 first_of(u32 turn, u32 thread) { return (turn * threads + thread) * vector::count; }
    TRIREME_HOST_DEVICE static u32 count_from(u32 first) {
        return first >= Classes ? 0 : Classes - first < vector::count ? Classes - first : vector::count;
    }
    TRIREME_HOST_DEVICE static vector load(A const* x, u32 turn, u32 thread) {
        u32 const first = first_of(turn, thread);
        vector some{};
        some.load_first(x + first, count_from(first));
        return some;
    }
    /// f(class, logits from there on) for the thread's logits. Turns are unrolled where registers have them.
    template<class F>
    TRIREME_HOST_DEVICE static void for_turns(A const* x, u32 thread, own const& mine, F const& f) {
        if constexpr (kept) {
            TRIREME_UNROLL
            for (u32 t = 0; t < turns; ++t) f(first_of(t, thread), mine.logits[t]);
        } else {
            for (u32 t = 0; t < turns; ++t) f(first_of(t, thread), load(x, t, thread));
        }
    }
    /// f(class, logit) for the thread's logits.
    template<class F>
    TRIREME_HOST_DEVICE static void for_logits(A const* x, u32 thread, own const& mine, F const& f) {
        for_turns(x, thread, mine, [&](u32 first, vector const& some) {
            u32 const count = count_from(first);
            TRIREME_UNROLL
            for (u32 j = 0; j < vector::count; ++j)
                if (j < count) f(first + j, static_cast<number>(some[j]));
        });
    }
    TRIREME_HOST_DEVICE void finish(A const* x, block_place at, shared const& s, own const& mine) const {
        candidate<number> const best = best_of(s);
        number sum = 0;
        for (u32 i = 0; i < side; ++i) sum += s.sum_of_column[i];
        std::size_t const row = at.block;
        auto const label = static_cast<u32>(labels[row]);
        if (at.thread == label / vector::count % threads) { // which overwrites the label's logit
            loss[row] = static_cast<T>(std::log(sum) - (static_cast<number>(x[label]) - best.value));
            if constexpr (!Gradient) correct[row] = best.place == label ? 1 : 0;
        }
        if constexpr (Gradient) {
            auto const scale = static_cast<number>(weight[row / Tokens]) / static_cast<number>(Tokens);
            number const share = scale / sum;
            A* const dx = dlogits + row * Classes;
            for_turns(x, at.thread, mine, [&](u32 first, vector const& some) {
                vector given{};
                TRIREME_UNROLL
                for (u32 j = 0; j < vector::count; ++j)
                    given.set(j, static_cast<A>(share * std::exp(static_cast<number>(some[j]) - best.value) -
                                                (first + j == label ? scale : number(0))));
                given.store_first(dx + first, count_from(first));
            });
        }
    }
};

} // namespace trireme::blocks
