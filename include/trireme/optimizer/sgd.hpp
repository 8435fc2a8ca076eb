// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/sgd_numbers.hpp>
#include <trireme/optimizer/optimizer.hpp>

#include <array>
#include <cstddef>

namespace trireme {

/// Options of a trainer with plain SGD. What the trainer's type fixes (logical shards) cannot be set.
template<class Choices>
struct sgd_options {
    float learning_rate = 0.1f; ///< factor of a step's gradient, times the factor of `rate`
    typename Choices::other_name lr = {}, momentum = {}, nesterov = {}; ///< refused, with the names of this library
    float weight_decay = 0.0f;                ///< L2: adds weight_decay * w to every gradient, biases included
    typename Choices::max_norm max_norm = {}; ///< the largest norm of a gradient, with the policy clip_norm
    typename Choices::rate rate = {};         ///< the learning rate from step to step: cosine_rate and others
    trireme::batch batch = 32; ///< samples per step over all devices; the last batch of an epoch may be smaller
    typename Choices::other_name batch_size = {}, epochs = {}; ///< refused likewise
    std::uint64_t seed = 0;                               ///< seed of the initial weights and of the order of samples
    typename Choices::logical_shards logical_shards = {}; ///< V of reproducible<fixed_tree, dynamic>; 0: bits vary
    typename Choices::other_braces devices = {}, stages = {}, strategy = {}, deadline = {}; ///< refused: in run_options
};

/// Options of a trainer with sgd_momentum or sgd_nesterov: those of sgd, and the momentum.
template<class Choices>
struct sgd_momentum_options {
    float learning_rate = 0.1f;
    typename Choices::other_name lr = {};
    float momentum = 0.9f; ///< the part of the velocity that a step keeps, in [0, 1)
    typename Choices::other_name nesterov = {};
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

template<class Options>
void check_momentum_options(Options const& o) {
    check_common_options(o);
    check_rate("momentum", static_cast<double>(o.momentum), 1.0);
}

void describe_momentum_options(auto const& o, auto&& say) {
    describe_common_options(o, say);
    say("momentum", o.momentum);
}

template<class T>
sgd_numbers<T> momentum_numbers(auto const& o) noexcept {
    return {static_cast<T>(o.learning_rate), static_cast<T>(o.weight_decay), static_cast<T>(o.momentum)};
}

} // namespace detail

/// Stochastic gradient descent: w -= learning_rate * d with d = gradient + weight_decay * w. Keeps no state.
struct sgd {
    static constexpr char const* name = "sgd";
    static constexpr std::size_t state_per_parameter = 0;
    template<class Choices>
    using options = sgd_options<Choices>;

    static void check(auto const& o) { detail::check_common_options(o); }
    static void describe(auto const& o, auto&& say) { detail::describe_common_options(o, say); }

    template<class T>
    static sgd_numbers<T> numbers(auto const& o) noexcept {
        return {static_cast<T>(o.learning_rate), static_cast<T>(o.weight_decay)};
    }

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, 0>, std::size_t n, Numbers k) {
        sgd_update(policy, w, gradient, n, k);
    }
};

/// SGD with momentum: v = momentum * v + d; w -= learning_rate * v. Keeps one number per parameter.
/// Source: PyTorch's formulation (the learning rate is not inside v).
struct sgd_momentum {
    static constexpr char const* name = "sgd_momentum";
    static constexpr std::size_t state_per_parameter = 1;
    static constexpr char const* array_names[] = {"momentum_buffer"};
    template<class Choices>
    using options = sgd_momentum_options<Choices>;

    static void check(auto const& o) { detail::check_momentum_options(o); }
    static void describe(auto const& o, auto&& say) { detail::describe_momentum_options(o, say); }

    template<class T>
    static sgd_numbers<T> numbers(auto const& o) noexcept {
        return detail::momentum_numbers<T>(o);
    }

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, 1> velocity, std::size_t n,
                       Numbers k) {
        sgd_momentum_update(policy, w, velocity[0], gradient, n, k);
    }
};

/// SGD with Nesterov's momentum: v = momentum * v + d; w -= learning_rate * (d + momentum * v).
/// Source: Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum", 2013; PyTorch's form.
struct sgd_nesterov {
    static constexpr char const* name = "sgd_nesterov";
    static constexpr std::size_t state_per_parameter = 1;
    static constexpr char const* array_names[] = {"momentum_buffer"};
    template<class Choices>
    using options = sgd_momentum_options<Choices>;

    static void check(auto const& o) { detail::check_momentum_options(o); }
    static void describe(auto const& o, auto&& say) { detail::describe_momentum_options(o, say); }

    template<class T>
    static sgd_numbers<T> numbers(auto const& o) noexcept {
        return detail::momentum_numbers<T>(o);
    }

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, 1> velocity, std::size_t n,
                       Numbers k) {
        sgd_nesterov_update(policy, w, velocity[0], gradient, n, k);
    }
};

} // namespace trireme
