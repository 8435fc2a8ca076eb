// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <concepts>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// A policy of the host whose kernels take all samples of a shard at once, channels last, for libraries whose layout
/// has no lanes. A flattened image stays as it lies. What such a library does not compute is in this folder, for any
/// of them.
///
/// Such a policy is an object. It has
///
///     using sample_kernels = portable;  // a policy for what is no layer: the loss, sample by sample, and the
///     optimizer using context = ...;              // what a device keeps for its kernels; the policy points to it
///     explicit policy(context&);
///     policy for_layer(std::size_t row, std::size_t samples) const;  // for one call of a layer
///     bool computing() const;           // false: the context is only made ready, or there are no samples
///
/// and its context
///
///     static constexpr std::size_t bytes(layer_shapes const* rows, std::size_t count, std::size_t samples);
///     context(layer_shapes const* rows, std::size_t count, std::size_t samples, void* memory);
///     auto begin();           // of a step, or of an evaluation: weights have changed; ends when its result goes
///     void prepare(bool on);  // while on, kernels only make ready for what they are called with
template<class K>
concept channels_last_kernels = takes_all_samples<K> && requires(K const& k, std::size_t n) {
    typename K::sample_kernels;
    typename K::context;
    { k.row() } -> std::same_as<std::size_t>;
    { k.samples() } -> std::same_as<std::size_t>;
    { k.computing() } -> std::same_as<bool>;
    k.for_layer(n, n);
};

/// The shapes of a layer, as the context of such a policy takes them.
struct layer_shapes {
    shape input = {};
    shape output = {};
    shape viewed = {};  ///< the image that its input, a list, still lies as; else the input
    shape weights = {}; ///< of its first parameter tensor, PyTorch's layout; rank 0 without parameters
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
