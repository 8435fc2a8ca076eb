// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/philox.hpp>
#include <trireme/layer/network.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

namespace trireme {

namespace detail {

/// Standard normal number i of a stream, by Box and Muller's transform of two uniform ones.
inline double normal(random_stream const& r, std::uint64_t i) {
    auto const radius = std::sqrt(-2.0 * std::log(r.uniform(2 * i)));
    return radius * std::cos(2.0 * std::numbers::pi * r.uniform(2 * i + 1));
}

} // namespace detail

/// Xavier (Glorot) initialisation: variance 2 / (fan_in + fan_out). For sigmoid and hyperbolic tangent.
/// Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
struct xavier_uniform {
    static double value(parameter_tensor const& p, random_stream const& r, std::uint64_t i) {
        return std::sqrt(6.0 / static_cast<double>(p.fan_in + p.fan_out)) * (2.0 * r.uniform(i) - 1.0);
    }
};
struct xavier_normal {
    static double value(parameter_tensor const& p, random_stream const& r, std::uint64_t i) {
        return std::sqrt(2.0 / static_cast<double>(p.fan_in + p.fan_out)) * detail::normal(r, i);
    }
};

/// Kaiming (He) initialisation: variance 2 / fan_in. For relu.
/// Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", 2015.
struct he_uniform {
    static double value(parameter_tensor const& p, random_stream const& r, std::uint64_t i) {
        return std::sqrt(6.0 / static_cast<double>(p.fan_in)) * (2.0 * r.uniform(i) - 1.0);
    }
};
struct he_normal {
    static double value(parameter_tensor const& p, random_stream const& r, std::uint64_t i) {
        return std::sqrt(2.0 / static_cast<double>(p.fan_in)) * detail::normal(r, i);
    }
};

/// Fills the parameters of some rows of `Network`. Element i of the network's t-th parameter tensor is a function of
/// (seed, t, i) alone, so that layers without parameters come and go without changing the others' weights, and stages
/// begin with those of the whole network.
template<class Network, class Method, class T>
void initialise_parameters(T* parameters, std::uint64_t seed, range rows = {0, Network::depth}) {
    std::uint32_t tensor = 0;
    for (std::size_t l = 0; l < rows.end; ++l) {
        auto const& row = Network::row(l);
        if (l < rows.begin) {
            tensor += static_cast<std::uint32_t>(row.own_tensors());
            continue;
        }
        for (int k = 0; k < row.own_tensors(); ++k, ++tensor) {
            auto const& p = row.description.parameters[k];
            random_stream const r(seed, random_purpose::parameters, tensor);
            for (std::size_t i = 0; i < p.shape.size(); ++i)
                *parameters++ = p.init == initial::weights ? static_cast<T>(Method::value(p, r, i))
                                                           : static_cast<T>(p.init == initial::ones ? 1 : 0);
        }
    }
}

/// Fills the buffers of some rows of `Network`: running statistics of samples that have mean 0 and variance 1.
template<class Network, class T>
void initialise_buffers(T* buffers, range rows = {0, Network::depth}) {
    for (auto l = rows.begin; l < rows.end; ++l) {
        auto const& d = Network::row(l).description;
        for (int k = 0; k < d.buffer_count; ++k)
            for (std::size_t i = 0; i < d.buffers[k].shape.size(); ++i)
                *buffers++ = static_cast<T>(d.buffers[k].init == initial::ones ? 1 : 0);
    }
}

} // namespace trireme
