// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>
#include <support/training.hpp>

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

// What every trainer promises, whatever its devices, its transport and its kernels: test cases that each program
// instantiates for the ways of training that it has.
//
//     namespace promises {
//     TEST_SUITE_BEGIN("my_folder/promises");
//     TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, my_way);
//     TEST_SUITE_END();
//     }
namespace promises {
using namespace trireme;
using namespace test_networks;

/// A training may be this far from that on threads: losses, and parameters and buffers, as test_support::apart has it.
struct nearness {
    double losses = 0, numbers = 0; ///< both 0: the same bits
    constexpr bool same() const { return losses == 0 && numbers == 0; }
};

/// A way of training: a device with its transport, its kernels and a precision.
///
///     trainer<Network, Policies...>       trains by sgd_momentum, its number of devices open
///     layers, sums                        are the networks: one of layers of every kind, and one whose layers add
///                                         numbers over all ranks in the middle of a step
///     order                               is one of the ways in which work may be done that change no bit
///     orders()                            are these, the usual one first
///     trained<Trainer>(o, order, sizes)   is test_networks::trained in that order
///     reference, near, near_one_by_one    is a way to compare with, and how near it must be
template<class W>
concept way = requires {
    typename W::template trainer<small>;
    typename W::template trainer<typename W::layers>;
    typename W::sums;
    { W::orders() } -> std::same_as<std::vector<typename W::order>>;
    typename W::reference;
    { W::near } -> std::convertible_to<nearness>;
    { W::near_one_by_one } -> std::convertible_to<nearness>;
};

/// Most ways have this in common.
template<class Device, class Dtype, class... Own>
struct trains_on {
    template<class Network, class... Policies>
    using trainer = trireme::trainer<Network, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>,
                                     precision<Dtype>, Own..., Policies...>;
    using layers = every_layer;
    using sums = every_sum;
    static constexpr bool chooses_strategy = true;  ///< when a trainer is made
    static constexpr bool takes_large_steps = true; ///< on more samples than a batch, where layers take them one by one
    static bool runs_here() { return true; }        ///< one that gives false has said what is left out
    /// Options for n ranks.
    template<class Trainer>
    static typename Trainer::run_options ranks(int n) {
        return {.devices = n};
    }
    /// Variances are mostly rounding where three samples have almost the same values.
    static constexpr nearness near = std::same_as<Dtype, f64> ? nearness{1e-9, 1e-8} : nearness{1e-3, 1e-2};
    /// Layers that take samples one by one come this near.
    static constexpr nearness near_one_by_one =
        std::same_as<Dtype, f64> ? nearness{1e-12, 1e-12} : nearness{1e-6, 1e-5};
};

/// Ranks that are threads, with the portable kernels: what others are compared with.
template<class Dtype, class... Own>
struct on_threads : trains_on<host, Dtype, Own...> {
    struct order {};
    static std::vector<order> orders() { return {order{}}; }
    template<class Trainer>
    static auto trained(test_networks::settings<Trainer> const& s, order, std::vector<std::size_t> const& sizes) {
        return test_networks::trained<Trainer>(s, sizes);
    }
    using reference = on_threads<Dtype>;
    static constexpr nearness near = {};
};

/// Threads train with one copy of the weights for all ranks.
template<class Dtype>
struct held_once : on_threads<Dtype, hold_weights<once>> {
    static constexpr bool chooses_strategy = false;
};

/// The trainer of any number of logical shards, and of any strategy where there is none.
template<class Way, class Network>
struct any_layout_of {
    using type =
        typename Way::template trainer<Network, reduce_by<chosen_at_run_time>, reproducible<fixed_tree, dynamic>>;
};
template<class Way, class Network>
    requires(!Way::chooses_strategy)
struct any_layout_of<Way, Network> {
    using type = typename Way::template trainer<Network, reproducible<fixed_tree, dynamic>>;
};
template<class Way, class Network>
using any_layout = typename any_layout_of<Way, Network>::type;
/// Layers that add numbers over all ranks leave no room for logical shards.
template<class Way, class Network>
using any_strategy = typename Way::template trainer<Network, reduce_by<chosen_at_run_time>>;

template<class T, class U>
void check_near(outcome<T> const& is, outcome<U> const& wanted, nearness near) {
    if (near.same()) {
        CHECK(test_support::same_bits(is.told, wanted.told));
        CHECK(is.numbers.size() == wanted.numbers.size());
        CHECK(std::equal(is.numbers.begin(), is.numbers.end(), wanted.numbers.begin(), wanted.numbers.end()));
    } else {
        CHECK(test_support::apart(is.told, wanted.told) < near.losses);
        CHECK(test_support::apart(is.numbers, wanted.numbers) < near.numbers);
    }
}

/// A layout, and what is trained on it.
struct setting {
    int devices;
    std::size_t shards, batch;
    std::vector<std::size_t> sizes;
};

/// Trains one network in both ways, in the usual order of work and in the last.
template<class Way, template<class, class> class Trainer, class Network>
void as_in_the_reference(std::vector<setting> const& settings, nearness near = Way::near) {
    static_assert(way<Way>);
    using reference = typename Way::reference;
    using is = Trainer<Way, Network>;
    using wanted = Trainer<reference, Network>;
    for (auto const& s : settings) {
        CAPTURE(s.devices);
        CAPTURE(s.shards);
        test_networks::settings<is> o{{.batch = s.batch}, {.devices = s.devices}};
        test_networks::settings<wanted> p{{.batch = s.batch}, {.devices = s.devices}};
        if constexpr (is::policies::shards == dynamic) {
            o.training.logical_shards = s.shards;
            p.training.logical_shards = s.shards;
        }
        auto const expected = reference::template trained<wanted>(p, reference::orders().front(), s.sizes);
        auto const orders = Way::orders();
        check_near(Way::template trained<is>(o, orders.front(), s.sizes), expected, near);
        if (orders.size() > 1) check_near(Way::template trained<is>(o, orders.back(), s.sizes), expected, near);
    }
}

/// Trains in all orders of work, twice in the only one: there is one outcome.
template<class Way, class Trainer>
auto one_outcome(test_networks::settings<Trainer> const& s, std::vector<std::size_t> const& sizes) {
    auto orders = Way::orders();
    auto const first = Way::template trained<Trainer>(s, orders.front(), sizes);
    if (orders.size() > 1) orders.erase(orders.begin());
    for (auto const& order : orders) CHECK(Way::template trained<Trainer>(s, order, sizes) == first);
    return first;
}

TEST_CASE_TEMPLATE_DEFINE("losses, parameters and statistics are the reference's, on any ranks and shards", Way,
                          promise_of_the_reference) {
    // at last shards and ranks with few samples, or none
    as_in_the_reference<Way, any_layout, typename Way::layers>({{1, 0, 12, {12, 12, 7}},
                                                                {2, 0, 12, {12, 9}},
                                                                {1, 4, 12, {12, 9}},
                                                                {3, 5, 12, {12, 8}},
                                                                {3, 6, 24, {24, 3, 1, 7, 23, 24}}});
}

TEST_CASE_TEMPLATE_DEFINE("where layers add numbers over all ranks, they are the reference's", Way, promise_of_sums) {
    as_in_the_reference<Way, any_strategy, typename Way::sums>(
        {{1, 0, 12, {12, 7}}, {2, 0, 12, {12, 12, 7}}, {3, 0, 24, {24, 3, 7, 2, 24}}, {4, 0, 12, {12, 9}}});
}

TEST_CASE_TEMPLATE_DEFINE("steps of any size are the reference's, where layers take samples one by one", Way,
                          promise_of_any_size) {
    std::vector<setting> settings = {{2, 0, 16, {1, 2, 15, 16}},
                                     {2, 4, 16, {1, 2, 15, 16}},
                                     {1, 8, 5, {5, 4, 5}},
                                     {3, 5, 4, {3, 4, 1}},
                                     {3, 6, 3, {1, 3, 1}}};
    if constexpr (Way::takes_large_steps)
        for (auto& s : settings) s.sizes.insert(s.sizes.end(), {s.batch + 1, 2 * s.batch, 6 * s.batch + 1});
    as_in_the_reference<Way, any_layout, small>(settings, Way::near.same() ? Way::near : Way::near_one_by_one);
}

TEST_CASE_TEMPLATE_DEFINE("fixed logical shards: the same bits on any number of ranks, in any order, and again", Way,
                          promise_of_bits) {
    if (!Way::runs_here()) return;
    using trainer = any_layout<Way, typename Way::layers>;
    std::vector<std::size_t> const sizes = {24, 17, 8};
    auto const first = one_outcome<Way, trainer>({{.batch = 24, .logical_shards = 8}, {.devices = 3}}, sizes);
    auto const orders = Way::orders();
    std::size_t turn = 0;
    for (int const devices : {1, 2, 5, 8}) {
        CAPTURE(devices);
        CHECK(Way::template trained<trainer>({{.batch = 24, .logical_shards = 8}, {.devices = devices}},
                                             orders[turn++ % orders.size()], sizes) == first);
    }
    // without them bits depend on the number of ranks
    CHECK_FALSE(Way::template trained<trainer>({{.batch = 24}, {.devices = 3}}, orders.front(), sizes) == first);
}

TEST_CASE_TEMPLATE_DEFINE("sums over all ranks in the middle of a step: the same bits in any order, and again", Way,
                          promise_of_bits_in_sums) {
    if (!Way::runs_here()) return;
    one_outcome<Way, any_strategy<Way, typename Way::sums>>({{.batch = 12}, {.devices = 3}}, {12, 9});
}

TEST_CASE_TEMPLATE_DEFINE("any strategy on any number of ranks computes what one rank computes, and again", Way,
                          promise_of_strategies) {
    using trainer = any_layout<Way, small>;
    std::vector<std::size_t> const sizes = {24, 13, 1};
    auto const orders = Way::orders();
    auto const one = Way::template trained<trainer>({{.batch = 24}, {.devices = 1}}, orders.front(), sizes);
    for (strategy_choice const& strategy :
         {strategy_choice(direct{}), strategy_choice(ring{}), strategy_choice(bidirectional_ring{}),
          strategy_choice(recursive_halving_doubling{}), strategy_choice(double_binary_tree{}),
          strategy_choice(chain{}), strategy_choice(hierarchical<direct, ring>{})})
        for (int const devices : sanitized ? std::vector{3} : std::vector{2, 3, 8}) {
            CAPTURE(strategy.name);
            CAPTURE(devices);
            auto const of = [&](auto const& order) {
                return Way::template trained<trainer>({{.batch = 24}, {.devices = devices, .strategy = strategy}},
                                                      order, sizes);
            };
            auto const got = of(orders.front());
            CHECK(test_support::apart(got.told, one.told) < 1e-5);
            CHECK(test_support::apart(got.numbers, one.numbers) < 1e-5);
            CHECK(of(orders.back()) == got);
            if constexpr (Way::near.same() && !std::same_as<Way, typename Way::reference>) {
                using reference = typename Way::reference;
                CHECK(reference::template trained<any_layout<reference, small>>(
                          {{.batch = 24}, {.devices = devices, .strategy = strategy}}, reference::orders().front(),
                          sizes) == got);
            }
        }
}

TEST_CASE_TEMPLATE_DEFINE("where layers add numbers over all ranks, any number of them computes what one computes", Way,
                          promise_of_one_batch) {
    using trainer = any_strategy<Way, typename Way::sums>;
    std::vector<std::size_t> const sizes = {24, 3, 7, 2, 24};
    auto const orders = Way::orders();
    auto const one = Way::template trained<trainer>({{.batch = 24}, {.devices = 1}}, orders.front(), sizes);
    for (int const devices : {2, 3, 4}) {
        CAPTURE(devices);
        auto const got = Way::template trained<trainer>({{.batch = 24}, {.devices = devices}}, orders.back(), sizes);
        CHECK(test_support::apart(got.told, one.told) < 1e-8);
        CHECK(test_support::apart(got.numbers, one.numbers) < 1e-7);
    }
}

/// Trains with buckets of 64 bytes, and as `Whole`.
template<class Way, class Network, class Whole>
void same_sums_in_parts() {
    using parts = typename Way::template trainer<Network, reduce_by<direct, bucket<64>>>;
    test_networks::settings<parts> const s{{.batch = 12}, {.devices = 3}};
    CHECK(parts::plan(s.training.batch, parts::layout_of(s.training, s.run)).layout.reductions() > 3);
    auto const is = one_outcome<Way, parts>(s, {12, 9});
    auto const wanted = Way::template trained<Whole>({{.batch = 12}, {.devices = 3, .strategy = direct{}}},
                                                     Way::orders().front(), {12, 9});
    CHECK(test_support::apart(is.told, wanted.told) < 1e-9);
    CHECK(test_support::apart(is.numbers, wanted.numbers) < 1e-9);
}

TEST_CASE_TEMPLATE_DEFINE("gradients that travel in parts have the same sums", Way, promise_of_parts) {
    same_sums_in_parts<Way, typename Way::layers, any_layout<Way, typename Way::layers>>();
    same_sums_in_parts<Way, typename Way::sums, any_strategy<Way, typename Way::sums>>();
}

TEST_CASE_TEMPLATE_DEFINE("parameters and statistics are loaded and read, each without touching the other", Way,
                          promise_of_loading) {
    if (!Way::runs_here()) return;
    using trainer = any_layout<Way, typename Way::layers>;
    auto const two = Way::template ranks<trainer>(2);
    trainer from({.learning_rate = 0.03f, .batch = 12, .seed = 1}, two),
        to({.learning_rate = 0.03f, .batch = 12, .seed = 2}, two);
    auto const images = made_up(12);
    from.step(images);
    from.step(images);
    auto const parameters = from.gather_parameters(), statistics = from.gather_buffers();
    to.step(images);
    auto const own = to.gather_parameters();
    CHECK_FALSE(own == parameters);
    CHECK_FALSE(to.gather_buffers() == statistics);
    to.load_buffers(statistics);
    for (int const rank : {0, 1}) {
        CHECK(held(to, rank) == own);
        CHECK(held(to, rank, true) == statistics);
    }
    to.load_parameters(parameters);
    for (int const rank : {0, 1}) {
        CHECK(held(to, rank) == parameters);
        CHECK(held(to, rank, true) == statistics);
    }
    auto const is = to.evaluate(images), wanted = from.evaluate(images);
    CHECK(is.loss == wanted.loss);
    CHECK(is.accuracy == wanted.accuracy);
    // and a step that goes no way leaves them
    trainer still({.batch = 12, .seed = 3}, two);
    still.set_learning_rate(0);
    still.load_parameters(parameters);
    still.step(images);
    CHECK(still.gather_parameters() == parameters);
}

TEST_CASE_TEMPLATE_DEFINE("steps of more samples than the batch, or of too few, are refused where layers need several",
                          Way, promise_of_refusal) {
    any_layout<Way, typename Way::layers> t({.batch = 24});
    CHECK_THROWS_WITH_AS(t.step(made_up(25)), doctest::Contains("25 samples, the option batch is 24"), usage_error);
    CHECK(t.step(made_up(24)).samples == 24);
    if constexpr (Way::chooses_strategy) {
        using trainer = any_strategy<Way, typename Way::sums>;
        trainer together({.batch = 24}, Way::template ranks<trainer>(3));
        CHECK_THROWS_WITH_AS(together.step(made_up(25)), doctest::Contains("25 samples, the option batch is 24"),
                             usage_error);
        CHECK_THROWS_WITH_AS(together.step(made_up(1)), doctest::Contains("needs at least 2"), usage_error);
        CHECK(together.step(made_up(2)).samples == 2);
    }
}

TEST_CASE_TEMPLATE_DEFINE("in bf16 losses follow those in f32, and parameters are not rounded", Way, promise_of_bf16) {
    if (!Way::runs_here()) return;
    if (sanitized) { // the bits in bf16 are watched elsewhere
        MESSAGE("left out: under a sanitizer, values are not compared");
        return;
    }
    using wide = typename Way::wide;
    // not few samples: a variance of almost equal values is mostly rounding
    std::vector<std::size_t> const sizes = {64, 64, 64, 50};
    auto const follows = []<class is, class wanted>(is const& narrow, wanted const& in_f32) {
        CHECK(test_support::apart(narrow.told, in_f32.told) < Way::apart_from_wide);
        CHECK_FALSE(narrow.told == in_f32.told);
        auto const finer = std::count_if(narrow.numbers.begin(), narrow.numbers.end(),
                                         [](float p) { return static_cast<float>(bf16(p)) != p; });
        CHECK(finer > static_cast<std::ptrdiff_t>(narrow.numbers.size() / 2));
    };
    for (int const devices : {1, 2}) {
        std::size_t const shards = devices == 1 ? 0 : 4;
        CAPTURE(devices);
        CAPTURE(shards);
        follows(Way::template trained<any_layout<Way, typename Way::layers>>(
                    {{.batch = 64, .logical_shards = shards}, {.devices = devices}}, Way::orders().front(), sizes),
                wide::template trained<any_layout<wide, typename Way::layers>>(
                    {{.batch = 64, .logical_shards = shards}, {.devices = devices}}, wide::orders().front(), sizes));
    }
    follows(Way::template trained<any_strategy<Way, typename Way::sums>>({{.batch = 64}, {.devices = 2}},
                                                                         Way::orders().front(), sizes),
            wide::template trained<any_strategy<wide, typename Way::sums>>({{.batch = 64}, {.devices = 2}},
                                                                           wide::orders().front(), sizes));
}

} // namespace promises
