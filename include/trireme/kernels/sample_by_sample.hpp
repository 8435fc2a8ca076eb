// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>

namespace trireme {

namespace detail {

/// True for a policy that has kernels for some samples of few tokens at once; policies that derive from it have not.
template<class Kernels>
inline constexpr bool has_kernels_together = false;
template<class Kernels>
    requires requires { typename Kernels::takes_together::of_one_sample; }
inline constexpr bool has_kernels_together<Kernels> =
    std::is_same_v<typename Kernels::takes_together::of_one_sample, Kernels>;

/// The policy that an adapter for samples of one lane derives from.
template<class Kernels, bool Together>
struct kernels_of_one_lane {
    using type = Kernels;
};
template<class Kernels>
struct kernels_of_one_lane<Kernels, true> {
    using type = typename Kernels::takes_together;
};

} // namespace detail

/// An adapter of a policy with granules: one sample at a time. For networks whose samples fill registers by themselves,
/// such as those of tokens, where lanes of samples would leave the cache. `Together`: the most samples that go through
/// a network's rows at once, one behind the other, because each has few tokens.
template<class Kernels, std::size_t Together = 1>
struct sample_by_sample : detail::kernels_of_one_lane<Kernels, (Together > 1)>::type {
    static constexpr std::size_t most_together = Together;
    template<class T>
    static constexpr std::size_t lanes = 1;
    template<class T>
    static constexpr std::size_t one_by_one = 0;
};

/// Tokens that some samples should have together, so that products of matrices have whole tiles of rows, and read each
/// weight for many of them. Samples of at least `enough_tokens` go one by one.
inline constexpr std::size_t tokens_together = 24, enough_tokens = 8;

/// Samples of a network that go together where they have so many tokens; 1 for those of many.
constexpr std::size_t samples_together(std::size_t tokens) noexcept {
    return tokens == 0 || tokens >= enough_tokens ? 1 : tokens_together / tokens;
}

/// The kernels that run where samples are computed one by one, if they are. `Together`: see sample_by_sample.
template<class Kernels, bool OneByOne, std::size_t Together = 1>
using kernels_for =
    std::conditional_t<OneByOne && !Kernels::remote,
                       sample_by_sample<Kernels, detail::has_kernels_together<Kernels> ? Together : 1>, Kernels>;

/// The kernels that a network's passes run with.
template<class Network, class Kernels>
using kernels_of = kernels_for<Kernels, Network::sample_by_sample>;

} // namespace trireme
