// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/rmsprop_numbers.hpp>
#include <trireme/optimizer/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace trireme {

/// Options of a trainer with rmsprop. As those of sgd, where the names are the same.
template<class Choices>
struct rmsprop_options {
    float learning_rate = 0.01f;
    typename Choices::other_name lr = {};
    float smoothing = 0.99f; ///< of the mean of the gradients' squares: how much of it an update keeps
    typename Choices::other_name alpha = {};
    float epsilon = 1e-8f;
    typename Choices::other_name eps = {}, momentum = {}, nesterov = {}, centered = {};
    float weight_decay = 0.0f;
    typename Choices::max_norm max_norm = {};
    typename Choices::rate rate = {};
    trireme::batch batch = 32;
    typename Choices::other_name batch_size = {}, epochs = {};
    std::uint64_t seed = 0;
    typename Choices::logical_shards logical_shards = {};
    typename Choices::other_braces devices = {}, stages = {}, strategy = {}, deadline = {};
};

/// Options of a trainer with rmsprop_momentum: those, and the momentum.
template<class Choices>
struct rmsprop_momentum_options {
    float learning_rate = 0.01f;
    typename Choices::other_name lr = {};
    float smoothing = 0.99f;
    typename Choices::other_name alpha = {};
    float epsilon = 1e-8f;
    typename Choices::other_name eps = {};
    float momentum = 0.9f;
    typename Choices::other_name nesterov = {}, centered = {};
    float weight_decay = 0.0f;
    typename Choices::max_norm max_norm = {};
    typename Choices::rate rate = {};
    trireme::batch batch = 32;
    typename Choices::other_name batch_size = {}, epochs = {};
    std::uint64_t seed = 0;
    typename Choices::logical_shards logical_shards = {};
    typename Choices::other_braces devices = {}, stages = {}, strategy = {}, deadline = {};
};

namespace detail {

/// Both kinds. They keep the means of the squares, then the velocities.
template<bool Momentum>
struct rmsprop_rule {
    static constexpr std::size_t state_per_parameter = Momentum ? 2 : 1;
    static constexpr char const* array_names[] = {"square_avg", "momentum_buffer"};

    static void check(auto const& o) {
        check_common_options(o);
        check_rate("smoothing", static_cast<double>(o.smoothing), 1.0);
        check_rate("epsilon", static_cast<double>(o.epsilon), std::numeric_limits<double>::infinity());
        if constexpr (Momentum) check_rate("momentum", static_cast<double>(o.momentum), 1.0);
    }
    static void describe(auto const& o, auto&& say) {
        describe_common_options(o, say);
        say("smoothing", o.smoothing);
        say("epsilon", o.epsilon);
        if constexpr (Momentum) say("momentum", o.momentum);
    }

    template<class T>
    static rmsprop_numbers<T> numbers(auto const& o) noexcept {
        rmsprop_numbers<T> k{static_cast<T>(o.learning_rate), static_cast<T>(o.weight_decay),
                             static_cast<T>(o.smoothing), static_cast<T>(o.epsilon), T{0}};
        if constexpr (Momentum) k.momentum = static_cast<T>(o.momentum);
        return k;
    }

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, state_per_parameter> state,
                       std::size_t n, Numbers k) {
        rmsprop_update<Momentum>(policy, w, state[0], Momentum ? state.back() : nullptr, gradient, n, k);
    }
};

} // namespace detail

/// RMSprop: gradients are divided by the root of the mean of their squares. Keeps one number per parameter.
/// Source: Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012; PyTorch's form, which is
/// not centered here.
struct rmsprop : detail::rmsprop_rule<false> {
    static constexpr char const* name = "rmsprop";
    template<class Choices>
    using options = rmsprop_options<Choices>;
};

/// RMSprop whose steps have momentum: b = momentum * b + d / root; w -= learning_rate * b. Keeps two numbers per
/// parameter. Source: PyTorch's RMSprop(momentum > 0).
struct rmsprop_momentum : detail::rmsprop_rule<true> {
    static constexpr char const* name = "rmsprop_momentum";
    template<class Choices>
    using options = rmsprop_momentum_options<Choices>;
};

} // namespace trireme
