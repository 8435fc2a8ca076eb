// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/sampler.hpp>
#include <trireme/data/split.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace data_split_test {
namespace {

using namespace trireme;
using test_support::refusal;
using test_support::says;

/// Sample i has the inputs i and 2 i, and the target i % 3.
owned_samples numbered(int count) {
    std::vector<int> inputs, labels;
    for (int i = 0; i < count; ++i) {
        inputs.insert(inputs.end(), {i, 2 * i});
        labels.push_back(i % 3);
    }
    return {std::move(inputs), make_shape(2), std::move(labels), 3, {"a", "b", "c"}};
}

std::vector<int> numbers_of(owned_samples const& s) {
    std::vector<int> all;
    for (std::size_t i = 0; i < s.size(); ++i) {
        int row[2], target = 0;
        std::memcpy(row, s.inputs().of(i), sizeof row);
        std::memcpy(&target, s.targets().of(i), sizeof target);
        CHECK(row[1] == 2 * row[0]);
        CHECK(target == row[0] % 3);
        all.push_back(row[0]);
    }
    return all;
}

} // namespace

TEST_SUITE("data/split") {
    TEST_CASE("each sample is in one part") {
        auto const source = numbered(50);
        for (std::uint64_t const seed : {0ull, 1ull, 2ull, ~0ull}) {
            auto const parts = split(source, 0.2, seed);
            CHECK(parts.train.size() == 40);
            CHECK(parts.test.size() == 10);
            auto all = numbers_of(parts.train);
            auto const test = numbers_of(parts.test);
            CHECK_FALSE(std::ranges::is_sorted(all));
            all.insert(all.end(), test.begin(), test.end());
            std::ranges::sort(all);
            std::vector<int> wanted(50);
            std::iota(wanted.begin(), wanted.end(), 0);
            CHECK(all == wanted);
            CHECK(parts.test.class_names()[2] == "c");
        }
    }

    TEST_CASE("the parts depend on seed and number alone") {
        auto const first = split(numbered(50), 0.2, 7), again = split(numbered(50), split_counts{40, 10}, 7);
        CHECK(numbers_of(first.train) == numbers_of(again.train));
        CHECK(numbers_of(first.test) == numbers_of(again.test));
        CHECK(numbers_of(first.test) != numbers_of(split(numbered(50), 0.2, 8).test));
        // for all time: a changed split would let a network see what it is tested with
        CHECK(numbers_of(split(numbered(10), 0.3, 1).test) == std::vector{4, 2, 9});
        // numbers of its own: an epoch's order would train first with what comes first here
        epoch_order order(50, 7);
        order.shuffle(0);
        auto const of_epoch = order.batch(0, 10);
        CHECK_FALSE(std::ranges::equal(numbers_of(first.test), of_epoch,
                                       [](int a, std::uint32_t b) { return static_cast<std::uint32_t>(a) == b; }));
    }

    TEST_CASE("sizes") {
        auto const sizes = [](int n, double share) {
            auto const parts = split(numbered(n), share, 1);
            return std::pair(parts.train.size(), parts.test.size());
        };
        CHECK(sizes(10, 0.25) == std::pair<std::size_t, std::size_t>(7, 3)); // 2.5 is rounded up
        CHECK(sizes(10, 0.24) == std::pair<std::size_t, std::size_t>(8, 2));
        CHECK(sizes(2, 0.01) == std::pair<std::size_t, std::size_t>(1, 1)); // none is empty
        CHECK(sizes(2, 0.99) == std::pair<std::size_t, std::size_t>(1, 1));
        auto const few = split(numbered(10), split_counts{.train = 5, .test = 2}, 1); // three are in neither
        CHECK(few.train.size() == 5);
        CHECK(few.test.size() == 2);
    }

    TEST_CASE("parts that cannot be") {
        auto const source = numbered(10);
        for (double const share : {0.0, 1.0, -0.5, 20.0, std::nan("")})
            CHECK(says(refusal([&] { split(source, share, 1); }), {"between 0 and 1", "0.2 for a fifth"}));
        constexpr auto most = std::numeric_limits<std::size_t>::max();
        for (auto const& counts : {split_counts{0, 10}, split_counts{10, 0}, split_counts{6, 5}, split_counts{1, most},
                                   split_counts{most, 1}, split_counts{11, 1}})
            CHECK(says(refusal([&] { split(source, counts, 1); }), {"none of these 10 samples", "at most all"}));
        CHECK(says(refusal([&] { split(numbered(1), 0.5, 1); }), {"at least 2 samples, and there are 1"}));
        owned_samples const many(nullptr, std::size_t{1} << 32, source.inputs(), source.targets());
        CHECK(says(refusal([&] { split(many, 0.5, 1); }), {"32-bit"}));
    }
}

} // namespace data_split_test
