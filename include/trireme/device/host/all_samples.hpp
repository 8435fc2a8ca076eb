// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/device/host/isa.hpp>

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

/// Whether kernels compute in numbers of type T: in floating-point numbers, unless they say in which.
template<class K, class T>
inline constexpr bool computes_in = std::is_floating_point_v<T>;
template<class K, class T>
requires requires { K::template computes<T>; }
inline constexpr bool computes_in<K, T> = K::template computes<T>;

/// How the values between layers, and their gradients, lie in memory: as numbers of type T, with which parameters are
/// kept and the kernels reckon, or as kernels say, which then widen what they read and round what they write.
template<class K, class T>
struct stored {
    using type = T;
};
template<class K, class T>
requires requires { typename K::stored_values; }
struct stored<K, T> {
    using type = typename K::stored_values;
};
template<class K, class T>
using stored_t = typename stored<K, T>::type;

/// The same kernels, for values that lie in memory as numbers of type A: none, unless they say which.
template<class K, class A>
struct storing {
    using type = K;
};
template<class K, class A>
requires requires { typename K::template storing<A>; }
struct storing<K, A> {
    using type = typename K::template storing<A>;
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
