// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace trireme {

/// An optimizer is a type that says how many numbers it keeps per parameter, which options it adds to the trainer's, and
/// how one slice of parameters is updated from its gradients and its state. It knows nothing of layers or devices.
///
///     static constexpr std::size_t state_per_parameter;
///     template<class Choices> struct options;        // one flat struct: designators reach direct members only
///     template<class Kernels, class T, class Options>
///     static void update(Kernels, T* w, T const* gradient, T* state, std::size_t n, Options const&);
///
/// The options hold, besides the optimizer's own: batch, seed, deadline, devices, strategy, logical_shards.
template<class O>
concept optimizer = requires {
    { O::state_per_parameter } -> std::convertible_to<std::size_t>;
    { O::name } -> std::convertible_to<char const*>;
};

} // namespace trireme
