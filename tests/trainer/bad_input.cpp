// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/messages.hpp>
#include <support/networks.hpp>

#include <trireme/schedules.hpp>

#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace trainer_bad_input_test {
using namespace trireme;
using namespace test_networks;
using test_support::refusal;
using test_support::says;

namespace {

using t = any_layout<softmax_regression>;

/// `direct` without its last wait.
struct forgets_to_wait {
    static constexpr char const* name = "forgets_to_wait";
    static constexpr schedule all_reduce(int n) noexcept {
        return {name, n, n, n, [](int ranks, int rank, int s) -> collective_step {
                    if (s == 0) return {step_kind::reduce, rank, all_others(rank, ranks), 0};
                    return {step_kind::copy, (rank + s) % ranks, one_rank((rank + s) % ranks), 1};
                }};
    }
};

/// As on a machine whose environment is another one, whatever it is told.
struct sets_floats_otherwise {
    static double value(parameter_tensor const& p, random_stream const& r, std::uint64_t i) {
        std::fesetround(FE_UPWARD);
        return xavier_uniform::value(p, r, i);
    }
};

} // namespace

TEST_SUITE("trainer/bad_input") {
    TEST_CASE("options that break a rule are refused with the thing, the rule and the remedy") {
        CHECK(says(refusal([] { t({.batch = 0}); }), {"batch = 0", "at least one sample"}));
        CHECK(says(refusal([] { t({}, {.devices = 0}); }), {"devices = 0", "at least one device"}));
        CHECK(says(refusal([] { t({}, {.devices = -3}); }), {"devices = -3"}));
        CHECK(says(refusal([] { t({.batch = 4}, {.devices = 8}); }),
                   {"batch = 4 on 8 devices", "no more devices than 4"}));
        CHECK(says(refusal([] { t({.batch = 64, .logical_shards = 4}, {.devices = 8}); }),
                   {"logical_shards = 4 on 8 devices", "more shards"}));
        CHECK(says(refusal([] { t({.logical_shards = 4}, {.devices = 2, .strategy = ring{}}); }),
                   {"ring", "fixed_tree fixes the order", "direct"}));
        CHECK(says(refusal([] { t({.logical_shards = 100000}); }), {"at most 4096"}));
        CHECK(says(refusal([] { t({.batch = 100000}, {.devices = 60000}); }), {"devices = 60000", "at most 256"}));
        CHECK(says(refusal([] { t({.learning_rate = NAN}); }), {"learning_rate = nan", "finite"}));
        CHECK(says(refusal([] { t({.learning_rate = -0.1f}); }), {"learning_rate = -0.1", "not negative"}));
        CHECK(says(refusal([] { t({.weight_decay = INFINITY}); }), {"weight_decay = inf", "finite"}));
        CHECK(says(refusal([] { t({}, {.deadline = std::chrono::seconds(0)}); }), {"deadline = 0"}));
        CHECK(says(refusal([] { t({.batch = static_cast<std::size_t>(-1)}); }), {"at most 4294967295", "negative"}));
        CHECK(says(refusal([] { (void)t::plan(8, t::layout_of({}, {.devices = 0})); }), {"at least one device"}));
        CHECK(says(refusal([] { (void)t::plan(8, {.replicas = -1, .stages = -1}); }), {"devices = -1"}));
        using with_momentum = any_layout<softmax_regression, sgd_momentum>;
        CHECK(says(refusal([] { with_momentum({.momentum = 1.0f}); }), {"momentum = 1", "below 1"}));
    }

    TEST_CASE("a plan is refused where its trainer is for want of stages, in the same words") {
        using staged = any_stages<host, network<input<16>, linear<16>, linear<16>, linear<10>>, cross_entropy, sgd>;
        auto const plan_of = [](int stages, schedule_choice const& schedule) {
            staged::options const o{.batch = 64};
            staged::run_options const r{.stages = stages, .micro_batches = 8, .schedule = schedule};
            auto const said = refusal([&] { (void)staged::plan(64, staged::layout_of(o, r)); });
            CHECK(said == refusal([&] { staged::check(o, r); }));
            return said;
        };
        CHECK(plan_of(3, one_f_one_b{}) == "");
        CHECK(says(plan_of(0, one_f_one_b{}), {"stages = 0", "at least one stage"}));
        for (int const stages : {4, 8, max_roles})
            CHECK(says(plan_of(stages, one_f_one_b{}), {"stages = ", "at 2 places, into at most 3 stages"}));
        CHECK(says(plan_of(2, interleaved<2>{}), {"stages = 2, each in 2 by the schedule interleaved", "at most 3"}));
        CHECK(says(plan_of(max_roles + 1, one_f_one_b{}), {"stages = 65", "at most 64"}));
    }

    TEST_CASE("a layout made by hand has a plan, or an error of its own") {
        using deep = network<input<16>, linear<16>, linear<16>, linear<10>>;
        using staged = any_stages<host, deep, cross_entropy, sgd>;
        parallel_layout const two_by_two{.replicas = 2, .stages = 2, .micro_batches = 8};
        auto const same = staged::layout_of({}, {.devices = 2, .stages = 2, .micro_batches = 8});
        CHECK(staged::plan(64, two_by_two).bytes_per_device() == staged::plan(64, same).bytes_per_device());
        CHECK(says(refusal([&] { (void)t::plan(64, two_by_two); }),
                   {"stages = 2", "no axis pp", "on<mesh<host, dp<dynamic>, pp<dynamic>>>"}));
        CHECK(says(refusal([] { (void)t::plan(64, {.micro_batches = 0}); }), {"micro_batches = 0", "at least 1"}));
        CHECK(says(refusal([] { (void)t::plan(64, {.micro_batches = 65536}); }), {"micro_batches = 65536", "at most"}));
        using cut = trainer<deep, cross_entropy, sgd, on<mesh<host, pp<dynamic>>>, stages_by<cut_before<2>>>;
        CHECK(says(refusal([] { (void)cut::plan(64, cut::layout_of({}, {.stages = 3})); }),
                   {"stages = 3: cut_before makes 2 stages"}));
        CHECK(cut::plan(64, cut::layout_of({}, {.stages = 1})).parameters == deep::parameters);
    }

    TEST_CASE("reproducible is refused where the floating-point environment cannot be set right") {
        using reproducible_or_not = trainer<softmax_regression, cross_entropy, sgd, initialise<sets_floats_otherwise>,
                                            reproducible<fixed_tree, dynamic>>;
        std::string said;
        try {
            reproducible_or_not({.logical_shards = 8});
        } catch (device_error const& e) {
            CHECK(e.device() == 0);
            CHECK_THROWS_AS(std::rethrow_exception(e.cause()), usage_error);
            said = e.what();
        }
        CHECK(says(said, {"reproducible needs floats that are rounded to the nearest", "leave out reproducible"}));
        CHECK(floats_are_default()); // again
        CHECK_NOTHROW(reproducible_or_not({.logical_shards = 0}));
        std::fesetround(FE_TONEAREST); // of long double, too, which is the program's own
    }

    TEST_CASE("a strategy that is chosen when the program runs is proved then") {
        CHECK(says(refusal([] { t({}, {.devices = 3, .strategy = forgets_to_wait{}}); }),
                   {"forgets_to_wait on 3 devices", "overwritten while it is read", "rank"}));
    }

    TEST_CASE("data that does not fit the network is refused") {
        t trainer({.batch = 8});
        labelled_images const narrow(std::vector<std::uint8_t>(2 * 20 * 20), {1, 2}, 20, 20, 10);
        CHECK(says(refusal([&] { trainer.step(narrow); }), {"400 values", "784"}));
        labelled_images const fine_grained(std::vector<std::uint8_t>(2 * 784), {1, 12}, 28, 28, 13);
        CHECK(says(refusal([&] { trainer.step(fine_grained); }), {"13 classes", "10 outputs", "linear<13>"}));
        labelled_images const one_class_more(std::vector<std::uint8_t>(784), {1}, 28, 28, 11);
        CHECK(says(refusal([&] { trainer.step(one_class_more); }), {"11 classes", "10 outputs"}));
        CHECK(says(refusal([&] { trainer.step({}); }), {"empty"}));
        CHECK(says(refusal([&] { trainer.evaluate({}); }), {"empty"}));
        CHECK(says(refusal([&] { trainer.load_parameters({}); }), {"0 values", "7850"}));
        CHECK(trainer.step(made_up(8)).samples == 8); // and it works on
    }

    TEST_CASE("images of another shape are refused though they have as many values") {
        using other_shape = any_layout<network<input<4, 14, 14>, flatten, linear<10>>>;
        other_shape trainer({.batch = 8});
        CHECK(says(refusal([&] { trainer.step(made_up(8)); }), {"1 x 28 x 28", "input<...>"}));
        using flat = any_layout<network<input<784>, linear<10>>>; // one dimension takes any shape
        CHECK(flat({.batch = 8}).step(made_up(8)).loss > 0);
    }

    TEST_CASE("colours are refused with the reason") {
        using coloured = any_layout<network<input<3, 28, 28>, flatten, linear<10>>>;
        CHECK(says(refusal([] { coloured({.batch = 8}).step(made_up(8)); }),
                   {"3 channels", "have 1", "input<1, 28, 28>"}));
    }

    TEST_CASE("a test set that the network cannot take is refused before the first step") {
        t trainer({.batch = 8});
        auto const before = weights(trainer);
        labelled_images const narrow(std::vector<std::uint8_t>(2 * 20 * 20), {1, 2}, 20, 20, 10);
        CHECK(says(refusal([&] { trainer.train({made_up(8), narrow}, {.epochs = 1}); }), {"400 values", "784"}));
        CHECK(same_bits(before, weights(trainer)));
    }

    TEST_CASE("batch_norm of one value per channel is refused before it trains on zeros") {
        using flat_norm = network<input<1, 28, 28>, flatten, linear<10>, batch_norm<per_shard>>;
        using normed = any_layout<flat_norm>;
        CHECK(says(refusal([] { normed({.batch = 1}); }), {"batch = 1", "layer 2", "at least 2"}));
        CHECK(says(refusal([] { normed({.batch = 3}, {.devices = 2}); }),
                   {"batch = 3 on 2 devices leaves 1 for device 0", "at least 4", "synchronised"}));
        CHECK(says(refusal([] { normed({.batch = 7, .logical_shards = 4}, {.devices = 2}); }),
                   {"on 4 logical shards leaves 1 for logical shard 0", "at least 8"}));
        normed two({.batch = 4}, {.devices = 2});
        auto const before = weights(two);
        CHECK(says(refusal([&] { two.step(made_up(3)); }), {"a step on 3 samples", "at least 4"}));
        CHECK(says(refusal([&] { two.train({made_up(15), {}}, {.epochs = 1}); }),
                   {"15 samples ends with a batch of 3", "so that there are 12"}));
        CHECK(same_bits(before, weights(two)));
        CHECK(two.train({made_up(16), made_up(1)}, {.epochs = 1}).loss > 0); // and a test may be of one image

        using over_all = trainer<network<input<1, 28, 28>, flatten, linear<10>, batch_norm<synchronised>>,
                                 cross_entropy, sgd, on<mesh<host, dp<dynamic>>>>;
        CHECK(over_all({.batch = 2}, {.devices = 2}).step(made_up(2)).loss > 0);
        CHECK(says(refusal([] { over_all({.batch = 1}); }), {"batch = 1", "over the batch"}));
        using image_norm = any_layout<network<input<1, 28, 28>, batch_norm<per_shard>, flatten, linear<10>>>;
        CHECK(image_norm({.batch = 1}).step(made_up(1)).loss > 0); // 784 values of its channel
    }

    TEST_CASE("a trainer that is used from its own observer says so, and stays whole") {
        t trainer({.batch = 8}, {.devices = 2});
        auto const images = made_up(64);
        for (auto const& misuse : std::initializer_list<std::function<void()>>{
                 [&] { trainer.evaluate(images); }, [&] { trainer.step(images); },
                 [&] { trainer.set_learning_rate(0.5f); }, [&] { (void)trainer.gather_parameters(); }}) {
            int refused = 0;
            for ([[maybe_unused]] auto const& e : trainer.fit({images, {}}, {.epochs = 1}, [&](progress_report const&) {
                     if (says(refusal(misuse), {"in use by another of its calls", "observer", "another thread"}))
                         ++refused;
                 })) {}
            CHECK(refused == 8);
        }
        CHECK(same_bits(weights(trainer, 0), weights(trainer, 1)));
        trainer.set_learning_rate(0.25f);
        CHECK(trainer.current_options().learning_rate == 0.25f);
        CHECK(says(refusal([&] { trainer.set_learning_rate(-1.0f); }), {"learning_rate = -1"}));
        CHECK(trainer.current_options().learning_rate == 0.25f);
    }

    TEST_CASE("a second thread on one trainer is told so, and the first goes on") {
        t trainer({.batch = 8});
        auto const images = made_up(16);
        int refused = 0;
        auto const report = trainer.train({images, {}}, {.epochs = 1}, [&](progress_report const&) {
            std::thread([&] {
                for (auto const& call : std::initializer_list<std::function<void()>>{[&] { trainer.step(images); },
                                                                                     [&] { trainer.evaluate(images); },
                                                                                     [&] { (void)trainer.wire(0); }})
                    if (says(refusal(call), {"in use by another of its calls", "another thread"})) ++refused;
            }).join();
        });
        CHECK(refused == 6);
        CHECK(report.loss > 0);
        CHECK(trainer.step(images).step == 3);
    }

    TEST_CASE("a device that does not exist, a negative number of epochs") {
        t trainer({.batch = 8}, {.devices = 2});
        CHECK(says(refusal([&] { trainer.for_each_piece(2, [](auto const&) {}); }), {"device 2", "has 2"}));
        CHECK(says(refusal([&] { (void)trainer.wire(-1); }), {"device -1"}));
        CHECK(says(refusal([&] { (void)trainer.fit({}, {.epochs = -1}); }), {"epochs = -1"}));
    }

    TEST_CASE("a data set smaller than the batch is one short batch; smaller than the devices it is refused") {
        t trainer({.batch = 64}, {.devices = 4});
        for (auto const& e : trainer.fit({made_up(9), {}}, {.epochs = 1})) CHECK(e.loss > 0);
        auto small = trainer.fit({made_up(3), {}}, {.epochs = 1});
        CHECK(says(refusal([&] { small.begin(); }), {"3 samples for 4 devices"}));
    }
}

} // namespace trainer_bad_input_test
