// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/core/digest.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace core_digest_test {
namespace {

using trireme::digest_of;

std::vector<std::byte> bytes(std::size_t n) {
    std::vector<std::byte> made(n);
    for (std::size_t i = 0; i < n; ++i) made[i] = static_cast<std::byte>(i * i * 31 + i / 7);
    return made;
}

} // namespace

TEST_SUITE("core/digest") {
    TEST_CASE("one flipped bit, wherever it is, changes it; the same bytes elsewhere do not") {
        for (std::size_t const n :
             {std::size_t{1}, std::size_t{8}, std::size_t{63}, std::size_t{64}, std::size_t{200}}) {
            auto some = bytes(n);
            auto const copy = some;
            std::set<std::uint64_t> seen{digest_of(some)};
            CHECK(digest_of(copy) == digest_of(some));
            for (std::size_t bit = 0; bit < 8 * n; ++bit) {
                auto const mask = static_cast<std::byte>(1u << bit % 8);
                some[bit / 8] ^= mask;
                seen.insert(digest_of(some));
                some[bit / 8] ^= mask;
            }
            CHECK(seen.size() == 8 * n + 1);
        }
    }

    TEST_CASE("length, order and seed count, zeros included") {
        std::set<std::uint64_t> seen;
        std::vector<std::byte> const zeros(300);
        for (std::size_t n = 0; n <= zeros.size(); ++n) seen.insert(digest_of(std::span(zeros).first(n)));
        CHECK(seen.size() == zeros.size() + 1);

        auto some = bytes(256);
        auto const before = digest_of(some);
        CHECK(digest_of(some, 1) != before);
        std::swap_ranges(some.begin(), some.begin() + 64, some.begin() + 128); // whole blocks
        CHECK(digest_of(some) != before);
        std::swap_ranges(some.begin(), some.begin() + 64, some.begin() + 128);
        std::swap_ranges(some.begin(), some.begin() + 8, some.begin() + 8); // words of a block
        CHECK(digest_of(some) != before);
    }

    TEST_CASE("as text it has sixteen digits") {
        CHECK(trireme::digest_text(0) == "0000000000000000");
        CHECK(trireme::digest_text(0x0123456789abcdefu) == "0123456789abcdef");
    }
}

} // namespace core_digest_test
