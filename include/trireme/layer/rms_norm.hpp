// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/embedding.hpp>
#include <trireme/layer/layer.hpp>

#include <limits>
#include <type_traits>

namespace trireme {

namespace detail {

template<bool Weighted>
struct root_mean_square {
    static constexpr layer_description describe(shape in) noexcept {
        if (in.rank != 2) return refused(in);
        layer_description d;
        d.output = in;
        d.forward_flops = (Weighted ? 4 : 3) * in.size();
        d.backward_input_flops = (Weighted ? 10 : 9) * in.size();
        d.execution.backward_reads_output = false;
        d.execution.sample_by_sample = true;
        if (!Weighted) return d;
        d.backward_weights_flops = 5 * in.size();
        d.parameter_count = 1;
        d.parameters[0] = {"weight", make_shape(in.extent[1]), 1, 1, initial::ones};
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        rms_norm_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.parameter(0), epsilon<io_t>, io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        rms_norm_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.parameter(0),
                                                             epsilon<io_t>, io.dx.data);
    }
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        rms_norm_backward_weights<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, epsilon<io_t>,
                                                               io.gradient(0));
    }

    template<class Where, class In>
    using refusal = token_rows_rule<Where, wants<rank<2>>, gets<rank<In::rank>>>;

private:
    template<class Io>
    using geometry = rms_norm_geometry<Io::input::shape.extent[0], Io::input::shape.extent[1], Weighted>;
    template<class Io> // PyTorch's
    static constexpr double epsilon = std::numeric_limits<typename Io::value_type>::epsilon();
};

} // namespace detail

/// Normalisation by the root of the mean of squares: y = weight x / sqrt(mean of x^2 + epsilon), of each token's own
/// values; epsilon is that of the type, 1.2e-7 of f32. Input and output (Tokens, Width). Parameter: weight (Width),
/// beginning at 1. PyTorch's nn.RMSNorm(Width).
/// Source: Zhang, Sennrich, "Root mean square layer normalization", 2019.
struct rms_norm : detail::root_mean_square<true> {
    using takes_together = rms_norm; ///< kernels take some samples of few tokens at once
};

/// An rms_norm that multiplies by nothing: no parameters, nn.RMSNorm(Width, elementwise_affine=False).
struct rms_norm_without_weight : detail::root_mean_square<false> {
    using takes_together = rms_norm_without_weight; ///< kernels take some samples of few tokens at once
};

} // namespace trireme
