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
#include <trireme/kernels/portable/tokens/matrix.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

// Attention of one sample, head by head, for a block of tokens at a time: what they look at are a few rows of Tokens
// numbers on the stack, which backward computes once more. Memory grows with the number of tokens, not with its square.

namespace trireme::detail::inline TRIREME_ISA {

template<class G, class T>
struct attention_block {
    static constexpr std::size_t width = full_register<T>;
    /// Tokens that look, at a time, and those that are looked at whose keys or values lie transposed at a time.
    static constexpr std::size_t rows =
        std::min<std::size_t>(std::clamp<std::size_t>(16384 / G::tokens, 4, 32), G::tokens);
    static constexpr std::size_t keys = std::min(4 * width, (G::tokens + width - 1) / width * width);
    /// Numbers of a row of scores; behind the last token is room for whole blocks.
    static constexpr std::size_t step = (G::tokens + keys - 1) / keys * keys;

    /// scores[r][s] = sum over d of from[r][d] to[s][d], for s in [0, seen). `from` has rows of FromStep numbers, `to`
    /// of G::step.
    template<std::size_t FromStep>
    static void products(T const* from, T const* to, std::size_t count, std::size_t seen, T* scores) noexcept {
        alignas(64) T transposed[G::head * keys];
        for (std::size_t s = 0; s < seen; s += keys) {
            transposed_copy<keys, G::step>(to + s * G::step, std::min(keys, G::tokens - s), G::head, transposed);
            constexpr product_strides strides{FromStep, 1, keys, step};
            product_of_rows<keys, strides, into::overwrite>(from, transposed, count, G::head, scores + s);
        }
    }

    /// Weights of the tokens that `count` tokens from `first` on look at: rows that add up to 1, with zeros for tokens
    /// not seen, up to the last one that any of them sees.
    static void weights(T const* x, std::size_t first, std::size_t count, T* p) noexcept {
        using vector = lane_vector<T, width>;
        auto const most = G::seen(first + count - 1);
        products<G::step>(x + first * G::step + G::query, x + G::key, count, most, p);
        auto const scale = vector::all(T(1) / std::sqrt(static_cast<T>(G::head)));
        for (std::size_t r = 0; r < count; ++r, p += step) {
            auto const seen = G::seen(first + r);
            T largest = p[0];
            for (std::size_t s = 1; s < seen; ++s) largest = std::max(largest, p[s]);
            auto const top = vector::all(largest);
            auto sums = vector::all(0);
            for (std::size_t s = 0; s < seen; s += width) { // rows have room for whole registers
                auto e = exponential_of_negative((vector::load(p + s) - top) * scale);
                e = e.first(seen - s);
                e.store(p + s);
                sums = sums + e;
            }
            auto const share = vector::all(T(1) / sums.sum());
            for (std::size_t s = 0; s < seen; s += width) (vector::load(p + s) * share).store(p + s);
            for (std::size_t s = seen; s < most; ++s) p[s] = 0;
        }
    }

    /// f(head's values in x, in y, first token, tokens) for every head and block.
    template<class F>
    [[gnu::always_inline]] static void for_blocks_of_tokens(F const& f) noexcept {
        for (std::size_t h = 0; h < G::heads; ++h)
            for (std::size_t t = 0; t < G::tokens; t += rows) f(h * G::head, t, std::min(rows, G::tokens - t));
    }
};

/// Factors of the weights that a token has in a head: all 1, where nothing is drawn.
template<class G, class T, class... Draw>
struct kept_weights {
    kept_weights(std::size_t, std::size_t) noexcept {}
    void multiply(T*) const noexcept {}
};
template<class G, class T>
class kept_weights<G, T, dropout_draw<T>> {
public:
    kept_weights(std::size_t head, std::size_t token, dropout_draw<T> const& draw) noexcept
        : seen_(G::seen(token)),
          first_(dropout_factors(draw, G::first_weight(draw.granule.first, head, token), seen_, factors_)) {}
    kept_weights(kept_weights const&) = delete;
    kept_weights& operator=(kept_weights const&) = delete;

    void multiply(T* row) const noexcept {
        using vector = lane_vector<T, full_register<T>>;
        for_registers<vector>(seen_, [this, row](std::size_t s, auto n) {
            (vector::load(row + s, n) * vector::load(first_ + s, n)).store(row + s, n);
        });
    }

private:
    T factors_[dropout_room(G::tokens)];
    std::size_t seen_;
    T const* first_;
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = softmax(query key^T / sqrt(head)) value, head by head. x: Tokens x 3 Width, y: Tokens x Width.
/// `draw`: none, or the dropout_draw of the weights, whose numbers G::first_weight begins. Cost: 4 Tokens^2 Width
/// operations, half of them where it is causal; and 10 rounds of Philox per 4 weights, where some are dropped.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1)
TRIREME_NOINLINE void attention_forward(portable, T const* x, T* y, Draw const&... draw) noexcept {
    using block = detail::attention_block<G, T>;
    alignas(64) T p[block::rows * block::step];
    block::for_blocks_of_tokens([&](std::size_t head, std::size_t first, std::size_t count) {
        block::weights(x + head, first, count, p);
        for (std::size_t r = 0; r < count; ++r)
            detail::kept_weights<G, T, Draw...>(head / G::head, first + r, draw...).multiply(p + r * block::step);
        constexpr detail::product_strides strides{block::step, 1, G::step, G::width};
        detail::product_of_rows<G::head, strides, detail::into::overwrite>(
            p, x + head + G::value, count, G::seen(first + count - 1), y + first * G::width + head);
    });
}

/// dx = the gradient by queries, keys and values; overwrites dx. y: what forward gave. Softmax's weights are computed
/// once more, and drawn, as forward's. Cost: 10 Tokens^2 Width operations, half of them where it is causal.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1)
TRIREME_NOINLINE void attention_backward_input(portable, T const* x, T const* y, T const* dy, T* dx,
                                               Draw const&... draw) noexcept {
    using block = detail::attention_block<G, T>;
    using vector = lane_vector<T, block::width>;
    std::fill_n(dx, G::tokens * G::step, T(0)); // keys and values get gradients from block after block
    alignas(64) T p[block::rows * block::step], by_p[block::rows * block::step];
    T const scale = T(1) / std::sqrt(static_cast<T>(G::head));
    block::for_blocks_of_tokens([&](std::size_t head, std::size_t first, std::size_t count) {
        auto const most = G::seen(first + count - 1);
        T const* const gradient = dy + first * G::width + head;
        block::weights(x + head, first, count, p);
        block::template products<G::width>(gradient, x + head + G::value, count, most, by_p);
        for (std::size_t r = 0; r < count; ++r) {
            T inner = 0; // dy y, which softmax's gradient takes from each
            for (std::size_t d = 0; d < G::head; ++d)
                inner += gradient[r * G::width + d] * y[(first + r) * G::width + head + d];
            auto const taken = vector::all(inner), factor = vector::all(scale);
            T *const weight = p + r * block::step, *const by = by_p + r * block::step;
            detail::kept_weights<G, T, Draw...> const kept(head / G::head, first + r, draw...);
            kept.multiply(by);
            for_registers<vector>(most, [=](std::size_t s, auto n) {
                (vector::load(weight + s, n) * (vector::load(by + s, n) - taken) * factor).store(by + s, n);
            });
            kept.multiply(weight);
        }
        constexpr detail::product_strides by_tokens{1, block::step, G::width, G::step};
        detail::product_of_rows<G::head, by_tokens, detail::into::add>(p, gradient, most, count, dx + head + G::value);
        constexpr detail::product_strides by_query{block::step, 1, G::step, G::step};
        detail::product_of_rows<G::head, by_query, detail::into::overwrite>(by_p, x + head + G::key, count, most,
                                                                            dx + first * G::step + head + G::query);
        constexpr detail::product_strides by_key{1, block::step, G::step, G::step};
        detail::product_of_rows<G::head, by_key, detail::into::add>(by_p, x + first * G::step + head + G::query, most,
                                                                    count, dx + head + G::key);
    });
}

} // namespace trireme::inline TRIREME_ISA
