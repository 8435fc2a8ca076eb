// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every collective by every strategy that makes it, on threads: types, operations, sizes, roots, in place and apart.

#include <trireme/trireme.hpp>

#include <collective/matrix.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/seed.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace collective_matrix_test {
namespace {

using namespace trireme;
using comm = threads::communicator;
using namespace test_collectives;

template<class F>
void in_group(int ranks, F f) {
    threads::group g(ranks, std::chrono::seconds(100));
    g.run(f);
}

template<class S>
void check_barrier(int ranks, std::uint64_t seed) {
    std::atomic<int> entered{0}, wrong{0};
    in_group(ranks, [&](comm& c) {
        std::mt19937_64 random(seed + static_cast<std::uint64_t>(c.rank()));
        for (int round = 1; round <= 20; ++round) {
            if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
            ++entered;
            barrier<S>(c);
            wrong += entered < round * ranks;
            barrier<S>(c); // nobody counts on before all have looked
        }
    });
    CHECK(wrong == 0);
}

template<class S>
void check_everything(int ranks, bool all_roots) {
    CAPTURE(std::string(S::name));
    CAPTURE(ranks);
    std::vector<tally> found(static_cast<std::size_t>(ranks));
    in_group(ranks, [&](comm& c) { found[static_cast<std::size_t>(c.rank())] = every_collective_by<S>(c, all_roots); });
    tally all;
    for (auto const& t : found) all += t;
    CHECK(all.wrong == 0);
    CHECK(all.miscounted == 0);
    if constexpr (makes<S, collective::barrier>) check_barrier<S>(ranks, test_seed());
}

/// Averages: whole where the sum is a multiple of the ranks.
template<class S, class T>
void check_average(int ranks) {
    CAPTURE(std::string(S::name));
    CAPTURE(ranks);
    std::atomic<int> wrong{0};
    in_group(ranks, [&](comm& c) {
        auto const value = [&](int rank, std::size_t i) { return 2 * rank + static_cast<int>(i % 9); };
        auto const mean = [&](std::size_t i) { return ranks - 1 + static_cast<int>(i % 9); };
        std::size_t const block = 37, n = block * static_cast<std::size_t>(ranks);
        std::vector<T> x(n), y, z;
        for (std::size_t i = 0; i < n; ++i) x[i] = as<T>(value(c.rank(), i));
        y = z = x;
        all_reduce<S>(c, std::span(x), op::avg{});
        for (std::size_t i = 0; i < n; ++i) wrong += back(x[i]) != mean(i);
        if constexpr (makes<S, collective::reduce_scatter>) {
            reduce_scatter<S>(c, std::span(y), op::avg{});
            for (std::size_t i = 0; i < block; ++i) {
                auto const at = static_cast<std::size_t>(c.rank()) * block + i;
                wrong += back(y[at]) != mean(at);
            }
        }
        if constexpr (makes<S, collective::reduce>) {
            reduce<S>(c, std::span(z), ranks - 1, op::avg{});
            for (std::size_t i = 0; i < n && c.rank() == ranks - 1; ++i) wrong += back(z[i]) != mean(i);
        }
    });
    CHECK(wrong == 0);
}

/// Sums of numbers of any size and sign, against the bound of all_reduce's documentation; `unit` is the type's unit
/// roundoff.
template<class S, class T>
void check_error_bound(int ranks, double unit) {
    CAPTURE(ranks);
    std::size_t const n = 513;
    auto const value = [&](int rank, std::size_t i) {
        std::mt19937_64 random(test_seed() + static_cast<std::uint64_t>(rank) * n + i);
        auto const fraction = std::uniform_real_distribution<float>(-1, 1)(random);
        auto const x = std::ldexp(fraction, static_cast<int>(random() % 12));
        if constexpr (std::is_same_v<T, bf16>)
            return bf16(x);
        else
            return x;
    };
    std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
    in_group(ranks, [&](comm& c) {
        std::vector<T> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = value(c.rank(), i);
        all_reduce<S>(c, x);
        results[static_cast<std::size_t>(c.rank())] = x;
    });
    for (auto const& r : results) CHECK(std::memcmp(r.data(), results[0].data(), n * sizeof(T)) == 0);
    auto const roundings = (ranks - 1) * unit / (1 - (ranks - 1) * unit);
    int beyond = 0, inexact = 0;
    for (std::size_t i = 0; i < n; ++i) {
        double sum = 0, magnitude = 0;
        for (int r = 0; r < ranks; ++r) {
            auto const x = static_cast<double>(static_cast<float>(value(r, i)));
            sum += x;
            magnitude += std::abs(x);
        }
        auto const error = std::abs(static_cast<double>(static_cast<float>(results[0][i])) - sum);
        beyond += error > roundings * magnitude;
        inexact += error != 0;
    }
    CHECK(beyond == 0);
    CHECK(inexact > 0); // else the numbers would prove nothing
}

} // namespace

TEST_SUITE("collective/matrix") {
    TEST_CASE_TEMPLATE("every collective, for every type, size and operation", S, EVERY_STRATEGY) {
        watchdog const guard("matrix");
        for (int const ranks : {1, 2, 3, 4, 5, 6, 8}) check_everything<S>(ranks, ranks <= 5);
        check_everything<S>(12, false);
    }

    TEST_CASE_TEMPLATE("averages", S, direct, ring, double_binary_tree, chain, two_levels) {
        watchdog const guard("averages");
        for (int const ranks : {1, 2, 3, 4, 6}) {
            check_average<S, float>(ranks);
            check_average<S, std::int32_t>(ranks);
            check_average<S, double>(ranks);
        }
    }

    TEST_CASE("bf16 is rounded after every addition, to the nearest, ties to even") {
        CHECK(bf16(1.0f).bits == 0x3F80);
        CHECK(bf16(1.00390625f).bits == 0x3F80); // half-way, to even
        CHECK(bf16(1.01171875f).bits == 0x3F82);
        CHECK(static_cast<float>(bf16(-3.0f)) == -3.0f);
        auto const nan = bf16(std::numeric_limits<float>::signaling_NaN());
        CHECK(static_cast<float>(nan) != static_cast<float>(nan));
        for (std::size_t const n : {100u, 1000u}) { // a few registers of each chunk, or many
            std::vector<bf16> sum(n);
            in_group(3, [&](comm& c) {
                std::vector<bf16> x(n, bf16(c.rank() == 0 ? 256.0f : 1.0f));
                all_reduce<direct>(c, std::span(x));
                if (c.rank() == 0) sum = x;
            });
            CHECK(static_cast<float>(sum[0]) == 256.0f);          // chunk 0: (256 + 1) + 1, rounded twice
            CHECK(static_cast<float>(sum[4 * n / 10]) == 258.0f); // chunk 1: (1 + 1) + 256
            CHECK(static_cast<float>(sum[n - 1]) == 256.0f);      // chunk 2: (1 + 256) + 1
        }
    }
}

TEST_SUITE("collective/matrix: rounding") {
    TEST_CASE_TEMPLATE("no sum is farther from the exact one than documented, and all ranks hold the same bits", S,
                       direct, ring, bidirectional_ring, recursive_halving_doubling, double_binary_tree, chain,
                       two_levels, three_levels, trees_first) {
        watchdog const guard("error bound");
        for (int const ranks : {2, 3, 5, 8, 13}) {
            check_error_bound<S, float>(ranks, std::numeric_limits<float>::epsilon() / 2);
            check_error_bound<S, bf16>(ranks, 0x1p-8);
        }
    }
}

TEST_SUITE("collective/matrix: some in place, some not") {
    TEST_CASE("each rank may choose for itself") {
        watchdog const guard("mixed places");
        for (int const ranks : {2, 3, 4, 5, 8})
            for (int who = 0; who < ranks; ++who) {
                std::atomic<int> wrong{0};
                auto const n = static_cast<std::size_t>(ranks);
                std::size_t const block = 37;
                in_group(ranks, [&](comm& c) {
                    auto const r = static_cast<std::size_t>(c.rank());
                    auto const check = [&](std::vector<int> const& x) {
                        for (std::size_t i = 0; i < x.size(); ++i) wrong += x[i] != static_cast<int>(i);
                    };
                    auto const with_all = [&](auto&& f) { // f(input, output): the block alone, or where it will be
                        std::vector<int> mine(block), all(n * block, -1);
                        for (std::size_t i = 0; i < block; ++i)
                            mine[i] = all[r * block + i] = static_cast<int>(r * block + i);
                        if (c.rank() == who)
                            f(std::span(all).subspan(r * block, block), std::span(all));
                        else
                            f(std::span(mine), std::span(all));
                        return all;
                    };
                    check(with_all([&](auto in, auto out) { all_gather<recursive_halving_doubling>(c, in, out); }));
                    check(with_all([&](auto in, auto out) { all_gather<ring>(c, in, out); }));
                    auto const gathered = with_all([&](auto in, auto out) { gather<binomial_tree>(c, in, out); });
                    if (c.rank() == 0) check(gathered);
                    std::vector<float> x(100, 1.0f), y(100);
                    if (c.rank() == who)
                        all_reduce<recursive_halving_doubling>(c, x);
                    else
                        all_reduce<recursive_halving_doubling>(c, x, y);
                    wrong += (c.rank() == who ? x : y)[99] != static_cast<float>(ranks);
                });
                CHECK(wrong == 0);
            }
    }
}

TEST_SUITE("collective/matrix: levels") {
    TEST_CASE("a group of threads may say which ranks are near, and hierarchical strategies use it") {
        watchdog const guard("levels");
        for (auto const& near : {levels(2, 6), levels(6, 2), levels(3, 2, 2)}) {
            threads::group g(12, std::chrono::seconds(100), near);
            std::atomic<int> wrong{0};
            g.run([&](comm& c) {
                wrong += c.groups().sizes[0] != near.sizes[0];
                for (int round = 0; round < 3; ++round) { // proved once, then remembered
                    std::vector<float> x(1000, static_cast<float>(c.rank()));
                    auto const before = c.pulled();
                    all_reduce<three_levels>(c, x);
                    for (auto const v : x) wrong += v != 66;
                    auto const s = schedule_of<three_levels, collective::all_reduce>(12, 0, near);
                    auto const wanted = traffic_of(s, c.rank(), 1000, sizeof(float));
                    wrong += c.pulled().bytes - before.bytes != wanted.bytes;
                    wrong += c.pulled().messages - before.messages != wanted.messages;
                    std::vector<float> y(1000, static_cast<float>(c.rank()));
                    all_reduce<two_levels>(c, y);
                    for (auto const v : y) wrong += v != 66;
                }
            });
            CHECK(wrong == 0);
        }
        CHECK_THROWS_AS(threads::group(6, std::chrono::seconds(1), levels(4, 2)), usage_error);
    }

    TEST_CASE("best_of runs what it prices cheapest") {
        watchdog const guard("best_of");
        using best = best_of<ring, recursive_halving_doubling, direct>;
        for (int const ranks : {2, 5}) {
            std::atomic<int> wrong{0};
            in_group(ranks, [&](comm& c) {
                for (std::size_t const n : {std::size_t{0}, std::size_t{3}, std::size_t{1000}, std::size_t{100000}}) {
                    std::vector<float> x(n, 1.0f);
                    auto const before = c.pulled();
                    all_reduce<best>(c, x);
                    for (auto const v : x) wrong += v != static_cast<float>(ranks);
                    auto const s = schedule_of<best, collective::all_reduce>(ranks, 0, {}, n * sizeof(float));
                    wrong += c.pulled().bytes - before.bytes != traffic_of(s, c.rank(), n, sizeof(float)).bytes;
                }
                std::vector<double> blocks(static_cast<std::size_t>(ranks) * 10, 0.0);
                blocks[static_cast<std::size_t>(c.rank()) * 10] = c.rank() + 1;
                all_gather<best>(c, blocks);
                for (int r = 0; r < ranks; ++r) wrong += blocks[static_cast<std::size_t>(r) * 10] != r + 1;
            });
            CHECK(wrong == 0);
        }
    }
}

TEST_SUITE("nightly/collective/matrix") {
    TEST_CASE("more ranks than a byte counts, all read from at once") {
        watchdog const guard("300 ranks", 600);
        std::atomic<int> wrong{0};
        in_group(300, [&](comm& c) {
            std::vector<float> x(1000, 1.0f);
            all_reduce<direct>(c, x);
            for (auto const v : x) wrong += v != 300;
        });
        CHECK(wrong == 0);
    }

    TEST_CASE_TEMPLATE("every number of ranks to 16, and 27, 32, 64", S, EVERY_STRATEGY) {
        watchdog const guard("nightly matrix", 3000);
        for (int ranks = 1; ranks <= 16; ++ranks) check_everything<S>(ranks, true);
        for (int const ranks : {27, 32, 64}) check_everything<S>(ranks, false);
    }
}

} // namespace collective_matrix_test
