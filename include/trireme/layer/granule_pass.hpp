// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/layer_calls.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

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
/// plan_activations. Nothing is allocated, nothing is looked up. For networks none of whose layers needs more than one
/// granule at once; `shard_pass` is for the others.
template<class Network, class Kernels, class T, std::size_t Lanes = Kernels::template lanes<T>>
class granule_pass {
public:
    static constexpr std::size_t lanes = Lanes;
    static constexpr activation_plan<Network::depth> plan = plan_activations<Network>(lanes, sizeof(T));
    using numbers = detail::model_numbers<T>;

    /// Elements of the arena: the planned blocks, and the kernels' scratch behind them.
    static constexpr std::size_t elements =
        plan.elements +
        round_up(detail::scratch_bytes<Network, Kernels, T, Lanes>() / sizeof(T), cache_line / sizeof(T));

    explicit granule_pass(T* arena, Kernels policy = {}) noexcept
        : policy_(detail::with_scratch<kernels>(policy, arena + plan.elements)), slots_{arena} {}

    /// Where the caller puts the samples, and where it finds logits and leaves their gradient.
    T* input() const noexcept { return slots_.value(0); }
    T const* output() const noexcept { return slots_.value(Network::depth); }
    T* output_gradient() const noexcept { return slots_.gradient(Network::depth); }

    /// `between()` is called after every layer: the place for what should go on beside the computation.
    template<class Between = nothing_between>
    void forward(numbers const& model, granule_place const& granule, Between&& between = {}) const {
        calls const c{policy_, slots_, model, granule};
        detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
            c.template forward<Chain, Unit>(row);
            between();
        });
    }

    /// Forward outside of training.
    void evaluate(numbers const& model, granule_place const& granule) const {
        calls const c{policy_, slots_, model, granule};
        detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
            c.template evaluate<Chain, Unit>(row);
        });
    }

    /// Adds the granule's gradients to the model's; needs the forward pass just made.
    template<class Between = nothing_between>
    void backward(numbers const& model, granule_place const& granule, Between&& between = {}) const {
        calls const c{policy_, slots_, model, granule};
        detail::for_units<Network, true>(
            0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
                if (row + 1 > Network::first_trainable) { // nothing below wants a gradient
                    c.template backward<Chain, Unit>(row);
                    between();
                }
            });
    }

private:
    struct slots {
        T* arena;
        T* value(std::size_t slot) const noexcept { return arena + plan.value[slot]; }
        T* gradient(std::size_t slot) const noexcept { return arena + plan.gradient[slot]; }
    };
    using kernels = detail::with_scratch_t<Network, Kernels, T, Lanes>;
    using calls = detail::layer_calls<Network, kernels, T, Lanes, slots>;

    [[no_unique_address]] kernels policy_;
    slots slots_;
};

} // namespace trireme::inline TRIREME_ISA
