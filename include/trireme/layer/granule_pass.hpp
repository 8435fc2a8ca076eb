// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme::detail::inline TRIREME_ISA {

/// The parameter tensors of one layer, found from where the layer's first one begins.
template<class Layer, class In, class T>
struct layer_tensors {
    static constexpr layer_description description = Layer::describe(In::shape);
    T* at[max_parameter_tensors] = {};

    explicit layer_tensors(T* first) noexcept {
        for (int k = 0; k < description.parameter_count; ++k) {
            at[k] = first;
            first += description.parameters[k].shape.size();
        }
    }
};

// Outlined once per layer kind, shape, dtype and lane count; where a layer stands in its network is a run-time value.

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_forward(Kernels policy, T const* x, T* y, T const* first_parameter) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    forward_io<T, In, Out, Lanes, Kernels> const io{{x}, {y}, tensors.at, policy};
    Layer::forward(io);
}

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_backward_input(Kernels policy, T const* x, T const* y, T const* dy, T* dx,
                                         T const* first_parameter) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    backward_io<T, In, Out, Lanes, Kernels> const io{{x}, {y}, {dy}, {dx}, tensors.at, nullptr, policy};
    Layer::backward_input(io);
}

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_backward_weights(Kernels policy, T const* x, T const* y, T const* dy,
                                           T const* first_parameter, T* first_gradient) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    layer_tensors<Layer, In, T> const gradients(first_gradient);
    backward_io<T, In, Out, Lanes, Kernels> const io{{x}, {y}, {dy}, {}, tensors.at, gradients.at, policy};
    Layer::backward_weights(io);
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// What a pass does between two layers, if nothing is asked for.
struct nothing_between {
    void operator()() const noexcept {}
};

/// Up to how many samples these kernels take one by one; see device/host/kernels.hpp.
template<class Kernels, class T>
inline constexpr std::size_t one_by_one = [] {
    if constexpr (requires { Kernels::template one_by_one<T>; })
        return Kernels::template one_by_one<T>;
    else
        return std::size_t{0};
}();

template<std::size_t N>
using lane_count = std::integral_constant<std::size_t, N>;

/// Cuts samples into granules: f(lane_count<N>, range) for each, N samples at most; the few that are left over at the
/// end one by one, if the kernels say so. The cut depends on the number of samples alone.
template<class Kernels, class T, class F>
void for_granules(range samples, F&& f) {
    constexpr std::size_t lanes = Kernels::template lanes<T>, few = one_by_one<Kernels, T>;
    auto at = samples.begin;
    while (samples.end - at > few) {
        auto const end = std::min(at + lanes, samples.end);
        f(lane_count<lanes>{}, range{at, end});
        at = end;
    }
    if constexpr (few != 0)
        for (; at < samples.end; ++at) f(lane_count<1>{}, range{at, at + 1});
}

/// One granule's way through a network: a straight line of calls, one per layer, on an activation arena laid out by
/// plan_activations. Nothing is allocated, nothing is looked up.
template<class Network, class Kernels, class T, std::size_t Lanes = Kernels::template lanes<T>>
class granule_pass {
public:
    static constexpr std::size_t lanes = Lanes;
    static constexpr activation_plan<Network::depth> plan = plan_activations<Network>(lanes, sizeof(T));

    explicit granule_pass(T* arena) noexcept : arena_(arena) {}

    /// Where the caller puts the samples, and where it finds logits and leaves their gradient.
    T* input() const noexcept { return arena_ + plan.value[0]; }
    T const* output() const noexcept { return arena_ + plan.value[Network::depth]; }
    T* output_gradient() const noexcept { return arena_ + plan.gradient[Network::depth]; }

    /// `between()` is called after every layer: the place for what should go on beside the computation.
    template<class Between = nothing_between>
    void forward(T const* parameters, Between&& between = {}) const {
        [&]<std::size_t... Index>(std::index_sequence<Index...>) {
            int const in_order[] = {0, (forward_through<Index>(parameters), between(), 0)...};
            (void)in_order;
        }
        (std::make_index_sequence<Network::depth>{});
    }

    /// Adds the granule's gradients to `gradients`; needs the forward pass just made.
    template<class Between = nothing_between>
    void backward(T const* parameters, T* gradients, Between&& between = {}) const {
        [&]<std::size_t... Index>(std::index_sequence<Index...>) {
            int const in_order[] = {
                0, (backward_through<Network::depth - 1 - Index>(parameters, gradients), between(), 0)...};
            (void)in_order;
        }
        (std::make_index_sequence<Network::depth - Network::first_trainable>{});
    }

private:
    template<std::size_t Index>
    using layer_t = typename Network::template layer_type<Index>;
    template<std::size_t Index>
    using in_t = typename Network::template input_of<Index>;

    T* value(std::size_t i) const noexcept { return arena_ + plan.value[i]; }
    T* gradient(std::size_t i) const noexcept { return arena_ + plan.gradient[i]; }

    template<std::size_t Index>
    void forward_through(T const* parameters) const {
        if constexpr (!Network::row(Index).description.view)
            detail::run_forward<layer_t<Index>, in_t<Index>, in_t<Index + 1>, lanes, Kernels, T>(
                Kernels{}, value(Index), value(Index + 1), parameters + Network::row(Index).first_parameter);
    }

    template<std::size_t Index>
    void backward_through(T const* parameters, T* gradients) const {
        constexpr auto const& row = Network::row(Index);
        if constexpr (row.description.parameter_count > 0)
            detail::run_backward_weights<layer_t<Index>, in_t<Index>, in_t<Index + 1>, lanes, Kernels, T>(
                Kernels{}, value(Index), value(Index + 1), gradient(Index + 1), parameters + row.first_parameter,
                gradients + row.first_parameter);
        if constexpr (!row.description.view && Index > Network::first_trainable)
            detail::run_backward_input<layer_t<Index>, in_t<Index>, in_t<Index + 1>, lanes, Kernels, T>(
                Kernels{}, value(Index), value(Index + 1), gradient(Index + 1), gradient(Index),
                parameters + row.first_parameter);
    }

    T* arena_;
};

} // namespace trireme::inline TRIREME_ISA
