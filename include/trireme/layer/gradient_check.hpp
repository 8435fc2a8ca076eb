// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/philox.hpp>
#include <trireme/device/host/kernels.hpp>
#include <trireme/layer/granule_pass.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trireme {

/// What check_gradients found: the largest relative error of any derivative, where |numeric - analytic| is divided by
/// max(1, |numeric|).
struct gradient_report {
    double input_error = 0;
    double parameter_error = 0;
    bool overwrites_input_gradient = true; ///< backward_input writes dx whatever stood there
    bool adds_parameter_gradients = true;  ///< backward_weights adds to what stands there
    std::size_t derivatives = 0;           ///< how many were compared

    bool ok(double tolerance = 1e-6) const noexcept {
        return input_error < tolerance && parameter_error < tolerance && overwrites_input_gradient &&
               adds_parameter_gradients && derivatives > 0;
    }
};

inline namespace TRIREME_ISA {

/// Compares a layer's backward functions with numeric derivatives, in double precision: central differences with step
/// 1e-5, of the sum of random weights times the outputs, by every input and every parameter of a granule.
///
///     auto const report = check_gradients<my_layer, input<3, 8, 8>>();
///
/// What the layer's description says is not read in backward is replaced by NaN before backward runs, so a wrong
/// `backward_reads_input` or `backward_reads_output` fails. Inputs are uniform in (-1, 1), parameters in (-0.5, 0.5).
/// Layers with kinks (maximum, relu) may fail for an unlucky seed, when a difference crosses the kink. Cost: two
/// forward passes per input and per parameter.
template<layer Layer, class Input, class Kernels = portable>
gradient_report check_gradients(std::uint64_t seed = 1) {
    using T = double;
    using In = typename Input::extents;
    using net = network<Input, Layer>;
    using Out = typename net::output_extents;
    static constexpr typename net::rule checked{};
    (void)checked;
    constexpr auto description = net::row(0).description;
    constexpr std::size_t lanes = Kernels::template lanes<T>;

    std::vector<T> x(In::size * lanes), y(Out::size * lanes), dy(Out::size * lanes), p(net::parameters);
    random_stream const random(seed, random_purpose::user);
    std::uint64_t drawn = 0;
    auto const fill = [&](std::vector<T>& v, double scale) {
        for (auto& value : v) value = scale * (2 * random.uniform(drawn++) - 1);
    };
    fill(x, 1.0);
    fill(dy, 1.0);
    fill(p, 0.5);

    auto const forward = [&] {
        if constexpr (description.view)
            y = x;
        else
            detail::run_forward<Layer, In, Out, lanes, Kernels, T>(Kernels{}, x.data(), y.data(), p.data());
    };
    auto const weighted_sum = [&] {
        forward();
        T sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
        return sum;
    };
    gradient_report report;
    auto const compare = [&](std::vector<T>& at, std::vector<T> const& analytic, double& error) {
        constexpr T h = 1e-5;
        for (std::size_t i = 0; i < at.size(); ++i) {
            auto const kept = at[i];
            at[i] = kept + h;
            auto const above = weighted_sum();
            at[i] = kept - h;
            auto const below = weighted_sum();
            at[i] = kept;
            auto const numeric = (above - below) / (2 * h);
            auto const off = std::abs(numeric - analytic[i]) / std::max(1.0, std::abs(numeric));
            error = off <= error ? error : off; // keeps a NaN
            ++report.derivatives;
        }
    };
    if constexpr (description.view) {
        compare(x, dy, report.input_error);
        return report;
    } else {
        constexpr auto nan = std::numeric_limits<T>::quiet_NaN();
        forward();
        auto const seen_x = description.backward_reads_input ? x : std::vector<T>(x.size(), nan);
        auto const seen_y = description.backward_reads_output ? y : std::vector<T>(y.size(), nan);

        std::vector<T> dx(x.size(), 7), dx_again(x.size(), -3);
        for (auto* out : {&dx, &dx_again})
            detail::run_backward_input<Layer, In, Out, lanes, Kernels, T>(Kernels{}, seen_x.data(), seen_y.data(),
                                                                          dy.data(), out->data(), p.data());
        report.overwrites_input_gradient = dx == dx_again;

        std::vector<T> dp(p.size(), 0);
        if constexpr (description.parameter_count > 0) {
            std::vector<T> dp_on_top(p.size(), 4);
            for (auto* out : {&dp, &dp_on_top})
                detail::run_backward_weights<Layer, In, Out, lanes, Kernels, T>(Kernels{}, seen_x.data(), seen_y.data(),
                                                                                dy.data(), p.data(), out->data());
            for (std::size_t i = 0; i < dp.size(); ++i)
                if (!(std::abs(dp_on_top[i] - 4 - dp[i]) <= 1e-9 * std::max(1.0, std::abs(dp[i]))))
                    report.adds_parameter_gradients = false;
        }
        compare(x, dx, report.input_error);
        compare(p, dp, report.parameter_error);
        return report;
    }
}

} // namespace TRIREME_ISA
} // namespace trireme
