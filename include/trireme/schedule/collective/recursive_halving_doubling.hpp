// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

#include <bit>

namespace trireme {

/// Recursive halving and doubling: partners at half the distance in each round; what is exchanged halves, then doubles.
///
/// For p = 2^k ranks. Of another number n the first 2 (n - p) work in pairs: each of a pair adds one half of the buffer
/// for both, the even rank collects them, takes part for the two, and the odd rank gets the result in the end.
///
/// - Phases: [pairs: 2 rounds], halving (k rounds, each reduces the half that the rank keeps), doubling (k rounds, each
///   copies what the partner has), [pairs: 1 round], waits until the partners have read.
/// - Cost per rank: 2 log2 p messages, 2 (p - 1)/p of the buffer; in a pair at most another buffer.
/// - Wins: medium buffers, powers of two: the bytes of a ring in few rounds. Loses: far partners over thin links.
/// - Deterministic: a balanced tree of additions; all ranks hold the same bits.
/// - Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005.
struct recursive_halving_doubling {
    static constexpr char const* name = "recursive_halving_doubling";

    static constexpr schedule all_reduce(int ranks) noexcept {
        shape const s(ranks);
        return {name, ranks, ranks, ranks > 1 ? s.before() + 2 * s.rounds + s.after() + s.waits() : 0,
                &all_reduce_step};
    }
    static constexpr schedule reduce_scatter(int ranks) noexcept {
        shape const s(ranks);
        return {name, ranks, ranks, ranks > 1 ? s.before() + s.rounds + s.after() + s.waits() : 0,
                &reduce_scatter_step};
    }
    static constexpr schedule all_gather(int ranks) noexcept {
        shape const s(ranks);
        return {name, ranks, ranks, ranks > 1 ? s.after() + s.rounds + s.after() + s.waits() : 0, &all_gather_step};
    }

private:
    /// The ranks that take part, and the blocks of each.
    struct shape {
        int n;
        int rounds;
        int core;  ///< 2^rounds ranks take part
        int pairs; ///< ranks 0 .. 2 pairs - 1 come in pairs, the even one takes part
        constexpr explicit shape(int ranks) noexcept
            : n(ranks), rounds(static_cast<int>(std::bit_width(static_cast<unsigned>(ranks))) - 1), core(1 << rounds),
              pairs(n - core) {}

        constexpr int before() const noexcept { return pairs > 0 ? 2 : 0; } ///< steps of a pair that adds
        constexpr int after() const noexcept { return pairs > 0 ? 1 : 0; }  ///< steps of a pair that copies
        constexpr int waits() const noexcept { return rounds + after(); }
        constexpr bool paired(int rank) const noexcept { return rank < 2 * pairs; }
        constexpr bool takes_part(int rank) const noexcept { return !paired(rank) || rank % 2 == 0; }
        constexpr int seat(int rank) const noexcept { return paired(rank) ? rank / 2 : rank - pairs; }
        constexpr int rank_at(int seat) const noexcept { return seat < pairs ? 2 * seat : seat + pairs; }
        /// The blocks of seats [seat / size * size, + size): its own, and its pair's.
        constexpr chunk_list blocks(int seat, int size) const noexcept {
            int const from = seat / size * size, to = from + size;
            int const begin = from < pairs ? 2 * from : from + pairs;
            return {begin, (to < pairs ? 2 * to : to + pairs) - begin};
        }
        constexpr int partner(int rank, int size) const noexcept { return rank_at(seat(rank) ^ size); }
    };

    /// Two steps: each of a pair adds one half; the even rank fetches the other.
    static constexpr collective_step add_pair(shape const& f, int rank, int s) noexcept {
        if (!f.paired(rank)) return {};
        bool const even = rank % 2 == 0;
        int const other = even ? rank + 1 : rank - 1, half = f.n / 2;
        chunk_list const low{0, half}, high{half, f.n - half};
        if (s == 0) return {step_kind::reduce, even ? low : high, one_rank(other), 0};
        return even ? collective_step{step_kind::copy, high, one_rank(other), 1} : collective_step{};
    }
    /// Round k of the halving: own blocks shrink to those of core / 2^(k+1) seats. `done` steps lie before the halving.
    static constexpr collective_step halve(shape const& f, int rank, int k, int done) noexcept {
        if (!f.takes_part(rank)) return {};
        int const size = f.core >> (k + 1);
        return {step_kind::reduce, f.blocks(f.seat(rank), size), one_rank(f.partner(rank, size)), done + k};
    }
    static constexpr collective_step double_up(shape const& f, int rank, int k, int done) noexcept {
        if (!f.takes_part(rank)) return {};
        int const size = 1 << k;
        return {step_kind::copy, f.blocks(f.seat(rank) ^ size, size), one_rank(f.partner(rank, size)), done + k};
    }
    /// The odd rank of a pair fetches `what`; `done` steps lie before.
    static constexpr collective_step release(shape const& f, int rank, chunk_list what, int done) noexcept {
        if (f.takes_part(rank)) return {};
        return {step_kind::copy, what, one_rank(rank - 1), done};
    }
    /// Wait w of `waits()`: until partner w, at last the odd rank of the pair, has completed `done` steps.
    static constexpr collective_step wait(shape const& f, int rank, int w, int done) noexcept {
        if (!f.takes_part(rank)) return {};
        if (w < f.rounds) return {step_kind::wait, 0, one_rank(f.partner(rank, 1 << w)), done};
        return f.paired(rank) ? collective_step{step_kind::wait, 0, one_rank(rank + 1), done} : collective_step{};
    }

    static constexpr collective_step all_reduce_step(int n, int rank, int s) noexcept {
        shape const f(n);
        int const halving = f.before(), doubling = halving + f.rounds, end = doubling + f.rounds;
        if (s < halving) return add_pair(f, rank, s);
        if (s < doubling) return halve(f, rank, s - halving, halving);
        if (s < end) return double_up(f, rank, s - doubling, doubling);
        if (s < end + f.after()) return release(f, rank, {0, n}, end);
        return wait(f, rank, s - end - f.after(), end + f.after());
    }
    static constexpr collective_step reduce_scatter_step(int n, int rank, int s) noexcept {
        shape const f(n);
        int const halving = f.before(), end = halving + f.rounds;
        if (s < halving) return add_pair(f, rank, s);
        if (s < end) return halve(f, rank, s - halving, halving);
        if (s < end + f.after()) return release(f, rank, rank, end);
        return wait(f, rank, s - end - f.after(), end + f.after());
    }
    static constexpr collective_step all_gather_step(int n, int rank, int s) noexcept {
        shape const f(n);
        int const doubling = f.after(), end = doubling + f.rounds;
        if (s < doubling) // the even rank of a pair fetches the odd one's block
            return f.paired(rank) && rank % 2 == 0 ? collective_step{step_kind::copy, rank + 1, one_rank(rank + 1), 0}
                                                   : collective_step{};
        if (s < end) return double_up(f, rank, s - doubling, doubling);
        if (s < end + f.after()) return release(f, rank, {(rank + 1) % n, n - 1}, end);
        return wait(f, rank, s - end - f.after(), end + f.after());
    }
};

} // namespace trireme
