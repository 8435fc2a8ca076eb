// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/device/host/lanes.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace trireme;

namespace {

template<class T, std::size_t N>
void loads_and_sums() {
    using vector = lane_vector<T, N>;
    std::vector<T> from(2 * N + 1), to(2 * N + 1);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = T(i + 1);
    vector::load(from.data() + 1).store(to.data() + 1); // no alignment
    for (std::size_t i = 0; i < to.size(); ++i) CHECK(to[i] == (i >= 1 && i <= N ? from[i] : 0));
    CHECK(vector::load(from.data()).sum() == T(N * (N + 1) / 2));
    for (std::size_t count = 0; count <= N + 1; ++count) {
        std::size_t const some = count < N ? count : N;
        CHECK(vector::load(from.data(), count).sum() == T(some * (some + 1) / 2)); // zeros behind
        to.assign(to.size(), T(-1));
        vector::load(from.data()).store(to.data(), count);
        for (std::size_t i = 0; i < to.size(); ++i) CHECK(to[i] == (i < some ? from[i] : -1));
    }
    T numbers[N];
    vector::all(T(-0.0)).store(numbers);
    for (T number : numbers) CHECK(std::signbit(number));
}

/// The blocks of [First, Last), as begin and length.
template<std::size_t First, std::size_t Last, std::size_t Most>
std::vector<std::size_t> blocks() {
    std::vector<std::size_t> seen;
    for_blocks<First, Last, Most>([&]<std::size_t N>(block_length<N>, std::size_t begin) {
        seen.push_back(begin);
        seen.push_back(N);
    });
    return seen;
}

} // namespace

TEST_SUITE("device/lanes") {
    TEST_CASE("loads, stores and sums") {
        loads_and_sums<float, 1>();
        loads_and_sums<float, 2>();
        loads_and_sums<float, full_register<float>>();
        loads_and_sums<double, full_register<double>>();
    }

    TEST_CASE("a sum adds halves") {
        float const numbers[] = {1e8f, 1, -1e8f, 2};
        CHECK(lane_vector<float, 4>::load(numbers).sum() == 3); // (1e8 - 1e8) + (1 + 2), not ((1e8 + 1) - 1e8) + 2
    }

    TEST_CASE("masks select, and a NaN compares as in scalar code") {
        float const nan = std::nanf(""), x[] = {1, nan, 3, 4}, y[] = {2, 2, 2, nan};
        float greater[4], unordered[4];
        using vector = lane_vector<float, 4>;
        auto const a = vector::load(x), b = vector::load(y), one = vector::all(1), none = vector::all(0);
        vector::select(a > b, one, none).store(greater);
        vector::select((a != a) | (b != b), one, none).store(unordered);
        CHECK(std::vector<float>(greater, greater + 4) == std::vector<float>{0, 0, 1, 0});
        CHECK(std::vector<float>(unordered, unordered + 4) == std::vector<float>{0, 1, 0, 1});
    }

    TEST_CASE("a granule is cut into whole registers") {
        CHECK(register_lanes<float, 1> == 1);
        CHECK(register_lanes<float, 4> == 4);
        CHECK(register_lanes<float, 6> == 2);
        CHECK(register_lanes<float, 64> == full_register<float>);
        CHECK(register_lanes<double, 64> == full_register<double>);
    }

    TEST_CASE("blocks are few, as equal as possible, and cover everything once") {
        CHECK(blocks<0, 10, 6>() == std::vector<std::size_t>{0, 5, 5, 5});
        CHECK(blocks<2, 9, 6>() == std::vector<std::size_t>{2, 4, 6, 3});
        CHECK(blocks<0, 6, 6>() == std::vector<std::size_t>{0, 6});
        CHECK(blocks<3, 3, 6>().empty());
    }
}
