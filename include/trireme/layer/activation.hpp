// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/activation_functions.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>

namespace trireme {

namespace detail {

/// Values of a granule, for elementwise work: fewer of a narrow one.
template<class Io>
std::size_t all_values(Io const& io) noexcept {
    if constexpr (requires { io.policy.narrow; })
        if (io.policy.narrow != 0) return Io::input::size * io.policy.narrow;
    return io.x.size();
}

/// y = x, unless they lie in one place.
void pass_values(auto const& io) {
    if (io.y.data != io.x.data) activation_forward<identity_function>(io.policy, io.x.data, io.y.data, io.x.size());
}

} // namespace detail

/// An elementwise layer made of a functor with `value(x)` and `slope(x, y)`, the derivative given x and y = value(x).
/// Any shape; no parameters. FLOPs count one operation per value and function, the transcendental ones included.
/// A layer that derives from it, and has no functions of its own, says so by its name: `using itself = relu;`. Then
/// kernels of the layers beside it may apply its function, and granules may be narrow.
template<class Function, bool SlopeReadsInput, bool SlopeReadsOutput>
struct activation {
    using function = Function;

    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.forward_flops = in.size();
        d.backward_input_flops = 2 * in.size();
        d.execution.backward_reads_input = SlopeReadsInput;
        d.execution.backward_reads_output = SlopeReadsOutput;
        d.execution.in_place = true;
        return d;
    }

    static void forward(auto const& io) {
        activation_forward<Function>(io.policy, io.x.data, io.y.data, detail::all_values(io));
    }
    static void backward_input(auto const& io) {
        activation_backward_input<Function>(io.policy, io.x.data, io.y.data, io.dy.data, io.dx.data,
                                            detail::all_values(io));
    }

    template<class In, std::size_t Lanes, class T, class Kernels>
    static constexpr bool takes_narrow() {
        return true;
    }
};

/// 1 / (1 + exp(-x)). Its slope is y (1 - y), so that the input is not kept.
struct sigmoid : activation<sigmoid_function, false, true> {
    using itself = sigmoid;
};

/// tanh(x). Its slope is 1 - y^2, so that the input is not kept.
struct hyperbolic_tangent : activation<hyperbolic_tangent_function, false, true> {
    using itself = hyperbolic_tangent;
};

/// max(x, 0). Its slope is 1 where y > 0, so that the input is not kept.
struct relu : activation<relu_function, false, true> {
    using itself = relu;
};

/// The Gaussian error linear unit, as PyTorch's nn.GELU: x times the share of the normal distribution below x. Its
/// slope reads the input, which is kept. On the host one value at a time: gelu_tanh is many times as fast.
struct gelu : activation<gelu_function, true, false> {
    using itself = gelu;
};

/// The Gaussian error linear unit by a hyperbolic tangent, as nn.GELU(approximate='tanh'): off by 5e-4 at most. Its
/// slope reads the input, which is kept.
struct gelu_tanh : activation<gelu_tanh_function, true, false> {
    using itself = gelu_tanh;
};

} // namespace trireme
