// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/trainer/policies.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

namespace detail {
template<class>
inline constexpr bool fixed_by_type = false;
}

// Fields of the option structs. What a trainer's type fixes is a field that cannot be set; what it leaves open is a
// value.

template<int N>
struct fixed_devices {
    static constexpr int value = N;
    constexpr fixed_devices() = default;
    template<class X>
    constexpr fixed_devices(X const&) {
        static_assert(detail::fixed_by_type<X>, "TRI0040: the mesh in the trainer's type fixes the number of devices: "
                                                "leave out the option, or write dp<dynamic>");
    }
};
struct chosen_devices {
    int value = 1;
    constexpr chosen_devices() = default;
    constexpr chosen_devices(int n) : value(n) {}
};

template<class Strategy>
struct fixed_strategy {
    static constexpr strategy_choice value = Strategy{};
    constexpr fixed_strategy() = default;
    template<class X>
    constexpr fixed_strategy(X const&) {
        static_assert(detail::fixed_by_type<X>,
                      "TRI0041: reduce_by in the trainer's type fixes the strategy: leave out "
                      "the option, or write reduce_by<chosen_at_run_time>");
    }
};
struct chosen_strategy {
    strategy_choice value = {};
    constexpr chosen_strategy() = default;
    constexpr chosen_strategy(strategy_choice s) : value(s) {}
    template<reduction_strategy S>
    constexpr chosen_strategy(S s) : value(s) {}
};

template<std::size_t V>
struct fixed_shards {
    static constexpr std::size_t value = V;
    constexpr fixed_shards() = default;
    template<class X>
    constexpr fixed_shards(X const&) {
        static_assert(detail::fixed_by_type<X>, "TRI0042: the trainer's type fixes its logical shards: leave out the "
                                                "option, or write reproducible<fixed_tree, dynamic>");
    }
};
struct chosen_shards {
    std::size_t value = 0;
    constexpr chosen_shards() = default;
    constexpr chosen_shards(std::size_t v) : value(v) {}
};

/// The types of those three fields for a set of policies.
template<class Policies>
struct option_fields {
    using devices = std::conditional_t<Policies::devices == dynamic, chosen_devices, fixed_devices<Policies::devices>>;
    using strategy =
        std::conditional_t<Policies::strategy_is_chosen, chosen_strategy, fixed_strategy<typename Policies::strategy>>;
    using logical_shards =
        std::conditional_t<Policies::shards == dynamic, chosen_shards,
                           fixed_shards<static_cast<std::size_t>(Policies::shards < 0 ? 0 : Policies::shards)>>;
};

} // namespace trireme
