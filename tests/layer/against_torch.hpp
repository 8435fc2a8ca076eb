// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/hash.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

// Layers, on the numbers that PyTorch was given, and comparisons with what it has made of them.
namespace test_torch {
using namespace trireme;

/// A layer's output and gradients, of samples one after the other that are spread over as many granules as needed.
/// Parameters are the hash tensors 0, 1, ...
template<class Layer, class Input, class Kernels>
struct layer_against_torch {
    using T = double;
    using net = network<Input, Layer>;
    using In = typename Input::extents;
    using Out = typename net::output_extents;
    static constexpr std::size_t lanes = Kernels::template lanes<T>;
    static constexpr auto description = net::row(0).description;

    std::vector<T> y, dx, dp;

    /// `dy`: the gradient by the output.
    layer_against_torch(std::vector<T> const& x, std::vector<T> const& dy)
        : y(dy.size()), dx(x.size()), dp(net::parameters) {
        auto const samples = x.size() / In::size;
        REQUIRE(dy.size() == samples * Out::size);
        auto const p = trireme_golden::parameters<net, T>();
        for (std::size_t first = 0; first < samples; first += lanes) {
            std::vector<T> gx(In::size * lanes), gy(Out::size * lanes), gdy(Out::size * lanes), gdx(In::size * lanes);
            auto const n = std::min(lanes, samples - first);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                auto const s = first + std::min(lane, n - 1);
                for (std::size_t i = 0; i < In::size; ++i) gx[i * lanes + lane] = x[s * In::size + i];
                for (std::size_t i = 0; i < Out::size; ++i)
                    gdy[i * lanes + lane] = lane < n ? dy[s * Out::size + i] : 0.0;
            }
            using calls = detail::layer_calls<Layer, In, Out, lanes, T>;
            detail::layer_operands<T, T> const at{gx.data(), gy.data(), gdy.data(), gdx.data(),
                                                  p.data(),  dp.data(), {}};
            calls::template run<detail::row_call::forward>(Kernels{}, at);
            calls::template run<detail::row_call::backward_input>(Kernels{}, at);
            if constexpr (description.parameter_count > 0)
                calls::template run<detail::row_call::backward_weights>(Kernels{}, at);
            for (std::size_t lane = 0; lane < n; ++lane) {
                for (std::size_t i = 0; i < Out::size; ++i) y[(first + lane) * Out::size + i] = gy[i * lanes + lane];
                for (std::size_t i = 0; i < In::size; ++i) dx[(first + lane) * In::size + i] = gdx[i * lanes + lane];
            }
        }
    }
};

inline void check_equal(char const* what, std::span<double const> ours, std::vector<double> const& torch) {
    CAPTURE(what);
    REQUIRE(ours.size() == torch.size());
    for (std::size_t i = 0; i < torch.size(); ++i) {
        CAPTURE(i);
        CHECK(ours[i] == doctest::Approx(torch[i]).epsilon(1e-12).scale(1.0));
    }
}

} // namespace test_torch
