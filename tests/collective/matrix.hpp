// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What every collective must do by every strategy that makes it, seen from one rank of any kind of group: threads,
// processes, MPI. All ranks call the same functions, which count what is wrong.

#include <support/require.hpp>
#include <support/strategies.hpp>

#include <trireme/trireme.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace test_collectives {

using namespace trireme;
using namespace test_strategies;
using test_support::require;

/// Numbers that are not what they should be, and calls that have moved other bytes than their schedule says.
struct tally {
    int wrong = 0;
    int miscounted = 0;
    tally& operator+=(tally const& other) noexcept {
        wrong += other.wrong;
        miscounted += other.miscounted;
        return *this;
    }
};

/// Small whole numbers, so that every sum is exact in every type and order; bf16 holds them up to 256.
inline int number(int rank, std::size_t i) { return (rank * 3 + static_cast<int>(i % 5)) % 4; }

template<class T>
T as(int x) {
    return static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, bf16>, float, T>>(x));
}
template<class T>
int back(T x) {
    if constexpr (std::is_same_v<T, bf16>)
        return static_cast<int>(static_cast<float>(x));
    else
        return static_cast<int>(x);
}

template<class Op>
int expected(int ranks, std::size_t i) {
    int result = number(0, i);
    for (int r = 1; r < ranks; ++r) {
        int const x = number(r, i);
        if constexpr (std::is_same_v<Op, op::max>)
            result = x > result ? x : result;
        else if constexpr (std::is_same_v<Op, op::min>)
            result = x < result ? x : result;
        else
            result += x;
    }
    return result;
}

template<class T>
std::vector<T> numbers(int rank, std::size_t n, std::size_t from = 0) {
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = as<T>(number(rank, from + i));
    return x;
}
/// No rank should read these numbers.
template<class T>
std::vector<T> garbage(std::size_t n) {
    return std::vector<T>(n, as<T>(99));
}

/// Around a cache line of each type, and around one element, line or piece per rank.
inline std::vector<std::size_t> sizes_for(int ranks) {
    auto const n = static_cast<std::size_t>(ranks);
    return {0, 1, n - 1, n, n + 1, 16 * n - 1, 16 * n + 1, 8 * 32 + 1, 1000};
}

/// The traffic that a call has caused, against what the schedule says.
template<class S, collective Goal, class C>
bool counted(C& c, traffic before, std::size_t elements, std::size_t bytes, int blocks, int root = 0) {
    auto const s = schedule_of<S, Goal>(c.size(), root, c.groups());
    auto const want = traffic_of(s, c.rank(), {elements, bytes, s.chunks, blocks}), now = c.pulled();
    return now.messages - before.messages == want.messages && now.bytes - before.bytes == want.bytes;
}

template<class S, class T, class Op, class C>
tally all_reduce_by(C& c) {
    int const ranks = c.size();
    tally t;
    for (auto const n : sizes_for(ranks)) {
        auto const in = numbers<T>(c.rank(), n);
        auto out = garbage<T>(n), both = in;
        auto const before = c.pulled();
        all_reduce<S>(c, std::span<T const>(in), std::span(out), Op{});
        t.miscounted += !counted<S, collective::all_reduce>(c, before, n, sizeof(T), 1);
        all_reduce<S>(c, std::span(both), Op{});
        for (std::size_t i = 0; i < n; ++i) {
            t.wrong += back(out[i]) != expected<Op>(ranks, i) || back(both[i]) != expected<Op>(ranks, i);
            t.wrong += back(in[i]) != number(c.rank(), i); // is only read
        }
    }
    return t;
}

template<class S, class T, class Op, class C>
tally reduce_to_root_by(C& c, int root) {
    int const ranks = c.size();
    tally t;
    for (auto const n : sizes_for(ranks)) {
        auto const in = numbers<T>(c.rank(), n);
        auto out = garbage<T>(n), both = in;
        reduce<S>(c, std::span<T const>(in), std::span(out), root, Op{});
        reduce<S>(c, std::span(both), root, Op{});
        for (std::size_t i = 0; i < n; ++i) {
            t.wrong += back(in[i]) != number(c.rank(), i);
            if (c.rank() == root)
                t.wrong += back(out[i]) != expected<Op>(ranks, i) || back(both[i]) != expected<Op>(ranks, i);
        }
    }
    return t;
}

template<class S, class T, class Op, class C>
tally reduce_scatter_by(C& c) {
    int const ranks = c.size();
    tally t;
    auto const p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(c.rank());
    for (auto const block : sizes_for(ranks)) {
        auto const in = numbers<T>(c.rank(), p * block);
        auto out = garbage<T>(p * block), both = in;
        auto const before = c.pulled();
        reduce_scatter<S>(c, std::span<T const>(in), std::span(out), Op{});
        t.miscounted += !counted<S, collective::reduce_scatter>(c, before, p * block, sizeof(T), ranks);
        reduce_scatter<S>(c, std::span(both), Op{});
        auto small = garbage<T>(block);
        if constexpr (std::is_same_v<S, direct>) reduce_scatter<S>(c, std::span<T const>(in), std::span(small), Op{});
        for (std::size_t i = 0; i < block; ++i) {
            auto const at = r * block + i;
            t.wrong += back(out[at]) != expected<Op>(ranks, at) || back(both[at]) != expected<Op>(ranks, at);
            if constexpr (std::is_same_v<S, direct>) t.wrong += back(small[i]) != expected<Op>(ranks, at);
        }
        for (std::size_t i = 0; i < p * block; ++i) t.wrong += back(in[i]) != number(c.rank(), i);
    }
    return t;
}

/// Collectives that only move can move this type, too.
struct particle {
    std::int32_t rank;
    std::uint8_t place[5];
    friend bool operator==(particle const&, particle const&) = default;
};
inline particle made(int rank, std::size_t i) {
    return {rank, {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i / 7)}};
}

template<class S, class C>
tally all_gather_by(C& c) {
    int const ranks = c.size();
    tally t;
    auto const p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(c.rank());
    for (auto const block : sizes_for(ranks)) {
        std::vector<particle> in(block), out(p * block), both(p * block);
        for (std::size_t i = 0; i < block; ++i) in[i] = both[r * block + i] = made(c.rank(), i);
        auto const before = c.pulled();
        all_gather<S>(c, std::span<particle const>(in), std::span(out));
        t.miscounted += !counted<S, collective::all_gather>(c, before, p * block, sizeof(particle), ranks);
        all_gather<S>(c, std::span(both));
        for (std::size_t i = 0; i < p * block; ++i) {
            auto const want = made(static_cast<int>(i / block), i % block);
            t.wrong += out[i] != want || both[i] != want;
        }
    }
    return t;
}

template<class S, class C>
tally broadcast_by(C& c, int root) {
    int const ranks = c.size();
    tally t;
    for (auto const n : sizes_for(ranks)) {
        std::vector<particle> x(n);
        for (std::size_t i = 0; i < n && c.rank() == root; ++i) x[i] = made(root, i);
        auto const before = c.pulled();
        broadcast<S>(c, std::span(x), root);
        t.miscounted += !counted<S, collective::broadcast>(c, before, n, sizeof(particle), 1, root);
        for (std::size_t i = 0; i < n; ++i) t.wrong += x[i] != made(root, i);
    }
    return t;
}

template<class S, class C>
tally gather_by(C& c, int root) {
    int const ranks = c.size();
    tally t;
    auto const p = static_cast<std::size_t>(ranks);
    for (auto const block : sizes_for(ranks)) {
        bool const empty = std::is_same_v<S, direct> && c.rank() != root;
        std::vector<particle> in(block), out(empty ? 0 : p * block);
        for (std::size_t i = 0; i < block; ++i) in[i] = made(c.rank(), i);
        gather<S>(c, std::span<particle const>(in), std::span(out), root);
        for (std::size_t i = 0; i < p * block && c.rank() == root; ++i)
            t.wrong += out[i] != made(static_cast<int>(i / block), i % block);
    }
    return t;
}

template<class S, class C>
tally scatter_by(C& c, int root) {
    int const ranks = c.size();
    tally t;
    auto const p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(c.rank());
    for (auto const block : sizes_for(ranks)) {
        bool const small = std::is_same_v<S, direct>;
        std::vector<particle> in(c.rank() == root ? p * block : 0), out(small ? block : p * block);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = made(root, i);
        scatter<S>(c, std::span<particle const>(in), std::span(out), block, root);
        for (std::size_t i = 0; i < block; ++i)
            t.wrong += out[(small ? 0 : r * block) + i] != made(root, r * block + i);
    }
    return t;
}

template<class S, class C>
tally all_to_all_by(C& c) {
    int const ranks = c.size();
    tally t;
    auto const p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(c.rank());
    for (auto const block : sizes_for(ranks)) {
        std::vector<particle> in(p * block), out(p * block);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = made(c.rank(), i);
        all_to_all<S>(c, std::span<particle const>(in), std::span(out));
        for (std::size_t i = 0; i < out.size(); ++i)
            t.wrong += out[i] != made(static_cast<int>(i / block), r * block + i % block);
    }
    return t;
}

/// All collectives of a strategy but barriers, on this rank's group.
template<class S, class C>
tally every_collective_by(C& c, bool all_roots) {
    tally t;
    if constexpr (makes<S, collective::all_reduce>) {
        t += all_reduce_by<S, float, op::sum>(c);
        t += all_reduce_by<S, double, op::max>(c);
        t += all_reduce_by<S, std::int32_t, op::min>(c);
        t += all_reduce_by<S, bf16, op::sum>(c);
    }
    if constexpr (makes<S, collective::reduce_scatter>) {
        t += reduce_scatter_by<S, float, op::sum>(c);
        t += reduce_scatter_by<S, std::int32_t, op::max>(c);
    }
    if constexpr (makes<S, collective::all_gather>) t += all_gather_by<S>(c);
    if constexpr (makes<S, collective::all_to_all>) t += all_to_all_by<S>(c);
    for (int root = 0; root < c.size(); root += all_roots ? 1 : c.size() / 2 + 1) {
        if constexpr (makes<S, collective::broadcast>) t += broadcast_by<S>(c, root);
        if constexpr (makes<S, collective::gather>) t += gather_by<S>(c, root);
        if constexpr (makes<S, collective::scatter>) t += scatter_by<S>(c, root);
        if constexpr (makes<S, collective::reduce>) {
            t += reduce_to_root_by<S, float, op::sum>(c, root);
            t += reduce_to_root_by<S, bf16, op::min>(c, root);
        }
    }
    return t;
}

/// Ranks that are processes try every collective: throws if anything is wrong.
template<class... S, class C>
void require_every_collective(C& c) {
    auto const by = [&]<class Strategy>(Strategy) {
        auto const t = every_collective_by<Strategy>(c, c.size() <= 3);
        require(t.wrong + t.miscounted == 0, std::string(Strategy::name) + ": " + std::to_string(t.wrong) + " wrong, " +
                                                 std::to_string(t.miscounted) + " miscounted");
    };
    (by(S{}), ...);
}
template<class C>
void require_usual_strategies(C& c) {
    require_every_collective<direct, ring, recursive_halving_doubling, double_binary_tree, binomial_tree, two_levels>(
        c);
}

} // namespace test_collectives
