// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>

namespace trireme {

/// The shape of one sample: `input<1, 28, 28>` is one channel of 28 x 28, `input<100>` a hundred values.
template<std::size_t... N>
struct input {
    using extents = trireme::extents<N...>;
};

template<class... Where>
struct network_layer_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0018: this is no layer: a layer has `static constexpr layer_description "
                  "describe(shape)` (layer/layer.hpp); the first argument of network is input<...>");
};

/// Where a network keeps what: one row per layer, and one more for the end.
struct layer_row {
    layer_description description = {};
    shape input = {};
    std::size_t first_parameter = 0; ///< offset in elements of the layer's first tensor in the parameter arena
};

namespace detail {

template<class L>
constexpr layer_description describe_or_refuse(shape in) {
    if constexpr (layer<L>)
        return L::describe(in);
    else
        return refused(in);
}

template<std::size_t Depth>
struct network_table {
    layer_row rows[Depth + 1] = {};
    std::size_t refused_at = npos; ///< the first layer that does not accept its input
};

template<class... Layers>
constexpr network_table<sizeof...(Layers)> make_network_table(shape in) {
    constexpr std::size_t depth = sizeof...(Layers);
    layer_description (*const rules[depth + 1])(shape) = {&describe_or_refuse<Layers>..., nullptr};
    network_table<depth> t;
    std::size_t parameters = 0;
    for (std::size_t i = 0; i < depth; ++i) {
        t.rows[i].input = in;
        t.rows[i].first_parameter = parameters;
        t.rows[i].description = rules[i](in);
        if (!t.rows[i].description.accepts && t.refused_at == npos) t.refused_at = i;
        in = t.rows[i].description.output;
        parameters += t.rows[i].description.parameter_elements();
    }
    t.rows[depth].input = in;
    t.rows[depth].first_parameter = parameters;
    return t;
}

template<std::size_t Position, class Network, bool Refused, bool IsLayer>
struct network_check {
    using type = no_rule;
};
template<std::size_t Position, class Network>
struct network_check<Position, Network, true, true> {
    using layer_t = typename Network::template layer_type<Position>;
    using type =
        typename layer_t::template refusal<at_layer<Position, layer_t>, typename Network::template input_of<Position>>;
};
template<std::size_t Position, class Network>
struct network_check<Position, Network, true, false> {
    using type = network_layer_rule<at_layer<Position, typename Network::template layer_type<Position>>>;
};

} // namespace detail

/// A chain of layers in data order. Every shape is deduced from the input's and checked; naming a network costs
/// nothing, using one (an object, a member) is what compiles the checks.
///
/// Layers are counted from 0. Parameters lie in one arena, layer by layer, tensor by tensor, without gaps: the
/// canonical coordinates in which they are initialised, reduced, updated and saved.
template<class Input, class... Layers>
struct network {
    static constexpr std::size_t depth = sizeof...(Layers);
    static constexpr detail::network_table<depth> table = detail::make_network_table<Layers...>(Input::extents::shape);

    template<std::size_t Index>
    using layer_type = type_at<Index, Layers...>;

    /// Shape of the input of layer `Index` as a type; Index = depth is the network's output.
    template<std::size_t Index>
    using input_of =
        to_extents<table.rows[Index].input.rank, table.rows[Index].input.extent[0], table.rows[Index].input.extent[1],
                   table.rows[Index].input.extent[2], table.rows[Index].input.extent[3]>;
    using input_extents = typename Input::extents;
    using output_extents = input_of<depth>;

    static constexpr layer_row const& row(std::size_t i) noexcept { return table.rows[i]; }

    /// Trainable numbers of the whole network.
    static constexpr std::size_t parameters = table.rows[depth].first_parameter;

    /// The first layer with parameters: backward stops there, for no gradient is needed below it.
    static constexpr std::size_t first_trainable = [] {
        for (std::size_t i = 0; i < depth; ++i)
            if (table.rows[i].description.parameter_count > 0) return i;
        return depth;
    }();

    /// FLOPs of one sample's forward pass, and of forward and backward together.
    static constexpr flops_t forward_flops = [] {
        flops_t sum = 0;
        for (std::size_t i = 0; i < depth; ++i) sum += table.rows[i].description.forward_flops;
        return sum;
    }();
    static constexpr flops_t training_flops = [] {
        flops_t sum = forward_flops;
        for (std::size_t i = first_trainable; i < depth; ++i) {
            sum += table.rows[i].description.backward_weights_flops;
            if (i > first_trainable) sum += table.rows[i].description.backward_input_flops;
        }
        return sum;
    }();

    static constexpr bool valid = table.refused_at == npos;

private:
    static constexpr std::size_t suspect = valid ? 0 : table.refused_at;
    static constexpr bool is_layer = [] {
        bool const is[] = {layer<Layers>..., true};
        return is[suspect];
    }();

public:
    using rule = typename detail::network_check<suspect, network, !valid, is_layer>::type;
    static constexpr rule checked{};
};

template<class T>
inline constexpr bool is_network = false;
template<class Input, class... Layers>
inline constexpr bool is_network<network<Input, Layers...>> = true;

} // namespace trireme
