// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/shuffled_batches.hpp>
#include <trireme/data/tokens.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace data_tokens_test {
using namespace trireme;

namespace {

/// Number k of a row.
template<class N>
int number(sample_rows const& rows, std::size_t sample, std::size_t k) {
    N n;
    std::memcpy(&n, rows.of(sample) + k * sizeof(N), sizeof(N));
    return static_cast<int>(n);
}

} // namespace

TEST_SUITE("data/tokens") {
    TEST_CASE("windows lie side by side, and targets are the tokens behind") {
        std::vector<std::uint16_t> const tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        for (std::size_t const first : {0u, 2u}) {
            token_windows const w(tokens, 3, 10, first);
            CHECK(w.inputs().beginnings == 1);
            CHECK(w.size() == (first == 0 ? 3 : 2));
            CHECK(w.targets().classes == 10);
            CHECK(w.inputs().shape == make_shape(3));
            for (std::size_t i = 0; i < w.size(); ++i)
                for (std::size_t k = 0; k < 3; ++k) {
                    CHECK(number<std::uint16_t>(w.inputs(), i, k) == static_cast<int>(first + 3 * i + k));
                    CHECK(number<std::uint16_t>(w.targets(), i, k) == static_cast<int>(first + 3 * i + k + 1));
                }
        }
    }

    TEST_CASE("each epoch draws where the first window begins, and no window leaves the text") {
        for (std::size_t const count : {4u, 5u, 6u, 7u, 8u, 20u, 31u}) {
            CAPTURE(count);
            std::vector<std::int32_t> tokens(count);
            for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i);
            token_windows const w(tokens, 3, count, drawn_each_epoch);
            auto const most = w.inputs().beginnings;
            CHECK(w.size() == std::max<std::size_t>((count - 3) / 3, 1));
            CHECK(most == (count == 4 ? 1 : count == 5 ? 2 : 3));
            CHECK(number<std::int32_t>(w.inputs(), 0, 0) == 0);
            std::vector<std::size_t> seen(3);
            for (std::uint32_t epoch = 0; epoch < 64; ++epoch) {
                auto const s = sample_set(w).of_epoch(5, epoch);
                auto const first = number<std::int32_t>(s.inputs(), 0, 0);
                REQUIRE(first >= 0);
                REQUIRE(first < static_cast<int>(most));
                ++seen[static_cast<std::size_t>(first)];
                CHECK(number<std::int32_t>(s.targets(), w.size() - 1, 2) == first + static_cast<int>(3 * w.size()));
                CHECK(static_cast<std::size_t>(first) + 3 * w.size() < count);
                CHECK(s.inputs().beginnings == 1);
            }
            for (std::size_t k = 0; k < most; ++k) CHECK(seen[k] > 0);
            CHECK(copy_of(w, std::vector<std::uint32_t>{0}).inputs().beginnings == 1);
        }
    }

    TEST_CASE("batches without end visit every window once in an epoch, wherever one ends") {
        std::vector<std::int32_t> tokens(37);
        for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
        token_windows const w(tokens, 3, 37, drawn_each_epoch); // 11 windows
        shuffled_batches batches(w, 4, 5), again(w, 4, 5), others(w, 4, 6), large(w, 25, 5);
        std::vector<int> firsts, of_others;
        for (std::uint64_t k = 0; k < 11; ++k) // four epochs
            for (std::size_t i = 0; i < 4; ++i) {
                auto const b = batches.at(k);
                CHECK(b.size() == 4);
                firsts.push_back(number<std::int32_t>(b.inputs(), i, 0));
                CHECK(number<std::int32_t>(b.targets(), i, 2) == firsts.back() + 3);
                of_others.push_back(number<std::int32_t>(others.at(k).inputs(), i, 0));
            }
        CHECK(batches.epoch_of(2) == 0);
        CHECK(batches.epoch_of(3) == 1);
        CHECK(firsts != of_others);
        std::vector<std::vector<int>> orders;
        for (std::size_t epoch = 0; epoch < 4; ++epoch) {
            auto const begin = firsts.begin() + static_cast<std::ptrdiff_t>(11 * epoch);
            std::vector<int> of_epoch(begin, begin + 11);
            auto const drawn =
                number<std::int32_t>(sample_set(w).of_epoch(5, static_cast<std::uint32_t>(epoch)).inputs(), 0, 0);
            CHECK_FALSE(std::is_sorted(of_epoch.begin(), of_epoch.end()));
            orders.push_back(of_epoch);
            for (auto& first : orders.back()) first -= drawn;
            std::sort(of_epoch.begin(), of_epoch.end());
            for (std::size_t i = 0; i < 11; ++i) CHECK(of_epoch[i] == drawn + static_cast<int>(3 * i));
        }
        CHECK(orders[0] != orders[1]);
        CHECK(orders[1] != orders[2]);
        CHECK(number<std::int32_t>(again.at(9).inputs(), 1, 0) == firsts[37]); // whatever was asked before
        CHECK(number<std::int32_t>(again.at(2).inputs(), 3, 0) == firsts[11]);
        auto const b = large.at(1); // more than two epochs
        for (std::size_t i = 0; i < 19; ++i) CHECK(number<std::int32_t>(b.inputs(), i, 0) == firsts[25 + i]);
        CHECK_THROWS_WITH_AS(shuffled_batches(w, 0, 1), doctest::Contains("batches of 0 of 11 samples"), usage_error);
    }

    TEST_CASE("a text owns its windows, of bytes above 127, too") {
        auto const w = text_windows("\xff\x80 abc", 2);
        CHECK(w.size() == 2);
        CHECK(number<std::uint8_t>(w.inputs(), 0, 0) == 255);
        CHECK(number<std::uint8_t>(w.targets(), 1, 1) == 'b');
        auto const part = w.take(1, 1);
        CHECK(number<std::uint8_t>(part.inputs(), 0, 0) == ' ');
    }

    TEST_CASE("what is no window is told") {
        std::vector<int> tokens{0, 1, 2, 3};
        CHECK_THROWS_WITH_AS(token_windows(tokens, 0, 4), doctest::Contains("context = 0"), usage_error);
        CHECK_THROWS_WITH_AS(token_windows(tokens, 4, 4), doctest::Contains("4 tokens, and a window of 4"),
                             usage_error);
        CHECK(token_windows(tokens, 3, 4).size() == 1);
        CHECK_THROWS_WITH_AS(token_windows(tokens, 1, 4, 9), doctest::Contains("from token 9 on"), usage_error);
        CHECK_THROWS_WITH_AS(token_windows(tokens, 1, 3), doctest::Contains("token 3 is 3"), usage_error);
        tokens[1] = -1;
        CHECK_THROWS_WITH_AS(token_windows(tokens, 1, 4), doctest::Contains("token 1 is -1"), usage_error);
        CHECK_THROWS_AS(text_windows("", 1), usage_error);
        CHECK_THROWS_WITH_AS(read_text("/no/such/text"), doctest::Contains("/no/such/text"), data_error);
        CHECK_THROWS_AS(read_text("/"), data_error);
    }
}

} // namespace data_tokens_test
