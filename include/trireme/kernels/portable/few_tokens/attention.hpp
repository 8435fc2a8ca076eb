// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/dropout.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/sample_by_sample.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Attention over few tokens, of some samples together: registers run over heads, those of one sample behind those of
// the other, where tokens would leave most of a register empty. Each number has the operations of attention.hpp in
// their order, and the same bits, up to the width at which attention of one sample goes by keys.

namespace trireme::detail::inline TRIREME_ISA {

/// Heads that go through attention side by side, each in a lane.
template<class G, class T>
struct heads_in_lanes {
    static constexpr std::size_t width = full_register<T>, tokens = G::tokens;
    static_assert(tokens < enough_tokens, "all weights of the heads lie on the stack");
    using vector = lane_vector<T, width>;
    /// A number for each lane, of each token that looks and each that it sees: [token that looks][token][lane].
    using weights_type = T[tokens][tokens][width];
    /// Numbers of each token, as many as a register has: [token][number][lane].
    using values_type = T[tokens][width][width];

    std::size_t first, count;

    /// f(heads) for all heads of `samples`.
    template<class F>
    [[gnu::always_inline]] static void for_heads(std::size_t samples, F const& f) noexcept {
        auto const all = samples * G::heads;
        for (std::size_t i = 0; i < all; i += width) f(heads_in_lanes{i, std::min(width, all - i)});
    }
    /// The sample of a lane, and its head; a lane without one has the last.
    std::size_t sample(std::size_t lane) const noexcept { return (first + std::min(lane, count - 1)) / G::heads; }
    std::size_t head(std::size_t lane) const noexcept { return (first + std::min(lane, count - 1)) % G::heads; }

    /// The place of a lane's numbers where a token has Step numbers.
    template<std::size_t Step>
    std::size_t place(std::size_t lane) const noexcept {
        return sample(lane) * tokens * Step + head(lane) * G::head;
    }

    /// f(value, values) for all values of a head, a register of them at a time.
    template<class F>
    [[gnu::always_inline]] static void for_values(F const& f) noexcept {
        for (std::size_t d = 0; d < G::head; d += width) f(d, std::min(width, G::head - d));
    }
    /// f(token that looks, token that it sees) for all that are seen.
    template<class F>
    [[gnu::always_inline]] static void for_pairs(F const& f) noexcept {
        for (std::size_t t = 0; t < tokens; ++t)
            for (std::size_t s = 0; s < G::seen(t); ++s) f(t, s);
    }

    /// to[t][i] = number `at` + i of token t, for all lanes. `from` has Step numbers of a token.
    template<std::size_t Step>
    void read(T const* from, std::size_t at, std::size_t values, values_type& to) const noexcept {
        for (std::size_t t = 0; t < tokens; ++t) {
            vector rows[width];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < width; ++i)
                rows[i] = vector::load(from + place<Step>(i) + t * Step + at, values);
            transpose(rows);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < width; ++i) rows[i].store(to[t][i]);
        }
    }
    /// Writes them back.
    template<std::size_t Step>
    void write(values_type const& from, std::size_t at, std::size_t values, T* to) const noexcept {
        for (std::size_t t = 0; t < tokens; ++t) {
            vector rows[width];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < width; ++i) rows[i] = vector::load(from[t][i]);
            transpose(rows);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < width; ++i)
                if (i < count) rows[i].store(to + place<Step>(i) + t * Step + at, values);
        }
    }

    /// to[t][s] += factor times the sum over the values of those of t in `looking` times those of s in `seen`.
    static void add_products(values_type const& looking, T factor, values_type const& seen, std::size_t values,
                             weights_type& to) noexcept {
        for_pairs([&](std::size_t t, std::size_t s) {
            auto sum = vector::load(to[t][s]);
            for (std::size_t i = 0; i < values; ++i)
                sum = add_product(vector::load(seen[s][i]), vector::load(looking[t][i]) * vector::all(factor), sum);
            sum.store(to[t][s]);
        });
    }
    /// to[t] = the sum over the tokens s that t sees of p[t][s] times the values of s; times `shares`, if there are
    /// any.
    static void means(weights_type const& p, values_type const& seen, std::size_t values, T const (*shares)[width],
                      values_type& to) noexcept {
        for (std::size_t t = 0; t < tokens; ++t)
            for (std::size_t i = 0; i < values; ++i) {
                auto sum = vector::all(0);
                for (std::size_t s = 0; s < G::seen(t); ++s)
                    sum = add_product(vector::load(p[t][s]), vector::load(seen[s][i]), sum);
                if (shares != nullptr) sum = sum * vector::load(shares[t]);
                sum.store(to[t][i]);
            }
    }
    /// to[s] = the sum over the tokens t that see s of p[t][s] times the values of t.
    static void means_of_looking(weights_type const& p, values_type const& looking, std::size_t values,
                                 values_type& to) noexcept {
        for (std::size_t s = 0; s < tokens; ++s)
            for (std::size_t i = 0; i < values; ++i) {
                auto sum = vector::all(0);
                for (std::size_t t = G::causal ? s : 0; t < tokens; ++t)
                    sum = add_product(vector::load(p[t][s]), vector::load(looking[t][i]), sum);
                sum.store(to[s][i]);
            }
    }

    /// The factor of scores.
    static T scale() noexcept { return T(1) / std::sqrt(static_cast<T>(G::head)); }

    /// Weights of the tokens that each looks at, and what they are to be multiplied by, so that a token's add up to 1.
    void weights(T const* x, weights_type& p, T (&shares)[tokens][width]) const noexcept {
        constexpr T log2_e = T(1.44269504088896340736);
        values_type queries, keys;
        for_pairs([&](std::size_t t, std::size_t s) { vector::all(0).store(p[t][s]); });
        for_values([&](std::size_t d, std::size_t values) {
            read<G::step>(x, G::query + d, values, queries);
            read<G::step>(x, G::key + d, values, keys);
            add_products(queries, scale() * log2_e, keys, values, p);
        });
        for (std::size_t t = 0; t < tokens; ++t) {
            auto top = vector::load(p[t][0]), sum = vector::all(0);
            for (std::size_t s = 1; s < G::seen(t); ++s) {
                auto const score = vector::load(p[t][s]);
                top = vector::select(top < score, score, top);
            }
            for (std::size_t s = 0; s < G::seen(t); ++s) {
                auto const e = power_of_two_of_negative(vector::load(p[t][s]) - top);
                e.store(p[t][s]);
                sum = sum + e;
            }
            (vector::all(1) / sum).store(shares[t]);
        }
    }

    /// Multiplies weights by the factors that are drawn for them, if any are.
    void drop(weights_type&) const noexcept {}
    void drop(weights_type& p, dropout_draw<T> const& draw) const noexcept {
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t t = 0; t < tokens; ++t) {
                T of_token[dropout_room(tokens)];
                auto const number = G::first_weight(draw.granule.first + sample(i), head(i), t);
                auto const* const drawn = dropout_factors(draw, number, G::seen(t), of_token);
                for (std::size_t s = 0; s < G::seen(t); ++s) p[t][s][i] *= drawn[s];
            }
    }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = softmax(query key^T / sqrt(head)) value of each sample, head by head. See attention.hpp.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1)
TRIREME_NOINLINE void attention_forward(portable_together k, T const* x, T* y, Draw const&... draw) noexcept {
    using lanes = detail::heads_in_lanes<G, T>;
    lanes::for_heads(k.together, [&](lanes const& of) {
        alignas(64) typename lanes::weights_type p;
        alignas(64) T shares[G::tokens][lanes::width];
        alignas(64) typename lanes::values_type seen, out;
        of.weights(x, p, shares);
        of.drop(p, draw...);
        lanes::for_values([&](std::size_t d, std::size_t values) {
            of.template read<G::step>(x, G::value + d, values, seen);
            lanes::means(p, seen, values, shares, out);
            of.template write<G::width>(out, d, values, y);
        });
    });
}

/// dx = the gradient by queries, keys and values of each sample; overwrites dx.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1)
TRIREME_NOINLINE void attention_backward_input(portable_together k, T const* x, T const*, T const* dy, T* dx,
                                               Draw const&... draw) noexcept {
    using lanes = detail::heads_in_lanes<G, T>;
    using vector = typename lanes::vector;
    lanes::for_heads(k.together, [&](lanes const& of) {
        alignas(64) typename lanes::weights_type p, by_p;
        alignas(64) T shares[G::tokens][lanes::width];
        alignas(64) typename lanes::values_type some, others, to;
        of.weights(x, p, shares);
        lanes::for_pairs([&](std::size_t t, std::size_t s) { vector::all(0).store(by_p[t][s]); });
        lanes::for_values([&](std::size_t d, std::size_t values) {
            of.template read<G::width>(dy, d, values, some);
            of.template read<G::step>(x, G::value + d, values, others);
            lanes::add_products(some, T(1), others, values, by_p);
        });
        of.drop(by_p, draw...);
        for (std::size_t t = 0; t < G::tokens; ++t) {
            auto taken = vector::all(0); // from each, for a token's weights add up to 1
            for (std::size_t s = 0; s < G::seen(t); ++s)
                taken = add_product(vector::load(p[t][s]), vector::load(by_p[t][s]), taken);
            auto const share = vector::load(shares[t]), scale = share * vector::all(lanes::scale());
            taken = kept(taken * share); // never fused with the subtractions, be they in a loop or not
            for (std::size_t s = 0; s < G::seen(t); ++s)
                (vector::load(p[t][s]) * (vector::load(by_p[t][s]) - taken) * scale).store(by_p[t][s]);
        }
        of.drop(p, draw...);
        lanes::for_values([&](std::size_t d, std::size_t values) {
            of.template read<G::width>(dy, d, values, some);
            for (std::size_t t = 0; t < G::tokens; ++t)
                for (std::size_t i = 0; i < values; ++i)
                    (vector::load(some[t][i]) * vector::load(shares[t])).store(some[t][i]);
            lanes::means_of_looking(p, some, values, to);
            of.template write<G::step>(to, G::value + d, values, dx);
            of.template read<G::step>(x, G::query + d, values, some);
            lanes::means_of_looking(by_p, some, values, to);
            of.template write<G::step>(to, G::key + d, values, dx);
            of.template read<G::step>(x, G::key + d, values, others);
            lanes::means(by_p, others, values, nullptr, to);
            of.template write<G::step>(to, G::query + d, values, dx);
        });
    });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
