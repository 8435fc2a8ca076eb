// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/device/host/lanes.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace device_lanes_test {
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
        CHECK(vector::load(from.data()).first(count).sum() == T(some * (some + 1) / 2));
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

template<class T, std::size_t N>
void transposes() {
    CAPTURE(N);
    CAPTURE(sizeof(T));
    using vector = lane_vector<T, N>;
    vector rows[N];
    T numbers[N];
    for (std::size_t i = 0; i < N; ++i) {
        for (std::size_t j = 0; j < N; ++j) numbers[j] = T(100 * i + j);
        rows[i] = vector::load(numbers);
    }
    transpose(rows);
    for (std::size_t i = 0; i < N; ++i) {
        rows[i].store(numbers);
        for (std::size_t j = 0; j < N; ++j) CHECK(numbers[j] == T(100 * j + i));
    }
}

/// The pieces in which for_registers walks n numbers, as begin and count, and how many had a constant count.
template<class Vector>
std::vector<std::size_t> pieces(std::size_t n, std::size_t& whole) {
    std::vector<std::size_t> seen;
    whole = 0;
    for_registers<Vector>(n, [&]<class Count>(std::size_t i, Count count) {
        seen.push_back(i);
        seen.push_back(count);
        whole += !std::is_same_v<Count, std::size_t>;
    });
    return seen;
}

template<class T, std::size_t N>
void walks() {
    CAPTURE(N);
    for (std::size_t n = 0; n <= 9 * N + 1; ++n) {
        CAPTURE(n);
        std::vector<std::size_t> expected;
        for (std::size_t i = 0; i < n; i += N) {
            expected.push_back(i);
            expected.push_back(n - i < N ? n - i : N);
        }
        std::size_t whole = 0;
        CHECK(pieces<lane_vector<T, N>>(n, whole) == expected);
        CHECK(whole == n / N);
    }
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

    TEST_CASE("rows become columns") {
        transposes<float, 1>();
        transposes<float, 2>();
        transposes<float, 4>();
        transposes<float, full_register<float>>();
        transposes<double, 1>();
        transposes<double, 2>();
        transposes<double, full_register<double>>();
    }

    TEST_CASE("registers walk over an array, whole ones first, in order") {
        walks<float, 1>();
        walks<float, 4>();
        walks<float, full_register<float>>();
        walks<double, full_register<double>>();
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

} // namespace device_lanes_test
