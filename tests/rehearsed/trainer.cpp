// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training on accelerators, rehearsed on the host: layers of one's own, and that every wait for an event is needed.

#include <rehearsed/scale.hpp>
#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/described.hpp>
#include <support/fading.hpp>
#include <support/networks.hpp>
#include <support/promises.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace rehearsed_trainer_test {
using namespace trireme;
using namespace rehearsed;
using test_networks::made_up;

template<class Device, class Network = tiny, class Optimizer = sgd, class... Policies>
using any =
    test_networks::any_replicas<Device, Network, cross_entropy, Optimizer, reduce_by<chosen_at_run_time>, Policies...>;

namespace {

struct copied {
    float const* from;
    float* to;
    void operator()(std::size_t i) const { to[i] = from[i]; }
};
struct zeroed {
    float* numbers;
    void operator()(std::size_t i) const { numbers[i] = 0; }
};
/// A layer that adds numbers over all devices on the way there, and others on the way back: here zeros.
struct agrees_both_ways {
    static constexpr layer_description describe(shape in) { return test_described::sums_both_ways(in); }
    static void forward_gather(auto const& io) { io.policy.each(2 * io.x.size(), zeroed{io.place.kept}); }
    static void forward_agree(auto const&, int) {}
    static void forward(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), copied{io.x.data, io.y.data});
    }
    static void evaluate(auto const& io) { forward(io); }
    static void backward_gather(auto const&) {}
    static void backward_agree(auto const&, int) {}
    static void backward_input(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), copied{io.dy.data, io.dx.data});
    }
};

} // namespace

TEST_SUITE("rehearsed/trainer") {
    TEST_CASE("sums of layers are counted as they are planned: below all parameters none on the way back") {
        auto const check = []<class Network>(Network) {
            on_stage const as_usual;
            trainer<Network, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>> t{{.batch = 6}, {.share_devices = true}};
            t.step(made_up(6));
            for (int rank = 0; rank < 2; ++rank) {
                CHECK(t.wire(rank).bytes == t.plan().wire(rank).bytes);
                CHECK(t.wire(rank).messages == t.plan().wire(rank).messages);
            }
        };
        check(network<input<1, 28, 28>, agrees_both_ways, flatten, linear<10>>{});
        check(network<input<1, 28, 28>, flatten, linear<10>, agrees_both_ways>{});
    }

    TEST_CASE("updates are counted where the weights are: a step that was captured once goes on counting") {
        auto const make = []<class Optimizer>(Optimizer, bool eager) {
            using t = trainer<test_networks::small, cross_entropy, Optimizer, on<mesh<rehearsal, dp<2>>>>;
            return std::make_unique<t>(typename t::options{.learning_rate = 0.5f, .batch = 24},
                                       typename t::run_options{.share_devices = true, .eager = eager});
        };
        for (bool const eager : {false, true}) {
            CAPTURE(eager);
            on_stage const as_told(timing::shuffled, 2);
            CHECK(test_fading::fades([&] { return make(test_fading::fading_sgd{}, eager); },
                                     [&] { return make(sgd{}, eager); }, test_networks::made_up(24)));
        }
    }

    TEST_CASE("LeNet's first 50 losses are the host's") {
        std::vector<std::size_t> const steps(50, 4);
        promises::as_in_the_reference<promises::on_rehearsal<f32>, promises::any_layout, test_networks::lenet>(
            {{1, 0, 4, steps}, {2, 0, 4, steps}}, {1e-5, 1e-4});
    }

    TEST_CASE("a network without parameters has nothing to add") {
        on_stage const as_usual;
        trainer<network<input<1, 28, 28>, avg_pool2d<7>, flatten, relu>, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>>
            t{{.batch = 4}};
        CHECK(std::isfinite(t.step(made_up(4)).loss));
    }

    TEST_CASE("layers of one's own: in place, with parameters, and with outputs that are read again") {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
            on_stage const as_told(seed == 0 ? timing::late : timing::shuffled, seed);
            using scaled_net = network<input<1, 28, 28>, flatten, linear<12>, linear<11>, scale<true>, scale<false>,
                                       sigmoid, linear<10>>;
            any<host, scaled_net> on_host({.learning_rate = 0.3f, .batch = 6, .seed = 1});
            any<rehearsal, scaled_net> t({.learning_rate = 0.3f, .batch = 6, .seed = 1});
            CHECK(test_support::relatively_apart(epoch_of(t, 30).first, epoch_of(on_host, 30).first) < 1e-4);
        }
    }

    TEST_CASE("a larger batch takes more memory, and LeNet little") {
        using fixed = trainer<test_networks::lenet, cross_entropy, sgd, on<mesh<rehearsal, dp<2>>>>;
        static_assert(fixed::plan(batch{256}).memory().activations > fixed::plan(batch{128}).memory().activations);
        static_assert(fixed::plan(batch{256}).bytes_per_device() < 16_MiB);
    }

    TEST_CASE("every wait for an event is needed: without it some order of work goes wrong") {
        // Two ranks on devices of their own, four steps, the last smaller: all streams and both slots take part. A ring
        // ends with ranks that wait until nobody reads from them any more, which the end of the step would see to as
        // well; and before a second shard's gradients are cleared nothing has been merged yet.
        struct expectation {
            strategy_choice strategy;
            std::size_t shards;
            std::uint64_t spare;
        };
        for (auto const& one : {expectation{ring{}, 0, 4}, {direct{}, 0, 0}, {direct{}, 4, 4}}) {
            CAPTURE(one.strategy.name);
            CAPTURE(one.shards);
            every_wait_is_needed(one.spare, [&one] {
                any<rehearsal, tiny, sgd_momentum> t(
                    {.learning_rate = 0.1f, .batch = 8, .seed = 6, .logical_shards = one.shards},
                    {.devices = 2, .strategy = one.strategy});
                return epoch_of(t, 28);
            });
        }
    }

    TEST_CASE("every wait is needed where layers need a whole shard") {
        // Two ranks, two steps, the second smaller. Spare: the wait for a batch norm's gradients, where another layer's
        // come behind them, or nobody wants a part of them; the end of a first shard, for the second's beginning waits
        // as well; and that beginning, before which nothing has been merged yet.
        using norm = batch_norm<per_shard>;
        using normed = network<input<1, 28, 28>, norm, avg_pool2d<14>, flatten, linear<3>,
                               residual<sequential<linear<3>, norm, relu, linear<3>>>, linear<10>>;
        constexpr std::uint64_t slots_and_ranks = 2 * 2;
        for (std::size_t const shards : {std::size_t{0}, std::size_t{4}}) {
            CAPTURE(shards);
            std::size_t const rest = shards == 0 ? 4 : 8; // two samples per shard, the fewest that batch_norm takes
            every_wait_is_needed(slots_and_ranks * (shards == 0 ? 1 : 2 * 2 + 1 + 1), [&] {
                any<rehearsal, normed, sgd_momentum> t(
                    {.learning_rate = 0.1f, .batch = rest + 4, .seed = 6, .logical_shards = shards}, {.devices = 2});
                return epoch_of(t, rest + 4 + rest);
            });
        }
    }
}

} // namespace rehearsed_trainer_test
