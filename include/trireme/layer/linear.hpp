// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/layer.hpp>

#include <type_traits>

namespace trireme {

template<class... Where>
struct linear_input_rule {
    static_assert(rule_holds<Where...>, "TRI0012: linear needs a flat input: insert flatten before it");
};

template<class... Where>
struct linear_outputs_rule {
    static_assert(rule_holds<Where...>, "TRI0017: linear needs at least one output");
};

template<class... Where>
struct linear_arguments_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0078: linear takes the number of its outputs alone, linear<128>, or with without_bias behind it: its "
        "inputs are what the layer before it gives");
};

// Needed before a kernel policy overloads it: see cross_entropy.hpp.
template<class Geometry, std::size_t Lanes, class T>
void linear_takes_narrow() = delete;

/// Option of linear: y = W x, PyTorch's bias=False. An enumerator, for compilers write its name in messages.
enum linear_option : unsigned char { without_bias };

/// Fully connected layer: y = W x + b. Input (N), output (Outputs); or tokens, (T, N) and (T, Outputs), each by itself.
/// Parameters: weight (Outputs, N), bias (Outputs), PyTorch's layout; `linear<128, without_bias>` has no bias.
template<std::size_t Outputs, auto... More>
struct linear {
    static constexpr bool has_bias = sizeof...(More) == 0;
    using itself = linear;         ///< kernels take narrow granules
    using takes_together = linear; ///< kernels take some samples of few tokens at once
    static constexpr bool usable =
        has_bias || (sizeof...(More) == 1 && (std::is_same_v<decltype(More), linear_option> && ...));

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable || Outputs == 0 || (in.rank != 1 && in.rank != 2)) return refused(in);
        layer_description d;
        bool const flat = in.rank == 1;
        auto const inputs = in.extent[in.rank - 1], rows = in.size() / inputs;
        d.output = flat ? make_shape(Outputs) : make_shape(rows, Outputs);
        d.forward_flops = 2 * rows * inputs * Outputs;
        d.backward_input_flops = d.forward_flops;
        d.backward_weights_flops = d.forward_flops;
        d.parameter_count = has_bias ? 2 : 1;
        d.parameters[0] = {"weight", make_shape(Outputs, inputs), inputs, Outputs, initial::weights};
        if (has_bias) d.parameters[1] = {"bias", make_shape(Outputs), inputs, Outputs, initial::zeros};
        d.execution.backward_reads_output = false;
        d.execution.applies = true;
        d.execution.parameters_as_values = d.execution.stores_gradients = true;
        d.execution.sample_by_sample = !flat;
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        linear_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.parameter(0), io.parameter(1), io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        linear_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.parameter(0), io.dy.data, io.dx.data);
    }
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        linear_backward_weights<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.gradient(0),
                                                             io.gradient(1));
    }

    /// True if the kernels take narrow granules.
    template<class In, std::size_t Lanes, class T, class Kernels>
    static constexpr bool takes_narrow() {
        return linear_takes_narrow<geometry_of<In>, Lanes, T>(Kernels{});
    }

    template<class Where, class In>
    using refusal =
        std::conditional_t<!usable, linear_arguments_rule<Where>,
                           std::conditional_t<Outputs == 0, linear_outputs_rule<Where>,
                                              linear_input_rule<Where, wants<rank<1>>, gets<rank<In::rank>>>>>;

private:
    template<class In>
    using geometry_of =
        linear_geometry<In::shape.extent[In::rank - 1], Outputs, In::rank == 2 ? In::shape.extent[0] : 1, has_bias>;
    template<class Io>
    using geometry = geometry_of<typename Io::input>;
};

} // namespace trireme
