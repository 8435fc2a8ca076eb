// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <type_traits>

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

/// The kernels that run where samples are computed one by one, if they are.
template<class Kernels, bool OneByOne>
using kernels_for = std::conditional_t<OneByOne && !Kernels::remote, sample_by_sample<Kernels>, Kernels>;

/// The kernels that a network's passes run with.
template<class Network, class Kernels>
using kernels_of = kernels_for<Kernels, Network::sample_by_sample>;

} // namespace trireme
