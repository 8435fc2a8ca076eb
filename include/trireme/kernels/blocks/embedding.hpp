// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>

// Tokens lie as token_as has them. The tokens of all samples of a shard are one list.
namespace trireme::blocks {

/// A team of 32 threads copies its token's row of the table.
template<u32 Width, class A, class T>
struct embedding_program {
    static constexpr u32 team = 32, tokens_of_block = 8, threads = team * tokens_of_block;
    using shared = nothing_kept;
    using own = nothing_kept;

    A const* x;
    T const* w;
    A* y;
    u32 tokens;

    struct copied_row {
        using value = accumulate_t<A>;
        T const* from;
        A* to;
        TRIREME_HOST_DEVICE value load(u32 d) const { return static_cast<value>(from[d]); }
        TRIREME_HOST_DEVICE void store(u32 d, value v) const { to[d] = static_cast<A>(v); }
    };

    u32 blocks() const noexcept { return divide_up(tokens, tokens_of_block); }
    TRIREME_HOST_DEVICE int phases() const { return 1; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        u32 const token = at.block * tokens_of_block + at.thread / team;
        if (token >= tokens) return;
        copied_row const row{w + std::size_t{number_of(x[token])} * Width, y + std::size_t{token} * Width};
        copy_in_batches(row, at.thread % team, team, Width);
    }
};

/// The program puts the places of the list in the order of their tokens, equal ones in that of the list: a thread
/// counts the tokens that come before its own. The list goes through shared memory.
template<class A>
struct token_order_program {
    static constexpr u32 threads = 256, chunk = 4 * threads;
    struct shared {
        quad<u32> token[chunk / 4];
    };
    static constexpr u32 none = ~0u; ///< behind the last token: above all
    struct own {
        u32 token, before;
    };

    A const* x;
    u32* order;
    u32 tokens;

    u32 blocks() const noexcept { return divide_up(tokens, threads); }
    TRIREME_HOST_DEVICE u32 chunks() const { return (tokens + chunk - 1) / chunk; }
    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(2 * chunks()); }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own& mine) const {
        u32 const place = at.block * threads + at.thread, first = static_cast<u32>(k) / 2 * chunk;
        if (k % 2 == 0) {
            if (k == 0) mine = {place < tokens ? number_of(x[place]) : 0, 0};
            for (u32 i = at.thread; i < chunk; i += threads)
                s.token[i / 4].v[i % 4] = first + i < tokens ? number_of(x[first + i]) : none;
            return;
        }
        u32 const left = tokens - first, quads = left < chunk ? (left + 3) / 4 : chunk / 4;
        for (u32 q = 0; q < quads; ++q) {
            quad<u32> const others = s.token[q];
            for (u32 i = 0; i < 4; ++i) {
                bool const before = first + q * 4 + i < place;
                mine.before += (before ? others.v[i] <= mine.token : others.v[i] < mine.token) ? 1 : 0;
            }
        }
        if (left <= chunk && place < tokens) order[mine.before] = place;
    }
};

/// A team of 32 threads adds the gradients of equal tokens to 32 columns of their row of the table, one after the
/// other: the team at the first place of those tokens in the order.
template<u32 Width, class A, class T>
struct token_sums_program {
    using number = accumulate_t<T>;
    static constexpr u32 team = 32, teams = 8, threads = team * teams, slabs = divide_up(Width, team), batch = 16;
    using shared = nothing_kept;
    using own = nothing_kept;

    A const* x;
    A const* dy;
    u32 const* order;
    T* dw;
    u32 tokens;

    u32 blocks() const noexcept { return divide_up(tokens, teams) * slabs; }
    TRIREME_HOST_DEVICE int phases() const { return 1; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        u32 const begin = at.block / slabs * teams + at.thread / team;
        u32 const column = at.block % slabs * team + at.thread % team;
        if (begin >= tokens || column >= Width) return;
        u32 const token = number_of(x[order[begin]]);
        if (begin > 0 && number_of(x[order[begin - 1]]) == token) return;
        T& to = dw[std::size_t{token} * Width + column];
        auto sum = static_cast<number>(to);
        for (u32 first = begin; first < tokens; first += batch) {
            number term[batch]; // on their way at the same time
            bool ends = false;
            for (u32 i = 0; i < batch; ++i) {
                u32 const place = first + i < tokens ? order[first + i] : 0;
                bool const is = first + i < tokens && number_of(x[place]) == token;
                term[i] = is ? static_cast<number>(dy[std::size_t{place} * Width + column]) : number(0);
                ends = ends || !is;
            }
            for (u32 i = 0; i < batch; ++i) sum += term[i];
            if (ends) break;
        }
        to = static_cast<T>(sum);
    }
};

template<u32 Values, class A, class T>
struct value_and_position {
    A const* x;
    T const* w;
    A* y;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        using number = accumulate_t<A>;
        y[i] = static_cast<A>(static_cast<number>(x[i]) + static_cast<number>(w[i % Values]));
    }
};

/// The functor adds the gradients by a position's value over all samples, eight of them on their way at the same time.
template<u32 Values, class A, class T>
struct sum_of_position {
    A const* dy;
    T* dw;
    u32 samples;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        using number = accumulate_t<T>;
        auto sum = static_cast<number>(dw[i]);
        for (u32 first = 0; first < samples; first += 8) {
            number term[8];
            for (u32 j = 0; j < 8; ++j)
                term[j] =
                    first + j < samples ? static_cast<number>(dy[std::size_t{first + j} * Values + i]) : number(0);
            for (u32 j = 0; j < 8; ++j) sum += term[j];
        }
        dw[i] = static_cast<T>(sum);
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y[t] = w[x[t]]. x: Tokens, w: Vocabulary x Width, y: Tokens x Width; x and y per sample.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void embedding_forward(block_kernels<Stream> const& k, A const* x, T const* w, A* y) {
    blocks::embedding_program<static_cast<blocks::u32>(G::width), A, T> const program{
        x, w, y, static_cast<blocks::u32>(k.samples() * G::tokens)};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

/// dw[x[t]] += dy[t], in the order of all samples' tokens. Sorts the tokens first, by counting: n of them cost n^2
/// comparisons whatever the vocabulary is, and 4 n bytes of workspace. 16,384 tokens are 0.27e9 comparisons, some tens
/// of microseconds by count, for 256 as for 50,000 rows; to look for each row's tokens would cost rows x n.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void embedding_backward_weights(block_kernels<Stream> const& k, A const* x, A const* dy, T* dw) {
    using blocks::u32;
    if (k.samples() == 0) return;
    std::size_t const tokens = k.samples() * G::tokens;
    auto* const order = blocks::workspace_for<u32>(k, tokens, "sorting", tokens, "tokens");
    blocks::token_order_program<A> const sort{x, order, static_cast<u32>(tokens)};
    k.queue().launch(sort, sort.blocks());
    blocks::token_sums_program<static_cast<u32>(G::width), A, T> const add{x, dy, order, dw, static_cast<u32>(tokens)};
    k.queue().launch(add, add.blocks());
}

/// y = x + w. x, y: Tokens x Width per sample, w: Tokens x Width.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void learned_positions_forward(block_kernels<Stream> const& k, A const* x, T const* w, A* y) {
    constexpr std::size_t values = G::tokens * G::width;
    k.each(values * k.samples(), blocks::value_and_position<static_cast<blocks::u32>(values), A, T>{x, w, y});
}

/// dw += dy, summed over the samples.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void learned_positions_backward_weights(block_kernels<Stream> const& k, A const* dy, T* dw) {
    constexpr std::size_t values = G::tokens * G::width;
    if (k.samples() != 0)
        k.each(values, blocks::sum_of_position<static_cast<blocks::u32>(values), A, T>{
                           dy, dw, static_cast<blocks::u32>(k.samples())});
}

} // namespace trireme
