// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/layer_calls.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>
#include <utility>

namespace trireme {

namespace detail {

/// Whether layer `Index` is an elementwise function that works in place, and whose slope is told by its output.
template<class Network, std::size_t Index>
constexpr bool is_plain_function() {
    if constexpr (Index >= Network::depth) {
        return false;
    } else {
        constexpr auto& d = Network::row(Index).description;
        return requires { typename Network::template layer_type<Index>::function; }
        &&d.in_place && !d.backward_reads_input;
    }
}

/// Whether forward through layer `Index` ends with the function that is layer Index + 1, in one kernel.
template<class Network, std::size_t Index>
constexpr bool applies_next() {
    constexpr auto& d = Network::row(Index).description;
    return d.applies && !d.backward_reads_output && is_plain_function<Network, Index + 1>();
}

/// Whether backward through layer `Index` goes on through the function that is layer Index - 1, in one kernel.
template<class Network, std::size_t Index>
constexpr bool applies_previous() {
    if constexpr (Index < 1 || Index - 1 <= Network::first_trainable)
        return false;
    else
        return Network::row(Index).description.applies && is_plain_function<Network, Index - 1>();
}

} // namespace detail

/// What a backward pass does after a layer, if nothing is asked for.
struct nothing_after {
    void operator()(std::size_t) const noexcept {}
};

/// The samples of one rank on their way through a network on an accelerator, all at once: a straight line of kernels,
/// handed to a stream. A function behind a layer is applied by the layer's kernel, in both directions, so that its
/// values are not read and written once more. Gradients by parameters are computed on a second stream, beside backward.
template<class Network, accelerator_kernels Kernels, class T>
class stream_pass {
public:
    using event = typename Kernels::stream::event;
    using plan_type = activation_plan<Network::depth>;

    static constexpr plan_type plan(std::size_t samples) { return plan_activations<Network>(samples, sizeof(T), true); }

    stream_pass(plan_type const& places, T* arena) noexcept : plan_(places), arena_(arena) {}

    /// Where the samples are put, and where logits are found and their gradient is left.
    T* input() const noexcept { return value(0); }
    T const* output() const noexcept { return value(Network::depth); }
    T* output_gradient() const noexcept { return gradient(Network::depth); }

    void forward(Kernels const& k, T const* parameters) const {
        [&]<std::size_t... Index>(std::index_sequence<Index...>) {
            int const in_order[] = {0, (forward_through<Index>(k, parameters), 0)...};
            (void)in_order;
        }
        (std::make_index_sequence<Network::depth>{});
    }

    /// Adds the gradients by the parameters to `gradients`, on the stream of `weights`, which waits by means of `ready`
    /// for what it reads. `after(i)` is called when those of layer i have been handed over, from the last layer to the
    /// first. The caller joins the streams. Needs the forward pass just made.
    template<class After = nothing_after>
    void backward(Kernels const& k, Kernels const& weights, event& ready, T const* parameters, T* gradients,
                  After&& after = {}) const {
        [&]<std::size_t... Index>(std::index_sequence<Index...>) {
            int const in_order[] = {
                0,
                (backward_through<Network::depth - 1 - Index>(k, weights, ready, parameters, gradients, after), 0)...};
            (void)in_order;
        }
        (std::make_index_sequence<Network::depth - Network::first_trainable>{});
    }

private:
    template<std::size_t Index>
    using layer_t = typename Network::template layer_type<Index>;
    template<std::size_t Index>
    using in_t = typename Network::template input_of<Index>;
    template<std::size_t Index>
    using out_t = typename Network::template output_of<Index>;

    T* value(std::size_t i) const noexcept { return arena_ + plan_.value[i]; }
    T* gradient(std::size_t i) const noexcept { return arena_ + plan_.gradient[i]; }

    // Where a function is applied, the result goes where the function's would.
    template<std::size_t Index, std::size_t Out, class K>
    void run_forward(K const& k, T const* parameters) const {
        detail::run_forward<layer_t<Index>, in_t<Index>, out_t<Index>, 1, K, T>(
            k, value(Index), value(Out), parameters + Network::row(Index).first_parameter);
    }
    template<std::size_t Index, std::size_t In, class K>
    void run_backward_input(K const& k, T const* parameters) const {
        detail::run_backward_input<layer_t<Index>, in_t<Index>, out_t<Index>, 1, K, T>(
            k, value(Index), value(Index + 1), gradient(Index + 1), gradient(In),
            parameters + Network::row(Index).first_parameter);
    }

    template<std::size_t Index>
    void forward_through(Kernels const& k, T const* parameters) const {
        if constexpr (detail::applies_next<Network, Index>())
            run_forward<Index, Index + 2>(with_function<Kernels, typename layer_t<Index + 1>::function, T>(k),
                                          parameters);
        else if constexpr (!Network::row(Index).description.view && !was_applied_forward<Index>())
            run_forward<Index, Index + 1>(k, parameters);
    }

    template<std::size_t Index, class After>
    void backward_through(Kernels const& k, Kernels const& weights, event& ready, T const* parameters, T* gradients,
                          After& after) const {
        constexpr auto const& row = Network::row(Index);
        if constexpr (row.description.parameter_count > 0) {
            k.queue().record(ready);
            weights.queue().wait(ready);
            detail::run_backward_weights<layer_t<Index>, in_t<Index>, out_t<Index>, 1, Kernels, T>(
                weights, value(Index), value(Index + 1), gradient(Index + 1), parameters + row.first_parameter,
                gradients + row.first_parameter);
            after(Index);
        }
        if constexpr (row.description.view || Index <= Network::first_trainable)
            return;
        else if constexpr (detail::applies_previous<Network, Index>())
            run_backward_input<Index, Index - 1>(
                with_function<Kernels, typename layer_t<Index - 1>::function, T>(k, value(Index)), parameters);
        else if constexpr (!was_applied_backward<Index>())
            run_backward_input<Index, Index>(k, parameters);
    }

    template<std::size_t Index>
    static constexpr bool was_applied_forward() {
        if constexpr (Index == 0)
            return false;
        else
            return detail::applies_next<Network, Index - 1>();
    }
    template<std::size_t Index>
    static constexpr bool was_applied_backward() {
        if constexpr (Index + 1 >= Network::depth)
            return false;
        else
            return detail::applies_previous<Network, Index + 1>();
    }

    plan_type plan_;
    T* arena_;
};

} // namespace trireme
