// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/dropout.hpp>
#include <trireme/kernels/portable/few_tokens/attention.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/attention_by_keys.hpp>
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

// Attention of one sample, head by head, for a block of tokens at a time. Few tokens: what they look at are a few
// columns of Tokens weights on the stack, which backward computes once more. For more tokens than have room there, and
// for wide heads, tokens/attention_by_keys.hpp goes by blocks of keys, too; a token's output has the same bits in both,
// except for the heads that are too wide. The weight that token r of a block has for token s stands at [s * block + r],
// so that registers run over the tokens that look, and no largest score and no sum needs lanes of one register to meet.
// Weights for the block's own tokens are computed by halves of the block: what a mask hides from all of the first half
// is not there.

namespace trireme::detail::inline TRIREME_ISA {

template<class G, class T>
struct attention_block {
    static constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    /// Tokens that look, at a time: whole registers of them.
    static constexpr std::size_t size =
        width * std::clamp<std::size_t>((G::tokens + width - 1) / width, 1, std::max<std::size_t>(16 / width, 2));
    static constexpr std::size_t registers = size / width;
    static constexpr std::size_t weights_size = size * G::tokens;

    /// The registers of tokens that look at the same ones, as far as that is made use of.
    static constexpr std::size_t half = G::causal && registers % 2 == 0 ? registers / 2 : registers;

    /// The factor of scores.
    static T scale() noexcept { return T(1) / std::sqrt(static_cast<T>(G::head)); }

    /// Tokens of a block: `count` from `first` on.
    std::size_t first, count;

    /// Tokens that the block's last one sees, and no other sees more.
    std::size_t seen() const noexcept { return G::seen(first + count - 1); }
    /// Tokens that the last one of the first half sees.
    std::size_t seen_by_half() const noexcept { return std::min(G::seen(first + half * width - 1), seen()); }

    /// f(block_length<J>, begin, end): tokens [begin, end) are seen in the block's registers from J on.
    template<class F>
    [[gnu::always_inline]] void for_seen(F const& f) const noexcept {
        if constexpr (half == registers) {
            f(block_length<0>{}, std::size_t{0}, seen());
        } else {
            f(block_length<0>{}, std::size_t{0}, seen_by_half());
            f(block_length<half>{}, seen_by_half(), seen());
        }
    }
    /// f(r, rows, seen): the block's tokens [r, r + rows), and how many the last of them sees.
    template<class F>
    [[gnu::always_inline]] void for_looking(F const& f) const noexcept {
        if constexpr (half == registers) {
            f(std::size_t{0}, count, seen());
        } else {
            constexpr std::size_t few = half * width;
            f(std::size_t{0}, std::min(few, count), seen_by_half());
            if (count > few) f(few, count - few, seen());
        }
    }
    /// f(place, register) for all registers of weights.
    template<class F>
    [[gnu::always_inline]] void for_weights(F const& f) const noexcept {
        for_seen([&]<std::size_t J>(block_length<J>, std::size_t begin, std::size_t end) {
            for (std::size_t s = begin; s < end; ++s)
#pragma GCC unroll 8
                for (std::size_t j = J; j < registers; ++j) f(s * size + j * width, j);
        });
    }

    /// to[s][r] = factor times the sum over d of from[r][d] of[s][d], for the tokens s that are seen; 0 for r from
    /// `count` on. `from` has rows of FromStep numbers, `of` of G::step.
    template<std::size_t FromStep>
    void products(T const* from, T const* of, T factor, T* to) const noexcept {
        alignas(64) T transposed[G::head * size];
        transposed_copy<size, FromStep>(from, count, G::head, transposed);
        if (factor != 1)
            for (std::size_t i = 0; i < G::head * size; i += width)
                (vector::load(transposed + i) * vector::all(factor)).store(transposed + i);
        for_seen([&]<std::size_t J>(block_length<J>, std::size_t begin, std::size_t end) {
            constexpr product_strides strides{G::step, 1, size, size};
            product_of_rows<size - J * width, strides, into::overwrite>(
                of + begin * G::step, transposed + J * width, end - begin, G::head, to + begin * size + J * width);
        });
    }

    /// Weights of the tokens that the block's look at; returns what they are to be multiplied by, so that a token's add
    /// up to 1. Those of tokens that one does not see are 0.
    void weights(T const* x, T* p, T* shares) const noexcept {
        constexpr T log2_e = T(1.44269504088896340736);
        products<G::step>(x + first * G::step + G::query, x + G::key, scale() * log2_e, p);
        if constexpr (G::causal) hide_later(p + first * size);
        vector top[registers], sums[registers];
        largest(p, top);
        std::fill_n(sums, registers, vector::all(0));
        for_weights([&](std::size_t at, std::size_t j) {
            auto const e = power_of_two_of_negative(vector::load(p + at) - top[j]);
            e.store(p + at);
            sums[j] = sums[j] + e;
        });
        for (std::size_t j = 0; j < registers; ++j) (vector::all(1) / sums[j]).store(shares + j * width);
    }

    /// to = factor times a token's values in a head.
    static void scaled_row(T const* from, T factor, T* to) noexcept {
        constexpr std::size_t some = row_register<T, G::head>;
        using row = lane_vector<T, some>;
        for_registers<row>(
            G::head, [=](std::size_t i, auto n) { (row::load(from + i, n) * row::all(factor)).store(to + i, n); });
    }

    /// f(head, its values in x and in y, block) for every head and block.
    template<class F>
    [[gnu::always_inline]] static void for_blocks_of_tokens(F const& f) noexcept {
        for (std::size_t h = 0; h < G::heads; ++h)
            for (std::size_t t = 0; t < G::tokens; t += size)
                f(h * G::head, attention_block{t, std::min(size, G::tokens - t)});
    }

private:
    /// Each token's largest score; those of four rows side by side, for one comparison waits for another.
    void largest(T const* p, vector (&top)[registers]) const noexcept {
        constexpr std::size_t rows = 4;
        auto const larger = [](vector a, vector b) { return vector::select(a < b, b, a); };
        vector so_far[rows * registers];
        std::fill_n(so_far, rows * registers, vector::all(std::numeric_limits<T>::lowest()));
        for_seen([&]<std::size_t J>(block_length<J>, std::size_t s, std::size_t end) {
            for (; s + rows <= end; s += rows)
#pragma GCC unroll 4
                for (std::size_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
                    for (std::size_t j = J; j < registers; ++j)
                        so_far[i * registers + j] =
                            larger(so_far[i * registers + j], vector::load(p + (s + i) * size + j * width));
            for (auto rest = (end - s) % rows; rest != 0; --rest, ++s) // a bound that compilers see
#pragma GCC unroll 8
                for (std::size_t j = J; j < registers; ++j)
                    so_far[j] = larger(so_far[j], vector::load(p + s * size + j * width));
        });
#pragma GCC unroll 8
        for (std::size_t j = 0; j < registers; ++j)
            top[j] = larger(larger(so_far[j], so_far[j + registers]),
                            larger(so_far[j + 2 * registers], so_far[j + 3 * registers]));
    }

    /// Scores of the block's tokens for themselves, which begin at p: those for later ones become so small that nothing
    /// is left of them.
    void hide_later(T* p) const noexcept {
        static constexpr auto numbers = [] {
            std::array<T, size> of_tokens{};
            for (std::size_t r = 0; r < size; ++r) of_tokens[r] = static_cast<T>(r);
            return of_tokens;
        }();
        auto const hidden = vector::all(std::numeric_limits<T>::lowest());
        for (std::size_t s = 1; s < count; ++s)
#pragma GCC unroll 8
            for (std::size_t j = s / (half * width) * half; j < registers; ++j) {
                auto const at = s * size + j * width;
                auto const is_earlier = vector::load(numbers.data() + j * width) < vector::all(static_cast<T>(s));
                vector::select(is_earlier, hidden, vector::load(p + at)).store(p + at);
            }
    }
};

/// Factors of a block's weights: all 1, where nothing is drawn.
template<class G, class T, class... Draw>
struct kept_weights {
    kept_weights(attention_block<G, T> const&, std::size_t) noexcept {}
    void multiply(T*) const noexcept {}
};
template<class G, class T>
class kept_weights<G, T, dropout_draw<T>> {
public:
    kept_weights(attention_block<G, T> const& of, std::size_t head, dropout_draw<T> const& draw) noexcept : of_(of) {
        std::fill_n(factors_, of.seen() * of.size, T(0));
        for (std::size_t r = 0; r < of.count; ++r) {
            T of_token[dropout_room(G::tokens)];
            auto const seen = G::seen(of.first + r);
            auto const* const drawn = dropout_factors(
                draw, G::first_weight(draw.granule.first, head / G::head, of.first + r), seen, of_token);
            for (std::size_t s = 0; s < seen; ++s) factors_[s * of.size + r] = drawn[s];
        }
    }
    void multiply(T* p) const noexcept {
        of_.for_weights([&](std::size_t at, std::size_t) {
            (block::vector::load(p + at) * block::vector::load(factors_ + at)).store(p + at);
        });
    }

private:
    using block = attention_block<G, T>;
    T factors_[block::weights_size];
    block const& of_;
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = softmax(query key^T / sqrt(head)) value, head by head. x: Tokens x 3 Width, y: Tokens x Width.
/// `draw`: none, or the dropout_draw of the weights, whose numbers G::first_weight begins. Cost: 4 Tokens^2 Width
/// operations, half of them where it is causal; and 10 rounds of Philox per 4 weights, where some are dropped.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1 && !detail::attends_by_keys<G, T>)
TRIREME_NOINLINE void attention_forward(portable, T const* x, T* y, Draw const&... draw) noexcept {
    using block = detail::attention_block<G, T>;
    alignas(64) T p[block::weights_size];
    alignas(64) T shares[block::size];
    block::for_blocks_of_tokens([&](std::size_t head, block const& of) {
        of.weights(x + head, p, shares);
        detail::kept_weights<G, T, Draw...>(of, head, draw...).multiply(p);
        auto* const out = y + of.first * G::width + head;
        of.for_looking([&](std::size_t r, std::size_t rows, std::size_t seen) {
            constexpr detail::product_strides strides{1, block::size, G::step, G::width};
            detail::product_of_rows<G::head, strides, detail::into::overwrite>(p + r, x + head + G::value, rows, seen,
                                                                               out + r * G::width);
        });
        for (std::size_t r = 0; r < of.count; ++r) block::scaled_row(out + r * G::width, shares[r], out + r * G::width);
    });
}

/// dx = the gradient by queries, keys and values; overwrites dx. Softmax's weights are computed once more, and drawn,
/// as forward's. Cost: 10 Tokens^2 Width operations, half of them where it is causal.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1 && !detail::attends_by_keys<G, T>)
TRIREME_NOINLINE void attention_backward_input(portable, T const* x, T const*, T const* dy, T* dx,
                                               Draw const&... draw) noexcept {
    using block = detail::attention_block<G, T>;
    using vector = typename block::vector;
    std::fill_n(dx, G::tokens * G::step, T(0)); // keys and values get gradients from block after block
    alignas(64) T p[block::weights_size], by_p[block::weights_size];
    alignas(64) T shares[block::size], shared[block::size * G::head];
    block::for_blocks_of_tokens([&](std::size_t head, block const& of) {
        T const* const gradient = dy + of.first * G::width + head;
        of.weights(x + head, p, shares);
        of.template products<G::width>(gradient, x + head + G::value, T(1), by_p);
        detail::kept_weights<G, T, Draw...> const kept(of, head, draw...);
        kept.multiply(by_p);
        vector taken[block::registers], scales[block::registers]; // taken from each, for a token's weights add up to 1
        std::fill_n(taken, block::registers, vector::all(0));
        of.for_weights([&](std::size_t at, std::size_t j) {
            taken[j] = add_product(vector::load(p + at), vector::load(by_p + at), taken[j]);
        });
        for (std::size_t j = 0; j < block::registers; ++j) {
            auto const share = vector::load(shares + j * block::width);
            taken[j] = trireme::kept(taken[j] * share); // as in few_tokens/attention.hpp
            scales[j] = share * vector::all(block::scale());
        }
        of.for_weights([&](std::size_t at, std::size_t j) {
            (vector::load(p + at) * (vector::load(by_p + at) - taken[j]) * scales[j]).store(by_p + at);
        });
        kept.multiply(p);
        for (std::size_t r = 0; r < of.count; ++r)
            block::scaled_row(gradient + r * G::width, shares[r], shared + r * G::head);
        of.for_seen([&]<std::size_t J>(block_length<J>, std::size_t begin, std::size_t end) {
            constexpr std::size_t r = J * block::width;
            if (of.count <= r) return;
            auto* const to = dx + begin * G::step + head;
            auto const at = begin * block::size + r;
            constexpr detail::product_strides by_value{block::size, 1, G::head, G::step};
            detail::product_of_rows<G::head, by_value, detail::into::add>(p + at, shared + r * G::head, end - begin,
                                                                          of.count - r, to + G::value);
            constexpr detail::product_strides by_key{block::size, 1, G::step, G::step};
            detail::product_of_rows<G::head, by_key, detail::into::add>(
                by_p + at, x + (of.first + r) * G::step + head + G::query, end - begin, of.count - r, to + G::key);
        });
        of.for_looking([&](std::size_t r, std::size_t rows, std::size_t seen) {
            constexpr detail::product_strides by_query{1, block::size, G::step, G::step};
            detail::product_of_rows<G::head, by_query, detail::into::overwrite>(
                by_p + r, x + head + G::key, rows, seen, dx + (of.first + r) * G::step + head + G::query);
        });
    });
}

/// y, likewise, of many tokens or of wide heads. Cost: besides, a few operations per block of keys and query.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1 && detail::attends_by_keys<G, T>)
TRIREME_NOINLINE void attention_forward(portable, T const* x, T* y, Draw const&... draw) noexcept {
    detail::attention_forward_by_keys<G>(x, y, draw...);
}

/// dx, likewise. y: what forward gave. Cost: 2 Tokens^2 Width operations more, for the keys of the first blocks.
template<class G, std::size_t Lanes, class T, class... Draw>
    requires(Lanes == 1 && detail::attends_by_keys<G, T>)
TRIREME_NOINLINE void attention_backward_input(portable, T const* x, T const* y, T const* dy, T* dx,
                                               Draw const&... draw) noexcept {
    detail::attention_backward_by_keys<G>(x, y, dy, dx, draw...);
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
