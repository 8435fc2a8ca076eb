// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Gradients that travel as bf16, and errors of rounding that the next step makes good.

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/compare.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/regression.hpp>
#include <support/tied_networks.hpp>
#include <support/training.hpp>
#include <support/wires.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace trainer_compressed_test {
namespace {
using namespace trireme;
using namespace test_networks;

template<class Network, class Strategy, class... Policies>
using by = trainer<Network, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>, reduce_by<Strategy>, Policies...>;

/// One weight, and a gradient that does not change: its learning rate is 0. The second sample, that of another device,
/// adds nothing to it.
template<class Strategy, class Dtype>
struct one_weight {
    using net = network<input<1>, linear<1, without_bias>>;
    using trainer = trireme::trainer<net, mean_squared_error, sgd, on<mesh<host, dp<2>>>, reduce_by<Strategy>,
                                     precision<Dtype>, clip_norm>;
    std::vector<float> inputs = {1.1f, 0}, targets = {0.3f, 0};

    /// The sum of the gradients of some steps.
    double sum(std::size_t steps) const {
        trainer t({.learning_rate = 0.1f, .max_norm = 1e6f, .batch = 2, .seed = 4});
        t.set_learning_rate(0);
        double all = 0;
        auto const samples = samples_in_memory(inputs, make_shape(1), targets, make_shape(1));
        auto const step = [&] { return t.step(samples).gradient_norm; };
        for (std::size_t i = 0; i < steps; ++i) all += i == 0 ? step() : allocation_hook::nothing_by(step);
        return all;
    }
};

template<class Dtype>
void makes_good() {
    constexpr std::size_t steps = 100;
    double const exact = one_weight<ring, Dtype>().sum(1);
    double const rounded = static_cast<double>(static_cast<float>(bf16(static_cast<float>(exact))));
    double const lost = std::fabs(rounded - exact), unit = std::ldexp(1.0, std::ilogb(exact) - 7);
    REQUIRE(lost > unit / 20); // else this shows nothing
    CHECK(one_weight<compressed<bf16, ring>, Dtype>().sum(1) == rounded);
    double const apart = std::fabs(one_weight<compressed<bf16, ring>, Dtype>().sum(steps) - steps * exact);
    CHECK(apart < unit);
    CHECK(apart < steps * lost / 4);
}

/// Steps behind one that is lost are those of a trainer that begins with the weights before it: errors of rounding are
/// forgotten with the gradient, whose norm is no number. Weights from elsewhere change nothing of that.
template<class Network, class... Reduction>
void forgets_a_lost_step_that_is_clipped() {
    using narrow = trainer<Network, mean_squared_error, sgd, on<mesh<host, dp<2>>>, reduce_by<Reduction...>, clip_norm>;
    test_regression::made_up_table<float> good(6), bad(6);
    bad.inputs[0] = std::numeric_limits<float>::infinity();
    typename narrow::options const options{.learning_rate = 0.1f, .max_norm = 0.01f, .batch = 6, .seed = 3};
    narrow loses(options), loads(options), begins(options);
    for (auto* const t : {&loses, &loads}) CHECK(t->step(good.samples()).gradient_norm > 0.01);
    auto const weights = loses.gather_parameters();
    for (auto* const t : {&loses, &loads}) CHECK_THROWS_AS(t->step(bad.samples()), divergence_error);
    CHECK(loses.gather_parameters() == weights);
    for (auto* const t : {&loads, &begins}) t->load_parameters(weights);
    for (int i = 0; i < 2; ++i) {
        CAPTURE(i);
        for (auto* const t : {&loses, &loads, &begins}) CHECK(std::isfinite(t->step(good.samples()).gradient_norm));
        CHECK(loses.gather_parameters() == begins.gather_parameters());
        CHECK(loads.gather_parameters() == begins.gather_parameters());
    }
    CHECK_FALSE(begins.gather_parameters() == weights);
}

} // namespace

TEST_SUITE("trainer/compressed") {
    TEST_CASE("what rounding takes off a gradient is in the next ones") {
        watchdog const guard("errors that are made good");
        makes_good<f32>();
        makes_good<f64>();
    }

    TEST_CASE("losses follow those of gradients that are not rounded, and the bytes are half") {
        watchdog const guard("compressed gradients");
        std::vector<std::size_t> const sizes = {24, 24, 24, 13, 1};
        auto const follows = [&]<class Strategy, class Dtype>(Strategy, Dtype) {
            using narrow = by<every_layer, compressed<bf16, Strategy>, precision<Dtype>>;
            using wide = by<every_layer, Strategy, precision<Dtype>>;
            for (int const devices : {1, 2, 3}) {
                CAPTURE(devices);
                auto const is = trained<narrow>({{.batch = 24}, {.devices = devices}}, sizes);
                auto const wanted = trained<wide>({{.batch = 24}, {.devices = devices}}, sizes);
                CHECK(test_support::apart(is.told, wanted.told) < 2e-2);
                CHECK(test_support::apart(is.numbers, wanted.numbers) < 2e-2);
                CHECK((is == wanted) == (devices == 1));
                CHECK(trained<narrow>({{.batch = 24}, {.devices = devices}}, sizes) == is);
                CHECK(test_wires::add_up(narrow::plan(batch{24}, narrow::layout_of({}, {.devices = devices}))));
                auto const bytes = [devices]<class S>(S) {
                    using without_buffers = by<small, S, precision<Dtype>>;
                    auto const l = without_buffers::layout_of({}, {.devices = devices});
                    return without_buffers::plan(batch{24}, l).wire_bytes_per_step();
                };
                CHECK(bytes(compressed<bf16, Strategy>{}) ==
                      bytes(Strategy{}) * 2 / sizeof(typename Dtype::value_type));
            }
        };
        follows(direct{}, f32{});
        follows(ring{}, f64{});
        follows(hierarchical<direct, ring>{}, f32{});
        follows(best_of<direct, ring>{}, f32{});
    }

    TEST_CASE("gradients that travel in parts have errors of their own, and the same bits") {
        watchdog const guard("parts of compressed gradients"); // two devices add in one order, however they are cut
        using whole = by<every_layer, compressed<bf16, ring>>;
        using parts = trainer<every_layer, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                              reduce_by<compressed<bf16, ring>, bucket<64>>>;
        settings<parts> const s{{.batch = 24}, {.devices = 2}};
        CHECK(parts::plan(batch{24}, parts::layout_of(s.training, s.run)).layout.reductions() > 3);
        CHECK(trained<parts>(s, {24, 13}) == trained<whole>({{.batch = 24}, {.devices = 2}}, {24, 13}));
    }

    TEST_CASE("running statistics are not rounded") {
        watchdog const guard("statistics beside compressed gradients");
        using net = network<input<6>, batch_norm<per_shard>, linear<3>>;
        auto const statistics = []<class Strategy>(Strategy) {
            test_regression::made_up_table<float> table(24);
            for (float& x : table.inputs) x += 50'000; // 500, as it is scaled
            trainer<net, mean_squared_error, sgd, on<mesh<host, dp<2>>>, reduce_by<Strategy>> t(
                {.learning_rate = 0.1f, .batch = 24, .seed = 3});
            for (int i = 0; i < 20; ++i) t.step(table.samples());
            return t.gather_buffers();
        };
        CHECK(same_bits(statistics(compressed<bf16, direct>{}), statistics(direct{})));
    }

    TEST_CASE("a plan has the memory, to the byte, of the tensors that are compressed alone") {
        watchdog const guard("memory of compressed gradients");
        using all = by<small, compressed<bf16, ring>>;
        using some = trainer<every_layer, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                             reduce_by<direct, for_tensors<of_at_least<512>, compressed<bf16, ring>>>>;
        auto const state = [](auto const& t) { return t.plan().memory(0).strategy_state; };
        for (int const devices : {1, 2, 3})
            test_support::as_planned([&](auto const& taken) {
                all t({.batch = 24}, {.devices = devices});
                taken(t);
                auto const elements = round_up(t.plan().arena_elements, cache_line / sizeof(bf16));
                CHECK(state(t) == (devices == 1 ? 0 : elements * (sizeof(float) + sizeof(bf16))));
            });
        test_support::as_planned([&](auto const& taken) {
            some t({.batch = 24}, {.devices = 2});
            taken(t);
            CHECK(state(t) > 0);
            CHECK(state(t) < t.plan().arena_elements * sizeof(float));
        });
        trained<some>({{.batch = 24}, {.devices = 3}}, {24, 7});
    }

    TEST_CASE("replicas of pipelines compress the gradients of each stage") {
        watchdog const guard("compressed gradients of stages");
        using staged = trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>,
                               pipeline<interleaved<2>, 4>, reduce_by<compressed<bf16, direct>>, clip_norm>;
        using plain = trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>,
                              pipeline<interleaved<2>, 4>, clip_norm>;
        test_support::as_planned([&](auto const& taken) {
            staged t({.batch = 24});
            taken(t);
        });
        staged t({.learning_rate = 0.05f, .batch = 24, .seed = 3});
        plain wide({.learning_rate = 0.05f, .batch = 24, .seed = 3});
        CHECK(test_wires::reads_as_planned(t, made_up(24), 0, 4));
        wide.step(made_up(24));
        CHECK(test_support::apart(t.gather_parameters(), wide.gather_parameters()) < 1e-2);
        CHECK(t.plan().wire_along("pp").bytes == wide.plan().wire_along("pp").bytes);
        CHECK(t.plan().wire_along("dp").bytes * 2 == wide.plan().wire_along("dp").bytes);
    }

    TEST_CASE("tied rows on different stages are compressed with their own") {
        watchdog const guard("compressed gradients of tied rows");
        using net = test_tying::first_and_last;
        using staged = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>, pipeline<one_f_one_b, 4>,
                               clip_norm, reduce_by<compressed<bf16, direct>>>;
        using plain = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>, pipeline<one_f_one_b, 4>,
                              clip_norm>;
        staged t({.learning_rate = 0.05f, .max_norm = 1, .batch = 24, .seed = 3});
        plain wide({.learning_rate = 0.05f, .max_norm = 1, .batch = 24, .seed = 3});
        CHECK(test_wires::reads_as_planned(t, made_up(24), 0, 4));
        wide.step(made_up(24));
        CHECK(test_support::apart(t.gather_parameters(), wide.gather_parameters()) < 1e-2);
        for (int const rank : {1, 2, 3}) CHECK(t.plan().memory(rank).strategy_state > 0);
    }

    TEST_CASE("errors of a gradient that was clipped are clipped, too") {
        watchdog const guard("errors of a spike");
        auto const norms = []<class Strategy>(Strategy) {
            using net = network<input<6>, linear<3>>;
            trainer<net, mean_squared_error, sgd, on<mesh<host, dp<2>>>, reduce_by<Strategy>, clip_norm> t(
                {.learning_rate = 0.01f, .max_norm = 0.5f, .batch = 24, .seed = 3});
            test_regression::made_up_table<float> usual(24), spike(24);
            for (float& y : spike.targets) y *= 1e6f;
            std::vector<double> all;
            for (int i = 0; i < 6; ++i) all.push_back(t.step((i == 1 ? spike : usual).samples()).gradient_norm);
            return all;
        };
        CHECK(test_support::apart(norms(compressed<bf16, direct>{}), norms(direct{})) < 1e-2);
    }

    TEST_CASE("a gradient that is not finite leaves no error") {
        watchdog const guard("infinite gradients");
        parallel_layout l{.replicas = 2, .strategy = compressed<bf16, direct>{}};
        constexpr std::size_t n = 37; // whole registers, and some numbers behind them
        threads::group(2).run([&](threads::communicator& c) {
            memory_map m;
            m.strategy_state.bytes = l.compressed_by(0, n) * (sizeof(float) + sizeof(bf16));
            detail::compressed_gradients<float, threads::communicator, true> g(c, m);
            g.add_stage(l, n);
            auto const s = l.reduction(0, n, sizeof(float));
            std::vector<float> x(n);
            for (std::size_t i = 0; i < n; ++i) // infinite, no number, infinite as bf16
                x[i] = i % 3 == 0   ? std::numeric_limits<float>::infinity()
                       : i % 3 == 1 ? std::numeric_limits<float>::quiet_NaN()
                                    : 3.4e38f;
            g.add(c, s, 0, x);
            for (float const each : x) CHECK_FALSE(std::isfinite(each));
            std::ranges::fill(x, 1.5f);
            g.add(c, s, 0, x);
            for (float const each : x) CHECK(each == 3);
            std::ranges::fill(x, 1 + 0x1p-10f); // rounded to 1; half of what that takes off is kept
            g.add(c, s, 0, x);
            g.scale_errors(0.5f);
            std::ranges::fill(x, 0.0f);
            g.add(c, s, 0, x);
            for (float const each : x) CHECK(each == 0x1p-10f);
        });
    }

    TEST_CASE("a lost step, and weights from elsewhere, leave no errors behind") {
        watchdog const guard("errors that are forgotten");
        using net = network<input<6>, linear<5>, linear<3>>;
        using narrow = trainer<net, mean_squared_error, sgd, on<mesh<host, dp<2>>>, reduce_by<compressed<bf16, ring>>>;
        test_regression::made_up_table<float> good(6), bad(6);
        bad.inputs[0] = std::numeric_limits<float>::infinity();
        auto const options = narrow::options{.learning_rate = 0.1f, .batch = 6, .seed = 3};
        narrow loses(options), loads(options), goes_on(options);
        for (auto* const t : {&loses, &loads, &goes_on}) t->step(good.samples());
        auto const weights = loads.gather_parameters();
        CHECK_THROWS_AS(loses.step(bad.samples()), divergence_error);
        CHECK(loses.gather_parameters() == weights);
        loads.load_parameters(weights);
        narrow begins(options);
        begins.load_parameters(weights);
        for (auto* const t : {&loses, &loads, &goes_on, &begins}) t->step(good.samples());
        CHECK(loses.gather_parameters() == begins.gather_parameters());
        CHECK(loads.gather_parameters() == begins.gather_parameters());
        CHECK_FALSE(goes_on.gather_parameters() == begins.gather_parameters()); // it has kept something
    }

    TEST_CASE("a lost step leaves no errors behind where gradients are clipped, all or some of which are compressed") {
        watchdog const guard("errors that are forgotten, clipped");
        forgets_a_lost_step_that_is_clipped<network<input<6>, linear<5>, linear<3>>, compressed<bf16, ring>>();
        forgets_a_lost_step_that_is_clipped<network<input<6>, linear<64>, linear<3>>, direct,
                                            for_tensors<in_layer<1>, compressed<bf16, ring>>>();
    }

    TEST_CASE("a strategy that compresses is not chosen when the program runs") {
        using any = any_layout<small, sgd_momentum>;
        CHECK(test_support::refusal([] { any({}, {.devices = 2, .strategy = compressed<bf16, ring>{}}); }) ==
              "strategy compressed<bf16, ring> is chosen when the program runs, and a trainer has code that compresses "
              "gradients only by its type: write reduce_by<compressed<bf16, ring>> on devices of the host, or choose "
              "another strategy");
    }
}
} // namespace trainer_compressed_test
