// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

// The tokens of all samples of a shard are the rows of one matrix. A team of threads has a row's values in registers;
// numbers of a whole row are added up in the order of the team.
namespace trireme::blocks {

/// A team of threads divides the values of a token: each thread has some rows of four, a team's width apart.
template<u32 Width>
struct token_team {
    static constexpr u32 size = Width <= 1024 ? 32 : 128; ///< threads of a token
    static constexpr u32 threads = 256, tokens_of_block = threads / size;
    static constexpr u32 quads = divide_up(Width, 4 * size); ///< of a thread

    u32 member, row;

    TRIREME_HOST_DEVICE explicit token_team(block_place at)
        : member(at.thread % size), row(at.block * tokens_of_block + at.thread / size) {}

    TRIREME_HOST_DEVICE u32 place(u32 q) const { return (q * size + member) * 4; }
    TRIREME_HOST_DEVICE u32 count(u32 q) const { return in_row_of_four<Width>(place(q)); }

    template<class N, class A>
    TRIREME_HOST_DEVICE void load(N (&to)[quads][4], A const* of_row) const {
        for (u32 q = 0; q < quads; ++q) load_row<Width % 4 == 0>(to[q], of_row + place(q), count(q));
    }
    /// f(q, i, d) for each of the thread's values: `d` is its place in the row.
    template<class F>
    TRIREME_HOST_DEVICE void for_values(F const& f) const {
        for (u32 q = 0; q < quads; ++q)
            for (u32 i = 0; i < 4; ++i)
                if (i < count(q)) f(q, i, place(q) + i);
    }
    /// The sum of the team's numbers, which lie side by side.
    template<class N>
    TRIREME_HOST_DEVICE N sum(N const (&of)[threads], u32 thread) const {
        N total = 0;
        for (u32 i = 0; i < size; ++i) total += of[thread - member + i];
        return total;
    }
};

/// Norms differ in what they take from a token's values before they divide by the root of the mean square, their mean
/// or nothing, and in whether they multiply by a weight, and add a bias to what they centre.
template<u32 Width, bool Centred, bool Weighted>
struct token_norm {
    static constexpr u32 width = Width;
    static constexpr bool centred = Centred;

    template<class N, class T>
    TRIREME_HOST_DEVICE static N weight([[maybe_unused]] T const* w, [[maybe_unused]] u32 d) {
        if constexpr (Weighted)
            return static_cast<N>(w[d]);
        else
            return N(1);
    }
};

/// A team takes the mean and the deviation of its row in three phases. `own` keeps the row and its mean.
template<class Norm, class A>
struct token_statistics_of_blocks {
    static constexpr u32 width = Norm::width;
    using number = accumulate_t<A>;
    using team = token_team<width>;
    struct shared {
        number sum[team::threads], squares[team::threads];
    };
    struct own {
        number value[team::quads][4], mean;
    };

    A const* x;
    number epsilon;

    /// The first phase: reads the row.
    TRIREME_HOST_DEVICE void read(team const& here, u32 row, u32 thread, shared& s, own& mine) const {
        here.load(mine.value, x + std::size_t{row} * width);
        if constexpr (Norm::centred) {
            number sum = 0;
            here.for_values([&](u32 q, u32 i, u32) { sum += mine.value[q][i]; });
            s.sum[thread] = sum;
        }
    }
    /// The second: squares of differences from the mean, so that nothing cancels.
    TRIREME_HOST_DEVICE void square(team const& here, u32 thread, shared& s, own& mine) const {
        mine.mean = Norm::centred ? here.sum(s.sum, thread) / static_cast<number>(width) : number(0);
        number squares = 0;
        here.for_values([&](u32 q, u32 i, u32) {
            number const apart = mine.value[q][i] - mine.mean;
            squares += apart * apart;
        });
        s.squares[thread] = squares;
    }
    /// In the third: 1 / sqrt(variance + epsilon).
    TRIREME_HOST_DEVICE number deviation(team const& here, u32 thread, shared const& s) const {
        return number(1) / std::sqrt(here.sum(s.squares, thread) / static_cast<number>(width) + epsilon);
    }
};

template<class Norm, class A, class T>
struct token_norm_program {
    using statistics = token_statistics_of_blocks<Norm, A>;
    static constexpr u32 width = Norm::width;
    using number = typename statistics::number;
    using team = typename statistics::team;
    static constexpr u32 threads = team::threads;
    static constexpr int phase_count = 3;
    using shared = typename statistics::shared;
    using own = typename statistics::own;

    statistics of;
    T const *w, *b;
    A* y;
    u32 rows;

    u32 blocks() const noexcept { return divide_up(rows, team::tokens_of_block); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own& mine) const {
        team const here(at);
        if (here.row >= rows) return;
        if (k == 0) {
            of.read(here, here.row, at.thread, s, mine);
        } else if (k == 1) {
            of.square(here, at.thread, s, mine);
        } else {
            number const deviation = of.deviation(here, at.thread, s);
            here.for_values([&](u32 q, u32 i, u32 d) {
                number& v = mine.value[q][i];
                v = Norm::template weight<number>(w, d) * ((v - mine.mean) * deviation);
                if constexpr (Norm::centred) v += static_cast<number>(b[d]);
            });
            A* const to = y + std::size_t{here.row} * width;
            for (u32 q = 0; q < team::quads; ++q)
                store_row<width % 4 == 0>(to + here.place(q), mine.value[q], here.count(q));
        }
    }
};

template<class Norm, class A, class T>
struct token_norm_input_program {
    using statistics = token_statistics_of_blocks<Norm, A>;
    static constexpr u32 width = Norm::width;
    using number = typename statistics::number;
    using team = typename statistics::team;
    static constexpr u32 threads = team::threads;
    static constexpr int phase_count = 4;
    struct shared {
        typename statistics::shared of;
        number slopes[threads], by_x[threads];
    };
    struct own {
        typename statistics::own of;
        number slope[team::quads][4]; ///< w dy
        number deviation;
    };

    statistics of;
    A const* dy;
    T const* w;
    A* dx;
    u32 rows;

    u32 blocks() const noexcept { return divide_up(rows, team::tokens_of_block); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own& mine) const {
        team const here(at);
        if (here.row >= rows) return;
        auto& x = mine.of.value;
        if (k == 0) {
            here.load(mine.slope, dy + std::size_t{here.row} * width);
            of.read(here, here.row, at.thread, s.of, mine.of);
        } else if (k == 1) {
            of.square(here, at.thread, s.of, mine.of);
        } else if (k == 2) {
            mine.deviation = of.deviation(here, at.thread, s.of);
            number slopes = 0, by_x = 0;
            here.for_values([&](u32 q, u32 i, u32 d) {
                x[q][i] = (x[q][i] - mine.of.mean) * mine.deviation;
                mine.slope[q][i] *= Norm::template weight<number>(w, d);
                slopes += mine.slope[q][i];
                by_x += mine.slope[q][i] * x[q][i];
            });
            s.slopes[at.thread] = slopes;
            s.by_x[at.thread] = by_x;
        } else {
            number const middle =
                Norm::centred ? here.sum(s.slopes, at.thread) / static_cast<number>(width) : number(0);
            number const with_x = here.sum(s.by_x, at.thread) / static_cast<number>(width);
            A* const to = dx + std::size_t{here.row} * width;
            for (u32 q = 0; q < team::quads; ++q) {
                number gradient[4];
                for (u32 i = 0; i < 4; ++i)
                    gradient[i] = mine.deviation * (mine.slope[q][i] - middle - x[q][i] * with_x);
                store_row<width % 4 == 0>(to + here.place(q), gradient, here.count(q));
            }
        }
    }
};

/// A block adds the gradients by weight, and bias if there is one, of some groups of rows, one group after the other,
/// to a partial for add_partials: its teams find the statistics of a group, and then each thread adds its columns of
/// all rows.
template<class Norm, class A, class T>
struct token_norm_weights_program {
    using statistics = token_statistics_of_blocks<Norm, A>;
    static constexpr u32 width = Norm::width;
    using number = typename statistics::number;
    using team = typename statistics::team;
    static constexpr u32 threads = team::threads, group = team::tokens_of_block;
    static constexpr u32 columns = divide_up(width, threads);      ///< of a thread
    static constexpr u32 sums = Norm::centred ? 2 * width : width; ///< of a partial
    struct shared {
        typename statistics::shared of;
        number mean[group], deviation[group];
    };
    struct own {
        typename statistics::own of;
        number dw[columns], db[columns];
    };

    statistics of;
    A const* dy;
    accumulate_t<T>* partials;
    u32 rows, groups; ///< groups of a block

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(3 * groups + 1); }
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        team const here(at);
        u32 const number_of_group = at.block * groups + k / 3, in_group = at.thread / team::size;
        u32 const row = number_of_group * group + in_group;
        bool const some = row < rows && k < 3 * groups;
        if (k == 0)
            for (u32 c = 0; c < columns; ++c) mine.dw[c] = mine.db[c] = 0;
        if (k % 3 == 0) {
            if (k > 0) add((number_of_group - 1) * group, at.thread, s, mine);
            if (some) of.read(here, row, at.thread, s.of, mine.of);
            if (k == 3 * groups) keep(at, mine);
        } else if (k % 3 == 1) {
            if (some) of.square(here, at.thread, s.of, mine.of);
        } else if (some && here.member == 0) {
            s.mean[in_group] = mine.of.mean;
            s.deviation[in_group] = of.deviation(here, at.thread, s.of);
        }
    }

private:
    TRIREME_HOST_DEVICE void add(u32 first, u32 thread, shared const& s, own& mine) const {
        for (u32 c = 0; c < columns; ++c) {
            u32 const d = c * threads + thread;
            if (d >= width) continue;
            for (u32 i = 0; i < group; ++i) {
                if (first + i >= rows) continue;
                std::size_t const place = std::size_t{first + i} * width + d;
                auto const gradient = static_cast<number>(dy[place]);
                mine.dw[c] += gradient * ((static_cast<number>(of.x[place]) - s.mean[i]) * s.deviation[i]);
                mine.db[c] += gradient;
            }
        }
    }
    TRIREME_HOST_DEVICE void keep(block_place at, own const& mine) const {
        auto* const to = partials + std::size_t{at.block} * sums;
        for (u32 c = 0; c < columns; ++c) {
            u32 const d = c * threads + at.thread;
            if (d >= width) continue;
            to[d] = mine.dw[c];
            if constexpr (Norm::centred) to[width + d] = mine.db[c];
        }
    }
};

/// y = norm of x, of all samples' tokens.
template<class Norm, class Stream, class A, class T>
void launch_norm(block_kernels<Stream> const& k, std::size_t tokens, A const* x, T const* w, T const* b, double epsilon,
                 A* y) {
    token_norm_program<Norm, A, T> const program{
        {x, static_cast<accumulate_t<A>>(epsilon)}, w, b, y, static_cast<u32>(tokens)};
    if (tokens != 0) k.queue().launch(program, program.blocks());
}

template<class Norm, class Stream, class A, class T>
void launch_norm_input(block_kernels<Stream> const& k, std::size_t tokens, A const* x, A const* dy, T const* w,
                       double epsilon, A* dx) {
    token_norm_input_program<Norm, A, T> const program{
        {x, static_cast<accumulate_t<A>>(epsilon)}, dy, w, dx, static_cast<u32>(tokens)};
    if (tokens != 0) k.queue().launch(program, program.blocks());
}

/// The gradients by weight and bias go through the workspace, in an order that the sizes alone decide.
template<class Norm, class Stream, class A, class T>
void launch_norm_weights(block_kernels<Stream> const& k, std::size_t tokens, A const* x, A const* dy, double epsilon,
                         T* dw, T* db) {
    using program_t = token_norm_weights_program<Norm, A, T>;
    using number = accumulate_t<T>;
    constexpr std::size_t sums = program_t::sums, enough_blocks = 528; // four on each of an H200's multiprocessors
    if (tokens == 0) return;
    auto* const partials =
        workspace_for<number>(k, sums, "adding up the gradients of a norm over", Norm::width, "values");
    auto const rows = static_cast<u32>(tokens), all = divide_up(rows, program_t::group);
    auto const parts =
        static_cast<u32>(std::min({std::size_t{all}, enough_blocks, k.scratch().bytes / (sums * sizeof(number))}));
    u32 const groups = divide_up(all, parts), launched = divide_up(all, groups);
    k.queue().launch(program_t{{x, static_cast<accumulate_t<A>>(epsilon)}, dy, partials, rows, groups}, launched);
    add_partials<4, T> const add{partials, launched, Norm::width, static_cast<u32>(sums) - Norm::width, dw, db, false};
    k.queue().launch(add, add.blocks());
}

template<class G>
using layer_norm_of = token_norm<static_cast<u32>(G::width), true, true>;
template<class G>
using rms_norm_of = token_norm<static_cast<u32>(G::width), false, G::weighted>;

} // namespace trireme::blocks

namespace trireme {

/// y = w (x - mean) / sqrt(variance + epsilon) + b, with each token's own mean and variance. x, y: Tokens x Width per
/// sample, w, b: Width. Reads x once.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void layer_norm_forward(block_kernels<Stream> const& k, A const* x, T const* w, T const* b, double epsilon, A* y) {
    blocks::launch_norm<blocks::layer_norm_of<G>>(k, k.samples() * G::tokens, x, w, b, epsilon, y);
}

/// dx = deviation (g - mean of g - normalised x times mean of g times it), where g = w dy; overwrites dx, which may be
/// dy.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void layer_norm_backward_input(block_kernels<Stream> const& k, A const* x, A const* dy, T const* w, double epsilon,
                               A* dx) {
    blocks::launch_norm_input<blocks::layer_norm_of<G>>(k, k.samples() * G::tokens, x, dy, w, epsilon, dx);
}

/// dw += dy times the normalised x, db += dy, summed over all tokens.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void layer_norm_backward_weights(block_kernels<Stream> const& k, A const* x, A const* dy, double epsilon, T* dw,
                                 T* db) {
    blocks::launch_norm_weights<blocks::layer_norm_of<G>>(k, k.samples() * G::tokens, x, dy, epsilon, dw, db);
}

} // namespace trireme
