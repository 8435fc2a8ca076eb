// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/device/kernel_policy.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme::inline TRIREME_ISA {

// Kernel policies of the host that take all samples of a shard at once, for libraries whose layout has no lanes. The
// samples lie one behind the other and channels last: value (c, y, x) of sample n stands at [((n * H + y) * W + x) * C
// + c], lists of values plainly. A flattened image stays as it lies.
//
// Such a policy is an object. It has
//
//     template<class T> static constexpr std::size_t lanes = 1;
//     static constexpr bool all_samples = true;
//     template<class T> static constexpr bool computes = ...;  // in numbers of type T
//     using stored_values = ...;        // as which values lie in memory, if not as T
//     template<class A> using storing = ...;  // the same policy, for values that lie there as A
//     template<class F> using applying = ...; // whose batch_norm also does the function behind it, if there are such
//     using sample_kernels = portable;  // a policy for what is no layer: the loss, sample by sample, and the optimizer
//     using context = ...;              // what a device keeps for its kernels; the policy points to it
//     explicit policy(context&);
//     policy for_layer(std::size_t row, std::size_t samples) const;  // for one call of a layer
//
// and its context
//
//     static constexpr std::size_t bytes(layer_shapes const* rows, std::size_t count, std::size_t samples);
//     context(layer_shapes const* rows, std::size_t count, std::size_t samples, void* memory);
//     auto begin();           // of a step, or of an evaluation: weights have changed; ends when its result goes
//     void prepare(bool on);  // while on, kernels only make ready for what they are called with

/// What such a context is told of a layer.
struct layer_shapes {
    shape input = {};
    shape output = {};
    shape viewed = {};  ///< the image that its input, a list, still lies as; else the input
    shape weights = {}; ///< of its first parameter tensor, PyTorch's layout; rank 0 without parameters
};

template<class K>
inline constexpr bool takes_all_samples = false;
template<class K>
    requires requires { K::all_samples; }
inline constexpr bool takes_all_samples<K> = K::all_samples;

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
