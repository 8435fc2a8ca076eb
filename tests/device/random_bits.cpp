// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/philox.hpp>
#include <trireme/device/host/random_bits.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

namespace device_random_bits_test {
using namespace trireme;

TEST_SUITE("device/random_bits") {
    TEST_CASE("several blocks at once have the words of each") {
        constexpr std::size_t n = detail::blocks_at_once;
        random_stream const random(0x123456789ABCDEF0, random_purpose::dropout, 0xFFFFFFFF, 9, 5);
        std::uint64_t const end = std::uint64_t{1} << 32; // behind it another word of the counter counts
        for (std::uint64_t const k : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1234567}, end - n - 1, end - n,
                                      end - n + 1, end - 1, end, 3 * end + 5}) {
            CAPTURE(k);
            std::uint32_t bits[4 * n];
            detail::random_words(random, k, bits);
            for (std::size_t i = 0; i < 4 * n; ++i) {
                CAPTURE(i);
                CHECK(bits[i] == random.bits(4 * k + i));
            }
        }
    }
}

} // namespace device_random_bits_test
