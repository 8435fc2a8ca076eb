// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/pipeline/choice.hpp>
#include <trireme/trainer/trainer_policies.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

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
/// A field that takes a choice, or a type that makes one: strategy_choice and ring{}, schedule_choice and gpipe{}.
template<class Choice>
struct chosen_by_type {
    Choice value = {};
    constexpr chosen_by_type() = default;
    template<class S>
        requires(std::convertible_to<S, Choice> && !std::same_as<std::remove_cvref_t<S>, chosen_by_type>)
    constexpr chosen_by_type(S&& s) : value(std::forward<S>(s)) {} // orders from a file are what the caller keeps
};

/// Fields of a pipeline, for a trainer whose mesh has no axis pp, and for one whose type says what they would.
struct no_pipeline_option {
    static constexpr int value = 1;
    constexpr no_pipeline_option() = default;
    template<class X>
    constexpr no_pipeline_option(X const&) {
        static_assert(detail::fixed_by_type<X>,
                      "TRI0093: stages, micro_batches and schedule are options of a trainer whose mesh has stages, and "
                      "whose type leaves them open: write on<mesh<host, dp<dynamic>, pp<dynamic>>>, and leave out what "
                      "the policy pipeline says");
    }
};

/// A field that takes any value of its type.
template<class Value>
struct chosen_option {
    Value value = {};
    constexpr chosen_option() = default;
    constexpr chosen_option(Value v) : value(std::move(v)) {}
};

/// The largest norm of a gradient, of a trainer with the policy clip_norm. Infinity: the norm is told, and no finite
/// gradient is clipped.
struct chosen_max_norm {
    float value = 1.0f;
    constexpr chosen_max_norm() = default;
    constexpr chosen_max_norm(float norm) : value(norm) {}
};
struct no_clipping_option {
    constexpr no_clipping_option() = default;
    template<class X>
    constexpr no_clipping_option(X const&) {
        static_assert(detail::fixed_by_type<X>,
                      "TRI0101: max_norm is an option of a trainer with the policy clip_norm: add clip_norm behind the "
                      "optimizer, or leave out the option");
    }
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

/// A field of trainers on accelerators; on the host it cannot be set.
struct no_accelerator_option {
    static constexpr bool value = false;
    constexpr no_accelerator_option() = default;
    template<class X>
    constexpr no_accelerator_option(X const&) {
        static_assert(detail::fixed_by_type<X>,
                      "TRI0058: share_devices and eager are options of trainers on accelerators, processes of "
                      "those whose transport joins processes: leave them out on the host");
    }
};

/// A field under a name that other libraries use. Setting it is refused with our name; without the field, compilers
/// would only say that no constructor of the trainer takes a list.
struct option_of_another_name {
    constexpr option_of_another_name() = default;
    template<class X>
    constexpr option_of_another_name(X const&) {
        static_assert(
            detail::fixed_by_type<X>,
            "TRI0077: this option has another name: lr is learning_rate, batch_size is batch; momentum is an option of "
            "the optimizers sgd_momentum, sgd_nesterov and rmsprop_momentum, nesterov is the second, betas are beta1 "
            "and beta2, eps is epsilon, alpha is smoothing, lr_decay is rate_decay, initial_accumulator_value is "
            "initial_accumulator, centered is none that we have, and epochs goes to fit or train");
    }
    /// Two numbers in braces.
    template<class X, class Y>
    constexpr option_of_another_name(X const& x, Y const&) : option_of_another_name(x) {}
};

/// A field of a trainer's other braces. Setting it is refused.
struct option_of_other_braces {
    constexpr option_of_other_braces() = default;
    template<class X>
    constexpr option_of_other_braces(X const&) {
        static_assert(detail::fixed_by_type<X>,
                      "TRI0088: what a trainer trains with, and where it runs, are in braces of their own: trainer "
                      "t{{.learning_rate = 0.5f, .batch = 64, .seed = 1}, {.devices = 2, .deadline = 5s}}");
    }
};

/// A process among those of a trainer over transport<nccl>: its number, how many there are, and a file that all of them
/// see, through which they find one another, or a function that does it (process_by_mpi). The mesh counts the devices
/// of all processes.
struct process_of {
    int index = 0;            ///< number of this process, counted from 0
    int count = 1;            ///< number of all processes
    std::string id_file = {}; ///< a path that all of them see, where there is no `share`
    /// Gives all processes the bytes that process 0 has, and is called by all of them together; `with` is its own.
    void (*share)(std::intptr_t with, void* data, std::size_t bytes) = nullptr;
    std::intptr_t with = 0; ///< the first argument of `share`
};

/// The types of fields in a trainer's first braces, the optimizer's options. Trainers with the same ones share machine
/// code, whatever else their policies are.
template<class LogicalShards, class MaxNorm>
struct training_fields {
    using other_name = option_of_another_name;
    using other_braces = option_of_other_braces;
    using logical_shards = LogicalShards;
    using max_norm = MaxNorm;
    using rate = chosen_by_type<rate_schedule>;
};

/// The types of fields in the second braces, run_options, for a set of policies; `training`: those of the first.
template<class Policies>
struct option_fields {
    using other_braces = option_of_other_braces;
    using accelerator =
        std::conditional_t<std::is_same_v<typename Policies::device, host>, no_accelerator_option, chosen_option<bool>>;
    using transport = typename Policies::transport;
    using processes = std::conditional_t<
        !std::is_void_v<typename transport::processes>, chosen_option<typename transport::processes>,
        std::conditional_t<transport::joins_hosts, no_accelerator_option, chosen_option<process_of>>>;
    using devices =
        std::conditional_t<Policies::replicas == dynamic, chosen_devices, fixed_devices<Policies::replicas>>;
    using stages = std::conditional_t<Policies::stages == dynamic, chosen_devices, no_pipeline_option>;
    using micro_batches = std::conditional_t<Policies::has_stages && Policies::micro_batches == dynamic,
                                             chosen_option<std::size_t>, no_pipeline_option>;
    using schedule = std::conditional_t<Policies::has_stages && !Policies::schedule_is_named,
                                        chosen_by_type<schedule_choice>, no_pipeline_option>;
    using strategy = std::conditional_t<Policies::strategy_is_chosen, chosen_by_type<strategy_choice>,
                                        fixed_strategy<typename Policies::strategy>>;
    using logical_shards =
        std::conditional_t<Policies::shards == dynamic, chosen_option<std::size_t>,
                           fixed_shards<static_cast<std::size_t>(Policies::shards < 0 ? 0 : Policies::shards)>>;
    using max_norm = std::conditional_t<Policies::clips, chosen_max_norm, no_clipping_option>;
    using training = training_fields<logical_shards, max_norm>;
};

/// Options of the run, the second braces of a trainer's constructor. Fields that its type fixes cannot be set.
template<class Choices>
struct run_options {
    typename Choices::other_braces learning_rate = {}, batch = {}, seed = {}, logical_shards = {}; ///< refused
    typename Choices::devices devices = {}; ///< replicas of the model, with dp<dynamic>
    typename Choices::stages stages = {};   ///< stages of each replica, a device each, with pp<dynamic>
    /// Micro-batches of a replica; 0: four per stage, or its logical shards.
    typename Choices::micro_batches micro_batches = {};
    typename Choices::schedule schedule = {}; ///< order of the stages' work, where the policy pipeline names none
    /// Strategy of adding gradients, with reduce_by<chosen_at_run_time>: `.strategy = ring{}`.
    typename Choices::strategy strategy = {};
    /// Seconds of every wait for another device, at most.
    std::chrono::duration<double> deadline = std::chrono::seconds(30);
    chosen_option<bool> trace = {};                   ///< true keeps the times of each device's last tasks: `traced()`
    typename Choices::accelerator share_devices = {}; ///< true: ranks may share an accelerator, if there are too few
    typename Choices::accelerator eager = {};         ///< true hands over kernel by kernel, not the step as a graph
    typename Choices::processes processes = {};       ///< processes that the devices are spread over: process_of, seat
};

namespace detail {

template<class Choices>
void check_run_options(run_options<Choices> const& r) {
    if (!(r.deadline.count() > 0))
        throw usage_error("deadline = " + std::to_string(r.deadline.count()) + " s: it must be longer than nothing");
}

/// Of a trainer that clips.
template<class Options>
void check_max_norm(Options const& o) {
    auto const norm = o.max_norm.value;
    if (!(norm > 0))
        throw usage_error("max_norm = " + number_text(norm) +
                          ": it must be above 0, or infinity for a norm that is told and not clipped");
}

} // namespace detail
} // namespace trireme
