// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/layer/conv2d.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

template<class... Where>
struct pool2d_input_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0014: pooling needs an image (channels, height, width): put it before flatten "
                  "and linear");
};
template<class... Where>
struct pool2d_kernel_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0015: the pooling window is larger than its input: use a smaller window, or "
                  "fewer pooling layers before it");
};

template<class... Where>
struct pool2d_options_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0016: pooling takes the side of its window and at most one stride<S>, both at least 1; "
                  "it has no padding");
};

namespace detail {

/// The common part of average and maximum pooling: shapes and rules. Rows and columns beyond the last full window are
/// dropped.
template<std::size_t Side, class... Options>
struct pool2d {
    static constexpr std::size_t step = option_value<stride, Side, Options...>();
    static constexpr bool usable = Side > 0 && step > 0 &&
                                   sizeof...(Options) <= 1 && count_option<stride, Options...>() == sizeof...(Options);

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable || in.rank != 3 || in.extent[1] < Side || in.extent[2] < Side) return refused(in);
        layer_description d;
        d.output = make_shape(in.extent[0], (in.extent[1] - Side) / step + 1, (in.extent[2] - Side) / step + 1);
        d.forward_flops = d.output.size() * Side * Side;
        d.backward_input_flops = d.forward_flops;
        d.execution.applies = true;
        return d;
    }

    template<class In, std::size_t Lanes, class T, class Kernels>
    static constexpr bool takes_narrow() {
        return true;
    }

    template<class Where, class In>
    using refusal = std::conditional_t<
        !usable, pool2d_options_rule<Where>,
        std::conditional_t<In::rank != 3, pool2d_input_rule<Where, wants<rank<3>>, gets<rank<In::rank>>>,
                           pool2d_kernel_rule<Where, wants<at_most<smaller_side(In::shape)>>, gets<kernel<Side>>>>>;

protected:
    template<class Io>
    using geometry = pool2d_geometry<Io::input::shape.extent[0], Io::input::shape.extent[1], Io::input::shape.extent[2],
                                     Side, step, keeps_channels_last<typename Io::kernels>>;
};

} // namespace detail

/// Average over square windows. Input (C, H, W), output (C, (H - Side) / S + 1, (W - Side) / S + 1), S = Side unless
/// `stride<S>` says otherwise. No parameters; backward needs neither input nor output.
template<std::size_t Side, class... Options> // avg_pool2d<2>, avg_pool2d<3, stride<2>>
struct avg_pool2d : detail::pool2d<Side, Options...> {
    using itself = avg_pool2d; ///< kernels take narrow granules

    static constexpr layer_description describe(shape in) noexcept {
        auto d = detail::pool2d<Side, Options...>::describe(in);
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = typename detail::pool2d<Side, Options...>::template geometry<io_t>;
        avg_pool2d_forward<g, io_t::lanes>(io.policy, io.x.data, io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = typename detail::pool2d<Side, Options...>::template geometry<io_t>;
        avg_pool2d_backward_input<g, io_t::lanes>(io.policy, io.dy.data, io.dx.data);
    }
};

/// Maximum over square windows; the first of equal values gets the gradient, as in PyTorch. Shapes as avg_pool2d.
/// Backward reads the input, or, of windows of at most 16 x 16, the place of each maximum in its window: a byte that
/// forward saves, if the kernels do.
template<std::size_t Side, class... Options> // max_pool2d<2>, max_pool2d<3, stride<2>>
struct max_pool2d : detail::pool2d<Side, Options...> {
    using itself = max_pool2d; ///< kernels take narrow granules

    static constexpr layer_description describe(shape in) noexcept {
        auto d = detail::pool2d<Side, Options...>::describe(in);
        d.execution.backward_reads_output = false;
        if (place_is_a_byte) d.saved_bytes = d.output.size();
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = typename detail::pool2d<Side, Options...>::template geometry<io_t>;
        if constexpr (saves_places<g, io_t>)
            max_pool2d_forward<g, io_t::lanes>(io.policy, io.x.data, io.y.data, io.place.saved);
        else
            max_pool2d_forward<g, io_t::lanes>(io.policy, io.x.data, io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = typename detail::pool2d<Side, Options...>::template geometry<io_t>;
        if constexpr (saves_places<g, io_t>) {
            std::uint8_t const* const places = io.place.saved;
            max_pool2d_backward_input<g, io_t::lanes>(io.policy, places, io.dy.data, io.dx.data);
        } else {
            max_pool2d_backward_input<g, io_t::lanes>(io.policy, io.x.data, io.y.data, io.dy.data, io.dx.data);
        }
    }

private:
    static constexpr bool place_is_a_byte = Side <= 16;
    template<class G, class Io>
    static constexpr bool saves_places =
        place_is_a_byte && (requires(Io const& io, std::uint8_t* to) {
            max_pool2d_forward<G, Io::lanes>(io.policy, io.x.data, io.y.data, to);
        } || requires(Io const& io, std::uint8_t const* from) {
            max_pool2d_backward_input<G, Io::lanes>(io.policy, from, io.dy.data, io.dx.data);
        });
};

} // namespace trireme
