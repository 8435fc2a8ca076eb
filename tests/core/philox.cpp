// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/philox.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>

namespace core_philox_test {
namespace {

using trireme::philox;
using trireme::random_purpose;
using trireme::random_stream;

// Random123, tests/kat_vectors, philox4x32 10.
static_assert(philox::block({0, 0}, {0, 0, 0, 0}) == philox::counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox::block({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
              philox::counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox::block({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
              philox::counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

} // namespace

TEST_SUITE("core/philox") {
    TEST_CASE("the known answers hold when the program runs, too") {
        philox::key volatile_key = {0xa4093822, 0x299f31d0};
        auto const answer = philox::block(volatile_key, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344});
        CHECK((answer == philox::counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
    }

    TEST_CASE("element i of a stream is word i % 4 of block i / 4, under a counter that names the stream") {
        random_stream const s(0x123456789ABCDEF0, random_purpose::sample_order, 7, 9, 5);
        for (std::uint64_t const i :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6}, (std::uint64_t{1} << 34) - 1}) {
            auto const block = i / 4;
            auto const wanted =
                philox::block({0x9ABCDEF0, 0x12345678}, {static_cast<std::uint32_t>(block), 9, 7, (2u << 16) + 5});
            CHECK(s.bits(i) == wanted[i % 4]);
        }
        std::uint64_t const beyond = (std::uint64_t{3} << 34) + 6; // counts on above the layer
        CHECK(s.bits(beyond) == philox::block({0x9ABCDEF0, 0x12345678}, {1, (3u << 16) + 9, 7, (2u << 16) + 5})[2]);
    }

    TEST_CASE("seed, purpose and all coordinates each choose another stream") {
        std::set<std::uint32_t> first;
        using enum random_purpose;
        for (auto const& s : {random_stream(1, parameters), random_stream(2, parameters),
                              random_stream(1 + (std::uint64_t{1} << 32), parameters), random_stream(1, dropout),
                              random_stream(1, parameters, 1), random_stream(1, parameters, 0, 1),
                              random_stream(1, parameters, 0, 0xFFFFFFFF), random_stream(1, parameters, 0, 0, 1)})
            first.insert(s.bits(0));
        CHECK(first.size() == 8);
    }

    TEST_CASE("uniform numbers lie inside (0, 1), never on its ends, with the mean and variance of their law") {
        random_stream const s(3, random_purpose::user);
        constexpr int n = 100000;
        double sum = 0, squares = 0, least = 1, greatest = 0;
        for (std::uint64_t i = 0; i < n; ++i) {
            auto const u = s.uniform(i);
            least = u < least ? u : least;
            greatest = u > greatest ? u : greatest;
            sum += u;
            squares += u * u;
        }
        CHECK(least > 0);
        CHECK(greatest < 1);
        CHECK(static_cast<float>(greatest) < 1.0f);
        CHECK(sum / n == doctest::Approx(0.5).epsilon(0.01)); // 5 deviations are 0.0046
        CHECK(squares / n == doctest::Approx(1.0 / 3).epsilon(0.02));
    }

    TEST_CASE("numbers below a bound are below it and all of them occur") {
        random_stream const s(4, random_purpose::user);
        for (std::uint32_t const bound : {1u, 2u, 3u, 10u}) {
            std::set<std::uint32_t> seen;
            for (std::uint64_t i = 0; i < 500; ++i) seen.insert(s.below(i, bound));
            CHECK(seen.size() == bound);
            CHECK(*seen.rbegin() == bound - 1);
        }
        CHECK(s.below(0, 0xFFFFFFFF) < 0xFFFFFFFF);
    }
}

} // namespace core_philox_test
