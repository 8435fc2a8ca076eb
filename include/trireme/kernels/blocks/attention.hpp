// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/attention_weights.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/blocks/tensor_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

// Attention in tiles, as in Dao et al., "FlashAttention", 2022: a block has the tokens of one tile of one head, and
// walks over the tiles of tokens that those look at, or that look at them. Weights exist tile by tile, in shared
// memory, and sums stay in registers. On the way back a first program finds again what softmax has divided by, for the
// workspace; a second one walks from each tile of queries over the keys, for the gradient by the queries, and from each
// tile of keys over the queries, for the others: nothing is added from two sides, so that bits do not depend on an
// order.
namespace trireme::blocks {

/// A matrix in shared memory keeps four numbers of a row side by side. Neighbouring rows begin in other banks.
template<u32 Rows, u32 Columns, class N>
struct shared_matrix {
    static constexpr u32 quads = divide_up(Columns, 4), pitch = quads | 1u;
    quad<N> at[Rows * pitch];

    TRIREME_HOST_DEVICE N& number(u32 row, u32 column) { return at[row * pitch + column / 4].v[column % 4]; }
    TRIREME_HOST_DEVICE quad<N> const& of_row(u32 row, u32 q) const { return at[row * pitch + q]; }

    /// Reads the first `count` rows, `step` values apart; the others are 0.
    template<class A>
    TRIREME_HOST_DEVICE void read(A const* from, u32 step, u32 count, u32 thread, u32 threads) {
        for (u32 i = thread; i < Rows * quads; i += threads) {
            u32 const row = i / quads, q = i % quads;
            load_row<Columns % 4 == 0>(at[row * pitch + q].v, from + std::size_t{row} * step + q * 4,
                                       row < count ? in_row_of_four<Columns>(q * 4) : 0);
        }
    }
};

/// The most bytes that a program for tiles of `side` tokens shares: rows of four kinds, weights of two, two numbers per
/// token.
template<class G, class A>
constexpr std::size_t attention_bytes(u32 side) {
    using number = accumulate_t<A>;
    return sizeof(quad<number>) * (4 * side * (divide_up(G::head, 4) | 1u) + 2 * side * (side / 4 | 1u)) +
           sizeof(number) * 2 * side;
}
template<class G, class A>
inline constexpr u32 attention_side = attention_bytes<G, A>(32) <= most_shared_bytes   ? 32
                                      : attention_bytes<G, A>(16) <= most_shared_bytes ? 16
                                      : attention_bytes<G, A>(8) <= most_shared_bytes  ? 8
                                                                                       : 4;

/// Threads divide a tile: each computes two rows and two columns of its weights, and of two rows of a sum every
/// `half`-th row of four.
template<class G, class A>
struct attention_tile : tile_of_block<G, attention_side<G, A>> {
    using base = tile_of_block<G, attention_side<G, A>>;
    using base::count, base::head, base::place, base::side, base::tile, base::tokens;
    using number = accumulate_t<A>;
    static constexpr u32 step = G::step, width = G::width; ///< of a token's queries, keys and values; of what it gets
    static_assert(attention_bytes<G, A>(side) <= most_shared_bytes,
                  "attention: a head has more values than a block of threads has shared memory for: take more heads");
    static constexpr u32 half = side / 2, threads = half * half;
    static constexpr u32 quads = divide_up(head, 4), quads_of_thread = divide_up(quads, half);
    using rows = shared_matrix<side, head, number>;
    using weights = shared_matrix<side, side, number>;
    using sums = number[2][quads_of_thread][4];

    u32 m, n;

    TRIREME_HOST_DEVICE attention_tile(block_place at, bool back)
        : base(at.block, back), m(at.thread / half), n(at.thread % half) {}

    TRIREME_HOST_DEVICE u32 row(u32 i) const { return m + half * i; }
    TRIREME_HOST_DEVICE u32 column(u32 j) const { return n + half * j; }

    TRIREME_HOST_DEVICE void read(rows& to, A const* from, u32 step_of_token, u32 of_tile, u32 thread) const {
        to.read(from + place(of_tile * side, step_of_token), step_of_token, count(of_tile), thread, threads);
    }
    /// The products of the thread's two rows of one matrix with its two of another.
    TRIREME_HOST_DEVICE void multiply(number (&to)[2][2], rows const& left, rows const& right) const {
        for (u32 i = 0; i < 2; ++i)
            for (u32 j = 0; j < 2; ++j) to[i][j] = 0;
        for (u32 q = 0; q < quads; ++q) {
            quad<number> const a[2] = {left.of_row(row(0), q), left.of_row(row(1), q)};
            quad<number> const b[2] = {right.of_row(column(0), q), right.of_row(column(1), q)};
            for (u32 i = 0; i < 2; ++i)
                for (u32 j = 0; j < 2; ++j)
                    for (u32 c = 0; c < 4; ++c) to[i][j] += a[i].v[c] * b[j].v[c];
        }
    }
    /// sum += weights times values, the thread's two rows.
    TRIREME_HOST_DEVICE void add_weighted(sums& sum, weights const& by, rows const& values) const {
        for (u32 q = 0; q < side / 4; ++q) {
            quad<number> const weight[2] = {by.of_row(row(0), q), by.of_row(row(1), q)};
            for (u32 k = 0; k < 4; ++k)
                for (u32 j = 0; j < quads_of_thread; ++j) {
                    if (quads % half != 0 && n + half * j >= quads) continue;
                    quad<number> const value = values.of_row(q * 4 + k, n + half * j);
                    for (u32 i = 0; i < 2; ++i)
                        for (u32 c = 0; c < 4; ++c) sum[i][j][c] += weight[i].v[k] * value.v[c];
                }
        }
    }
    TRIREME_HOST_DEVICE static void clear(sums& sum) {
        for (u32 i = 0; i < 2; ++i)
            for (u32 j = 0; j < quads_of_thread; ++j)
                for (u32 c = 0; c < 4; ++c) sum[i][j][c] = 0;
    }
    TRIREME_HOST_DEVICE void store(A* to, u32 step_of_token, sums const& sum) const {
        store_row_of(to, step_of_token, row(0), sum[0], std::make_integer_sequence<u32, quads_of_thread>{});
        store_row_of(to, step_of_token, row(1), sum[1], std::make_integer_sequence<u32, quads_of_thread>{});
    }

private:
    /// The compiler knows the place of each sum, which it could not have in a register otherwise.
    template<u32... J>
    TRIREME_HOST_DEVICE void store_row_of(A* to, u32 step_of_token, u32 of_row, number const (&sum)[quads_of_thread][4],
                                          std::integer_sequence<u32, J...>) const {
        if (of_row >= count(tile)) return;
        A* const of_token = to + place(tile * side + of_row, step_of_token);
        (store_row<head % 4 == 0>(of_token + (n + half * J) * 4, sum[J], in_row_of_four<head>((n + half * J) * 4)),
         ...);
    }
};

/// A block walks with a tile of queries over all keys that they see, for y, or without `Forward` for the statistics. It
/// subtracts the largest score so far, and makes its sums smaller when a larger one comes.
template<class G, class A, bool Forward, class Drops>
struct attention_queries_program {
    using tile = attention_tile<G, A>;
    using number = typename tile::number;
    static constexpr u32 threads = tile::threads, half = tile::half, side = tile::side;
    static constexpr number none = -std::numeric_limits<number>::infinity();
    struct with_values {
        typename tile::rows value;
        typename tile::weights weight;
    };
    struct without_values {};
    struct shared : std::conditional_t<Forward, with_values, without_values> {
        typename tile::rows query, key;
        number of_row[half][side]; ///< of the threads of a row: the largest of their scores, at the end their sums
    };
    struct own {
        number score[2][2], largest[2], sum[2];
        typename tile::sums out;
    };

    A const *x, *y, *dy;
    A* to;
    attention_statistics<number>* statistics;
    number scale;
    Drops drops;

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(3 * tile::tiles + 2); }
    /// The first phase reads the queries. Then, for each tile of keys: scores, while values are read; weights; sums,
    /// while the next keys are read.
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        tile const here(at, G::causal);
        u32 const all = G::causal ? here.tile + 1 : tile::tiles, keys = k == 0 ? 0 : (k - 1) / 3;
        if (k == 0) {
            here.read(s.query, x + G::query, tile::step, here.tile, at.thread);
            here.read(s.key, x + G::key, tile::step, 0, at.thread);
            for (u32 i = 0; i < 2; ++i) {
                mine.largest[i] = none;
                mine.sum[i] = 0;
            }
            if constexpr (Forward) tile::clear(mine.out);
        } else if (k == 3 * all + 1) {
            if constexpr (Forward)
                store(here, s, mine);
            else
                keep(here, s, mine);
        } else if (k > 3 * all) {
            return;
        } else if (k % 3 == 1) {
            score(here, keys, s, mine);
            if constexpr (Forward) here.read(s.value, x + G::value, tile::step, keys, at.thread);
        } else if (k % 3 == 2) {
            weigh(here, keys, s, mine);
        } else {
            if constexpr (Forward) here.add_weighted(mine.out, s.weight, s.value);
            if (keys + 1 < all)
                here.read(s.key, x + G::key, tile::step, keys + 1, at.thread);
            else
                for (u32 i = 0; i < 2; ++i) s.of_row[here.n][here.row(i)] = mine.sum[i];
        }
    }

private:
    TRIREME_HOST_DEVICE void score(tile const& here, u32 keys, shared& s, own& mine) const {
        here.multiply(mine.score, s.query, s.key);
        for (u32 i = 0; i < 2; ++i) {
            number largest = none;
            for (u32 j = 0; j < 2; ++j) {
                bool const sees = tile::sees(here.tile * side + here.row(i), keys * side + here.column(j));
                number const score = sees ? mine.score[i][j] * scale : none;
                mine.score[i][j] = score;
                largest = largest < score ? score : largest;
            }
            s.of_row[here.n][here.row(i)] = largest;
        }
    }
    TRIREME_HOST_DEVICE void weigh(tile const& here, u32 keys, shared& s, own& mine) const {
        weigh_row<0>(here, keys, s, mine);
        weigh_row<1>(here, keys, s, mine);
    }
    template<u32 Row>
    TRIREME_HOST_DEVICE void weigh_row(tile const& here, u32 keys, shared& s, own& mine) const {
        number largest = mine.largest[Row];
        for (u32 other = 0; other < half; ++other) {
            number const score = s.of_row[other][here.row(Row)];
            largest = largest < score ? score : largest;
        }
        number const smaller = std::exp(mine.largest[Row] - largest);
        number const weight[2] = {std::exp(mine.score[Row][0] - largest), std::exp(mine.score[Row][1] - largest)};
        mine.largest[Row] = largest;
        mine.sum[Row] = mine.sum[Row] * smaller + (weight[0] + weight[1]);
        if constexpr (Forward) {
            auto const drawn = drops.of_head(here.sample, here.head_number);
            for (u32 j = 0; j < 2; ++j)
                s.weight.number(here.row(Row), here.column(j)) =
                    weight[j] *
                    drawn.template factor<number>(here.tile * side + here.row(Row), keys * side + here.column(j));
            for (u32 j = 0; j < tile::quads_of_thread; ++j)
                for (u32 c = 0; c < 4; ++c) mine.out[Row][j][c] *= smaller;
        }
    }
    TRIREME_HOST_DEVICE static number sum_of(u32 row, shared const& s) {
        number sum = 0;
        for (u32 other = 0; other < half; ++other) sum += s.of_row[other][row];
        return sum;
    }
    TRIREME_HOST_DEVICE void store(tile const& here, shared const& s, own& mine) const {
        for (u32 i = 0; i < 2; ++i) {
            number const sum = sum_of(here.row(i), s);
            for (u32 j = 0; j < tile::quads_of_thread; ++j)
                for (u32 c = 0; c < 4; ++c) mine.out[i][j][c] /= sum;
        }
        here.store(to, tile::width, mine.out);
    }
    /// The first thread of each two rows takes one of them, and the second the other.
    TRIREME_HOST_DEVICE void keep(tile const& here, shared const& s, own const& mine) const {
        u32 const row = here.row(here.n), token = here.tile * side + row;
        if (here.n >= 2 || row >= tile::count(here.tile)) return;
        std::size_t const place = here.place(token, tile::width);
        number inner = 0;
        for (u32 d = 0; d < tile::head; ++d)
            inner += static_cast<number>(dy[place + d]) * static_cast<number>(y[place + d]);
        number const largest = here.n == 0 ? mine.largest[0] : mine.largest[1];
        statistics[here.place_of_statistics(token)] = {largest + std::log(sum_of(row, s)), inner};
    }
};

/// A block computes the gradients of a tile: by queries, over the keys that they see, or `ForKeys` by keys and values,
/// over the queries that see them.
template<class G, class A, bool ForKeys, class Drops>
struct attention_gradient_program {
    using tile = attention_tile<G, A>;
    using number = typename tile::number;
    static constexpr u32 threads = tile::threads, side = tile::side;
    struct with_weights {
        typename tile::weights weight;
    };
    struct without_weights {};
    /// Queries with the gradients by what they gave, or keys with their values: the tile's own, and the others'.
    struct shared : std::conditional_t<ForKeys, with_weights, without_weights> {
        typename tile::rows first, second, other_first, other_second;
        typename tile::weights by_score;
        attention_statistics<number> of[side];
    };
    struct with_values {
        typename tile::sums by_value;
    };
    struct own : std::conditional_t<ForKeys, with_values, without_weights> {
        typename tile::sums by_first;
    };

    A const *x, *dy;
    A* dx;
    attention_statistics<number> const* statistics;
    number scale;
    Drops drops;

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(3 * tile::tiles); }
    /// Of each other tile: it is read; the gradient by the scores; sums.
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        tile const here(at, !ForKeys && G::causal);
        u32 const begin = ForKeys && G::causal ? here.tile : 0,
                  end = !ForKeys && G::causal ? here.tile + 1 : tile::tiles;
        u32 const other = begin + k / 3;
        if (other >= end) return;
        if (k == 0) {
            read<ForKeys>(here, s.first, s.second, here.tile, at.thread);
            tile::clear(mine.by_first);
            if constexpr (ForKeys) tile::clear(mine.by_value);
        }
        if (k % 3 == 0) {
            read<!ForKeys>(here, s.other_first, s.other_second, other, at.thread);
            u32 const queries = ForKeys ? other : here.tile;
            for (u32 i = at.thread; i < tile::count(queries); i += threads)
                s.of[i] = statistics[here.place_of_statistics(queries * side + i)];
        } else if (k % 3 == 1) {
            weigh(here, other, s);
        } else {
            here.add_weighted(mine.by_first, s.by_score, s.other_first);
            if constexpr (ForKeys) here.add_weighted(mine.by_value, s.weight, s.other_second);
            if (other + 1 == end) {
                here.store(dx + (ForKeys ? G::key : G::query), tile::step, mine.by_first);
                if constexpr (ForKeys) here.store(dx + G::value, tile::step, mine.by_value);
            }
        }
    }

private:
    template<bool Keys>
    TRIREME_HOST_DEVICE void read(tile const& here, typename tile::rows& first, typename tile::rows& second, u32 which,
                                  u32 thread) const {
        here.read(first, x + (Keys ? G::key : G::query), tile::step, which, thread);
        if constexpr (Keys)
            here.read(second, x + G::value, tile::step, which, thread);
        else
            here.read(second, dy, tile::width, which, thread);
    }
    TRIREME_HOST_DEVICE void weigh(tile const& here, u32 other, shared& s) const {
        number score[2][2], by_weight[2][2];
        here.multiply(score, s.first, s.other_first);
        here.multiply(by_weight, s.second, s.other_second);
        auto const drawn = drops.of_head(here.sample, here.head_number);
        for (u32 i = 0; i < 2; ++i)
            for (u32 j = 0; j < 2; ++j) {
                u32 const row = here.tile * side + here.row(i), column = other * side + here.column(j);
                u32 const query = ForKeys ? column : row, key = ForKeys ? row : column;
                bool const sees = tile::sees(query, key);
                number const factor = drawn.template factor<number>(query, key);
                auto const& of = s.of[ForKeys ? here.column(j) : here.row(i)];
                number const weight = sees ? std::exp(score[i][j] * scale - of.log_sum) : number(0);
                s.by_score.number(here.row(i), here.column(j)) =
                    sees ? weight * (by_weight[i][j] * factor - of.inner) * scale : number(0);
                if constexpr (ForKeys) s.weight.number(here.row(i), here.column(j)) = weight * factor;
            }
    }
};

/// The programs for a geometry: by tensor cores where those suit it.
template<class G, class A, class Stream, class Drops>
struct attention_programs {
    template<bool Forward, class Dropped>
    using queries_program =
        std::conditional_t<suits_tensor_cores<G, A>, tensor_queries_program<G, typename Stream::warp, Forward, Dropped>,
                           attention_queries_program<G, A, Forward, Dropped>>;
    template<bool ForKeys>
    using gradient_program =
        std::conditional_t<suits_tensor_cores<G, A>, tensor_gradient_program<G, typename Stream::warp, ForKeys, Drops>,
                           attention_gradient_program<G, A, ForKeys, Drops>>;
    using forward = queries_program<true, Drops>;
    using statistics = queries_program<false, weights_kept>;
    using queries = gradient_program<false>;
    using keys = gradient_program<true>;
};

} // namespace trireme::blocks

namespace trireme {

/// y = softmax(query key^T / sqrt(head)) value, head by head. x: Tokens x 3 Width, y: Tokens x Width; both per sample.
/// `draw`: none, or the dropout_draw of the weights, whose numbers G::first_weight begins; seed, step, shard and the
/// place of the first sample are those of the staged shard.
template<class G, std::size_t Lanes, class Stream, class A, class... Draw>
void attention_forward(block_kernels<Stream> const& k, A const* x, A* y, Draw const&... draw) {
    auto const drops = blocks::drops_of<G, A>(k, 0, draw...);
    using program = typename blocks::attention_programs<G, A, Stream, std::remove_const_t<decltype(drops)>>::forward;
    if (k.samples() != 0)
        k.queue().launch(program{x, nullptr, nullptr, y, nullptr, blocks::attention_scale<G, A>(), drops},
                         program::tile::blocks(k.samples()));
}

/// dx = the gradient by queries, keys and values; overwrites dx. y: what forward gave. Weights are computed again:
/// eight products of a tile instead of forward's two. As many samples at a time as the workspace has room for.
/// `draw`: as forward's.
template<class G, std::size_t Lanes, class Stream, class A, class... Draw>
void attention_backward_input(block_kernels<Stream> const& k, A const* x, A const* y, A const* dy, A* dx,
                              Draw const&... draw) {
    using number = accumulate_t<A>;
    using statistics = blocks::attention_statistics<number>;
    using programs = blocks::attention_programs<G, A, Stream, decltype(blocks::drops_of<G, A>(k, 0, draw...))>;
    constexpr std::size_t of_sample = G::tokens * G::heads;
    if (k.samples() == 0) return;
    auto* const found =
        blocks::workspace_for<statistics>(k, of_sample, "the way back of attention over", G::tokens, "tokens");
    number const scale = blocks::attention_scale<G, A>();
    std::size_t const together = k.scratch().bytes / (of_sample * sizeof(statistics));
    for (std::size_t begin = 0; begin < k.samples(); begin += together) {
        auto const launched = programs::statistics::tile::blocks(std::min(together, k.samples() - begin));
        auto const in = begin * (G::tokens * G::step), out = begin * (G::tokens * G::width);
        auto const drawn = blocks::drops_of<G, A>(k, begin, draw...);
        k.queue().launch(typename programs::statistics{x + in, y + out, dy + out, nullptr, found, scale, {}}, launched);
        k.queue().launch(typename programs::queries{x + in, dy + out, dx + in, found, scale, drawn}, launched);
        k.queue().launch(typename programs::keys{x + in, dy + out, dx + in, found, scale, drawn}, launched);
    }
}

} // namespace trireme
