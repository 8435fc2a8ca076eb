// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/embedding.hpp>
#include <trireme/layer/layer.hpp>

#include <type_traits>

namespace trireme {

/// Layer normalisation: y = weight (x - mean) / sqrt(variance + 1e-5) + bias, with mean and (biased) variance of each
/// token's own values. Input and output (Tokens, Width). Parameters: weight (Width), beginning at 1, bias (Width), at
/// 0. Statistics are computed again on the way back, and nothing is kept but the input. PyTorch's nn.LayerNorm(Width).
/// Source: Ba, Kiros, Hinton, "Layer normalization", 2016.
struct layer_norm {
    static constexpr double epsilon = 1e-5;
    using takes_together = layer_norm; ///< kernels take some samples of few tokens at once

    static constexpr layer_description describe(shape in) noexcept {
        if (in.rank != 2) return refused(in);
        layer_description d;
        d.output = in;
        d.forward_flops = 7 * in.size();
        d.backward_input_flops = 14 * in.size();
        d.backward_weights_flops = 8 * in.size();
        d.parameter_count = 2;
        d.parameters[0] = {"weight", make_shape(in.extent[1]), 1, 1, initial::ones};
        d.parameters[1] = {"bias", make_shape(in.extent[1]), 1, 1, initial::zeros};
        d.execution.backward_reads_output = false;
        d.execution.sample_by_sample = true;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        layer_norm_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.parameter(0), io.parameter(1), epsilon,
                                                        io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        layer_norm_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.parameter(0),
                                                               epsilon, io.dx.data);
    }
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        layer_norm_backward_weights<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, epsilon,
                                                                 io.gradient(0), io.gradient(1));
    }

    template<class Where, class In>
    using refusal = token_rows_rule<Where, wants<rank<2>>, gets<rank<In::rank>>>;

private:
    template<class Io>
    using geometry = token_geometry<Io::input::shape.extent[0], Io::input::shape.extent[1]>;
};

} // namespace trireme
