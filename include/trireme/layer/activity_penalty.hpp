// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/percentage.hpp>
#include <trireme/layer/activation.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

template<class... Where>
struct activity_penalty_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0138: activity_penalty takes a share of the mean square, percent<1> or more: write "
                  "activity_penalty<percent<10>> to add a tenth of it to the loss");
};

// Names that the calls below need before a kernel policy overloads them: see cross_entropy.
template<std::size_t Size, std::size_t Lanes>
void activity_penalty_forward() = delete;
template<std::size_t Size, std::size_t Lanes>
void activity_penalty_backward_input() = delete;

/// `activity_penalty<percent<P>>`: the values pass as they are, and P / 100 times the mean of their squares is added to
/// the loss of their sample, which keeps them small. Any shape, no parameters. It may stand anywhere in a network, in
/// any stage. The loss that training reports has it; an evaluation has not.
///
/// Cost: one pass over the values each way. Other terms of the loss are layers of one's own: see the concept `layer`.
/// Source: Merity, McCann, Socher, "Revisiting activation regularization for language RNNs", 2017.
template<auto Share>
struct activity_penalty {
    static constexpr bool usable = detail::is_percentage<Share>(percent<1>);

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable) return refused(in);
        layer_description d;
        d.output = in;
        d.forward_flops = 2 * in.size();
        d.backward_input_flops = 2 * in.size();
        d.adds_to_loss = true;
        d.execution.backward_reads_output = false;
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        activity_penalty_forward<io_t::input::size, io_t::lanes>(io.policy, io.x.data, share<io_t>, io.y.data,
                                                                 io.place.loss);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        activity_penalty_backward_input<io_t::input::size, io_t::lanes>(io.policy, io.x.data, io.dy.data,
                                                                        io.place.loss_weight, share<io_t>, io.dx.data);
    }
    static void evaluate(auto const& io) { detail::pass_values(io); }

    template<class Where, class In>
    using refusal = activity_penalty_rule<Where>;

private:
    template<class Io>
    static constexpr auto share = static_cast<typename Io::value_type>(static_cast<int>(Share) / 100.0);
};

} // namespace trireme
