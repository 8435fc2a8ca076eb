// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>

namespace trireme {

/// An adapter of a policy with granules: one sample at a time. For networks whose samples fill registers by themselves,
/// such as those of tokens, where lanes of samples would leave the cache.
template<class Kernels>
struct sample_by_sample : Kernels {
    template<class T>
    static constexpr std::size_t lanes = 1;
    template<class T>
    static constexpr std::size_t one_by_one = 0;
};

/// Tokens that some samples should have together, so that products of matrices have whole tiles of rows, and read each
/// weight for many of them. Samples of at least `enough_tokens` go one by one.
inline constexpr std::size_t tokens_together = 24, enough_tokens = 8;

namespace detail {

/// A policy that has kernels for some samples of few tokens at once; policies that derive from it have none.
template<class Kernels>
concept has_kernels_together = requires { typename Kernels::takes_together::of_one_sample; } &&
                               std::same_as<typename Kernels::takes_together::of_one_sample, Kernels>;

template<class Kernels, bool OneByOne, bool Together>
struct chosen_kernels {
    using type = Kernels;
};
template<class Kernels, bool Together>
    requires(!Kernels::remote)
struct chosen_kernels<Kernels, true, Together> {
    using type = sample_by_sample<Kernels>;
};
template<class Kernels>
    requires(!Kernels::remote && has_kernels_together<Kernels>)
struct chosen_kernels<Kernels, true, true> {
    using type = sample_by_sample<typename Kernels::takes_together>;
};

} // namespace detail

/// The kernels that run where samples are computed one by one, if they are. `Together`: some samples at once, where the
/// policy has kernels for that.
template<class Kernels, bool OneByOne, bool Together = false>
using kernels_for = typename detail::chosen_kernels<Kernels, OneByOne, Together>::type;

} // namespace trireme
