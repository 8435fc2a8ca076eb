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
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Attention of one sample, head by head, for a block of tokens at a time: what they look at are a few columns of Tokens
// weights on the stack, which backward computes once more. Memory grows with the number of tokens, not with its square.
// The weight that token r of a block has for token s stands at [s * block + r], so that registers run over the tokens
// that look, and no largest score and no sum needs lanes of one register to meet.

namespace trireme::detail::inline TRIREME_ISA {

template<class G, class T>
struct attention_block {
    static constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    /// Tokens that look, at a time: whole registers of them. More would have more weights computed that a mask hides.
    static constexpr std::size_t size =
        width * std::clamp<std::size_t>((G::tokens + width - 1) / width, 1, std::max<std::size_t>(16 / width, 1));
    static constexpr std::size_t registers = size / width;
    static constexpr std::size_t weights_size = size * G::tokens;

    /// The factor of scores.
    static vector scale() noexcept { return vector::all(T(1) / std::sqrt(static_cast<T>(G::head))); }

    /// to[s][r] = sum over d of from[r][d] of[s][d], for s in [0, seen), and 0 for r from `count` on. `from` has rows
    /// of FromStep numbers, `of` of G::step.
    template<std::size_t FromStep>
    static void products(T const* from, T const* of, std::size_t count, std::size_t seen, T* to) noexcept {
        alignas(64) T transposed[G::head * size];
        transposed_copy<size, FromStep>(from, count, G::head, transposed);
        constexpr product_strides strides{G::step, 1, size, size};
        product_of_rows<size, strides, into::overwrite>(of, transposed, seen, G::head, to);
    }

    /// f(place, register) for all registers of the weights for tokens [first, last).
    template<class F>
    [[gnu::always_inline]] static void for_weights(std::size_t first, std::size_t last, F const& f) noexcept {
        for (std::size_t s = first; s < last; ++s)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < registers; ++j) f(s * size + j * width, j);
    }

    /// Weights of the tokens that `count` tokens from `first` on look at, up to the last one that any of them sees:
    /// those of a token add up to 1, and are 0 for tokens that it does not see.
    static void weights(T const* x, std::size_t first, std::size_t count, T* p) noexcept {
        auto const most = G::seen(first + count - 1);
        products<G::step>(x + first * G::step + G::query, x + G::key, count, most, p);
        if constexpr (G::causal) hide_later(p + first * size, count);
        vector top[registers], sums[registers];
        largest(p, most, top);
        std::fill_n(sums, registers, vector::all(0));
        for_weights(0, most, [&, scale = scale()](std::size_t at, std::size_t j) {
            auto const e = exponential_of_negative((vector::load(p + at) - top[j]) * scale);
            e.store(p + at);
            sums[j] = sums[j] + e;
        });
        for (auto& sum : sums) sum = vector::all(1) / sum;
        for_weights(0, most, [&](std::size_t at, std::size_t j) { (vector::load(p + at) * sums[j]).store(p + at); });
    }

    /// f(head, its values in x and in y, first token, tokens) for every head and block.
    template<class F>
    [[gnu::always_inline]] static void for_blocks_of_tokens(F const& f) noexcept {
        for (std::size_t h = 0; h < G::heads; ++h)
            for (std::size_t t = 0; t < G::tokens; t += size) f(h * G::head, t, std::min(size, G::tokens - t));
    }

private:
    /// Each token's largest score; those of four rows side by side, for one comparison waits for another.
    static void largest(T const* p, std::size_t seen, vector (&top)[registers]) noexcept {
        constexpr std::size_t rows = 4;
        auto const larger = [](vector a, vector b) { return vector::select(a < b, b, a); };
        vector so_far[rows * registers];
        std::fill_n(so_far, rows * registers, vector::all(std::numeric_limits<T>::lowest()));
        std::size_t s = 0;
        for (; s + rows <= seen; s += rows)
#pragma GCC unroll 32
            for (std::size_t j = 0; j < rows * registers; ++j)
                so_far[j] = larger(so_far[j], vector::load(p + s * size + j * width));
        for_weights(s, seen,
                    [&](std::size_t at, std::size_t j) { so_far[j] = larger(so_far[j], vector::load(p + at)); });
#pragma GCC unroll 8
        for (std::size_t j = 0; j < registers; ++j)
            top[j] = larger(larger(so_far[j], so_far[j + registers]),
                            larger(so_far[j + 2 * registers], so_far[j + 3 * registers]));
    }

    /// Scores of `count` tokens for themselves: those for later ones become so small that nothing is left of them.
    static void hide_later(T* p, std::size_t count) noexcept {
        static constexpr auto numbers = [] {
            std::array<T, size> of_tokens{};
            for (std::size_t r = 0; r < size; ++r) of_tokens[r] = static_cast<T>(r);
            return of_tokens;
        }();
        auto const hidden = vector::all(std::numeric_limits<T>::lowest());
        for_weights(1, count, [&](std::size_t at, std::size_t j) {
            auto const is_earlier = vector::load(numbers.data() + j * width) < vector::all(static_cast<T>(at / size));
            vector::select(is_earlier, hidden, vector::load(p + at)).store(p + at);
        });
    }
};

/// Factors of a block's weights: all 1, where nothing is drawn.
template<class G, class T, class... Draw>
struct kept_weights {
    kept_weights(std::size_t, std::size_t, std::size_t) noexcept {}
    void multiply(T*) const noexcept {}
};
template<class G, class T>
class kept_weights<G, T, dropout_draw<T>> {
public:
    kept_weights(std::size_t head, std::size_t first, std::size_t count, dropout_draw<T> const& draw) noexcept
        : size_(G::seen(first + count - 1) * block::size) {
        std::fill_n(factors_, size_, T(0));
        for (std::size_t r = 0; r < count; ++r) {
            T of_token[dropout_room(G::tokens)];
            auto const seen = G::seen(first + r);
            auto const* const drawn =
                dropout_factors(draw, G::first_weight(draw.granule.first, head / G::head, first + r), seen, of_token);
            for (std::size_t s = 0; s < seen; ++s) factors_[s * block::size + r] = drawn[s];
        }
    }
    void multiply(T* p) const noexcept {
        for (std::size_t i = 0; i < size_; i += block::width)
            (block::vector::load(p + i) * block::vector::load(factors_ + i)).store(p + i);
    }

private:
    using block = attention_block<G, T>;
    T factors_[block::weights_size];
    std::size_t size_;
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
    alignas(64) T p[block::weights_size];
    block::for_blocks_of_tokens([&](std::size_t head, std::size_t first, std::size_t count) {
        block::weights(x + head, first, count, p);
        detail::kept_weights<G, T, Draw...>(head, first, count, draw...).multiply(p);
        constexpr detail::product_strides strides{1, block::size, G::step, G::width};
        detail::product_of_rows<G::head, strides, detail::into::overwrite>(
            p, x + head + G::value, count, G::seen(first + count - 1), y + first * G::width + head);
    });
}

/// dx = the gradient by queries, keys and values; overwrites dx. Softmax's weights are computed once more, and drawn,
/// as forward's. Cost: 10 Tokens^2 Width operations, half of them where it is causal.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1)
TRIREME_NOINLINE void attention_backward_input(portable, T const* x, T const*, T const* dy, T* dx,
                                               Draw const&... draw) noexcept {
    using block = detail::attention_block<G, T>;
    using vector = typename block::vector;
    std::fill_n(dx, G::tokens * G::step, T(0)); // keys and values get gradients from block after block
    alignas(64) T p[block::weights_size], by_p[block::weights_size];
    block::for_blocks_of_tokens([&](std::size_t head, std::size_t first, std::size_t count) {
        auto const most = G::seen(first + count - 1);
        T const* const gradient = dy + first * G::width + head;
        block::weights(x + head, first, count, p);
        block::template products<G::width>(gradient, x + head + G::value, count, most, by_p);
        detail::kept_weights<G, T, Draw...> const kept(head, first, count, draw...);
        kept.multiply(by_p);
        vector taken[block::registers]; // from each, for a token's weights add up to 1
        std::fill_n(taken, block::registers, vector::all(0));
        block::for_weights(0, most, [&](std::size_t at, std::size_t j) {
            taken[j] = multiply_add(vector::load(p + at), vector::load(by_p + at), taken[j]);
        });
        block::for_weights(0, most, [&, scale = block::scale()](std::size_t at, std::size_t j) {
            (vector::load(p + at) * (vector::load(by_p + at) - taken[j]) * scale).store(by_p + at);
        });
        kept.multiply(p);
        constexpr detail::product_strides by_value{block::size, 1, G::width, G::step};
        detail::product_of_rows<G::head, by_value, detail::into::add>(p, gradient, most, count, dx + head + G::value);
        constexpr detail::product_strides by_query{1, block::size, G::step, G::step};
        detail::product_of_rows<G::head, by_query, detail::into::overwrite>(by_p, x + head + G::key, count, most,
                                                                            dx + first * G::step + head + G::query);
        constexpr detail::product_strides by_key{block::size, 1, G::step, G::step};
        detail::product_of_rows<G::head, by_key, detail::into::add>(by_p, x + first * G::step + head + G::query, most,
                                                                    count, dx + head + G::key);
    });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
