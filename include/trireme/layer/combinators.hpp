// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/words.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>

namespace trireme {

/// Layers in data order, as one: what a body or a block consists of. Costs nothing.
template<class... Layers>
struct sequential {};

/// y = Body(x) + Shortcut(x); without a shortcut, y = Body(x) + x. Both give the same shape. A residual is one module:
/// its children are the body's layers, and then the shortcut's.
///
/// Source: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016.
template<class Body, class Shortcut = sequential<>>
struct residual {};

/// Combinator `repeat` runs a block N times, each time with weights of its own: compiled once. The output has the
/// input's shape.
template<std::size_t N, class... Block>
struct repeat {};

/// A text as a template argument.
template<std::size_t N>
struct fixed_text {
    char text[N] = {};
    consteval fixed_text(char const (&from)[N]) noexcept {
        for (std::size_t i = 0; i < N; ++i) text[i] = from[i];
    }
};

/// A layer, or layers, under a name of their own in files of weights (layer/names.hpp) instead of a number; under the
/// name "" their children are those of what they are in.
template<fixed_text Name, class Layer>
struct named {
    using named_layer = Layer;
    static constexpr auto name = Name;
};

template<class... Where>
struct residual_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0060: residual adds what its body and its shortcut give, so both give one shape: give the "
                  "shortcut a convolution, conv2d<channels, kernel<1>, stride<S>>, or keep the shape in the body");
};
template<class... Where>
struct repeat_rule {
    static_assert(rule_holds<Where...>, "TRI0061: repeat feeds a block's output to the same block again, so the block "
                                        "keeps the shape: put layers that change it before or behind the repeat");
};
template<class... Where>
struct repeat_count_rule {
    static_assert(rule_holds<Where...>, "TRI0062: repeat<N, layers...> repeats at least one layer at least once");
};

namespace detail {

// A residual in a flat list of layers: fork, body, branch, shortcut, sum. Going back, the fork adds the gradients of
// its two ways.

/// The row at which two ways begin: the first is the input itself.
struct fork {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.backward_input_flops = in.size();
        d.execution.view = true;
        d.execution.applies = true; // on the way back
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        return d;
    }
    /// `other`: the gradient that came by the second way.
    static void backward_input(auto const& io) {
        if constexpr (requires { io.policy.input(); }) // times the slope of the function before it
            add_gradients(io.policy, io.dy.data, io.place.other, io.dx.data, io.dx.size());
        else
            add_values(io.policy, io.dy.data, io.place.other, io.dx.data, io.dx.size());
    }
};

/// The second way: it reads what the fork reads.
struct branch {
    static constexpr layer_description describe(shape in) noexcept {
        auto d = fork::describe(in);
        d.backward_input_flops = 0;
        d.execution.applies = false;
        return d;
    }
};

/// The row at which the two ways meet. Its gradient is that of either way.
template<class Body, class Shortcut>
struct residual_sum {
    using written = residual<Body, Shortcut>;

    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.forward_flops = in.size();
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        d.execution.in_place = true;
        d.execution.applies = true; // on the way there
        return d;
    }
    /// `other`: what the second way gives.
    static void forward(auto const& io) { add_values(io.policy, io.x.data, io.place.other, io.y.data, io.x.size()); }
};

template<class L>
inline constexpr bool is_residual_sum = false;
template<class Body, class Shortcut>
inline constexpr bool is_residual_sum<residual_sum<Body, Shortcut>> = true;

template<class... Packs>
struct concatenated {
    using type = pack<>;
};
template<class... A>
struct concatenated<pack<A...>> {
    using type = pack<A...>;
};
template<class... A, class... B, class... Rest>
struct concatenated<pack<A...>, pack<B...>, Rest...> : concatenated<pack<A..., B...>, Rest...> {};
template<class... A, class... B, class... C, class... D, class... Rest>
struct concatenated<pack<A...>, pack<B...>, pack<C...>, pack<D...>, Rest...>
    : concatenated<pack<A..., B..., C..., D...>, Rest...> {};

/// `named`. By what it has: nvcc deduces no template argument of a class type.
template<class L>
concept is_named = requires { typename L::named_layer; };

/// A layer, or what stands for several, as a flat list. `repeat` stays: it is walked N times.
template<class Layer>
struct flat {
    using type = pack<Layer>;
};
template<class... Layers>
struct flat<sequential<Layers...>> : concatenated<typename flat<Layers>::type...> {};
template<class Body, class Shortcut>
struct flat<residual<Body, Shortcut>>
    : concatenated<pack<fork>, typename flat<Body>::type, pack<branch>, typename flat<Shortcut>::type,
                   pack<residual_sum<Body, Shortcut>>> {};
template<is_named L>
struct flat<L> : flat<typename L::named_layer> {};

template<class L>
inline constexpr bool is_combinator = false;
template<class... Layers>
inline constexpr bool is_combinator<sequential<Layers...>> = true;
template<class Body, class Shortcut>
inline constexpr bool is_combinator<residual<Body, Shortcut>> = true;
template<is_named L>
inline constexpr bool is_combinator<L> = true;

/// Arrays and no fold expressions: clang folds no more than 256 of anything.
template<class... Layers>
constexpr bool has_combinators() noexcept {
    bool const is[] = {is_combinator<Layers>..., false};
    for (bool const it : is)
        if (it) return true;
    return false;
}

/// Lists without combinators, which most are, are taken as they come.
template<class... Layers>
constexpr auto flat_list() {
    if constexpr (has_combinators<Layers...>())
        return typename concatenated<typename flat<Layers>::type...>::type{};
    else
        return pack<Layers...>{};
}

} // namespace detail
} // namespace trireme
