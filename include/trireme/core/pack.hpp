// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace trireme {

/// A list of types, walked flat: no recursion, so cost is linear and messages stay short.
template<class... T>
struct pack {
    static constexpr std::size_t size = sizeof...(T);
};

inline constexpr std::size_t npos = static_cast<std::size_t>(-1);

/// The index of the first false, npos if there is none.
constexpr std::size_t first_false(std::initializer_list<bool> all) noexcept {
    std::size_t i = 0;
    for (bool const x : all) {
        if (!x) return i;
        ++i;
    }
    return npos;
}

namespace detail {

template<std::size_t Index, class T>
struct indexed {
    using type = T;
};

template<class Indices, class... T>
struct indexed_pack;
template<std::size_t... Index, class... T>
struct indexed_pack<std::index_sequence<Index...>, T...> : indexed<Index, T>... {};

template<std::size_t Index, class T>
indexed<Index, T> select(indexed<Index, T> const&);

/// The type of a pack of one: what a constexpr function that chooses among types returns.
template<class Pack>
struct only;
template<class T>
struct only<pack<T>> {
    using type = T;
};

} // namespace detail

/// The Index-th type of a pack, by one overload resolution over indexed bases.
template<std::size_t Index, class... T>
using type_at = typename decltype(detail::select<Index>(
    std::declval<detail::indexed_pack<std::index_sequence_for<T...>, T...> const&>()))::type;

namespace detail {

template<template<class> class Is, class Default, class... T>
constexpr auto first_or_default() {
    constexpr std::size_t at = first_false({!Is<T>::value...});
    if constexpr (at == npos)
        return pack<Default>{};
    else
        return pack<type_at<at, T...>>{};
}
/// The first type of a pack that `Is` holds for; `Default` if there is none.
template<template<class> class Is, class Default, class... T>
using first_or = typename only<decltype(first_or_default<Is, Default, T...>())>::type;

} // namespace detail

} // namespace trireme
