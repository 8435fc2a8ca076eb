// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/layer/for_units.hpp>
#include <trireme/layer/fused_functions.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

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

template<class Kernels, class T>
using place_of = layer_place<T, stored_t<Kernels, T>>;

// Outlined once per layer kind, shape, dtype and lane count; where a layer stands in its network is a run-time value.

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_forward(Kernels policy, stored_t<Kernels, T> const* x, stored_t<Kernels, T>* y,
                                  T const* first_parameter, place_of<Kernels, T> const& place = {}) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    Layer::forward(forward_io<T, In, Out, Lanes, Kernels>{{x}, {y}, tensors.at, policy, place});
}

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_evaluate(Kernels policy, stored_t<Kernels, T> const* x, stored_t<Kernels, T>* y,
                                   T const* first_parameter, place_of<Kernels, T> const& place = {}) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    forward_io<T, In, Out, Lanes, Kernels> const io{{x}, {y}, tensors.at, policy, place};
    if constexpr (requires { Layer::evaluate(io); })
        Layer::evaluate(io);
    else
        Layer::forward(io);
}

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_backward_input(Kernels policy, stored_t<Kernels, T> const* x, stored_t<Kernels, T> const* y,
                                         stored_t<Kernels, T> const* dy, stored_t<Kernels, T>* dx,
                                         T const* first_parameter, place_of<Kernels, T> const& place = {}) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    Layer::backward_input(
        backward_io<T, In, Out, Lanes, Kernels>{{x}, {y}, {dy}, {dx}, tensors.at, nullptr, policy, place});
}

template<class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_backward_weights(Kernels policy, stored_t<Kernels, T> const* x, stored_t<Kernels, T> const* y,
                                           stored_t<Kernels, T> const* dy, T const* first_parameter, T* first_gradient,
                                           place_of<Kernels, T> const& place = {}) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    layer_tensors<Layer, In, T> const gradients(first_gradient);
    if constexpr (!layer_tensors<Layer, In, T>::description.whole_shard) // else `backward_agree` trains them
        Layer::backward_weights(
            backward_io<T, In, Out, Lanes, Kernels>{{x}, {y}, {dy}, {}, tensors.at, gradients.at, policy, place});
}

/// Of layers that need a whole shard: one granule of it, or, `agree`, what they found in all of them. On accelerators
/// layers that need the whole batch come back after each of their sums over the devices.
enum class phase : unsigned char { gather, agree, after_first_sum, after_second_sum };
constexpr phase after_sum(std::size_t call) noexcept {
    return call == 0 ? phase::after_first_sum : phase::after_second_sum;
}

template<phase What, class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_forward_phase(Kernels policy, stored_t<Kernels, T> const* x, stored_t<Kernels, T>* y,
                                        T const* first_parameter, place_of<Kernels, T> const& place) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    forward_io<T, In, Out, Lanes, Kernels> const io{{x}, {y}, tensors.at, policy, place};
    if constexpr (What == phase::gather)
        Layer::forward_gather(io);
    else if constexpr (What == phase::agree)
        Layer::forward_agree(io);
    else
        Layer::template forward_agreed<What == phase::after_first_sum ? 0 : 1>(io);
}

template<phase What, class Layer, class In, class Out, std::size_t Lanes, class Kernels, class T>
TRIREME_NOINLINE void run_backward_phase(Kernels policy, stored_t<Kernels, T> const* x, stored_t<Kernels, T> const* y,
                                         stored_t<Kernels, T> const* dy, T const* first_parameter, T* first_gradient,
                                         place_of<Kernels, T> const& place) {
    layer_tensors<Layer, In, T const> const tensors(first_parameter);
    layer_tensors<Layer, In, T> const gradients(first_gradient);
    backward_io<T, In, Out, Lanes, Kernels> const io{{x}, {y}, {dy}, {}, tensors.at, gradients.at, policy, place};
    if constexpr (What == phase::gather)
        Layer::backward_gather(io);
    else if constexpr (What == phase::agree)
        Layer::backward_agree(io);
    else
        Layer::template backward_agreed<What == phase::after_first_sum ? 0 : 1>(io);
}

/// The most memory that one of a network's layers would like its kernels to have.
template<class Network, class Kernels, class T, std::size_t Lanes>
constexpr std::size_t scratch_bytes() {
    std::size_t most = 0;
    for_units<Network>(0, [&]<class Chain, std::size_t Unit>(unit<Chain, Unit>, std::size_t) {
        using layer = typename Chain::template layer_type<Unit>;
        using in = typename Chain::template input_of<Unit>;
        if constexpr (requires { layer::template scratch_bytes<in, Lanes, T, Kernels>(); })
            most = std::max(most, layer::template scratch_bytes<in, Lanes, T, Kernels>());
    });
    return most;
}

/// The policy with memory to work in, if one of the network's layers wants some.
template<class Network, class Kernels, class T, std::size_t Lanes>
constexpr auto scratch_policy() {
    if constexpr (scratch_bytes<Network, Kernels, T, Lanes>() == 0)
        return pack<Kernels>{};
    else
        return pack<typename Kernels::with_scratch>{};
}
template<class Network, class Kernels, class T, std::size_t Lanes>
using with_scratch_t = typename only<decltype(scratch_policy<Network, Kernels, T, Lanes>())>::type;

template<class WithScratch, class Kernels>
WithScratch with_scratch(Kernels policy, void* memory) {
    if constexpr (std::is_same_v<WithScratch, Kernels>)
        return policy;
    else
        return {policy, memory};
}

/// What a pass works with, beside the values of its samples: the model's numbers, and what becomes of them.
template<class T>
struct model_numbers {
    T const* parameters = nullptr;
    T* gradients = nullptr;  ///< to be added to
    T* buffers = nullptr;    ///< running statistics
    T* statistics = nullptr; ///< what goes into them after the step; to be added to
    T* kept = nullptr;       ///< of the shard
    sum_over_devices<T> sum = {};
};

/// Calls the layers of `Network` on one granule, one by one. `Slots` says where it lies: value(slot), gradient(slot).
/// A unit of a chain is called with its row, which in a repeated block is not known to the compiler.
template<class Network, class Kernels, class T, std::size_t Lanes, class Slots>
struct layer_calls {
    Kernels policy;
    Slots slots;
    model_numbers<T> const& model;
    granule_place granule;

    place_of<Kernels, T> place(std::size_t row) const noexcept {
        auto const& r = Network::row(row);
        return {row,
                granule,
                r.is_sum() ? slots.value(r.other) : nullptr,
                moved(model.buffers, r.first_buffer),
                moved(model.statistics, r.first_buffer),
                moved(model.kept, r.first_kept),
                model.sum};
    }
    /// What is not there stays so: evaluation has no statistics.
    static T* moved(T* from, std::size_t by) noexcept { return from == nullptr ? nullptr : from + by; }

    /// For a row's layer, where they want to know it.
    Kernels kernels(std::size_t row) const noexcept {
        if constexpr (takes_all_samples<Kernels>)
            return policy.for_layer(row, granule.count);
        else
            return policy;
    }

    // A function that the kernels of the layer before it apply is done with that layer, where its own values lie.

    template<class Chain, std::size_t Unit>
    void forward(std::size_t row) const {
        using k = kernels_of<Chain, Unit>;
        if constexpr (!Chain::description_of(Unit).view && !is_applied<Chain, Unit>())
            run_forward<layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, k, T>(
                k(kernels(row)), x(row), slots.value(row + 1), parameters(row), place(row));
    }
    template<class Chain, std::size_t Unit>
    void evaluate(std::size_t row) const {
        using k = kernels_of<Chain, Unit>;
        if constexpr (!Chain::description_of(Unit).view && !is_applied<Chain, Unit>())
            run_evaluate<layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, k, T>(
                k(kernels(row)), x(row), slots.value(row + 1), parameters(row), place(row));
    }
    /// Both gradients, as far as they are wanted.
    template<class Chain, std::size_t Unit>
    void backward(std::size_t row) const {
        constexpr auto const& d = Chain::description_of(Unit);
        using layer = layer_t<Chain, Unit>;
        using k = kernels_of<Chain, Unit>;
        // in a network without repeats a layer need not have what is never called
        if constexpr (std::is_base_of_v<Chain, Network> && Chain::first_row(Unit) <= Network::first_trainable) {
            weights<Chain, Unit>(row);
        } else if constexpr (std::is_same_v<layer, fork>) {
            if (row <= Network::first_trainable) return;
            auto at = place(row);
            at.other = slots.gradient(Network::row(row).other);
            run_backward_input<layer, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, Kernels, T>(
                kernels(row), x(row), slots.value(row + 1), slots.gradient(row + 1), slots.gradient(row),
                parameters(row), at);
        } else {
            weights<Chain, Unit>(row);
            if constexpr (!d.view && !is_residual_sum<layer> && !is_applied<Chain, Unit>())
                if (row > Network::first_trainable)
                    run_backward_input<layer, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, k, T>(
                        k(kernels(row)), x(row), slots.value(row + 1), output_gradient<Chain, Unit>(row),
                        slots.gradient(row), parameters(row), place(row));
        }
    }

    template<phase What, class Chain, std::size_t Unit>
    void forward_phase(std::size_t row) const {
        run_forward_phase<What, layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, Kernels, T>(
            kernels(row), x(row), slots.value(row + 1), parameters(row), place(row));
    }
    template<phase What, class Chain, std::size_t Unit>
    void backward_phase(std::size_t row) const {
        using k = kernels_of<Chain, Unit>;
        run_backward_phase<What, layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, k, T>(
            k(kernels(row)), x(row), slots.value(row + 1), output_gradient<Chain, Unit>(row), parameters(row),
            gradients(row), place(row));
    }

private:
    template<class Chain, std::size_t Unit>
    using layer_t = typename Chain::template layer_type<Unit>;
    template<class Chain, std::size_t Unit>
    using in_t = typename Chain::template input_of<Unit>;
    template<class Chain, std::size_t Unit>
    using out_t = typename Chain::template output_of<Unit>;

    /// Whether a unit's kernels also apply the function behind it: those that see the values of a whole shard more than
    /// once, if the policy has such.
    template<class Chain, std::size_t Unit>
    static constexpr bool applies() {
        if constexpr (Unit < Chain::units && requires { typename Kernels::template applying<fork>; }) {
            if constexpr (applies_next<Chain, Unit>()) return Chain::description_of(Unit).whole_shard;
        }
        return false;
    }
    template<class Chain, std::size_t Unit>
    static constexpr bool is_applied() {
        return applies<Chain, Unit - 1>();
    }
    template<class Chain, std::size_t Unit>
    static auto kernels_for() {
        if constexpr (applies<Chain, Unit>())
            return pack<typename Kernels::template applying<typename layer_t<Chain, Unit + 1>::function>>{};
        else
            return pack<Kernels>{};
    }
    template<class Chain, std::size_t Unit>
    using kernels_of = typename only<decltype(kernels_for<Chain, Unit>())>::type;

    stored_t<Kernels, T> const* x(std::size_t row) const noexcept { return slots.value(Network::row(row).from); }
    T const* parameters(std::size_t row) const noexcept { return model.parameters + Network::row(row).first_parameter; }
    T* gradients(std::size_t row) const noexcept { return model.gradients + Network::row(row).first_parameter; }

    /// By what a unit gives, or what the function gives that is applied to it. The latter is still there: it lies where
    /// the former would, unless somebody reads it later still.
    template<class Chain, std::size_t Unit>
    stored_t<Kernels, T> const* output_gradient(std::size_t row) const noexcept {
        return slots.gradient(row + (applies<Chain, Unit>() ? 2 : 1));
    }

    template<class Chain, std::size_t Unit>
    void weights(std::size_t row) const {
        if constexpr (Chain::description_of(Unit).parameter_count > 0)
            run_backward_weights<layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, Lanes, Kernels, T>(
                kernels(row), x(row), slots.value(row + 1), slots.gradient(row + 1), parameters(row), gradients(row),
                place(row));
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
