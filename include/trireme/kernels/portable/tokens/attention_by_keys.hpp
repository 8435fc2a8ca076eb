// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/kernels/portable/dropout.hpp>
#include <trireme/kernels/portable/tokens/matrix.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Attention over many tokens goes by blocks of queries and of keys, as in Dao et al., "FlashAttention", 2022: stack
// memory does not depend on the number of tokens. Forward keeps the largest score and the sum so far, and scales the
// sum and the output when a larger score comes. Backward first computes the largest score and the sum, then the
// gradients, from the last block of keys to the first; weights of the last blocks stay, those of earlier ones are
// computed again from the statistics. The first block has as many keys as attention over few tokens has tokens at most,
// and its sums are those: a token's output has the same bits, whatever tokens come behind those that it sees.

namespace trireme::detail::inline TRIREME_ISA {

/// The most bytes of an array of weights on the stack, where a block of queries has all of its weights there.
inline constexpr std::size_t most_weights_bytes = std::size_t{1} << 16;

/// Registers of the queries that go together.
template<class T>
inline constexpr std::size_t query_registers = std::max<std::size_t>(16 / full_register<T>, 2);
/// The most tokens whose weights for so many queries have room. With more of them, attention goes by blocks of as many.
template<class T>
inline constexpr std::size_t few_tokens = most_weights_bytes / sizeof(T) / (query_registers<T> * full_register<T>);
/// The most values of a head whose rows for so many queries have room.
template<class T>
inline constexpr std::size_t few_values = few_tokens<T>;
/// Blocks of keys whose weights stay on the stack until backward has gone over all keys; earlier ones are computed
/// again.
inline constexpr std::size_t blocks_that_stay = 4;

/// True if a kernel that keeps all weights of a block of queries would need too much of the stack.
template<class G, class T>
inline constexpr bool attends_by_keys = G::tokens > few_tokens<T> || G::head > few_values<T>;

/// Queries of a block, and the registers of numbers for them.
template<class G, class T>
struct query_block {
    static constexpr std::size_t width = full_register<T>, registers = query_registers<T>, size = registers * width;
    using vector = lane_vector<T, width>;
    std::size_t first, count;

    /// Keys that the last query sees, and no other sees more.
    std::size_t seen() const noexcept { return G::seen(first + count - 1); }

    /// The factor of scores.
    static T scale() noexcept { return T(1) / std::sqrt(static_cast<T>(G::head)); }

    /// f(head, its values in x and in y, block) for every head and block.
    template<class F>
    [[gnu::always_inline]] static void for_heads(F const& f) noexcept {
        for (std::size_t h = 0; h < G::heads; ++h)
            for (std::size_t t = 0; t < G::tokens; t += size)
                f(h * G::head, query_block{t, std::min(size, G::tokens - t)});
    }

    /// A row of a head's values, times a factor.
    static void scale_row(T* row, T factor) noexcept {
        using part = lane_vector<T, row_register<T, G::head>>;
        for_registers<part>(
            G::head, [=](std::size_t i, auto n) { (part::load(row + i, n) * part::all(factor)).store(row + i, n); });
    }
};

/// The rows of a block of queries, transposed and times a factor: all values of a head, or as many as there is room
/// for. `Step` numbers lie between two rows.
template<class G, class T, std::size_t Step>
class transposed_rows {
    using block = query_block<G, T>;
    using vector = typename block::vector;

public:
    static constexpr std::size_t values = std::min<std::size_t>(G::head, 128);

    transposed_rows(T const* rows, std::size_t count, T factor) noexcept : rows_(rows), count_(count), factor_(factor) {
        if constexpr (values == G::head) read(0);
    }

    /// f(numbers, value, values) for all values of a head, as many at a time as there is room for.
    template<class F>
    [[gnu::always_inline]] void for_values(F const& f) noexcept {
        if constexpr (values == G::head)
            f(numbers_, std::size_t{0}, values);
        else
            for (std::size_t d = 0; d < G::head; d += values) {
                auto const some = read(d);
                f(numbers_, d, some);
            }
    }

private:
    std::size_t read(std::size_t value) noexcept {
        auto const some = std::min(values, G::head - value);
        transposed_copy<block::size, Step>(rows_ + value, count_, some, numbers_);
        if (factor_ != 1)
            for (std::size_t i = 0; i < some * block::size; i += vector::size)
                (vector::load(numbers_ + i) * vector::all(factor_)).store(numbers_ + i);
        return some;
    }

    T const* rows_;
    std::size_t count_;
    T factor_;
    alignas(64) T numbers_[values * block::size];
};

/// A block of queries, and a block of keys. The weight that query r has for key s stands at [s * size + r], both
/// counted from the first of their block.
template<class G, class T, std::size_t Keys>
struct attention_tile {
    using block = query_block<G, T>;
    using vector = typename block::vector;
    static constexpr std::size_t registers = block::registers, size = block::size, width = block::width;
    /// The registers of queries that see the same keys, as far as that is made use of.
    static constexpr std::size_t half = G::causal ? registers / 2 : registers;
    static constexpr std::size_t weights_size = size * Keys;
    static_assert(Keys % size == 0); // a causal query sees the first key of each block up to its own

    block queries;
    std::size_t begin, end; ///< the keys

    std::size_t keys() const noexcept { return end - begin; }
    /// Keys that the last query of the first half sees.
    std::size_t seen_by_half() const noexcept {
        return std::clamp(G::seen(queries.first + half * width - 1), begin, end) - begin;
    }

    /// f(tile) for each block of keys that the queries see, in their order.
    template<class F>
    [[gnu::always_inline]] static void for_keys(block queries, F const& f) noexcept {
        auto const seen = queries.seen();
        for (std::size_t s = 0; s < seen; s += Keys) f(attention_tile{queries, s, std::min(s + Keys, seen)});
    }
    /// f(block_length<J>, first, last): keys [first, last) are seen in the queries' registers from J on.
    template<class F>
    [[gnu::always_inline]] void for_seen(F const& f) const noexcept {
        if constexpr (half == registers) {
            f(block_length<0>{}, std::size_t{0}, keys());
        } else {
            auto const middle = seen_by_half();
            f(block_length<0>{}, std::size_t{0}, middle);
            if (middle < keys()) f(block_length<half>{}, middle, keys());
        }
    }
    /// f(r, rows, seen): the queries [r, r + rows), and how many keys the last of them sees.
    template<class F>
    [[gnu::always_inline]] void for_looking(F const& f) const noexcept {
        if (half == registers || seen_by_half() == keys()) {
            f(std::size_t{0}, queries.count, keys());
        } else {
            constexpr std::size_t few = half * width;
            f(std::size_t{0}, few, seen_by_half());
            f(few, queries.count - few, keys());
        }
    }
    /// f(place, register) for all registers of weights.
    template<class F>
    [[gnu::always_inline]] void for_weights(F const& f) const noexcept {
        for_seen([&]<std::size_t J>(block_length<J>, std::size_t s, std::size_t last) {
            for (; s < last; ++s)
#pragma GCC unroll 8
                for (std::size_t j = J; j < registers; ++j) f(s * size + j * width, j);
        });
    }

    /// to[s][r] = the product of row r of `rows` and row s of `of`, which has rows of G::step numbers and begins with
    /// that of token 0.
    template<class Rows>
    void products(Rows& rows, T const* of, T* to) const noexcept {
        rows.for_values([&](T const* transposed, std::size_t value, std::size_t values) {
            for_seen([&]<std::size_t J>(block_length<J>, std::size_t first, std::size_t last) {
                constexpr product_strides strides{G::step, 1, size, size};
                auto const* const a = of + (begin + first) * G::step + value;
                auto const* const b = transposed + J * width;
                auto* const c = to + first * size + J * width;
                if (value == 0)
                    product_of_rows<size - J * width, strides, into::overwrite>(a, b, last - first, values, c);
                else if constexpr (G::head > Rows::values)
                    product_of_rows<size - J * width, strides, into::add>(a, b, last - first, values, c);
            });
        });
    }
    /// to[s][r] = the score of key s for query r, times log2(e); as good as none for a key that the query does not see.
    template<class Rows>
    void scores(Rows& rows, T const* x, T* to) const noexcept {
        products(rows, x + G::key, to);
        if constexpr (G::causal)
            if (queries.first < end) hide_later(to + (queries.first - begin) * size);
    }

    /// The larger of `top` and each query's largest score; those of four keys side by side, for one comparison waits
    /// for another.
    void largest(T const* p, vector (&top)[registers]) const noexcept {
        constexpr std::size_t rows = 4;
        auto const larger = [](vector a, vector b) { return vector::select(a < b, b, a); };
        vector so_far[rows * registers];
        std::fill_n(so_far, rows * registers, vector::all(std::numeric_limits<T>::lowest()));
        for_seen([&]<std::size_t J>(block_length<J>, std::size_t s, std::size_t last) {
            for (; s + rows <= last; s += rows)
#pragma GCC unroll 4
                for (std::size_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
                    for (std::size_t j = J; j < registers; ++j)
                        so_far[i * registers + j] =
                            larger(so_far[i * registers + j], vector::load(p + (s + i) * size + j * width));
            for (; s < last; ++s)
#pragma GCC unroll 8
                for (std::size_t j = J; j < registers; ++j)
                    so_far[j] = larger(so_far[j], vector::load(p + s * size + j * width));
        });
#pragma GCC unroll 8
        for (std::size_t j = 0; j < registers; ++j)
            top[j] = larger(top[j], larger(larger(so_far[j], so_far[j + registers]),
                                           larger(so_far[j + 2 * registers], so_far[j + 3 * registers])));
    }
    /// The scores p become weights, times a factor by which the weight of the score `top` is 1; sums = theirs.
    void weigh(T* p, vector const (&top)[registers], vector (&sums)[registers]) const noexcept {
        vector so_far[registers];
        std::fill_n(so_far, registers, vector::all(0));
        for_weights([&](std::size_t at, std::size_t j) {
            auto const e = power_of_two_of_negative(vector::load(p + at) - top[j]);
            e.store(p + at);
            so_far[j] = so_far[j] + e;
        });
        std::copy_n(so_far, registers, sums);
    }

private:
    /// Scores of the block's own tokens, which begin at p: those of later keys become so small that nothing is left.
    void hide_later(T* p) const noexcept {
        static constexpr auto numbers = [] {
            std::array<T, size> of_tokens{};
            for (std::size_t r = 0; r < size; ++r) of_tokens[r] = static_cast<T>(r);
            return of_tokens;
        }();
        auto const hidden = vector::all(std::numeric_limits<T>::lowest());
        for (std::size_t s = 1; s < queries.count; ++s)
#pragma GCC unroll 8
            for (std::size_t j = s / (half * width) * half; j < registers; ++j) {
                auto const at = s * size + j * width;
                auto const is_earlier = vector::load(numbers.data() + j * width) < vector::all(static_cast<T>(s));
                vector::select(is_earlier, hidden, vector::load(p + at)).store(p + at);
            }
    }
};

/// The statistics of the softmax of a block of queries: the largest score so far, and the sum so far of the weights
/// that belong to it.
template<class G, class T>
struct softmax_so_far {
    using block = query_block<G, T>;
    using vector = typename block::vector;
    static constexpr std::size_t registers = block::registers;
    vector largest[registers], sum[registers];

    softmax_so_far() noexcept {
        std::fill_n(largest, registers, vector::all(std::numeric_limits<T>::lowest()));
        std::fill_n(sum, registers, vector::all(0));
    }

    /// Takes the scores p of a tile, which become weights; smaller[r] = the factor of what has been added up for query
    /// r.
    template<class Tile>
    void add(Tile const& tile, T* p, T* smaller) noexcept {
        vector top[registers], more[registers];
        std::copy_n(largest, registers, top);
        tile.largest(p, top);
        tile.weigh(p, top, more);
        for (std::size_t j = 0; j < registers; ++j) {
            auto const factor = power_of_two_of_negative(largest[j] - top[j]);
            sum[j] = tile.begin == 0 ? more[j] : multiply_add(sum[j], factor, more[j]);
            largest[j] = top[j];
            factor.store(smaller + j * block::width);
        }
    }
};

/// Factors of the weights of a tile: all 1, where nothing is drawn.
template<class G, class T, std::size_t Keys, class... Draw>
struct tile_factors {
    explicit tile_factors(std::size_t) noexcept {}
    void read(attention_tile<G, T, Keys> const&) noexcept {}
    template<class V>
    V of(V weights, std::size_t) const noexcept {
        return weights;
    }
};
template<class G, class T, std::size_t Keys, class Number>
class tile_factors<G, T, Keys, dropout_draw<Number>> {
    using tile = attention_tile<G, T, Keys>;

public:
    tile_factors(std::size_t head, dropout_draw<T> const& draw) noexcept : head_(head / G::head), draw_(draw) {}

    /// Draws the factors; those of keys that a query does not see are 0.
    void read(tile const& of) noexcept {
        for (std::size_t r = 0; r < tile::size; ++r) {
            T of_query[dropout_room(Keys)];
            auto const token = of.queries.first + r;
            auto const seen = r < of.queries.count ? std::min(G::seen(token), of.end) - of.begin : 0;
            T const* drawn = of_query;
            if (seen != 0)
                drawn = dropout_factors(draw_, G::first_weight(draw_.granule.first, head_, token) + of.begin, seen,
                                        of_query);
            for (std::size_t s = 0; s < seen; ++s) factors_[s * tile::size + r] = drawn[s];
            for (std::size_t s = seen; s < of.keys(); ++s) factors_[s * tile::size + r] = 0;
        }
    }
    /// The weights at `at`, times their factors.
    template<class V>
    [[gnu::always_inline]] V of(V weights, std::size_t at) const noexcept {
        return weights * V::load(factors_ + at);
    }

private:
    std::size_t head_;
    dropout_draw<T> const& draw_;
    T factors_[tile::weights_size];
};

/// y, as attention_forward writes it.
template<class G, class T, class... Draw>
void attention_forward_by_keys(T const* x, T* y, Draw const&... draw) noexcept {
    using block = query_block<G, T>;
    using vector = typename block::vector;
    constexpr std::size_t keys = few_tokens<T>; // up to there, sums are those of attention over few tokens
    using tile = attention_tile<G, T, keys>;
    alignas(64) T p[tile::weights_size];
    alignas(64) T smaller[block::size];
    block::for_heads([&](std::size_t head, block queries) {
        auto* const out = y + queries.first * G::width + head;
        transposed_rows<G, T, G::step> rows(x + queries.first * G::step + head + G::query, queries.count,
                                            block::scale() * T(1.44269504088896340736)); // log2(e)
        softmax_so_far<G, T> softmax;
        tile_factors<G, T, keys, Draw...> kept(head, draw...);
        tile::for_keys(queries, [&](tile const& of) {
            of.scores(rows, x + head, p);
            softmax.add(of, p, smaller);
            if constexpr (sizeof...(Draw) != 0) {
                kept.read(of);
                of.for_weights([&](std::size_t at, std::size_t) { kept.of(vector::load(p + at), at).store(p + at); });
            }
            of.for_looking([&](std::size_t r, std::size_t count, std::size_t seen) {
                constexpr product_strides strides{1, block::size, G::step, G::width};
                auto const* const values = x + of.begin * G::step + head + G::value;
                if (of.begin == 0) {
                    product_of_rows<G::head, strides, into::overwrite>(p + r, values, count, seen, out + r * G::width);
                } else {
                    for (auto i = r; i < r + count; ++i)
                        if (smaller[i] != 1) block::scale_row(out + i * G::width, smaller[i]);
                    product_of_rows<G::head, strides, into::add>(p + r, values, count, seen, out + r * G::width);
                }
            });
        });
        for (std::size_t j = 0; j < block::registers; ++j)
            (vector::all(1) / softmax.sum[j]).store(smaller + j * block::width);
        for (std::size_t r = 0; r < queries.count; ++r) block::scale_row(out + r * G::width, smaller[r]);
    });
}

/// dx, as attention_backward_input writes it. y: what forward gave.
template<class G, class T, class... Draw>
void attention_backward_by_keys(T const* x, T const* y, T const* dy, T* dx, Draw const&... draw) noexcept {
    using block = query_block<G, T>;
    using vector = typename block::vector;
    constexpr std::size_t keys = few_tokens<T>, most = blocks_that_stay;
    using tile = attention_tile<G, T, keys>;
    std::fill_n(dx, G::tokens * G::step, T(0)); // all get gradients from block after block
    alignas(64) T all[most * tile::weights_size], by_p[tile::weights_size];
    auto const place = [&](std::size_t begin) { return all + begin / keys % most * tile::weights_size; };
    alignas(64) T taken[block::size];
    block::for_heads([&](std::size_t head, block queries) {
        auto const* const x_query = x + queries.first * G::step + head + G::query;
        auto const* const gradient = dy + queries.first * G::width + head;
        transposed_rows<G, T, G::step> rows(x_query, queries.count, block::scale() * T(1.44269504088896340736));
        transposed_rows<G, T, G::width> gradients(gradient, queries.count, 1);
        tile_factors<G, T, keys, Draw...> kept(head, draw...);

        softmax_so_far<G, T> softmax;
        vector largest[most][block::registers]; // those that a tile's weights belong to
        std::size_t last = 0;
        tile::for_keys(queries, [&](tile const& of) {
            last = of.begin;
            of.scores(rows, x + head, place(last));
            softmax.add(of, place(last), taken);
            std::copy_n(softmax.largest, block::registers, largest[last / keys % most]);
        });
        vector shares[block::registers], inner[block::registers]; // dy y: a token's weights add up to 1
        std::fill_n(taken, block::size, T(0));
        for (std::size_t r = 0; r < queries.count; ++r) {
            auto const* const given = y + (queries.first + r) * G::width + head;
            taken[r] = sum_of_token<G::head, T>([&](std::size_t d, auto count, auto sum) {
                using row = decltype(sum);
                return multiply_add(row::load(gradient + r * G::width + d, count), row::load(given + d, count), sum);
            });
        }
        for (std::size_t j = 0; j < block::registers; ++j) {
            shares[j] = vector::all(1) / softmax.sum[j];
            inner[j] = vector::load(taken + j * block::width);
        }

        auto const scale = vector::all(block::scale());
        for (std::size_t begin = last;; begin -= keys) {
            tile const of{queries, begin, std::min(begin + keys, queries.seen())};
            auto* const p = place(begin);
            auto& top = largest[begin / keys % most];
            if (last - begin >= most * keys) {
                of.scores(rows, x + head, p);
                of.weigh(p, softmax.largest, top); // the sums are known
                std::copy_n(softmax.largest, block::registers, top);
            }
            vector to_shares[block::registers];
            for (std::size_t j = 0; j < block::registers; ++j)
                to_shares[j] = power_of_two_of_negative(top[j] - softmax.largest[j]) * shares[j];
            of.products(gradients, x + head + G::value, by_p);
            kept.read(of);
            of.for_weights([&](std::size_t at, std::size_t j) {
                auto const weight = vector::load(p + at) * to_shares[j];
                kept.of(weight, at).store(p + at);
                (weight * scale * (kept.of(vector::load(by_p + at), at) - inner[j])).store(by_p + at);
            });
            of.for_seen([&]<std::size_t J>(block_length<J>, std::size_t first, std::size_t end) {
                constexpr std::size_t r = J * block::width;
                if (queries.count <= r) return;
                auto* const to = dx + (begin + first) * G::step + head;
                auto const at = first * block::size + r;
                constexpr product_strides by_value{block::size, 1, G::width, G::step};
                product_of_rows<G::head, by_value, into::add>(p + at, gradient + r * G::width, end - first,
                                                              queries.count - r, to + G::value);
                constexpr product_strides by_key{block::size, 1, G::step, G::step};
                product_of_rows<G::head, by_key, into::add>(by_p + at, x_query + r * G::step, end - first,
                                                            queries.count - r, to + G::key);
            });
            of.for_looking([&](std::size_t r, std::size_t count, std::size_t seen) {
                constexpr product_strides by_query{1, block::size, G::step, G::step};
                product_of_rows<G::head, by_query, into::add>(by_p + r, x + begin * G::step + head + G::key, count,
                                                              seen,
                                                              dx + (queries.first + r) * G::step + head + G::query);
            });
            if (begin == 0) break;
        }
    });
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
