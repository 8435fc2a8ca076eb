// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/layer.hpp>

#include <iterator>
#include <type_traits>

namespace trireme {

/// Side of a square window, zeros around the image, and the window's step. Options of convolutions and pooling.
template<std::size_t N>
struct kernel {
    static constexpr std::size_t value = N;
};
template<std::size_t N>
struct padding {
    static constexpr std::size_t value = N;
};
template<std::size_t N>
struct stride {
    static constexpr std::size_t value = N;
};

template<class... Where>
struct conv2d_input_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0010: conv2d needs an image (channels, height, width): put it before flatten "
                  "and linear, or give the network a three-dimensional input");
};
template<class... Where>
struct conv2d_kernel_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0011: conv2d's kernel is larger than its padded input: use a smaller kernel, "
                  "more padding, or fewer pooling layers before it");
};

// Needed before a kernel policy overloads it: see cross_entropy.hpp.
template<class Geometry, std::size_t Lanes, class T>
void conv2d_scratch_bytes() = delete;
template<class Geometry, std::size_t Lanes, class T>
void conv2d_takes_narrow() = delete;

template<class... Where>
struct conv2d_options_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0013: conv2d<Channels, kernel<K>, options...> takes at most one padding<P> and one "
                  "stride<S>; Channels, K and S are at least 1");
};

namespace detail {

/// The shorter side of an image; 0 for what is none.
constexpr std::size_t smaller_side(shape const& s) noexcept {
    if (s.rank != 3) return 0;
    return s.extent[1] < s.extent[2] ? s.extent[1] : s.extent[2];
}

/// The N of an option of a layer; 0 for what is none.
template<class T>
inline constexpr std::size_t value_of_option = 0;
template<template<std::size_t> class Option, std::size_t N>
inline constexpr std::size_t value_of_option<Option<N>> = N;

/// True if a type is the option `Option<N>`.
template<template<std::size_t> class Option, class T>
inline constexpr bool is_option = false;
template<template<std::size_t> class Option, std::size_t N>
inline constexpr bool is_option<Option, Option<N>> = true;

/// The number of times that `Option` is among a layer's options; its N, or `Default` if it is not there.
template<template<std::size_t> class Option, class... Options>
constexpr std::size_t count_option() noexcept {
    bool const is[] = {is_option<Option, Options>..., false};
    std::size_t n = 0;
    for (bool const it : is) n += it ? 1 : 0;
    return n;
}
template<template<std::size_t> class Option, std::size_t Default, class... Options>
constexpr std::size_t option_value() noexcept {
    bool const is[] = {is_option<Option, Options>..., false};
    std::size_t const value[] = {value_of_option<Options>..., 0};
    for (std::size_t i = 0; i + 1 < std::size(is); ++i)
        if (is[i]) return value[i];
    return Default;
}

} // namespace detail

/// Two-dimensional convolution (cross-correlation, as in all deep learning libraries) with bias.
///
/// Input (C, H, W), output (Channels, (H + 2 P - K) / S + 1, (W + 2 P - K) / S + 1).
/// Parameters: weight (Channels, C, K, K), bias (Channels), PyTorch's layout. Options: `padding<P>`, `stride<S>`.
template<std::size_t Channels, class Kernel, class... Options> // conv2d<6, kernel<5>, padding<2>>
struct conv2d {
    using itself = conv2d; ///< kernels take narrow granules
    static constexpr std::size_t side = detail::option_value<kernel, 0, Kernel>();
    static constexpr std::size_t pad = detail::option_value<padding, 0, Options...>();
    static constexpr std::size_t step = detail::option_value<stride, 1, Options...>();
    static constexpr std::size_t paddings = detail::count_option<padding, Options...>();
    static constexpr std::size_t strides = detail::count_option<stride, Options...>();
    static constexpr bool usable = Channels > 0 && side > 0 && step > 0 && paddings <= 1 && strides <= 1 &&
                                   paddings + strides == sizeof...(Options);

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable || in.rank != 3 || in.extent[1] + 2 * pad < side || in.extent[2] + 2 * pad < side)
            return refused(in);
        layer_description d;
        auto const rows = (in.extent[1] + 2 * pad - side) / step + 1;
        auto const columns = (in.extent[2] + 2 * pad - side) / step + 1;
        auto const taps = in.extent[0] * side * side;
        d.output = make_shape(Channels, rows, columns);
        d.forward_flops = 2 * d.output.size() * taps;
        d.backward_input_flops = d.forward_flops;
        d.backward_weights_flops = d.forward_flops;
        d.parameter_count = 2;
        d.parameters[0] = {"weight", make_shape(Channels, in.extent[0], side, side), taps, Channels * side * side,
                           initial::weights};
        d.parameters[1] = {"bias", make_shape(Channels), taps, Channels, initial::zeros};
        d.channel_bias = 1;
        d.execution.backward_reads_output = false;
        d.execution.applies = true;
        d.execution.parameters_as_values = d.execution.stores_gradients = true;
        return d;
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        conv2d_forward<geometry_of<io_t>, io_t::lanes>(io.policy, io.x.data, io.parameter(0), io.parameter(1),
                                                       io.y.data);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        conv2d_backward_input<geometry_of<io_t>, io_t::lanes>(io.policy, io.parameter(0), io.dy.data, io.dx.data);
    }
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        conv2d_backward_weights<geometry_of<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.gradient(0),
                                                                io.gradient(1));
    }

    /// Memory that the kernels would like to have while they run.
    template<class In, std::size_t Lanes, class T, class Kernels>
    static constexpr std::size_t scratch_bytes() {
        using g = geometry<In, Kernels>;
        if constexpr (requires(Kernels k) { conv2d_scratch_bytes<g, Lanes, T>(k); })
            return conv2d_scratch_bytes<g, Lanes, T>(Kernels{});
        else
            return 0;
    }

    /// True if the kernels take narrow granules.
    template<class In, std::size_t Lanes, class T, class Kernels>
    static constexpr bool takes_narrow() {
        return conv2d_takes_narrow<geometry<In, Kernels>, Lanes, T>(Kernels{});
    }

    template<class Where, class In>
    using refusal = std::conditional_t<
        !usable, conv2d_options_rule<Where>,
        std::conditional_t<
            In::rank != 3, conv2d_input_rule<Where, wants<rank<3>>, gets<rank<In::rank>>>,
            conv2d_kernel_rule<Where, wants<at_most<detail::smaller_side(In::shape) + 2 * pad>>, gets<kernel<side>>>>>;

private:
    template<class In, class Kernels>
    using geometry = conv2d_geometry<In::shape.extent[0], In::shape.extent[1], In::shape.extent[2], Channels, side, pad,
                                     step, keeps_channels_last<Kernels>>;
    template<class Io>
    using geometry_of = geometry<typename Io::input, typename Io::kernels>;
};

} // namespace trireme
