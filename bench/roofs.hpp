// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>
#include <trireme/device/host/peak.hpp>

#include <algorithm>
#include <cstddef>

// What the machine can do at best, measured by loops that do nothing else.
namespace bench::inline TRIREME_ISA {

using vector = trireme::lane_vector<float, trireme::full_register<float>>;

using trireme::enough_chains;
using trireme::multiply_adds;

/// One pass of y += c * x: two reads and one write per element, the mixture of an optimizer's pass. Returns the bytes.
TRIREME_NOINLINE inline double stream(float* y, float const* x, std::size_t n, float c) {
    constexpr std::size_t block = 4 * vector::size;
    auto const factor = vector::all(c);
    for (std::size_t i = 0; i + block <= n; i += block) {
#pragma GCC unroll 4
        for (std::size_t k = 0; k < block; k += vector::size)
            multiply_add(factor, vector::load(x + i + k), vector::load(y + i + k)).store(y + i + k);
    }
    return static_cast<double>(n / block * block) * 3 * sizeof(float);
}

/// One pass of y = c * x: one read and one write per element.
TRIREME_NOINLINE inline void scaled_copy(float* y, float const* x, std::size_t n, float c) {
    auto const factor = vector::all(c);
    trireme::for_registers<vector>(
        n, [=](std::size_t i, auto count) { (factor * vector::load(x + i, count)).store(y + i, count); });
}

/// One pass over two arrays that writes none: the sum of their products, in eight chains.
TRIREME_NOINLINE inline float sum_of_products(float const* x, float const* y, std::size_t n) {
    constexpr std::size_t chains = 8, block = chains * vector::size;
    vector sums[chains];
    for (auto& sum : sums) sum = vector::all(0);
    for (std::size_t i = 0; i + block <= n; i += block) {
#pragma GCC unroll 8
        for (std::size_t k = 0; k < chains; ++k) {
            auto const at = i + k * vector::size;
            sums[k] = multiply_add(vector::load(x + at), vector::load(y + at), sums[k]);
        }
    }
    for (std::size_t k = 1; k < chains; ++k) sums[0] = sums[0] + sums[k];
    return sums[0].sum();
}

/// One pass that adds c * x to three arrays, a plain loop that the compiler vectorises: four reads and three writes per
/// element, the mixture of Adam's pass.
TRIREME_NOINLINE inline void update_three(float* __restrict a, float* __restrict b, float* __restrict d,
                                          float const* __restrict x, std::size_t n, float c) {
    for (std::size_t i = 0; i < n; ++i) {
        float const add = c * x[i];
        a[i] += add;
        b[i] += add;
        d[i] += add;
    }
}

} // namespace bench::inline TRIREME_ISA
