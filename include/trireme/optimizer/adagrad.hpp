// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/kernels/adagrad_numbers.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/optimizer/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace trireme {

/// Options of a trainer with adagrad. As those of sgd, where the names are the same.
template<class Choices>
struct adagrad_options {
    float learning_rate = 0.01f;
    typename Choices::other_name lr = {};
    float rate_decay = 0.0f; ///< the rate of the update behind n others is learning_rate / (1 + n * rate_decay)
    typename Choices::other_name lr_decay = {};
    float initial_accumulator = 0.0f; ///< first value of the sums of squares
    typename Choices::other_name initial_accumulator_value = {};
    float epsilon = 1e-10f;
    typename Choices::other_name eps = {}, momentum = {}, nesterov = {};
    float weight_decay = 0.0f;
    typename Choices::max_norm max_norm = {};
    typename Choices::rate rate = {};
    trireme::batch batch = 32;
    typename Choices::other_name batch_size = {}, epochs = {};
    std::uint64_t seed = 0;
    typename Choices::logical_shards logical_shards = {};
    typename Choices::other_braces devices = {}, stages = {}, strategy = {}, deadline = {};
};

/// Adagrad: gradients are divided by the root of the sum of all their squares, so that steps become smaller, and those
/// of weights with rare gradients less so. Keeps one number per parameter, and counts its updates.
/// Source: Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011; PyTorch's form.
struct adagrad {
    static constexpr char const* name = "adagrad";
    static constexpr std::size_t state_per_parameter = 1;
    static constexpr char const* array_names[] = {"sum"};
    static constexpr bool counts_updates = true; ///< for rate_decay
    template<class Choices>
    using options = adagrad_options<Choices>;

    static void check(auto const& o) {
        constexpr auto unbounded = std::numeric_limits<double>::infinity();
        detail::check_common_options(o);
        detail::check_rate("rate_decay", static_cast<double>(o.rate_decay), unbounded);
        detail::check_rate("initial_accumulator", static_cast<double>(o.initial_accumulator), unbounded);
        detail::check_rate("epsilon", static_cast<double>(o.epsilon), unbounded);
    }
    static void describe(auto const& o, auto&& say) {
        detail::describe_common_options(o, say);
        say("rate_decay", o.rate_decay);
        say("initial_accumulator", o.initial_accumulator);
        say("epsilon", o.epsilon);
    }

    template<class T>
    static adagrad_numbers<T> numbers(auto const& o) noexcept {
        return {static_cast<T>(o.learning_rate), static_cast<T>(o.weight_decay), static_cast<T>(o.rate_decay),
                static_cast<T>(o.initial_accumulator), static_cast<T>(o.epsilon)};
    }

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, 1> squares, std::size_t n,
                       Numbers k, std::uint64_t const* made) {
        if constexpr (std::is_pointer_v<Numbers>)
            adagrad_update(policy, w, squares[0], gradient, n, k, made);
        else
            adagrad_update(policy, w, squares[0], gradient, n, k, *made);
    }
};

} // namespace trireme
