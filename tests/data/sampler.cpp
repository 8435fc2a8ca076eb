// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/sampler.hpp>

#include "files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace data_sampler_test {
namespace {

using trireme::epoch_order;
using indices = std::vector<std::uint32_t>;

indices all(epoch_order const& order) {
    if (order.size() == 0) return {};
    auto const batch = order.batch(0, order.size());
    return {batch.begin(), batch.end()};
}

indices shuffled(std::size_t n, std::uint64_t seed, std::uint32_t epoch) {
    epoch_order order(n, seed);
    order.shuffle(epoch);
    return all(order);
}

indices counted(std::size_t n) {
    indices out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint32_t>(i);
    return out;
}

} // namespace

TEST_SUITE("data/sampler") {
    TEST_CASE("every shuffle is a permutation") {
        for (std::size_t const n : {0u, 1u, 2u, 3u, 10u, 1000u, 60000u}) {
            CAPTURE(n);
            epoch_order order(n, 1);
            CHECK(order.size() == n);
            CHECK((all(order) == counted(n)));
            for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
                order.shuffle(epoch);
                auto sorted = all(order);
                if (n >= 1000) CHECK((sorted != counted(n)));
                std::sort(sorted.begin(), sorted.end());
                CHECK((sorted == counted(n)));
            }
            order.sequential();
            CHECK((all(order) == counted(n)));
        }
    }

    TEST_CASE("the order is a function of the seed and the epoch alone") {
        auto const wanted = shuffled(1000, 42, 3);
        CHECK((shuffled(1000, 42, 3) == wanted));
        epoch_order order(1000, 42);
        for (std::uint32_t const before : {0u, 3u, 7u}) { // whatever came before
            order.shuffle(before);
            order.shuffle(3);
            CHECK((all(order) == wanted));
        }
        CHECK((shuffled(1000, 42, 4) != wanted));
        CHECK((shuffled(1000, 43, 3) != wanted));
        CHECK((shuffled(1000, 42 + (std::uint64_t{1} << 32), 3) != wanted)); // all 64 bits of the seed count
        CHECK((shuffled(1000, 42, 3 + (1u << 31)) != wanted));               // and all 32 of the epoch
    }

    TEST_CASE("the order does not change from version to version") {
        CHECK((shuffled(10, 1, 0) == indices{5, 8, 0, 7, 2, 4, 3, 9, 6, 1}));
    }

    TEST_CASE("epochs are independent: about one sample keeps its place") {
        // The number of fixed points between two random permutations has mean 1 and variance 1.
        double kept = 0;
        auto before = shuffled(500, 9, 0);
        for (std::uint32_t epoch = 1; epoch <= 400; ++epoch) {
            auto const now = shuffled(500, 9, epoch);
            for (std::size_t i = 0; i < now.size(); ++i) kept += now[i] == before[i];
            before = now;
        }
        CHECK(std::abs(kept - 400) < 5 * std::sqrt(400.0));
    }

    TEST_CASE("every sample comes to every place equally often") {
        constexpr std::size_t n = 8;
        constexpr std::uint32_t epochs = 20000;
        std::array<std::array<int, n>, n> count = {};
        epoch_order order(n, 5);
        for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
            order.shuffle(epoch);
            auto const places = order.batch(0, n);
            for (std::size_t i = 0; i < n; ++i) ++count[i][places[i]];
        }
        auto const mean = double{epochs} / n;
        auto const deviation = std::sqrt(mean * (1 - 1.0 / n));
        for (auto const& row : count) {
            for (auto const times : row) CHECK(std::abs(times - mean) < 5 * deviation);
        }
    }

    TEST_CASE("all permutations of four are equally likely") {
        std::map<indices, int> count;
        epoch_order order(4, 11);
        for (std::uint32_t epoch = 0; epoch < 24000; ++epoch) {
            order.shuffle(epoch);
            ++count[all(order)];
        }
        CHECK(count.size() == 24);
        double chi_square = 0;
        for (auto const& [permutation, times] : count) chi_square += (times - 1000.0) * (times - 1000.0) / 1000;
        CHECK(chi_square < 49.7); // 23 degrees of freedom: above that once in a thousand seeds
    }

    TEST_CASE("batches cut the order without gap or overlap") {
        for (std::size_t const n : {1u, 7u, 96u, 256u, 257u, 1000u}) {
            for (std::size_t const size : {std::size_t{1}, std::size_t{7}, std::size_t{256}, ~std::size_t{0}}) {
                CAPTURE(n);
                CAPTURE(size);
                epoch_order order(n, 2);
                order.shuffle(1);
                indices joined;
                auto const batches = order.batches(size);
                for (std::size_t k = 0; k < batches; ++k) {
                    auto const batch = order.batch(k, size);
                    CHECK(batch.size() == (k + 1 < batches ? size : n - k * size));
                    CHECK(!batch.empty());
                    joined.insert(joined.end(), batch.begin(), batch.end());
                }
                CHECK((joined == all(order)));
            }
        }
        CHECK(epoch_order(60000, 1).batches(256) == 235);
        CHECK(epoch_order(60000, 1).batch(234, 256).size() == 96);
        CHECK(epoch_order(0, 1).batches(256) == 0);
    }

    TEST_CASE("what cannot be is refused") {
        epoch_order const order(10, 1);
        files::expect_usage_error([&] { (void)order.batches(0); }, "a batch of 0");
        files::expect_usage_error([&] { (void)order.batch(0, 0); }, "a batch of 0");
        files::expect_usage_error([&] { (void)order.batch(3, 4); }, "batch 3 was asked for, and this epoch has 3");
        files::expect_usage_error([&] { (void)order.batch(~std::size_t{0}, 2); }, "this epoch has 5");
        auto const before = files::address_space_peak();
        files::expect_usage_error([] { epoch_order(std::size_t{1} << 32, 1); }, "4294967296 samples do not fit");
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }
}

} // namespace data_sampler_test
