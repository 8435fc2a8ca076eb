// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/pool2d.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

/// The average of each channel. Input (C, H, W), output (C): PyTorch's AdaptiveAvgPool2d(1) and Flatten. No parameters.
struct global_avg_pool2d {
    static constexpr layer_description describe(shape in) noexcept {
        if (in.rank != 3) return refused(in);
        layer_description d;
        d.output = make_shape(in.extent[0]);
        d.forward_flops = in.size();
        d.backward_input_flops = in.size();
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        global_avg_pool2d_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        global_avg_pool2d_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.dy.data, io.dx.data);
    }

    template<class Where, class In>
    using refusal = pool2d_input_rule<Where, wants<rank<3>>, gets<rank<In::rank>>>;

private:
    template<class Io>
    using geometry = channel_geometry<Io::input::shape.extent[0], Io::input::size / Io::input::shape.extent[0],
                                      keeps_channels_last<typename Io::kernels>>;
};

} // namespace trireme
