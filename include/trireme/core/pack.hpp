// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme {

/// A list of types, walked flat: no recursion, so cost is linear and messages stay short.
template<class... T>
struct pack {
    static constexpr std::size_t size = sizeof...(T);
};

inline constexpr std::size_t npos = static_cast<std::size_t>(-1);

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

} // namespace detail

/// The I-th type of a pack, by one overload resolution over indexed bases.
template<std::size_t Index, class... T>
using type_at = typename decltype(detail::select<Index>(
    std::declval<detail::indexed_pack<std::index_sequence_for<T...>, T...> const&>()))::type;

/// How many of `T...` are `U`, and where the first one stands (`npos` if none).
template<class U, class... T>
inline constexpr std::size_t count_of = (std::size_t{0} + ... + std::size_t{std::is_same_v<U, T>});

template<class U, class... T>
constexpr std::size_t find_in_pack() noexcept {
    bool const same[] = {std::is_same_v<U, T>..., false};
    for (std::size_t i = 0; i < sizeof...(T); ++i)
        if (same[i]) return i;
    return npos;
}
} // namespace trireme
