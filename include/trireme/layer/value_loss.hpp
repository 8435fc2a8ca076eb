// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/loss_functions.hpp>
#include <trireme/layer/loss.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

// Names that the calls below need before a kernel policy overloads them; see cross_entropy.hpp.
template<class F, std::size_t Values, std::size_t Lanes>
void value_loss() = delete;
template<class F, std::size_t Values, std::size_t Lanes>
void value_loss_gradient() = delete;

/// A loss made of a type with static functions `value(x, target)` and `slope(x, target)`, its derivative by x, and
/// `static constexpr int operations`, the FLOPs of one of them: the mean over all values of the network's output, each
/// of which has its target, and over the batch. Any shape. A function of logits says so, `static constexpr bool
/// of_logits = true`: the answer of each value is 1 if it is above 0, and right if its target is on the same side of
/// 1/2.
template<class Function>
struct value_loss_of {
    static constexpr loss_description describe(shape output) noexcept {
        return {.flops = 2 * static_cast<flops_t>(Function::operations) * output.size(),
                .targets = output,
                .logistic = is_of_logits<Function>};
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        if constexpr (is_of_logits<Function>)
            value_loss<Function, io_t::input::size, io_t::lanes>(io.policy, io.x.data, io.target.data, io.loss,
                                                                 io.correct);
        else
            value_loss<Function, io_t::input::size, io_t::lanes>(io.policy, io.x.data, io.target.data, io.loss);
    }
    static void backward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        value_loss_gradient<Function, io_t::input::size, io_t::lanes>(io.policy, io.x.data, io.target.data, io.weight,
                                                                      io.dx.data, io.loss);
    }
};

/// The mean of (x - target)^2. PyTorch's MSELoss.
struct mean_squared_error : value_loss_of<squared_error_function> {};

/// The mean of -target log p - (1 - target) log(1 - p), p = 1 / (1 + exp(-x)): the network ends without a sigmoid. A
/// target is 0, 1 or a probability. PyTorch's BCEWithLogitsLoss. Accuracy is the share of right answers among all
/// values.
struct binary_cross_entropy : value_loss_of<logistic_error_function> {};

} // namespace trireme
