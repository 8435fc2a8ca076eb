// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/network.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// The numbers that make_golden.py feeds to PyTorch, made again here: no weights are stored.
namespace trireme_golden {

inline std::uint64_t splitmix64(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

/// Element i of hash tensor t, in (-bound, bound), rounded to float32.
inline float hashed(std::uint64_t t, std::uint64_t i, double bound) {
    auto const u = static_cast<double>(splitmix64((t << 32) + i) >> 40);
    return static_cast<float>((u / 8388608.0 - 1.0) * bound);
}

template<class T>
std::vector<T> tensor(std::uint64_t t, std::size_t n, double bound) {
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(hashed(t, i, bound));
    return values;
}

/// The first `n` tokens of sequence t, in [0, vocabulary).
template<class T>
std::vector<T> tokens(std::uint64_t t, std::size_t n, std::size_t vocabulary) {
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>((splitmix64((t << 32) + i) >> 40) % vocabulary);
    return values;
}

inline double bound_of(trireme::parameter_tensor const& p) {
    return p.init == trireme::initial::weights ? std::sqrt(6.0 / static_cast<double>(p.fan_in + p.fan_out)) : 0.05;
}

/// All parameters of a network: hash tensors 0, 1, 2, ... in order.
template<class Network, class T>
std::vector<T> parameters() {
    std::vector<T> all;
    std::uint64_t t = 0;
    for (std::size_t l = 0; l < Network::depth; ++l)
        for (int k = 0; k < Network::row(l).own_tensors(); ++k, ++t) {
            auto const& p = Network::row(l).description.parameters[k];
            float const base = p.init == trireme::initial::ones ? 1 : 0;
            for (auto const value : tensor<float>(t, p.shape.size(), bound_of(p)))
                all.push_back(static_cast<T>(base + value)); // rounded to float32, as on the other side
        }
    return all;
}

/// All buffers of a network, running statistics: hash tensors 500, 501, ... in order, with a bound of 0.5, plus 1 where
/// the buffer begins with ones.
template<class Network, class T>
std::vector<T> buffers() {
    std::vector<T> all;
    std::uint64_t t = 500;
    for (std::size_t l = 0; l < Network::depth; ++l)
        for (int k = 0; k < Network::row(l).description.buffer_count; ++k, ++t) {
            auto const& b = Network::row(l).description.buffers[k];
            float const base = b.init == trireme::initial::ones ? 1 : 0;
            for (auto const value : tensor<float>(t, b.shape.size(), 0.5)) all.push_back(static_cast<T>(base + value));
        }
    return all;
}

} // namespace trireme_golden
