// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/attention_weights.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

// Attention in bf16 by tensor cores, as in Dao, "FlashAttention-2", 2023: the programs are those of attention.hpp, but
// a block has 64 tokens of a head, and each of its warps 16 of them, whose products with other tokens stay in
// registers. Tiles of other tokens lie in shared memory twice, so that the next one comes while one is computed with.
// Sums are float; weights, and gradients by scores, are rounded to bf16 before they are multiplied.
namespace trireme::blocks {

/// True if tensor cores compute with heads of this geometry and type: of 16, 32, 48 or 64 values in bf16.
template<class G, class A>
inline constexpr bool suits_tensor_cores = std::is_same_v<A, bf16> && G::head % 16 == 0 && G::head <= 64;

/// Warps divide a tile of 64 tokens, and tokens of other tiles come by shared memory: rows of a head, of two kinds.
template<class G, class W>
struct tensor_tile : tile_of_block<G, 64> {
    using base = tile_of_block<G, 64>;
    using base::count, base::head, base::place, base::side, base::tile, base::tokens;
    static constexpr u32 warps = side / 16, threads = warps * W::lanes;
    static constexpr u32 deep = head / 16, across = side / 16; ///< steps of 16 through a head, and through a tile
    static constexpr u32 pitch = head + 8;                     ///< rows begin in other banks, and on 16 bytes
    static constexpr u32 matrix = side * pitch;

    using left = typename W::left;
    using right = typename W::right;
    using sums = typename W::sums;
    using rows_of_head = sums[2 * deep]; ///< 16 rows of a head

    /// The rows of two kinds of two tiles; the block's own pass through the places of the second one.
    struct alignas(16) shared_rows {
        bf16 at[4 * matrix];
        TRIREME_HOST_DEVICE bf16* first(u32 which) { return at + 2 * which * matrix; }
        TRIREME_HOST_DEVICE bf16* second(u32 which) { return first(which) + matrix; }
    };

    u32 thread, row; ///< row: of the warp's first token in the tile

    TRIREME_HOST_DEVICE tensor_tile(block_place at, bool back)
        : base(at.block, back), thread(at.thread), row(at.thread / W::lanes * 16) {}

    /// Rows of a tile are on their way; those behind the last token are 0.
    TRIREME_HOST_DEVICE void bring(bf16* to, bf16 const* from, u32 step_of_token, u32 of_tile) const {
        bf16 const* const begin = from + place(of_tile * side, step_of_token);
        u32 const there = count(of_tile);
        if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0) { // else every head of a token begins on 16 bytes
            copy(to, begin, step_of_token, there, thread);
            return;
        }
        constexpr u32 parts = head / 8;
        TRIREME_UNROLL
        for (u32 i = 0; i < side * parts / threads; ++i) {
            u32 const at_row = (i * threads + thread) / parts, part = (i * threads + thread) % parts * 8;
            W::bring(to + at_row * pitch + part, begin + std::size_t{at_row} * step_of_token + part, at_row < there);
        }
    }
    /// Rows that begin anywhere are copied value by value.
    TRIREME_NOINLINE TRIREME_HOST_DEVICE static void copy(bf16* to, bf16 const* from, u32 step_of_token, u32 there,
                                                          u32 thread) {
        for (u32 i = thread; i < side * head; i += threads)
            to[i / head * pitch + i % head] =
                i / head < there ? from[std::size_t{i / head} * step_of_token + i % head] : bf16();
    }
    /// The warp's own rows.
    TRIREME_HOST_DEVICE void load(left (&to)[deep], bf16 const* rows) const {
        TRIREME_UNROLL
        for (u32 d = 0; d < deep; ++d) W::load(to[d], rows + row * pitch + d * 16, pitch);
    }
    TRIREME_HOST_DEVICE static void clear(sums& s) {
        W::each(s, [](auto const&, float& value) { value = 0; });
    }
    TRIREME_HOST_DEVICE static void clear(rows_of_head& s) {
        TRIREME_UNROLL
        for (u32 d = 0; d < 2 * deep; ++d) clear(s[d]);
    }
    /// The products of the warp's rows with 16 rows of a tile, from row 16 part on.
    TRIREME_HOST_DEVICE static void multiply(sums (&to)[2], left const (&own)[deep], bf16 const* rows, u32 part) {
        clear(to[0]);
        clear(to[1]);
        TRIREME_UNROLL
        for (u32 d = 0; d < deep; ++d) {
            right others[2];
            W::load(others, rows + part * 16 * pitch + d * 16, pitch);
            W::multiply_add(to[0], own[d], others[0]);
            W::multiply_add(to[1], own[d], others[1]);
        }
    }
    /// sum += weights of the same rows of a tile times these rows.
    TRIREME_HOST_DEVICE static void add_weighted(rows_of_head& sum, left const& weights, bf16 const* rows, u32 part) {
        TRIREME_UNROLL
        for (u32 d = 0; d < deep; ++d) {
            right others[2];
            W::load_transposed(others, rows + part * 16 * pitch + d * 16, pitch);
            W::multiply_add(sum[2 * d], weights, others[0]);
            W::multiply_add(sum[2 * d + 1], weights, others[1]);
        }
    }
    TRIREME_HOST_DEVICE void store(bf16* to, u32 step_of_token, rows_of_head const& sum) const {
        u32 const there = count(tile);
        if (row >= there) return;
        bf16* const begin = to + place(tile * side + row, step_of_token);
        TRIREME_UNROLL
        for (u32 d = 0; d < 2 * deep; ++d) W::store(begin + d * 8, step_of_token, there - row, sum[d]);
    }
};

/// Powers of two cost less than those of e.
inline constexpr float log2_of_e = 1.44269504f;

/// A block walks as that of attention_queries_program does. The logarithms that it keeps are those to the base of 2.
template<class G, class W, bool Forward, class Drops>
struct tensor_queries_program {
    using tile = tensor_tile<G, W>;
    using left = typename tile::left;
    using sums = typename tile::sums;
    static constexpr u32 threads = tile::threads, side = tile::side, across = tile::across;
    static constexpr float none = -std::numeric_limits<float>::infinity();
    struct shared {
        typename tile::shared_rows rows;
        float largest[side], sum[side];
    };
    struct own {
        left query[tile::deep];
        typename W::of_rows largest, sum;
        typename tile::rows_of_head out;
    };

    bf16 const *x, *y, *dy;
    bf16* to;
    attention_statistics<float>* statistics;
    float scale;
    Drops drops;

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(tile::tiles + (Forward ? 3 : 4)); }
    /// The queries come, then the first keys and values, then a tile for each phase, while the next one comes.
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        tile const here(at, G::causal);
        u32 const all = G::causal ? here.tile + 1 : tile::tiles;
        if (k == 0) {
            here.bring(s.rows.first(1), x + G::query, G::step, here.tile);
            W::arrive();
        } else if (k == 1) {
            here.load(mine.query, s.rows.first(1));
            W::each(mine.largest, [](u32, float& value) { value = none; });
            W::each(mine.sum, [](u32, float& value) { value = 0; });
            if constexpr (Forward) tile::clear(mine.out);
            bring(here, s, 0);
            W::arrive();
        } else if (k < 2 + all) {
            if (k - 1 < all) bring(here, s, k - 1);
            walk(here, k - 2, s, mine);
            W::arrive();
        } else if (k == 2 + all) {
            finish(here, s, mine);
        } else if (!Forward && k == 3 + all) {
            keep(here, s);
        }
    }

private:
    TRIREME_HOST_DEVICE void bring(tile const& here, shared& s, u32 keys) const {
        here.bring(s.rows.first(keys % 2), x + G::key, G::step, keys);
        if constexpr (Forward) here.bring(s.rows.second(keys % 2), x + G::value, G::step, keys);
    }
    TRIREME_HOST_DEVICE void walk(tile const& here, u32 keys, shared& s, own& mine) const {
        u32 const query = here.tile * side + here.row, key = keys * side;
        if (key + side <= tile::tokens && (!G::causal || key + side <= query + 1))
            walk<true>(here, query, key, s.rows.first(keys % 2), s.rows.second(keys % 2), mine);
        else
            walk<false>(here, query, key, s.rows.first(keys % 2), s.rows.second(keys % 2), mine);
    }
    /// `All`: each of the warp's queries sees each key.
    template<bool All>
    TRIREME_HOST_DEVICE void walk(tile const& here, u32 query, u32 key, bf16 const* keys, bf16 const* values,
                                  own& mine) const {
        sums score[across][2];
        auto largest = mine.largest;
        TRIREME_UNROLL
        for (u32 part = 0; part < across; ++part) {
            tile::multiply(score[part], mine.query, keys, part);
            TRIREME_UNROLL
            for (u32 half = 0; half < 2; ++half)
                W::each(score[part][half], [&](auto const& p, float& value) {
                    bool const sees = All || tile::sees(query + p.row, key + part * 16 + half * 8 + p.column);
                    if (!sees) value = none;
                    W::at(largest, p) = std::fmax(W::at(largest, p), value);
                });
        }
        W::join(largest, [](float a, float b) { return std::fmax(a, b); });
        float const by = scale * log2_of_e;
        auto smaller = mine.largest, subtracted = largest;
        W::each(smaller, largest, [&](float& before, float now) { before = W::exp2((before - now) * by); });
        W::each(subtracted, [&](u32, float& value) { value *= by; });
        W::each(mine.sum, smaller, [](float& sum, float factor) { sum *= factor; });
        if constexpr (Forward) {
            TRIREME_UNROLL
            for (u32 d = 0; d < 2 * tile::deep; ++d)
                W::each(mine.out[d], [&](auto const& p, float& value) { value *= W::at(smaller, p); });
        }
        mine.largest = largest;
        auto const drawn = drops.of_head(here.sample, here.head_number);
        TRIREME_UNROLL
        for (u32 part = 0; part < across; ++part) {
            TRIREME_UNROLL
            for (u32 half = 0; half < 2; ++half)
                W::each(score[part][half], [&](auto const& p, float& value) {
                    float const weight = W::exp2(value * by - W::at(subtracted, p));
                    W::at(mine.sum, p) += weight;
                    u32 const other = key + part * 16 + half * 8 + p.column;
                    value = weight * drawn.template factor<float>(query + p.row, other);
                });
            if constexpr (Forward)
                tile::add_weighted(mine.out, W::rounded(score[part][0], score[part][1]), values, part);
        }
    }
    TRIREME_HOST_DEVICE void finish(tile const& here, shared& s, own& mine) const {
        W::join(mine.sum, [](float a, float b) { return a + b; });
        if constexpr (Forward) {
            W::each(mine.sum, [](u32, float& value) { value = 1.0f / value; });
            TRIREME_UNROLL
            for (u32 d = 0; d < 2 * tile::deep; ++d)
                W::each(mine.out[d], [&](auto const& p, float& value) { value *= W::at(mine.sum, p); });
            here.store(to, G::width, mine.out);
        } else {
            W::each(mine.largest, [&](u32 row, float& value) { s.largest[here.row + row] = value; });
            W::each(mine.sum, [&](u32 row, float& value) { s.sum[here.row + row] = value; });
        }
    }
    TRIREME_HOST_DEVICE void keep(tile const& here, shared& s) const {
        for (u32 row = here.thread; row < tile::count(here.tile); row += threads) {
            u32 const token = here.tile * side + row;
            std::size_t const place = here.place(token, G::width);
            float inner = 0;
            TRIREME_UNROLL
            for (u32 d = 0; d < tile::head; d += 4) {
                float gradient[4], value[4];
                load_row<true>(gradient, dy + place + d, 4);
                load_row<true>(value, y + place + d, 4);
                for (u32 i = 0; i < 4; ++i) inner += gradient[i] * value[i];
            }
            statistics[here.place_of_statistics(token)] = {s.largest[row] * (scale * log2_of_e) + std::log2(s.sum[row]),
                                                           inner};
        }
    }
};

/// A block computes the gradients of a tile as that of attention_gradient_program does: rows are queries with dy, or
/// keys with values.
template<class G, class W, bool ForKeys, class Drops>
struct tensor_gradient_program {
    using tile = tensor_tile<G, W>;
    using left = typename tile::left;
    using sums = typename tile::sums;
    static constexpr u32 threads = tile::threads, side = tile::side, across = tile::across;
    struct shared {
        typename tile::shared_rows rows;
        attention_statistics<float> of[2][side]; ///< of the queries of a tile
    };
    struct with_values {
        typename tile::rows_of_head by_value;
    };
    struct with_statistics {
        typename W::of_rows log_sum, inner; ///< of the warp's queries
    };
    struct own : std::conditional_t<ForKeys, with_values, with_statistics> {
        left first[tile::deep], second[tile::deep];
        typename tile::rows_of_head by_first;
    };

    bf16 const *x, *dy;
    bf16* dx;
    attention_statistics<float> const* statistics;
    float scale;
    Drops drops;

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(tile::tiles + 2); }
    /// The block's rows come, then the first other ones, then a tile for each phase, while the next one comes.
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        tile const here(at, !ForKeys && G::causal);
        u32 const begin = ForKeys && G::causal ? here.tile : 0,
                  end = !ForKeys && G::causal ? here.tile + 1 : tile::tiles;
        if (k == 0) {
            bring<ForKeys>(here, s, here.tile, 1);
            W::arrive();
        } else if (k == 1) {
            here.load(mine.first, s.rows.first(1));
            here.load(mine.second, s.rows.second(1));
            tile::clear(mine.by_first);
            if constexpr (ForKeys) {
                tile::clear(mine.by_value);
            } else {
                auto const* const of = s.of[1] + here.row;
                W::each(mine.log_sum, [&](u32 row, float& value) { value = of[row].log_sum; });
                W::each(mine.inner, [&](u32 row, float& value) { value = of[row].inner; });
            }
            bring<!ForKeys>(here, s, begin, 0);
            W::arrive();
        } else if (begin + (k - 2) < end) {
            u32 const other = begin + (k - 2);
            if (other + 1 < end) bring<!ForKeys>(here, s, other + 1, (k - 1) % 2);
            walk(here, other, k % 2, s, mine);
            W::arrive();
            if (other + 1 == end) {
                TRIREME_UNROLL
                for (u32 d = 0; d < 2 * tile::deep; ++d)
                    W::each(mine.by_first[d], [&](auto const&, float& value) { value *= scale; });
                here.store(dx + (ForKeys ? G::key : G::query), G::step, mine.by_first);
                if constexpr (ForKeys) here.store(dx + G::value, G::step, mine.by_value);
            }
        }
    }

private:
    template<bool Keys>
    TRIREME_HOST_DEVICE void bring(tile const& here, shared& s, u32 which, u32 to) const {
        here.bring(s.rows.first(to), x + (Keys ? G::key : G::query), G::step, which);
        if constexpr (Keys) {
            here.bring(s.rows.second(to), x + G::value, G::step, which);
        } else {
            here.bring(s.rows.second(to), dy, G::width, which);
            for (u32 i = here.thread; i < side; i += threads)
                s.of[to][i] = i < tile::count(which) ? statistics[here.place_of_statistics(which * side + i)]
                                                     : attention_statistics<float>{};
        }
    }
    TRIREME_HOST_DEVICE void walk(tile const& here, u32 other, u32 which, shared& s, own& mine) const {
        u32 const row = here.tile * side + here.row, column = other * side;
        u32 const first_query = ForKeys ? column : row, last_query = first_query + (ForKeys ? side : 16) - 1;
        u32 const last_key = ForKeys ? row + 15 : column + side - 1;
        bf16 const *const first = s.rows.first(which), *const second = s.rows.second(which);
        if (last_query < tile::tokens && last_key < tile::tokens && (!G::causal || last_key <= first_query))
            walk<true>(here, row, column, first, second, s.of[which], mine);
        else
            walk<false>(here, row, column, first, second, s.of[which], mine);
    }
    /// `All`: each query sees each key. The gradients lack the factor `scale`.
    template<bool All>
    TRIREME_HOST_DEVICE void walk(tile const& here, u32 row, u32 column, bf16 const* first, bf16 const* second,
                                  attention_statistics<float> const* of_queries, own& mine) const {
        float const by = scale * log2_of_e;
        auto const drawn = drops.of_head(here.sample, here.head_number);
        TRIREME_ROLLED
        for (u32 part = 0; part < across; ++part) {
            sums weight[2], by_score[2];
            tile::multiply(weight, mine.first, first, part);
            tile::multiply(by_score, mine.second, second, part);
            TRIREME_UNROLL
            for (u32 half = 0; half < 2; ++half)
                W::each(weight[half], by_score[half], [&](auto const& p, float& value, float& gradient) {
                    u32 const in_tile = part * 16 + half * 8 + p.column;
                    u32 const query = ForKeys ? column + in_tile : row + p.row,
                              key = ForKeys ? row + p.row : column + in_tile;
                    attention_statistics<float> of;
                    if constexpr (ForKeys)
                        of = of_queries[in_tile];
                    else
                        of = {W::at(mine.log_sum, p), W::at(mine.inner, p)};
                    bool const sees = All || tile::sees(query, key);
                    float const factor = drawn.template factor<float>(query, key);
                    float const undropped = sees ? W::exp2(value * by - of.log_sum) : 0.0f;
                    gradient = undropped * (gradient * factor - of.inner);
                    value = undropped * factor;
                });
            tile::add_weighted(mine.by_first, W::rounded(by_score[0], by_score[1]), first, part);
            if constexpr (ForKeys) tile::add_weighted(mine.by_value, W::rounded(weight[0], weight[1]), second, part);
        }
    }
};

} // namespace trireme::blocks
