// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace trireme::inline TRIREME_ISA {

/// The shapes of a layer, as the context of such a policy takes them.
struct layer_shapes {
    shape input = {};
    shape output = {};
    shape viewed = {};  ///< the image that its input, a list, still lies as; else the input
    shape weights = {}; ///< of its first parameter tensor, PyTorch's layout; rank 0 without parameters
};

/// The context of a policy whose kernels take all samples at once: what one device keeps for them. It has
///
///     static constexpr std::size_t bytes(layer_shapes const* rows, std::size_t count, std::size_t samples);
///     context(layer_shapes const* rows, std::size_t count, std::size_t samples, void* memory);
///     auto begin();           // of a step, or of an evaluation: weights have changed; ends when its result goes
///     void prepare(bool on);  // while on, kernels only make ready for what they are called with
///     layer_shapes const& shapes(std::size_t row) const;
template<class C>
concept channels_last_context =
    std::constructible_from<C, layer_shapes const*, std::size_t, std::size_t, void*> &&
    requires(C& c, C const& cc, std::size_t row) {
        typename std::integral_constant<std::size_t, C::bytes(static_cast<layer_shapes const*>(nullptr), 0, 0)>;
        { c.begin() } -> std::destructible;
        c.prepare(true);
        { cc.shapes(row) } -> std::convertible_to<layer_shapes const&>;
    };

/// A policy of the host whose kernels take all samples of a shard at once, channels last, for libraries whose layout
/// has no lanes. A flattened image stays as it lies. What such a library does not compute is in this folder, for any
/// of them.
///
/// Such a policy is an object. It has
///
///     using sample_kernels = portable;  // with interleaved values, for the loss and the optimizer
///     using context = ...;              // of a device; the policy points to it
///     explicit policy(context&);
///     policy for_layer(std::size_t row, std::size_t samples) const;  // for one call of a layer
///     std::size_t row() const;          // of this call
///     std::size_t samples() const;
///     context& state() const;
///     bool computing() const;           // false: the context is only made ready, or there are no samples
///
/// An adapter, with_function, derives from the policy that `for_layer` gives.
template<class K>
concept channels_last_kernels =
    kernel_policy<K> && takes_all_samples<K> && keeps_channels_last<K> && kernel_policy<typename K::sample_kernels> &&
    !K::sample_kernels::remote && !takes_all_samples<typename K::sample_kernels> &&
    channels_last_context<typename K::context> && std::copy_constructible<K> && requires(K const& k, std::size_t n) {
        { k.row() } -> std::same_as<std::size_t>;
        { k.samples() } -> std::same_as<std::size_t>;
        { k.state() } -> std::same_as<typename K::context&>;
        { k.computing() } -> std::same_as<bool>;
        k.for_layer(n, n);
        requires std::derived_from<K, decltype(k.for_layer(n, n))>;
        requires std::constructible_from<decltype(k.for_layer(n, n)), typename K::context&>;
    };

/// The kernels for what is no layer.
template<class K>
struct sample_kernels_of {
    using type = K;
};
template<class K>
    requires takes_all_samples<K>
struct sample_kernels_of<K> {
    using type = typename K::sample_kernels;
};

} // namespace trireme::inline TRIREME_ISA
