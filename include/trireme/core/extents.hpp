// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme {

inline constexpr int max_rank = 4;

template<std::size_t Dimensions>
struct dimensions_rule {
    static_assert(Dimensions <= max_rank, "TRI0001: shapes and extents have at most four dimensions");
};

/// The shape of one sample as a value: what layers compute with. Slowest dimension first: channels, height, width.
/// Braces have the extents: `{1, 28, 28}`; a number alone is a shape of one dimension.
struct shape {
    int rank = 0;                      ///< dimensions in use, at most max_rank
    std::size_t extent[max_rank] = {}; ///< size of each dimension, the slowest first

    constexpr shape() noexcept = default;
    constexpr shape(std::size_t a) noexcept : rank(1), extent{a} {}
    constexpr shape(std::size_t a, std::size_t b) noexcept : rank(2), extent{a, b} {}
    constexpr shape(std::size_t a, std::size_t b, std::size_t c) noexcept : rank(3), extent{a, b, c} {}
    constexpr shape(std::size_t a, std::size_t b, std::size_t c, std::size_t d) noexcept
        : rank(4), extent{a, b, c, d} {}
    template<class... N>
        requires(sizeof...(N) > max_rank)
    constexpr shape(N...) noexcept {
        static_assert(sizeof(dimensions_rule<sizeof...(N)>) != 0);
    }
    /// Members in their order, as nvcc writes constants: `{2, {8, 8}}` is {8, 8}.
    template<std::size_t N>
        requires(N <= max_rank)
    constexpr shape(int used, std::size_t const (&all)[N]) noexcept
        : rank(used < static_cast<int>(N) ? used : static_cast<int>(N)) {
        for (std::size_t i = 0; i < N; ++i) extent[i] = all[i];
    }

    constexpr std::size_t size() const noexcept {
        std::size_t product = 1;
        for (int i = 0; i < rank; ++i) product *= extent[i];
        return product;
    }

    friend constexpr bool operator==(shape const& a, shape const& b) noexcept {
        if (a.rank != b.rank) return false;
        for (int i = 0; i < a.rank; ++i)
            if (a.extent[i] != b.extent[i]) return false;
        return true;
    }
};

/// Makes a shape of one to four dimensions: `make_shape(1, 28, 28)`.
constexpr shape make_shape(std::size_t a) noexcept { return {a}; }
constexpr shape make_shape(std::size_t a, std::size_t b) noexcept { return {a, b}; }
constexpr shape make_shape(std::size_t a, std::size_t b, std::size_t c) noexcept { return {a, b, c}; }
constexpr shape make_shape(std::size_t a, std::size_t b, std::size_t c, std::size_t d) noexcept { return {a, b, c, d}; }

/// The shape of one sample as a type: what kernels are instantiated by. `extents<6, 28, 28>` is 6 channels of 28 x 28.
template<std::size_t... N>
struct extents {
    static_assert(sizeof(dimensions_rule<sizeof...(N)>) != 0);

    static constexpr int rank = sizeof...(N);
    static constexpr trireme::shape shape = {N...};
    static constexpr std::size_t size = shape.size();
};

namespace detail {

template<int Rank, std::size_t A, std::size_t B, std::size_t C, std::size_t D>
struct extents_from;
template<std::size_t A, std::size_t B, std::size_t C, std::size_t D>
struct extents_from<0, A, B, C, D> {
    using type = extents<>;
};
template<std::size_t A, std::size_t B, std::size_t C, std::size_t D>
struct extents_from<1, A, B, C, D> {
    using type = extents<A>;
};
template<std::size_t A, std::size_t B, std::size_t C, std::size_t D>
struct extents_from<2, A, B, C, D> {
    using type = extents<A, B>;
};
template<std::size_t A, std::size_t B, std::size_t C, std::size_t D>
struct extents_from<3, A, B, C, D> {
    using type = extents<A, B, C>;
};
template<std::size_t A, std::size_t B, std::size_t C, std::size_t D>
struct extents_from<4, A, B, C, D> {
    using type = extents<A, B, C, D>;
};

} // namespace detail

/// From the value back to the type: `to_extents<S.rank, S.extent[0], ...>` without class-type template arguments, which
/// CUDA kernels cannot carry.
template<int Rank, std::size_t A = 0, std::size_t B = 0, std::size_t C = 0, std::size_t D = 0>
using to_extents = typename detail::extents_from<Rank, A, B, C, D>::type;

} // namespace trireme
