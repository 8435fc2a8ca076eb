// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::blocks {

// Factors of a product of matrices, out(m, n) = the sum of left(m, k) * right(n, k) over k. Steps say how far apart
// neighbours lie in memory; being known, they cost no instructions.

/// A factor whose m-th row is in memory as one.
template<u32 Width, class T>
struct row_factor {
    static constexpr std::size_t m_step = Width, k_step = 1;
    T const* data;
    TRIREME_HOST_DEVICE accumulate_t<T> load(std::size_t place, u32) const {
        return static_cast<accumulate_t<T>>(data[place]);
    }
};

/// The other way round: what is the factor's row is a column in memory.
template<u32 Width, class T>
struct column_factor {
    static constexpr std::size_t m_step = 1, k_step = Width;
    T const* data;
    TRIREME_HOST_DEVICE accumulate_t<T> load(std::size_t place, u32) const {
        return static_cast<accumulate_t<T>>(data[place]);
    }
};

/// A column_factor with a column of ones behind the last, whose products are the gradients of the biases.
template<u32 Width, class T>
struct column_or_one_factor {
    static constexpr std::size_t m_step = 1, k_step = Width;
    T const* data;
    TRIREME_HOST_DEVICE accumulate_t<T> load(std::size_t place, u32 m) const {
        return m == Width ? accumulate_t<T>(1) : static_cast<accumulate_t<T>>(data[place]);
    }
};

// Products go to one of these destinations.

template<u32 Width, class End, class T>
struct store_product {
    T* to;
    End end;
    TRIREME_HOST_DEVICE void operator()(accumulate_t<T> sum, u32 m, u32 n, u32) const {
        std::size_t const place = std::size_t{m} * Width + n;
        to[place] = static_cast<T>(end(sum, n, place));
    }
};

template<u32 Inputs, class T>
struct add_gradient {
    T *dw, *db;
    bool are_new;
    TRIREME_HOST_DEVICE void operator()(accumulate_t<T> sum, u32 output, u32 input, u32) const {
        give_gradient(input == Inputs ? db[output] : dw[std::size_t{output} * Inputs + input], sum, are_new);
    }
};

/// Partials as add_partials wants them. Columns: the inputs, and one for biases, if there are any.
template<u32 Inputs, u32 Outputs, u32 Columns, class T>
struct store_partial {
    accumulate_t<T>* partials;
    TRIREME_HOST_DEVICE void operator()(accumulate_t<T> sum, u32 output, u32 input, u32 split) const {
        accumulate_t<T>* const partial = partials + std::size_t{split} * (Outputs * Columns);
        partial[input == Inputs ? Outputs * Inputs + output : output * Inputs + input] = sum;
    }
};

/// A product of matrices. A block computes a tile of 16 x 32 numbers; its 8 groups of 32 threads take every 8th k each
/// and add up at the end: as many threads as keep a multiprocessor busy, though matrices are small. A thread computes
/// 4 x 4 numbers from two rows of four per k. Chunks of the factors go through shared memory, [k][m] and [k][n]; while
/// one is computed with, the next is read. Reads left once per 32 columns of the result, right once per 16 rows.
template<class Left, class Right, class Store, class A>
struct matrix_product {
    static constexpr u32 tile_rows = 16, tile_columns = 32, groups = 8, threads = groups * 32;
    static constexpr u32 depth_of_chunk = sizeof(A) > 4 ? 64 : 128;
    // one row of four more than needed: k's neighbours lie in different banks of the memory
    static constexpr u32 left_pitch = tile_rows / 4 + 1, right_pitch = tile_columns / 4 + 1;
    static constexpr u32 left_share = depth_of_chunk * tile_rows / threads;
    static constexpr u32 right_share = depth_of_chunk * tile_columns / threads;
    struct chunk {
        quad<A> left[depth_of_chunk * left_pitch], right[depth_of_chunk * right_pitch];
    };
    struct shared {
        union {
            chunk factors;
            A sums[groups][tile_rows * tile_columns]; // when the last chunk is done with
        };
    };
    struct own {
        A sum[4][4];
        A next_left[left_share], next_right[right_share];
    };

    Left left;
    Right right;
    Store store;
    u32 rows, columns, depth;
    u32 splits, depth_of_split; ///< blocks that share a tile, and how much of k each adds

    u32 row_tiles() const noexcept { return divide_up(rows, tile_rows); }
    TRIREME_HOST_DEVICE u32 column_tiles() const { return (columns + tile_columns - 1) / tile_columns; }
    u32 blocks() const noexcept { return row_tiles() * column_tiles() * splits; }

    TRIREME_HOST_DEVICE u32 chunks() const { return (depth_of_split + depth_of_chunk - 1) / depth_of_chunk; }
    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(2 * chunks() + 3); }

    /// Even phases read a chunk, while computing with the one before; odd ones put it into shared memory. The last two
    /// add up.
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        u32 const split = at.block % splits, tile = at.block / splits;
        u32 const column = tile % column_tiles() * tile_columns, row = tile / column_tiles() * tile_rows;
        u32 const begin = split * depth_of_split, end = begin + depth_of_split < depth ? begin + depth_of_split : depth;
        u32 const first = begin + k / 2 * depth_of_chunk; // the first k of the chunk that is read
        if (k == 0)
            for (u32 i = 0; i < 4; ++i)
                for (u32 j = 0; j < 4; ++j) mine.sum[i][j] = 0;
        if (k > 2 * chunks() + 1) {
            add_up(at.thread, s, row, column, split);
        } else if (k > 2 * chunks()) {
            keep_sums(at.thread, s, mine);
        } else if (k % 2 != 0) {
            put<left_place, left_pitch>(at.thread, mine.next_left, s.factors.left);
            put<right_place, right_pitch>(at.thread, mine.next_right, s.factors.right);
        } else {
            if (k < 2 * chunks()) {
                read<left_place>(left, mine.next_left, at.thread, row, rows, first, end);
                read<right_place>(right, mine.next_right, at.thread, column, columns, first, end);
            }
            if (k > 0) multiply(at.thread, s, mine, first < end + depth_of_chunk ? end + depth_of_chunk - first : 0);
        }
    }

private:
    /// A thread's numbers of a tile of a factor: neighbours read side by side, 8 numbers at least, and a warp's places
    /// in shared memory lie in 32 banks. The first, and from there to the i-th.
    template<class Factor, u32 Side>
    struct tile_place {
        static constexpr bool along_k = Factor::k_step == 1; // then a warp reads 8 numbers of each of 4 rows
        static constexpr u32 passes = depth_of_chunk / (8 * groups);
        u32 m, k;

        TRIREME_HOST_DEVICE explicit tile_place(u32 thread)
            : m(along_k ? thread / 8 % 4 : thread % Side), k(along_k ? thread % 8 + thread / 32 * 8 : thread / Side) {}
        TRIREME_HOST_DEVICE static constexpr u32 m_of(u32 i) { return along_k ? i / passes * 4 : 0; }
        TRIREME_HOST_DEVICE static constexpr u32 k_of(u32 i) {
            return along_k ? i % passes * (8 * groups) : i * (threads / Side);
        }
    };
    using left_place = tile_place<Left, tile_rows>;
    using right_place = tile_place<Right, tile_columns>;

    template<class Place, class Factor, u32 Share>
    TRIREME_HOST_DEVICE static void read(Factor const& factor, A (&to)[Share], u32 thread, u32 first, u32 limit,
                                         u32 begin, u32 end) {
        Place const place(thread);
        u32 const m = first + place.m, k = begin + place.k;
        std::size_t const from = m * Factor::m_step + k * Factor::k_step;
        for (u32 i = 0; i < Share; ++i)
            to[i] = m + Place::m_of(i) < limit && k + Place::k_of(i) < end
                        ? factor.load(from + (Place::m_of(i) * Factor::m_step + Place::k_of(i) * Factor::k_step),
                                      m + Place::m_of(i))
                        : A(0);
    }

    template<class Place, u32 Pitch, u32 Share>
    TRIREME_HOST_DEVICE static void put(u32 thread, A const (&from)[Share], quad<A>* to) {
        Place const place(thread);
        quad<A>* const first = to + place.k * Pitch + place.m / 4;
        for (u32 i = 0; i < Share; ++i) first[Place::k_of(i) * Pitch + Place::m_of(i) / 4].v[place.m % 4] = from[i];
    }

    TRIREME_HOST_DEVICE static void multiply(u32 thread, shared const& s, own& mine, u32 left_over) {
        u32 const group = thread / 32, m = thread % 32 / 8, n = thread % 8;
        u32 const end = left_over < depth_of_chunk ? left_over : depth_of_chunk;
        for (u32 k = group; k < end; k += groups) {
            quad<A> const a = s.factors.left[k * left_pitch + m], b = s.factors.right[k * right_pitch + n];
            for (u32 i = 0; i < 4; ++i)
                for (u32 j = 0; j < 4; ++j) mine.sum[i][j] += a.v[i] * b.v[j];
        }
    }

    TRIREME_HOST_DEVICE static void keep_sums(u32 thread, shared& s, own const& mine) {
        u32 const group = thread / 32, m = thread % 32 / 8, n = thread % 8;
        for (u32 i = 0; i < 4; ++i)
            for (u32 j = 0; j < 4; ++j) s.sums[group][(m * 4 + i) * tile_columns + n * 4 + j] = mine.sum[i][j];
    }

    TRIREME_HOST_DEVICE void add_up(u32 thread, shared const& s, u32 row, u32 column, u32 split) const {
        for (u32 place = thread; place < tile_rows * tile_columns; place += threads) {
            u32 const m = row + place / tile_columns, n = column + place % tile_columns;
            if (m >= rows || n >= columns) continue;
            A sum = 0;
            for (u32 group = 0; group < groups; ++group) sum += s.sums[group][place];
            store(sum, m, n, split);
        }
    }
};

template<class A, class Stream, class Left, class Right, class Store>
void launch_product(block_kernels<Stream> const& k, Left left, Right right, Store store, std::size_t rows,
                    std::size_t columns, std::size_t depth, u32 splits = 1) {
    if (rows == 0 || columns == 0 || depth == 0) return;
    auto const depth32 = static_cast<u32>(depth);
    matrix_product<Left, Right, Store, A> const program{left,
                                                        right,
                                                        store,
                                                        static_cast<u32>(rows),
                                                        static_cast<u32>(columns),
                                                        depth32,
                                                        splits,
                                                        divide_up(depth32, splits)};
    k.queue().launch(program, program.blocks());
}

/// A sample has one row of the matrix that is multiplied, or one for each of its tokens.
template<class G, class Stream>
std::size_t rows_of(block_kernels<Stream> const& k) noexcept {
    return k.samples() * G::rows;
}

template<class G, class F, class Stream, class T>
void linear_forward_as(block_kernels<Stream> const& k, T const* x, T const* w, T const* b, T* y) {
    constexpr u32 in = G::inputs, out = G::outputs;
    auto const launch = [&]<class End>(End end) {
        launch_product<accumulate_t<T>>(k, row_factor<in, T>{x}, row_factor<in, T>{w},
                                        store_product<out, End, T>{y, end}, rows_of<G>(k), out, in);
    };
    if constexpr (G::bias)
        launch(forward_end<F, T>{b});
    else
        launch(unbiased_end<F, T>{});
}

template<class G, class F, class Stream, class T>
void linear_backward_input_as(block_kernels<Stream> const& k, T const* w, T const* dy, T* dx, T const* input) {
    constexpr u32 in = G::inputs, out = G::outputs;
    launch_product<accumulate_t<T>>(k, row_factor<out, T>{dy}, column_factor<in, T>{w},
                                    store_product<in, backward_end<F, T>, T>{dx, {input}}, rows_of<G>(k), in, out);
}

} // namespace trireme::blocks

namespace trireme {

/// y = w x + b. x: Rows x In, w: Out x In, b: Out, y: Rows x Out; x and y per sample.
template<class G, std::size_t Lanes, class Stream, class T>
void linear_forward(block_kernels<Stream> const& k, T const* x, T const* w, T const* b, T* y) {
    blocks::linear_forward_as<G, identity_function>(k, x, w, b, y);
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void linear_forward(with_function<K, F, T> const& k, T const* x, T const* w, T const* b, T* y) {
    blocks::linear_forward_as<G, F>(k, x, w, b, y);
}

/// dx = w^T dy; overwrites dx.
template<class G, std::size_t Lanes, class Stream, class T>
void linear_backward_input(block_kernels<Stream> const& k, T const* w, T const* dy, T* dx) {
    blocks::linear_backward_input_as<G, identity_function>(k, w, dy, dx, static_cast<T const*>(nullptr));
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void linear_backward_input(with_function<K, F, T> const& k, T const* w, T const* dy, T* dx) {
    blocks::linear_backward_input_as<G, F>(k, w, dy, dx, k.input());
}

/// Adds the gradients with respect to w and b, summed over all rows, to dw and db. Where the rows are many and the
/// weights few, several blocks share a tile: their partial sums go through the workspace, as far as it reaches.
template<class G, std::size_t Lanes, class Stream, class T>
void linear_backward_weights(block_kernels<Stream> const& k, T const* x, T const* dy, T* dw, T* db) {
    using blocks::u32;
    using number = accumulate_t<T>;
    constexpr u32 in = G::inputs, out = G::outputs, columns = in + (G::bias ? 1 : 0);
    constexpr u32 rows_worth_a_block = 512, enough_blocks = 256;
    constexpr u32 tiles = blocks::divide_up(out, 16) * blocks::divide_up(columns, 32);
    constexpr std::size_t bytes_of_partial = sizeof(number) * out * columns;
    std::size_t const rows = blocks::rows_of<G>(k);
    std::size_t splits = rows / rows_worth_a_block;
    for (std::size_t const limit : {std::size_t{enough_blocks / tiles}, k.scratch().bytes / bytes_of_partial})
        splits = splits < limit ? splits : limit;
    blocks::column_factor<out, T> const left{dy};
    blocks::column_or_one_factor<in, T> const right{x};
    if (splits <= 1) {
        blocks::launch_product<number>(k, left, right, blocks::add_gradient<in, T>{dw, db, k.gradients_are_new()}, out,
                                       columns, rows);
        return;
    }
    auto* const partials = static_cast<number*>(k.scratch().data);
    blocks::launch_product<number>(k, left, right, blocks::store_partial<in, out, columns, T>{partials}, out, columns,
                                   rows, static_cast<u32>(splits));
    blocks::add_partials<4, T> const add{partials, static_cast<u32>(splits), in * out, (columns - in) * out, dw,
                                         db,       k.gradients_are_new()};
    k.queue().launch(add, add.blocks());
}

} // namespace trireme
