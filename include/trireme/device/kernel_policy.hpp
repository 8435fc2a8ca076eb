// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>

#include <type_traits>

// What kernel policies say of numbers.
namespace trireme {

/// Whether kernels compute in numbers of type T: in floating-point numbers, unless they say in which.
template<class K, class T>
inline constexpr bool computes_in = std::is_floating_point_v<T>;
template<class K, class T>
    requires requires { K::template computes<T>; }
inline constexpr bool computes_in<K, T> = K::template computes<T>;

/// How the values between layers, and their gradients, lie in memory: as numbers of type T, with which parameters are
/// kept and sums are taken, or as the kernels say, which then widen what they read and round what they write.
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

/// The same kernels for values that lie in memory as numbers of type A.
template<class K, class A>
struct storing {
    using type = K;
};
template<class K, class A>
    requires requires { typename K::template storing<A>; }
struct storing<K, A> {
    using type = typename K::template storing<A>;
};

/// Whether values of images lie channels last: see device/geometry.hpp.
template<class K>
inline constexpr bool keeps_channels_last = false;
template<class K>
    requires requires { K::keeps_channels_last; }
inline constexpr bool keeps_channels_last<K> = K::keeps_channels_last;

/// The policy that kernels are called with: a policy may be more than that.
template<class K>
struct called {
    using type = K;
};
template<class K>
    requires requires { typename K::called; }
struct called<K> {
    using type = typename K::called;
};
template<class K>
using called_t = typename called<K>::type;

} // namespace trireme
