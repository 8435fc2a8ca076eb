// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/kernels/adam_numbers.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/optimizer/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace trireme {

/// Options of a trainer with adam, or, with decoupled decay, adamw. As those of sgd, where the names are the same.
template<class Choices, bool Decoupled>
struct adam_options {
    float learning_rate = 0.001f;
    typename Choices::other_name lr = {};
    float beta1 = 0.9f, beta2 = 0.999f; ///< of the means of the gradients, and of their squares
    float epsilon = 1e-8f;              ///< added to the root that an update divides by
    typename Choices::other_name momentum = {}, nesterov = {}, betas = {}, eps = {};
    /// Added, times w, to every gradient, biases included; decoupled: w -= learning_rate * weight_decay * w.
    float weight_decay = Decoupled ? 0.01f : 0.0f;
    typename Choices::max_norm max_norm = {};
    typename Choices::rate rate = {};
    trireme::batch batch = 32;
    typename Choices::other_name batch_size = {}, epochs = {};
    std::uint64_t seed = 0;
    typename Choices::logical_shards logical_shards = {};
    typename Choices::other_braces devices = {}, stages = {}, strategy = {}, deadline = {};
};

namespace detail {

/// Both kinds. They keep the means of the gradients, and those of their squares.
template<bool Decoupled>
struct adam_rule {
    static constexpr std::size_t state_per_parameter = 2;
    static constexpr char const* array_names[] = {"exp_avg", "exp_avg_sq"};
    static constexpr bool counts_updates = true;

    static void check(auto const& o) {
        check_common_options(o);
        check_rate("beta1", static_cast<double>(o.beta1), 1.0);
        check_rate("beta2", static_cast<double>(o.beta2), 1.0);
        check_rate("epsilon", static_cast<double>(o.epsilon), std::numeric_limits<double>::infinity());
    }
    static void describe(auto const& o, auto&& say) {
        describe_common_options(o, say);
        say("beta1", o.beta1);
        say("beta2", o.beta2);
        say("epsilon", o.epsilon);
    }

    template<class T>
    static adam_numbers<T> numbers(auto const& o) noexcept {
        return {static_cast<T>(o.learning_rate), static_cast<T>(o.weight_decay), static_cast<T>(o.beta1),
                static_cast<T>(o.beta2), static_cast<T>(o.epsilon)};
    }

    template<class Kernels, class T, class Numbers>
    static void update(Kernels const& policy, T* w, T const* gradient, std::array<T*, 2> state, std::size_t n,
                       Numbers k, std::uint64_t const* made) {
        if constexpr (std::is_pointer_v<Numbers>)
            adam_update<Decoupled>(policy, w, state[0], state[1], gradient, n, k, made);
        else
            adam_update<Decoupled>(policy, w, state[0], state[1], gradient, n, k, *made);
    }
};

} // namespace detail

/// Adam: steps of about the learning rate, whatever the size of the gradients. Keeps two numbers per parameter, and
/// counts its updates. Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; PyTorch's form.
struct adam : detail::adam_rule<false> {
    static constexpr char const* name = "adam";
    template<class Choices>
    using options = adam_options<Choices, false>;
};

/// Adam whose weight decay is no gradient: weights shrink by learning_rate * weight_decay in every update.
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019; PyTorch's form.
struct adamw : detail::adam_rule<true> {
    static constexpr char const* name = "adamw";
    template<class Choices>
    using options = adam_options<Choices, true>;
};

} // namespace trireme
