// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/collective/all_reduce.hpp>

#include <trireme/collective/fixed_tree.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>

#include <support/compare.hpp>

#include <collective/ended_group.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>
#include <support/seed.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace collective_all_reduce_test {
// One strategy of each kind; collective/matrix.cpp goes through all.
#define FIVE_STRATEGIES                                                                                                \
    trireme::ring, trireme::direct, trireme::double_binary_tree, trireme::recursive_halving_doubling, trireme::chain

namespace {

using namespace trireme;
using test_support::has;
using comm = threads::communicator;

/// Around every branch: no elements, fewer than ranks, one cache line of 4 and of 8 bytes, one line per rank or chunk.
std::vector<std::size_t> counts_for(int ranks) {
    auto const n = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> counts = {0, 1, n - 1, n, n + 1, 7, 8, 9, 15, 16, 17, 1000, 4099};
    for (std::size_t const lines : {n, std::size_t{8}})
        for (std::size_t const per_line : {8u, 16u})
            for (std::size_t const more : {0u, 1u, 2u}) counts.push_back(lines * per_line + more - 1);
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
}

/// Sums of these are exact in every order, in float, too; one rank's missing or doubled number changes them.
template<class T>
T exact_input(int rank, std::size_t i) {
    return static_cast<T>((rank + 1) * 37 + static_cast<int>(i % 101) * (rank % 3 + 1));
}
template<class T>
T exact_sum(int ranks, std::size_t i) {
    T sum = 0;
    for (int r = 0; r < ranks; ++r) sum += exact_input<T>(r, i);
    return sum;
}

/// Sums of these depend on the order of addition.
template<class T>
T inexact_input(std::uint64_t seed, int rank, std::size_t i) {
    std::mt19937_64 numbers(seed * 1000003 + static_cast<std::uint64_t>(rank) * 65537 + i);
    auto const bits = numbers();
    auto const x = static_cast<T>(bits >> 40) / static_cast<T>(std::uint64_t{1} << (bits % 23));
    return bits >> 39 & 1 ? -x : x;
}

template<class T, class Make>
std::vector<T> filled(std::size_t n, Make make) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = make(i);
    return out;
}

using test_support::same_bits;

/// A communicator that dawdles where it may: before it enters, while it waits, before it says that a step is done.
struct dawdling {
    comm& inner;
    std::mt19937_64 random;

    void dawdle() {
        switch (random() % 8) {
        case 0:
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
            break;
        case 1:
        case 2:
            std::this_thread::yield();
            break;
        default:
            break;
        }
    }
    int rank() const { return inner.rank(); }
    int size() const { return inner.size(); }
    arena allocate(std::size_t bytes) { return inner.allocate(bytes); }
    traffic pulled() const { return inner.pulled(); }
    template<class T>
    T const* peer(arena const& a, int rank) const {
        return inner.peer<T>(a, rank);
    }
    template<class T>
    T* shared(arena const& a, int rank) const {
        return inner.shared<T>(a, rank);
    }
    collective_call enter(collective_call const& call) { return dawdle(), inner.enter(call); }
    collective_call const& call_of(int rank) { return dawdle(), inner.call_of(rank); }
    void resume() { inner.resume(), dawdle(); }
    void pause() { dawdle(), inner.pause(); }
    void withdraw() { dawdle(), inner.withdraw(); }
    bool has_completed(int source, int after, operation const& what) {
        return dawdle(), inner.has_completed(source, after, what);
    }
    void abandon(operation const& what) { inner.abandon(what); }
    void wait_for(int source, int after, operation const& what) { inner.wait_for(source, after, what), dawdle(); }
    void complete(int step) { dawdle(), inner.complete(step); }
    void leave(int steps) { inner.leave(steps); }
    void count(traffic moved) { inner.count(moved), dawdle(); }
};
static_assert(pull_communicator<dawdling>);

template<class T>
std::span<T> numbers(arena const& a, std::size_t n) {
    return {static_cast<T*>(a.data), n};
}

template<class S, class T>
void check_exact(int ranks, std::vector<std::size_t> const& counts) {
    CAPTURE(ranks);
    CAPTURE(sizeof(T));
    auto const s = S::all_reduce(ranks);
    auto const most = *std::max_element(counts.begin(), counts.end());
    threads::group g(ranks, std::chrono::seconds(100));
    std::vector<std::atomic<int>> errors(counts.size() * 3); // sums, the element behind them, traffic
    g.run([&](comm& c) {
        auto const a = c.allocate((most + 1) * sizeof(T));
        auto* const mine = static_cast<T*>(a.data);
        for (std::size_t k = 0; k < counts.size(); ++k) {
            auto const n = counts[k];
            for (std::size_t i = 0; i < n; ++i) mine[i] = exact_input<T>(c.rank(), i);
            mine[n] = static_cast<T>(c.rank()); // not part of it
            auto const before = c.pulled();
            run_schedule(c, collective::all_reduce, s, numbers<T>(a, n));
            for (std::size_t i = 0; i < n; ++i) errors[3 * k] += mine[i] != exact_sum<T>(ranks, i);
            errors[3 * k + 1] += mine[n] != static_cast<T>(c.rank());
            auto const after = c.pulled();
            auto const wanted = traffic_of(s, c.rank(), n, sizeof(T));
            errors[3 * k + 2] +=
                after.messages - before.messages != wanted.messages || after.bytes - before.bytes != wanted.bytes;
        }
    });
    for (std::size_t k = 0; k < counts.size(); ++k) {
        CAPTURE(counts[k]);
        CHECK(errors[3 * k] == 0);
        CHECK(errors[3 * k + 1] == 0);
        CHECK(errors[3 * k + 2] == 0);
    }
}

/// The results of all ranks for inexact inputs, with delays if `dawdle`.
template<class S, class T>
std::vector<std::vector<T>> inexact_results(int ranks, std::size_t n, std::uint64_t inputs, std::uint64_t dawdle) {
    auto const s = S::all_reduce(ranks);
    threads::group g(ranks, std::chrono::seconds(100));
    std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
    g.run([&](comm& c) {
        auto const a = c.allocate(n * sizeof(T));
        auto* const mine = static_cast<T*>(a.data);
        for (std::size_t i = 0; i < n; ++i) mine[i] = inexact_input<T>(inputs, c.rank(), i);
        if (dawdle != 0) {
            dawdling slow{c, std::mt19937_64(dawdle + static_cast<std::uint64_t>(c.rank()))};
            run_schedule(slow, collective::all_reduce, s, numbers<T>(a, n));
        } else {
            run_schedule(c, collective::all_reduce, s, numbers<T>(a, n));
        }
        results[static_cast<std::size_t>(c.rank())].assign(mine, mine + n);
        std::fill(mine, mine + n, T(-1)); // who leaves may overwrite
    });
    return results;
}

template<class S, class T>
void check_bits(int ranks, std::uint64_t seed, int runs) {
    CAPTURE(ranks);
    CAPTURE(seed);
    std::size_t const n = 777;
    auto const first = inexact_results<S, T>(ranks, n, seed, 0);
    for (auto const& r : first) CHECK(same_bits(first[0], r));
    bool near = true;
    for (std::size_t i = 0; i < n; ++i) {
        double sum = 0, magnitude = 0;
        for (int r = 0; r < ranks; ++r) {
            auto const x = double{inexact_input<T>(seed, r, i)};
            sum += x;
            magnitude += x < 0 ? -x : x;
        }
        auto const error = double{first[0][i]} - sum;
        near = near && (error < 0 ? -error : error) <= magnitude * ranks * 1.2e-7;
    }
    CHECK(near);
    for (int run = 1; run <= runs; ++run) {
        auto const again = inexact_results<S, T>(ranks, n, seed, seed + static_cast<std::uint64_t>(run) * 1000);
        for (auto const& r : again) CHECK(same_bits(first[0], r));
    }
}

/// Round after round without a pause: a rank that is through overwrites its buffer while others may still be inside.
template<class S>
void check_rounds(int ranks, int rounds, std::uint64_t seed) {
    CAPTURE(ranks);
    CAPTURE(seed);
    auto const s = S::all_reduce(ranks);
    constexpr std::size_t n = 300;
    threads::group g(ranks, std::chrono::seconds(100));
    std::atomic<int> wrong{0};
    g.run([&](comm& c) {
        auto const a = c.allocate(n * sizeof(std::int32_t));
        auto* const mine = static_cast<std::int32_t*>(a.data);
        dawdling slow{c, std::mt19937_64(seed + static_cast<std::uint64_t>(c.rank()))};
        for (std::int32_t round = 0; round < rounds; ++round) {
            for (std::size_t i = 0; i < n; ++i) mine[i] = exact_input<std::int32_t>(c.rank(), i) + round;
            if (round % 2 == 0)
                run_schedule(c, collective::all_reduce, s, numbers<std::int32_t>(a, n));
            else
                run_schedule(slow, collective::all_reduce, s, numbers<std::int32_t>(a, n));
            for (std::size_t i = 0; i < n; ++i) wrong += mine[i] != exact_sum<std::int32_t>(ranks, i) + ranks * round;
            std::fill(mine, mine + n, -1);
        }
    });
    CHECK(wrong == 0);
}

template<class T>
using sums = std::vector<T>;

template<class T>
sums<T> plus(sums<T> a, sums<T> const& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
}

/// The tree of V shards, evaluated by recursion and not by a stack: the left part is the largest power of two that is
/// smaller than the block.
template<class T>
sums<T> serial_tree(std::vector<sums<T>> const& shards, std::size_t begin, std::size_t end) {
    if (end - begin == 1) return shards[begin];
    std::size_t left = 1;
    while (2 * left < end - begin) left *= 2;
    return plus(serial_tree(shards, begin, begin + left), serial_tree(shards, begin + left, end));
}

/// A device as the trainer runs it: folds its own shards, exchanges what is left.
template<class T>
std::vector<sums<T>> by_fixed_tree(int devices, std::vector<sums<T>> const& shards, std::uint64_t dawdle,
                                   bool& counted) {
    auto const n = shards[0].size();
    auto const stride = n + 5; // blocks lie apart, and not on cache lines
    auto const s = direct::all_reduce(devices);
    threads::group g(devices, std::chrono::seconds(100));
    std::vector<sums<T>> results(static_cast<std::size_t>(devices));
    std::atomic<int> miscounted{0};
    g.run([&](comm& c) {
        auto const owned = shards_of(c.rank(), devices, shards.size());
        auto const a = c.allocate(fixed_tree::slots(owned) * stride * sizeof(T));
        auto* const slots = static_cast<T*>(a.data);
        fixed_tree::stack tree;
        auto const merge = [&](std::size_t i, std::size_t j) {
            for (std::size_t k = 0; k < n; ++k) slots[i * stride + k] += slots[j * stride + k];
        };
        for (auto shard = owned.begin; shard < owned.end; ++shard) {
            std::copy(shards[shard].begin(), shards[shard].end(), slots + tree.depth() * stride);
            tree.push({shard, shard + 1}, merge);
        }
        if (devices == 1) tree.finish(merge);
        dawdling slow{c, std::mt19937_64(dawdle + static_cast<std::uint64_t>(c.rank()))};
        run_schedule(slow, collective::all_reduce, s, numbers<T>(a, n), add_in_fixed_tree(shards.size(), stride));
        results[static_cast<std::size_t>(c.rank())].assign(slots, slots + n);

        // one block of everybody, and the blocks beyond the first
        traffic wanted = traffic_of(s, c.rank(), n, sizeof(T));
        auto const chunk = chunk_range(n, c.rank(), devices, sizeof(T)).size() * sizeof(T);
        for (int r = 0; r < devices; ++r)
            if (r != c.rank()) {
                auto const more = fixed_tree::blocks(shards_of(r, devices, shards.size())).depth() - 1;
                wanted.bytes += more * chunk;
            }
        miscounted += c.pulled().messages != wanted.messages;
        miscounted += c.pulled().bytes != wanted.bytes;
    });
    counted = miscounted == 0;
    return results;
}

template<class T>
void check_fixed_tree(std::size_t shard_count, std::size_t n, std::vector<int> const& devices, std::uint64_t seed) {
    CAPTURE(shard_count);
    CAPTURE(n);
    CAPTURE(seed);
    std::vector<sums<T>> shards;
    for (std::size_t v = 0; v < shard_count; ++v)
        shards.push_back(filled<T>(n, [&](std::size_t i) { return inexact_input<T>(seed, static_cast<int>(v), i); }));
    auto const wanted = serial_tree(shards, 0, shard_count);
    for (int const d : devices) {
        CAPTURE(d);
        bool counted = false;
        auto const results = by_fixed_tree<T>(d, shards, seed, counted);
        for (auto const& r : results) CHECK(same_bits(wanted, r));
        CHECK(counted);
    }
}

} // namespace

TEST_SUITE("collective/all_reduce") {
    TEST_CASE_TEMPLATE("exact sums are equal on all ranks, and the transport counts what traffic_of says", S,
                       FIVE_STRATEGIES) {
        watchdog const guard("exact sums");
        for (int const ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
            check_exact<S, float>(ranks, counts_for(ranks));
            check_exact<S, double>(ranks, counts_for(ranks));
        }
        check_exact<S, std::int32_t>(5, counts_for(5));
        check_exact<S, float>(64, {0, 1, 63, 65, 1025, 4099});
    }

    TEST_CASE_TEMPLATE("inexact sums have the same bits on all ranks, in every run, whoever dawdles", S,
                       FIVE_STRATEGIES) {
        watchdog const guard("inexact sums");
        for (int const ranks : {2, 3, 5, 8}) {
            check_bits<S, float>(ranks, test_seed() % 1000000, 3);
            check_bits<S, double>(ranks, test_seed() % 1000000 + 1, 1);
        }
    }

    TEST_CASE("negative control: another order of addition gives other bits") {
        auto const a = inexact_results<ring, float>(5, 777, 1, 0);
        auto const b = inexact_results<double_binary_tree, float>(5, 777, 1, 0);
        CHECK(!same_bits(a[0], b[0]));
    }

    TEST_CASE_TEMPLATE("a buffer may be overwritten as soon as its rank is through", S, FIVE_STRATEGIES) {
        watchdog const guard("rounds");
        for (int const ranks : {2, 3, 4, 7}) check_rounds<S>(ranks, 40, test_seed());
    }

    TEST_CASE("strategies may follow one another in one group") {
        watchdog const guard("mixed");
        threads::group g(6, std::chrono::seconds(100));
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            auto const small = c.allocate(50 * sizeof(double));
            auto const large = c.allocate(3000 * sizeof(float));
            for (int round = 0; round < 20; ++round)
                for (auto const make : {&ring::all_reduce, &direct::all_reduce, &double_binary_tree::all_reduce}) {
                    auto* const x = static_cast<double*>(small.data);
                    auto* const y = static_cast<float*>(large.data);
                    for (std::size_t i = 0; i < 50; ++i) x[i] = exact_input<double>(c.rank(), i + 1);
                    for (std::size_t i = 0; i < 3000; ++i) y[i] = exact_input<float>(c.rank(), i);
                    run_schedule(c, collective::all_reduce, make(6), numbers<float>(large, 3000));
                    run_schedule(c, collective::all_reduce, make(6), numbers<double>(small, 50));
                    for (std::size_t i = 0; i < 50; ++i) wrong += x[i] != exact_sum<double>(6, i + 1);
                    for (std::size_t i = 0; i < 3000; ++i) wrong += y[i] != exact_sum<float>(6, i);
                }
        });
        CHECK(wrong == 0);
    }

    TEST_CASE_TEMPLATE("nothing to add, in an arena without memory", S, FIVE_STRATEGIES) {
        watchdog const guard("empty arena");
        threads::group g(4);
        g.run([](comm& c) {
            run_schedule(c, collective::all_reduce, S::all_reduce(4), numbers<float>(c.allocate(0), 0));
        });
        CHECK(!g.stopped());
    }

    TEST_CASE_TEMPLATE("infinities and NaN reach every rank", S, FIVE_STRATEGIES) {
        watchdog const guard("NaN");
        threads::group g(5);
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            auto const a = c.allocate(100 * sizeof(float));
            auto* const mine = static_cast<float*>(a.data);
            if (c.rank() == 3) mine[40] = std::numeric_limits<float>::quiet_NaN();
            if (c.rank() == 1) mine[99] = std::numeric_limits<float>::infinity();
            run_schedule(c, collective::all_reduce, S::all_reduce(5), numbers<float>(a, 100));
            for (int i = 0; i < 100; ++i)
                if (i == 40)
                    wrong += mine[i] == mine[i];
                else
                    wrong += mine[i] != (i == 99 ? std::numeric_limits<float>::infinity() : 0);
        });
        CHECK(wrong == 0);
    }
}

TEST_SUITE("collective/add_in_fixed_tree") {
    TEST_CASE("the bits are those of the serial tree, for every number of devices") {
        watchdog const guard("fixed tree");
        for (std::size_t const shards : {1u, 2u, 3u, 6u, 8u, 13u}) {
            std::vector<int> devices;
            for (int d = 1; d <= static_cast<int>(shards); ++d) devices.push_back(d);
            check_fixed_tree<float>(shards, 700, devices, test_seed() % 1000000);
        }
        check_fixed_tree<double>(8, 3000, {1, 2, 3, 4, 5, 7, 8}, test_seed() % 1000000);
    }

    TEST_CASE("for few elements and around the piece of 256 that is added at once") {
        watchdog const guard("fixed tree, sizes");
        for (std::size_t const n : {1u, 15u, 17u, 255u, 256u, 257u, 511u, 512u, 513u, 1024u})
            check_fixed_tree<float>(6, n, {1, 2, 5}, test_seed() % 1000000);
    }

    TEST_CASE("for as many shards as a trainer allows") {
        watchdog const guard("4096 shards");
        check_fixed_tree<float>(4096, 20, {1, 3}, 1);
    }
}

TEST_SUITE("nightly/collective/all_reduce") {
    TEST_CASE_TEMPLATE("every number of ranks to 16, and 27, 32, 64, with all counts", S, FIVE_STRATEGIES) {
        watchdog const guard("nightly exact sums", 3000);
        for (int const ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 27, 32, 64}) {
            check_exact<S, float>(ranks, counts_for(ranks));
            check_exact<S, double>(ranks, counts_for(ranks));
            check_exact<S, std::int32_t>(ranks, counts_for(ranks));
        }
    }

    TEST_CASE_TEMPLATE("1,000 seeds of delays leave the bits alone", S, FIVE_STRATEGIES) {
        watchdog const guard("nightly seeds", 3000);
        for (std::uint64_t i = 0; i < 250; ++i)
            for (int const ranks : {2, 3, 5, 8}) check_bits<S, float>(ranks, (test_seed() + i) % 1000000, 1);
    }

    TEST_CASE_TEMPLATE("2,000 rounds on 16 ranks", S, FIVE_STRATEGIES) {
        watchdog const guard("nightly rounds", 3000);
        check_rounds<S>(16, 2000, test_seed());
    }

    TEST_CASE("fixed trees of up to 32 shards on every number of devices") {
        watchdog const guard("nightly fixed tree", 3000);
        for (std::size_t shards = 1; shards <= 32; ++shards) {
            std::vector<int> devices;
            for (int d = 1; d <= static_cast<int>(shards); ++d) devices.push_back(d);
            check_fixed_tree<float>(shards, 600, devices, test_seed() % 1000000);
        }
    }
}

TEST_SUITE("collective/all_reduce") {
    TEST_CASE("a schedule, a group and a way of adding that do not fit together are refused before anything is read") {
        auto const refused = [](auto call) {
            return test_collectives::end_of_group<device_error>([&](comm& c) {
                auto const a = c.allocate(100 * sizeof(float));
                call(c, a);
            });
        };
        CHECK(has(refused([](auto& c, auto& a) {
                      run_schedule(c, collective::all_reduce, direct::all_reduce(2), numbers<float>(a, 100));
                  }),
                  "direct for 2 ranks in a group of 3"));
        CHECK(has(refused([](auto& c, auto& a) {
                      run_schedule(c, collective::all_reduce, ring::all_reduce(3), numbers<float>(a, 100),
                                   add_in_fixed_tree(3, 100));
                  }),
                  "use it with the schedule direct"));
        CHECK_THROWS_AS(add_in_fixed_tree(0, 100), usage_error);
        CHECK_NOTHROW(add_in_fixed_tree(add_in_fixed_tree::max_shards, 100));
        CHECK_THROWS_AS(add_in_fixed_tree(add_in_fixed_tree::max_shards + 1, 100), usage_error);
    }
}

} // namespace collective_all_reduce_test
