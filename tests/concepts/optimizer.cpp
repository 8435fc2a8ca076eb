// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Optimizers that model docs/concepts/optimizer.md and nothing more, in trainers.

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace optimizer_concept_test {
using namespace trireme;

// [optimizer_archetype]
template<class Choices>
struct heavy_options {
    float learning_rate = 0.05f;
    trireme::batch batch = 32;
    std::uint64_t seed = 0;
    typename Choices::logical_shards logical_shards = {};
};

template<class T>
struct heavy_numbers { // what an update needs of the options
    T learning_rate;
};

struct heavy {        // v = v / 2 + gradient, w -= learning_rate * v
    heavy() = delete; // no optimizer is ever an object

    static constexpr char const* name = "heavy";
    static constexpr std::size_t state_per_parameter = 1;
    template<class Choices>
    using options = heavy_options<Choices>;

    static void check(auto const& o) {
        if (!(o.learning_rate >= 0)) throw usage_error("learning_rate: it must not be negative");
    }
    static void describe(auto const& o, auto&& say) { say("learning_rate", o.learning_rate); }

    template<class T>
    static heavy_numbers<T> numbers(auto const& o) {
        return {static_cast<T>(o.learning_rate)};
    }
    template<class Kernels, class T>
    static void update(Kernels const&, T* w, T const* gradient, std::array<T*, 1> state, std::size_t n,
                       heavy_numbers<T> k) {
        for (std::size_t i = 0; i < n; ++i) {
            state[0][i] = state[0][i] / 2 + gradient[i];
            w[i] -= k.learning_rate * state[0][i];
        }
    }
};
static_assert(optimizer<heavy>);
// [/optimizer_archetype]

// [counting_archetype]
struct fading { // w -= learning_rate / (1 + updates before this one) * gradient
    fading() = delete;

    static constexpr char const* name = "fading";
    static constexpr std::size_t state_per_parameter = 0;
    static constexpr bool counts_updates = true;
    template<class Choices>
    using options = heavy_options<Choices>;

    static void check(auto const&) {}
    static void describe(auto const& o, auto&& say) { say("learning_rate", o.learning_rate); }

    template<class T>
    static heavy_numbers<T> numbers(auto const& o) {
        return {static_cast<T>(o.learning_rate)};
    }
    template<class Kernels, class T>
    static void update(Kernels const&, T* w, T const* gradient, std::array<T*, 0>, std::size_t n, heavy_numbers<T> k,
                       std::uint64_t const* made) {
        auto const rate = k.learning_rate / static_cast<T>(1 + *made);
        for (std::size_t i = 0; i < n; ++i) w[i] -= rate * gradient[i];
    }
};
static_assert(optimizer<fading>);
// [/counting_archetype]

// A member of another kind under the name takes a requirement away.
struct without_name : heavy {
    struct name;
};
struct without_state : heavy {
    struct state_per_parameter;
};
struct with_state_of_run_time : heavy {
    static std::size_t state_per_parameter;
};
struct without_check : heavy {
    struct check;
};
struct without_describe : heavy {
    struct describe;
};
struct without_numbers : heavy {
    struct numbers;
};
struct without_update : heavy {
    struct update;
};
struct that_counts_in_vain : heavy { // its update does not take the count
    static constexpr bool counts_updates = true;
};
static_assert(!optimizer<without_name> && !optimizer<without_state> && !optimizer<with_state_of_run_time>);
static_assert(!optimizer<without_check> && !optimizer<without_describe> && !optimizer<without_numbers>);
static_assert(!optimizer<without_update> && !optimizer<that_counts_in_vain>);

struct with_numbers_that_own : heavy {
    template<class T>
    static std::vector<T> numbers(auto const&) {
        return {};
    }
    template<class Kernels, class T>
    static void update(Kernels const&, T*, T const*, std::array<T*, 1>, std::size_t, std::vector<T> const&) {}
};
static_assert(!optimizer<with_numbers_that_own>);

struct without_options : heavy {
    struct options;
};
template<template<class> class Options>
struct with_options : heavy {
    template<class Choices>
    using options = Options<Choices>;
};
template<class Choices>
struct without_learning_rate : heavy_options<Choices> {
    void learning_rate();
};
template<class Choices>
struct with_rate_in_double : heavy_options<Choices> { // snapshots and checkpoints hold a float
    double learning_rate = 0.1;
};
template<class Choices>
struct without_batch : heavy_options<Choices> {
    void batch();
};
template<class Choices>
struct without_seed : heavy_options<Choices> {
    void seed();
};
template<class Choices>
struct without_logical_shards : heavy_options<Choices> {
    void logical_shards();
};
template<class Choices>
struct not_copied : heavy_options<Choices> {
    not_copied() = default;
    not_copied(not_copied const&) = delete;
};
template<class Choices>
struct not_made_of_nothing : heavy_options<Choices> {
    explicit not_made_of_nothing(int) {}
};
static_assert(optimizer<with_options<heavy_options>> && !optimizer<without_options>);
static_assert(!optimizer<with_options<without_learning_rate>> && !optimizer<with_options<without_batch>>);
static_assert(!optimizer<with_options<with_rate_in_double>>);
static_assert(!optimizer<with_options<without_seed>> && !optimizer<with_options<without_logical_shards>>);
static_assert(!optimizer<with_options<not_copied>> && !optimizer<with_options<not_made_of_nothing>>);

// Checkpoints name every array that is kept.
template<std::size_t Kept>
struct with_two_names : heavy {
    static constexpr std::size_t state_per_parameter = Kept;
    static constexpr char const* array_names[] = {"first", "second"};
    static void update(auto const&, auto*, auto const*, auto const&, std::size_t, auto) {}
};
struct with_names_of_unknown_count : with_two_names<2> {
    static constexpr char const* const* array_names = with_two_names<2>::array_names;
};
static_assert(optimizer<with_two_names<1>> && optimizer<with_two_names<2>> && !optimizer<with_two_names<3>>);
static_assert(!optimizer<with_names_of_unknown_count>);

static_assert(optimizer<sgd> && optimizer<sgd_momentum> && optimizer<sgd_nesterov> && optimizer<adam>);
static_assert(optimizer<adamw> && optimizer<rmsprop> && optimizer<rmsprop_momentum> && optimizer<adagrad>);

/// Losses of some steps, and the weights after them.
template<class Optimizer, class... Policies>
std::vector<double> trained() {
    std::vector<float> numbers, targets;
    for (int i = 0; i < 32; ++i) {
        for (int k = 0; k < 3; ++k) numbers.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
        targets.push_back(numbers[numbers.size() - 1] - numbers[numbers.size() - 3]);
    }
    samples_in_memory const samples(numbers, make_shape(3), targets, make_shape(1));
    using net = network<input<3>, linear<4>, sigmoid, linear<1>>;
    trainer<net, mean_squared_error, Optimizer, reproducible<fixed_tree, 4>, Policies...> t{{.batch = 32, .seed = 2}};
    std::vector<double> all;
    for (int i = 0; i < 20; ++i) all.push_back(t.step(samples).loss);
    t.set_learning_rate(0);
    all.push_back(t.step(samples).loss);
    for (auto const w : t.gather_parameters()) all.push_back(static_cast<double>(w));
    return all;
}
} // namespace optimizer_concept_test

TEST_SUITE("concepts/optimizer") {
    using namespace optimizer_concept_test;

    TEST_CASE("archetypes of optimizers train, with the same bits on two devices") {
        using on_two = on<mesh<host, dp<2>>>;
        auto const alone = trained<heavy>();
        CHECK(alone[20] < alone[0]);
        CHECK(trained<heavy, on_two>() == alone);
        CHECK(trained<heavy, on_two, hold_weights<once>>() == alone);
        auto const slower = trained<fading>();
        CHECK(slower[20] < slower[0]);
        CHECK(trained<fading, on_two>() == slower);
    }

    TEST_CASE("what an optimizer's check throws reaches the maker of a trainer") {
        using net = network<input<3>, linear<1>>;
        using one = trainer<net, mean_squared_error, heavy>;
        CHECK_THROWS_WITH_AS(one({.learning_rate = -1}), "learning_rate: it must not be negative", usage_error);
    }
}
