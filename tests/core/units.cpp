// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/units.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace core_units_test {
namespace {

using namespace trireme;

static_assert(1_KiB == 1024 && 64_MiB == 64 * 1024_KiB && 3_GiB == 3072_MiB);
static_assert(batch{}.samples == 0 && batch(256).samples == 256);
static_assert(round_up(0, 64) == 0 && round_up(1, 64) == 64 && round_up(64, 64) == 64 && round_up(65, 64) == 128);
static_assert(range{3, 7}.size() == 4 && range{}.size() == 0);
static_assert(part(10, 0, 3).end == 3 && part(10, 1, 3).end == 6 && part(10, 2, 3).end == 10);
static_assert(part(100, 0, 4, 16).end == 16 && part(100, 3, 4, 16).begin == 80 && part(100, 3, 4, 16).end == 100);

} // namespace

TEST_SUITE("core/units") {
    TEST_CASE("parts tile the whole, in order, without gap or overlap") {
        for (std::size_t total = 0; total <= 130; ++total)
            for (std::size_t n = 1; n <= 17; ++n)
                for (std::size_t const unit : {1u, 2u, 3u, 8u, 16u}) {
                    CAPTURE(total);
                    CAPTURE(n);
                    CAPTURE(unit);
                    std::size_t at = 0;
                    bool right = true;
                    for (std::size_t k = 0; k < n; ++k) {
                        auto const p = part(total, k, n, unit);
                        right = right && p.begin == at && p.end >= p.begin;
                        at = p.end;
                    }
                    if (!right || at != total) FAIL_CHECK("no tiling");
                }
    }

    TEST_CASE("parts begin on units, and their sizes differ by at most one unit") {
        for (std::size_t total = 0; total <= 130; ++total)
            for (std::size_t n = 1; n <= 17; ++n)
                for (std::size_t const unit : {1u, 3u, 16u}) {
                    CAPTURE(total);
                    CAPTURE(n);
                    CAPTURE(unit);
                    std::size_t least = ~std::size_t{0}, most = 0;
                    bool right = true;
                    for (std::size_t k = 0; k < n; ++k) {
                        auto const p = part(total, k, n, unit);
                        right = right && (p.begin % unit == 0 || p.begin == total);
                        auto const units = (p.end + unit - 1) / unit - (p.begin + unit - 1) / unit;
                        least = units < least ? units : least;
                        most = units > most ? units : most;
                    }
                    if (!right || most - least > 1) FAIL_CHECK("uneven parts");
                }
    }

    TEST_CASE("more than 2^32 elements are cut without overflow") {
        auto const total = std::size_t{5} << 32;
        std::size_t at = 0;
        for (std::size_t k = 0; k < 64; ++k) {
            auto const p = part(total, k, 64, 16);
            CHECK(p.begin == at);
            at = p.end;
        }
        CHECK(at == total);
    }
}

} // namespace core_units_test
