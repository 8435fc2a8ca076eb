// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/remembered.hpp>

#include <doctest/doctest.h>

namespace core_remembered_test {
using namespace trireme;

TEST_SUITE("core/remembered") {
    TEST_CASE("a few numbers of ranks, with and without groups, do not take one another's places") {
        detail::remembered<256> kept;
        auto const keys = [](auto const& f) {
            for (int ranks = 1; ranks <= 16; ++ranks) f(detail::key_of(ranks, {}), ranks);
            for (int inner = 2; inner <= 4; ++inner) f(detail::key_of(2 * inner, levels(inner, 2)), 100 + inner);
        };
        keys([&](std::uint64_t key, int answer) { kept.keep(key, static_cast<std::uint8_t>(answer)); });
        int found = 0;
        keys([&](std::uint64_t key, int answer) { found += kept.find(key) == answer; });
        CHECK(found >= 18); // of 19: a place may be that of two
    }

    TEST_CASE("what does not fit has no key") {
        CHECK(detail::key_of(0, {}) == 0);
        CHECK(detail::key_of(1024, {}) == 0);
        CHECK(detail::key_of(1023, {}) != 0);
    }
}

} // namespace core_remembered_test
