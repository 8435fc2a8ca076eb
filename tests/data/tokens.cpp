// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/tokens.hpp>

#include <doctest/doctest.h>

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
