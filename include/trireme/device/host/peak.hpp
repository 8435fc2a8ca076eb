// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// Chains of multiply-adds in flight that hide their latency.
inline constexpr std::size_t enough_chains = accumulators == 24 ? 16 : 12;

/// Multiply-adds on registers alone, in so many chains side by side. Returns the FLOPs; `sink` keeps the compiler from
/// leaving them out.
template<std::size_t Chains = enough_chains>
double multiply_adds(double& sink, std::size_t rounds = 100000) {
    using vector = lane_vector<float, full_register<float>>;
    vector sum[Chains];
    auto const factor = vector::all(static_cast<float>(0.999 + sink * 1e-30));
    auto const term = vector::all(static_cast<float>(1e-3 + sink * 1e-30));
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Chains; ++i) sum[i] = vector::all(static_cast<float>(i));
    for (std::size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Chains; ++i) sum[i] = multiply_add(sum[i], factor, term);
    }
    for (auto const& s : sum) sink += static_cast<double>(s.sum());
    return 2.0 * static_cast<double>(rounds) * Chains * vector::size;
}

/// FLOPs per second, in floats, that the processor of the calling thread reaches at best: the most of several short
/// measurements, since a processor may be lent or slowed down meanwhile. Cost: some 20 ms.
inline double measured_peak_flops() {
    using clock = std::chrono::steady_clock;
    double best = 0, sink = 0;
    for (int i = 0; i < 20; ++i) {
        auto const begin = clock::now();
        auto const work = multiply_adds(sink, 10000);
        best = std::max(best, work / std::chrono::duration<double>(clock::now() - begin).count());
    }
    return best + sink * 1e-30;
}

} // namespace trireme::inline TRIREME_ISA
