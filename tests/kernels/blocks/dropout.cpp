// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/dropout.hpp>
#include <trireme/kernels/reference/dropout.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace device_blocks_dropout_test {
using namespace trireme;
using namespace blocks_test;

namespace {

constexpr std::uint32_t threshold = 1'500'000'000; // of 2^32

/// `first`: where the samples are in their shard, so that words of random bits begin anywhere in them.
template<std::size_t Size, class T>
void blocks_equal_reference(std::size_t samples, std::uint64_t first) {
    CAPTURE(Size);
    CAPTURE(samples);
    CAPTURE(first);
    using number = accumulate_t<T>;
    auto const x = uniform<T>(0, samples * Size);
    auto const wx = wide(x);
    staged_shard const about{1, 7, first, 0x123456789abcdef0, 0x1'0000'0003, 1};
    dropout_draw<number> const draw{{}, 5, threshold, number(1.5)};
    auto y = unset<T>(x.size());
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels k) {
        k.set_shard(&about);
        dropout_forward<Size, 1>(k, x.data(), draw, y.data());
    }));
    std::vector<number> expected(x.size());
    auto one = draw;
    one.granule = {.seed = about.seed, .step = 3, .shard = 7}; // a step's number has 32 bits
    for (std::size_t n = 0; n < samples; ++n) {
        one.granule.first = first + n;
        dropout_forward<Size, 1>(reference{}, wx.data() + n * Size, one, expected.data() + n * Size);
    }
    CHECK(apart(y, expected, 1) <= 1);
    std::size_t dropped = 0;
    for (auto const& value : expected) dropped += value == 0;
    if (expected.size() > 500) CHECK(dropped == doctest::Approx(0.349 * static_cast<double>(x.size())).epsilon(0.15));

    auto in_place = x;
    rehearse(0, samples, 0, [&](rehearsal_kernels k) {
        k.set_shard(&about);
        dropout_forward<Size, 1>(k, static_cast<T const*>(in_place.data()), draw, in_place.data());
    });
    CHECK(wide(in_place) == wide(y));
}

} // namespace

TEST_SUITE("kernels/blocks/dropout") {
    TEST_CASE("blocks drop what the reference drops") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33})
            for (std::uint64_t const first : std::initializer_list<std::uint64_t>{0, 1, 2, 3, 64, 1001}) {
                blocks_equal_reference<1, float>(samples, first);
                blocks_equal_reference<3, double>(samples, first);
                blocks_equal_reference<100, float>(samples, first);
                blocks_equal_reference<7, bf16>(samples, first);
            }
    }
}

} // namespace device_blocks_dropout_test
