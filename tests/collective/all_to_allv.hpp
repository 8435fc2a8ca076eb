// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Exchanges of blocks whose sizes the ranks find out, on any kind of group: all_to_allv, and what a root alone knows.

#include <collective/matrix.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace test_collectives {

/// Counts by sender and receiver of one round, the same on all ranks: nothing at all, one pair alone, a row and a
/// column without any, then random ones of which every third is zero.
inline std::vector<std::vector<std::size_t>> sent_counts(int ranks, int round, std::uint64_t seed) {
    auto const n = static_cast<std::size_t>(ranks);
    std::vector<std::vector<std::size_t>> counts(n, std::vector<std::size_t>(n));
    std::mt19937_64 random(seed + 1000 * static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(round));
    for (std::size_t from = 0; from < n; ++from)
        for (std::size_t to = 0; to < n; ++to) {
            auto const drawn = static_cast<std::size_t>(random() % 3 == 0 ? 0 : random() % 90);
            if (round == 1) counts[from][to] = from == n - 1 && to == 0 ? 1000 : 0;
            if (round == 2) counts[from][to] = from == 0 || to == n / 2 ? 0 : drawn;
            if (round > 2) counts[from][to] = drawn;
        }
    return counts;
}

/// The numbers of the block that rank `from` has for rank `to`.
inline particle sent(std::size_t from, std::size_t to, std::size_t i) {
    return made(static_cast<int>(from), 1000 * to + i);
}

/// Every rank gets the blocks that a loop over the ranks finds, with exactly their bytes.
template<class S, class C>
void require_exchange(C& c, std::uint64_t seed) {
    auto const n = static_cast<std::size_t>(c.size()), r = static_cast<std::size_t>(c.rank());
    auto const sizes_moved = [&] {
        auto const before = c.pulled();
        (void)all_to_all<direct>(c, std::vector<std::uint64_t>(3 * n));
        return c.pulled() - before;
    };
    for (int round = 0; round < 8; ++round) {
        auto const text = std::string("all_to_allv by ") + S::name + ", round " + std::to_string(round) + ", seed " +
                          std::to_string(seed);
        auto const counts = sent_counts(c.size(), round, seed);
        std::vector<std::size_t> come(n);
        for (std::size_t from = 0; from < n; ++from) come[from] = counts[from][r];
        blocks_by_rank<particle> mine(counts[r]), wanted(come);
        for (std::size_t q = 0; q < n; ++q) {
            for (std::size_t i = 0; i < counts[r][q]; ++i) mine[q][i] = sent(r, q, i);
            for (std::size_t i = 0; i < come[q]; ++i) wanted[q][i] = sent(q, r, i);
        }
        auto const extra = sizes_moved();
        auto const before = c.pulled();
        require(all_to_allv<S>(c, mine) == wanted, text + ": other blocks");
        auto const moved = c.pulled() - before - extra;
        auto const s = schedule_of<S, collective::all_to_all>(c.size());
        auto const want = traffic_of(
            s, c.rank(), {wanted.numbers.size(), sizeof(particle), s.chunks, c.size(), wanted.offsets.data()});
        require(moved.messages == want.messages && moved.bytes == want.bytes, text + ": other bytes have moved");
        require(all_to_allv<S>(c, std::span(mine.numbers), counts[r]) == wanted, text + ": of a span");
        auto const back = all_to_allv<S>(c, wanted);
        require(back == mine, text + ": and back");
    }
}

/// Numbers of which the root alone knows how many there are.
template<class C>
void require_known_to_root(C& c, std::uint64_t seed) {
    auto const n = static_cast<std::size_t>(c.size()), r = static_cast<std::size_t>(c.rank());
    std::mt19937_64 random(seed + n);
    for (int root = 0; root < c.size(); ++root)
        for (std::size_t const count : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(random() % 3000)}) {
            bool const here = c.rank() == root;
            auto const text = std::to_string(count) + ", seed " + std::to_string(seed);
            std::vector<particle> all(n * count);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = made(root, i);
            std::vector<particle> const given = here ? all : std::vector<particle>(r); // the others' are not looked at
            std::vector<particle> const share(all.begin() + static_cast<std::ptrdiff_t>(r * count),
                                              all.begin() + static_cast<std::ptrdiff_t>((r + 1) * count));
            require(broadcastv(c, given, root) == all, "broadcastv of " + text);
            require(broadcastv<chain>(c, given, root) == all, "broadcastv along a chain of " + text);
            auto away = given;
            auto const* const place = away.data();
            auto const back = broadcastv(c, std::move(away), root);
            require(back == all && (!here || back.data() == place), "broadcastv of a vector that is given away");
            require(scatterv(c, given, root) == share, "scatterv of " + text);
            require(scatterv<binomial_tree>(c, std::span(given), root) == share, "scatterv in a tree of " + text);
        }
}

} // namespace test_collectives
