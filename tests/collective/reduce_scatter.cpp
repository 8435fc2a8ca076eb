// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/collective/reduce_scatter.hpp>

#include <trireme/collective/fixed_tree.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/schedule/collective/direct.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/seed.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace collective_reduce_scatter_test {
namespace {

using namespace trireme;
using comm = threads::communicator;

/// Sums of these depend on the order of addition.
template<class T>
std::vector<T> inputs(std::uint64_t seed, int rank, std::size_t n) {
    std::mt19937_64 numbers(seed * 1000003 + static_cast<std::uint64_t>(rank));
    std::vector<T> out(n);
    for (auto& x : out) {
        auto const bits = numbers();
        x = static_cast<T>(bits >> 40) / static_cast<T>(std::uint64_t{1} << (bits % 23));
        if ((bits >> 39 & 1) != 0) x = -x;
    }
    return out;
}

/// Up to the half, in place: `use(chunk)` is called with the own chunk as soon as it is complete.
template<class T, class Add, class Use>
void scatter_and_use(comm& c, schedule const& s, arena const& a, std::size_t n, Add const& add, Use const& use) {
    run_schedule(c, collective::reduce_scatter, s, std::span<T>(static_cast<T*>(a.data), n),
                 [&](reduction_view<T> const& v) {
                     auto const bytes = add(v);
                     use(range{v.begin, v.begin + v.elements});
                     return bytes;
                 });
}

/// A few rounds, each rank dawdling where it likes: the sums have the bits of all_reduce, `use` is called once with the
/// own chunk, what it writes into rank 0's memory is there for all ranks, and the transport counts what traffic_of
/// says.
template<class T, class Add>
void check_scatter(int ranks, std::size_t n, std::size_t blocks, Add const& add, std::uint64_t seed) {
    CAPTURE(ranks);
    CAPTURE(n);
    CAPTURE(seed);
    auto const once = direct::reduce_scatter(ranks);
    auto const all = direct::all_reduce(ranks);
    threads::group g(ranks, std::chrono::seconds(100));
    std::atomic<int> wrong_sums{0}, wrong_calls{0}, wrong_results{0}, wrong_counts{0}, wrong_neighbours{0};
    g.run([&](comm& c) {
        auto const a = c.allocate((blocks * n + 1) * sizeof(T)), b = c.allocate(blocks * n * sizeof(T));
        auto const results = c.allocate(c.rank() == 0 ? n * sizeof(T) : 0); // one copy
        auto* const mine = static_cast<T*>(a.data);
        auto* const expected = static_cast<T*>(b.data);
        std::mt19937_64 random(seed + static_cast<std::uint64_t>(c.rank()));
        auto const dawdle = [&] {
            if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        };
        for (std::uint64_t round = 0; round < 10; ++round) {
            auto const x = inputs<T>(seed + round, c.rank(), blocks * n);
            std::copy(x.begin(), x.end(), mine);
            std::copy(x.begin(), x.end(), expected);
            mine[blocks * n] = T(-7); // not part of it
            run_schedule(c, collective::all_reduce, all, std::span<T>(expected, n), add);

            auto const own = chunk_range(n, c.rank(), ranks, sizeof(T));
            auto const before = c.pulled();
            int calls = 0;
            dawdle();
            scatter_and_use<T>(c, once, a, n, add, [&](range chunk) {
                ++calls;
                wrong_calls += chunk.begin != own.begin || chunk.end != own.end;
                for (auto i = chunk.begin; i < chunk.end; ++i)
                    wrong_sums += std::memcmp(mine + i, expected + i, sizeof(T)) != 0;
                dawdle();
                for (auto i = chunk.begin; i < chunk.end; ++i) c.shared<T>(results, 0)[i] = 2 * mine[i];
            });
            wrong_calls += calls != (own.size() == 0 ? 0 : 1); // an empty chunk is nobody's sum
            wrong_neighbours += mine[blocks * n] != T(-7);
            for (std::size_t i = 0; i < n; ++i)
                wrong_results += c.shared<T>(results, 0)[i] != 2 * expected[i]; // all ranks' chunks
            if (blocks == 1) {
                auto const after = c.pulled(), wanted = traffic_of(once, c.rank(), n, sizeof(T));
                wrong_counts +=
                    after.messages - before.messages != wanted.messages || after.bytes - before.bytes != wanted.bytes;
            }
            std::fill(mine, mine + blocks * n, T(-1)); // who is through may overwrite
        }
    });
    CHECK(wrong_sums == 0);
    CHECK(wrong_calls == 0);
    CHECK(wrong_results == 0);
    CHECK(wrong_counts == 0);
    CHECK(wrong_neighbours == 0);
}

} // namespace

TEST_SUITE("collective/reduce_scatter") {
    TEST_CASE("every rank gets the sum of its chunk, uses it once, and all see what it wrote") {
        watchdog const guard("reduce_scatter");
        for (int const ranks : {2, 3, 5, 8})
            for (std::size_t const n : {1u, 15u, 16u, 17u, 100u, 1000u, 4099u}) { // of few, some ranks get nothing
                check_scatter<float>(ranks, n, 1, detail::adder<op::sum>{}, test_seed() % 1000000);
                check_scatter<double>(ranks, n, 1, detail::adder<op::sum>{}, test_seed() % 1000000);
            }
    }

    TEST_CASE("the same with the blocks of a fixed tree") {
        watchdog const guard("reduce_scatter, fixed tree");
        for (int const ranks : {2, 4, 8}) // 8 shards are one block of each rank
            for (std::size_t const n : {1u, 17u, 1000u})
                check_scatter<float>(ranks, n, 1, add_in_fixed_tree(8, n), test_seed() % 1000000);
        check_scatter<double>(3, 700, 2, add_in_fixed_tree(8, 700), test_seed() % 1000000); // up to two blocks
    }

    TEST_CASE("one rank alone has no collective: nothing is called") {
        threads::group g(1);
        g.run([](comm& c) {
            auto const a = c.allocate(10 * sizeof(float));
            scatter_and_use<float>(c, direct::reduce_scatter(1), a, 10, detail::adder<op::sum>{},
                                   [](range) { CHECK(false); });
            CHECK(c.pulled().messages == 0);
        });
    }

    TEST_CASE("who fails while it uses its chunk stops the others") {
        watchdog const guard("reduce_scatter, failing");
        threads::group g(4, std::chrono::seconds(60));
        try {
            g.run([](comm& c) {
                auto const a = c.allocate(100 * sizeof(float));
                scatter_and_use<float>(c, direct::reduce_scatter(4), a, 100, detail::adder<op::sum>{}, [&](range) {
                    if (c.rank() == 2) throw std::runtime_error("the oar is broken");
                });
            });
            FAIL("the error was swallowed");
        } catch (device_error const& e) {
            CHECK(e.device() == 2);
            CHECK(std::string(e.what()) == "device 2: the oar is broken");
        }
    }

    TEST_CASE("what does not fit together is refused in its own name") {
        threads::group g(3, std::chrono::seconds(20));
        try {
            g.run([](comm& c) {
                auto const a = c.allocate(100 * sizeof(float));
                scatter_and_use<float>(c, direct::reduce_scatter(2), a, 100, detail::adder<op::sum>{}, [](range) {});
            });
            FAIL("a schedule for two ranks ran on three");
        } catch (device_error const& e) {
            CHECK(std::string(e.what()).find("reduce_scatter was given the schedule direct for 2 ranks in a group of "
                                             "3") != std::string::npos);
        }
    }
}

} // namespace collective_reduce_scatter_test
