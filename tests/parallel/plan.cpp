// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/described.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace parallel_plan_test {
using namespace trireme;
using test_networks::any_layout;
using test_networks::lenet;
using test_networks::made_up;

namespace {

/// Constructs a trainer, runs two steps, and compares what the operators new and the transport have seen with the plan.
template<class Trainer>
void check_plan(test_networks::settings<Trainer> const& s, labelled_images const& images) {
    auto const plan = Trainer::plan(s.training.batch, Trainer::layout_of(s.training, s.run));
    CAPTURE(plan.devices());
    CAPTURE(plan.layout.strategy.name);
    CAPTURE(plan.layout.logical_shards);
    CAPTURE(plan.batch.samples);
    allocation_hook::aligned_to_line = 0;
    allocation_hook::aligned_beyond = 0;
    {
        Trainer t(s.training, s.run);
        bytes_t arenas = 0, control = 0, most = 0;
        for (int r = 0; r < plan.devices(); ++r) {
            auto const m = plan.memory(r);
            arenas += m.parameters + m.gradients + m.optimizer_state + m.activations;
            control += m.control;
            most = std::max(most, m.total());
        }
        CHECK(allocation_hook::aligned_to_line == arenas);
        CHECK(allocation_hook::aligned_beyond == control);
        CHECK(plan.bytes_per_device() == most);

        bytes_t wire = 0;
        std::size_t const steps = 2;
        for (std::size_t k = 0; k < steps; ++k) t.step(images.take(0, s.training.batch.samples));
        for (int r = 0; r < plan.devices(); ++r) {
            CHECK(t.wire(r).bytes == steps * plan.wire(r).bytes);
            CHECK(t.wire(r).messages == steps * plan.wire(r).messages);
            wire += t.wire(r).bytes;
        }
        CHECK(wire == steps * plan.wire_bytes_per_step());
        CHECK(allocation_hook::aligned_to_line == arenas); // nothing more was taken while it ran
    }
}

template<class Network, class Optimizer, class... Policies>
void check_layouts() {
    using trainer_t = any_layout<Network, Optimizer, Policies...>;
    auto const images = made_up(64);
    for (int const devices : {1, 2, 3, 4, 8})
        for (std::size_t const batch : {8u, 37u, 64u}) {
            for (strategy_choice const s :
                 {strategy_choice(ring{}), strategy_choice(double_binary_tree{}), strategy_choice(direct{})})
                check_plan<trainer_t>({{.batch = batch}, {.devices = devices, .strategy = s}}, images);
            for (std::size_t const shards : {8u, 13u})
                check_plan<trainer_t>({{.batch = batch, .logical_shards = shards}, {.devices = devices}}, images);
        }
}

/// Plans hold where the weights are held once, too, which fixes the strategy.
template<class Network, class Optimizer, class... Policies>
void check_weights_held_once() {
    using trainer_t =
        test_networks::any_replicas<host, Network, cross_entropy, Optimizer, hold_weights<once>, Policies...>;
    auto const images = made_up(64);
    for (int const devices : {1, 2, 3, 4, 5, 8})
        for (std::size_t const batch : {8u, 37u, 64u})
            for (std::size_t const shards : {0u, 8u, 13u})
                check_plan<trainer_t>({{.batch = batch, .logical_shards = shards}, {.devices = devices}}, images);
}

/// A layer that adds numbers over all devices on the way there, and others on the way back: here zeros.
struct agrees_both_ways {
    static constexpr layer_description describe(shape in) { return test_described::sums_both_ways(in); }
    static void forward_gather(auto const& io) { begin(io, io.place.kept); }
    static void forward_agree(auto const&, int) {}
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
    static void evaluate(auto const& io) { forward(io); }
    static void backward_gather(auto const& io) { begin(io, io.place.kept + size<decltype(io)>); }
    static void backward_agree(auto const&, int) {}
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dy.size(); ++i) io.dx[i] = io.dy[i];
    }

private:
    template<class Io>
    static constexpr std::size_t size = std::remove_cvref_t<Io>::input::size;
    template<class Io>
    static void begin(Io const& io, auto* sums) {
        if (io.place.granule.first == 0) std::fill_n(sums, size<Io>, 0);
    }
};

} // namespace

TEST_SUITE("parallel/plan") {
    TEST_CASE("memory and wire bytes of the plan are what is allocated and read, to the byte") {
        check_layouts<test_networks::small, sgd>();
        check_layouts<test_networks::softmax_regression, sgd_momentum>();
        check_layouts<test_networks::softmax_regression, sgd_nesterov, precision<f64>>();
    }

    TEST_CASE("the same for weights that are held once") {
        check_weights_held_once<test_networks::small, sgd>();
        check_weights_held_once<test_networks::softmax_regression, sgd_nesterov, precision<f64>>();
        // 50 parameters, 4 cache lines: of 5 devices one updates nothing
        check_weights_held_once<network<input<1, 28, 28>, avg_pool2d<14>, flatten, linear<10>>, sgd_momentum>();
    }

    TEST_CASE("the same for optimizers that keep means, sums and a count of their updates") {
        auto const images = made_up(64);
        auto const check = [&]<class... Optimizer>(pack<Optimizer...>) {
            (check_plan<any_layout<test_networks::softmax_regression, Optimizer>>(
                 {{.batch = 37}, {.devices = 3, .strategy = ring{}}}, images),
             ...);
        };
        check(pack<adam, adamw, rmsprop, rmsprop_momentum, adagrad>{});
        check_weights_held_once<test_networks::softmax_regression, adagrad>();
    }

    TEST_CASE("the same for LeNet") {
        auto const images = made_up(64);
        using trainer_t = any_layout<lenet, sgd_momentum>;
        for (int const devices : {1, 2, 5}) {
            check_plan<trainer_t>({{.batch = 64}, {.devices = devices, .strategy = ring{}}}, images);
            check_plan<trainer_t>({{.batch = 64, .logical_shards = 8}, {.devices = devices}}, images);
        }
    }

    TEST_CASE("the same for sums of layers, of which those below all parameters take none on the way back") {
        auto const check = []<class Network>(Network) {
            using trainer_t =
                trainer<Network, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, reduce_by<chosen_at_run_time>>;
            for (int const devices : {1, 2, 3})
                check_plan<trainer_t>({{.batch = 37}, {.devices = devices, .strategy = ring{}}}, made_up(37));
            return trainer_t::plan(37, trainer_t::layout_of({.batch = 37}, {.devices = 3})).wire(0).messages;
        };
        using below = network<input<1, 28, 28>, agrees_both_ways, flatten, linear<10>>;
        using behind = network<input<1, 28, 28>, flatten, linear<10>, agrees_both_ways>;
        auto const gradients = check(test_networks::softmax_regression{}), sum = gradients; // direct exchange, too
        CHECK(check(below{}) == gradients + sum);
        CHECK(check(behind{}) == gradients + 2 * sum);
        check(test_networks::every_sum{});
    }

    TEST_CASE("as many devices, shards and samples are taken as are promised, and not one more") {
        auto const refused = [](int devices, std::size_t shards, std::size_t batch) {
            try {
                detail::check_numbers({.replicas = devices, .logical_shards = shards}, batch);
            } catch (usage_error const&) {
                return true;
            }
            return false;
        };
        CHECK_FALSE(refused(max_devices, 0, 256));
        CHECK(refused(max_devices + 1, 0, 257));
        CHECK_FALSE(refused(4, max_logical_shards, 4));
        CHECK(refused(4, max_logical_shards + 1, 4));
        CHECK_FALSE(refused(4, 4, 4));
        CHECK(refused(4, 3, 4));
        CHECK(refused(4, 4, 3));
        CHECK_FALSE(refused(1, 0, max_batch));
        CHECK(refused(1, 0, max_batch + 1));
        auto const micro_batches = [](std::size_t of_a_replica) {
            return test_support::refusal(
                [&] { detail::check_numbers({.replicas = 2, .micro_batches = of_a_replica}, max_batch); });
        };
        CHECK(micro_batches(max_micro_batches) == "");
        CHECK(
            micro_batches(max_micro_batches + 1) ==
            "micro_batches = 65536: a replica's share of a batch is cut into at most 65535; take fewer, each with more "
            "samples");
    }

    TEST_CASE("memory for the samples of a shard is that of the largest") {
        for (int const devices : {1, 2, 3, 4})
            for (std::size_t const shards : {0u, 8u})
                for (std::size_t batch = 4; batch <= 40; ++batch) {
                    parallel_layout const l{.replicas = devices, .logical_shards = shards};
                    std::size_t most = 0;
                    for (std::size_t s = 0; s < l.shards(); ++s)
                        most = std::max(most, part(batch, s, l.shards()).size());
                    CHECK(l.most_shard_samples(batch) == most);
                }
    }

    TEST_CASE("a static trainer's plan is a constant expression") {
        using t = trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<ring>>;
        constexpr auto plan = t::plan(batch{256});
        static_assert(plan.parameters == 61706);
        static_assert(plan.memory(0).parameters == 61712 * 4); // padded to a cache line
        static_assert(plan.memory(0).gradients == plan.memory(0).parameters);
        static_assert(plan.memory(0).optimizer_state == 0);
        static_assert(plan.wire_bytes_per_step() == 2 * 61712 * 4); // each half is read twice, by one peer
        static_assert(plan.flops_per_step() == 256 * (lenet::training_flops + 60));
        static_assert(trainer<lenet, cross_entropy, sgd_momentum>::plan(batch{1}).memory(0).optimizer_state ==
                      61712 * 4);
        static_assert(trainer<lenet, cross_entropy, sgd>::plan(batch{1}).wire_bytes_per_step() == 0);
    }

    TEST_CASE("weights that are held once cost one copy, one state and half the reading") {
        using all = trainer<lenet, cross_entropy, sgd_momentum, on<mesh<host, dp<4>>>>;
        using one = trainer<lenet, cross_entropy, sgd_momentum, on<mesh<host, dp<4>>>, hold_weights<once>>;
        constexpr auto plan = one::plan(batch{256});
        static_assert(plan.memory(0).parameters == 61712 * 4);
        static_assert(plan.memory(1).parameters == 0 && plan.memory(3).parameters == 0);
        static_assert(plan.memory(0).optimizer_state + plan.memory(1).optimizer_state + plan.memory(2).optimizer_state +
                          plan.memory(3).optimizer_state ==
                      61712 * 4);
        static_assert(plan.memory(2).gradients == 61712 * 4);
        static_assert(2 * plan.wire_bytes_per_step() == all::plan(batch{256}).wire_bytes_per_step());
        static_assert(plan.wire(1).messages == 3);
        static_assert(plan.flops_per_step() == all::plan(batch{256}).flops_per_step());
    }

    TEST_CASE("folding keeps few gradient slots: log2(V) + 1 on one device, one where each shard has a device") {
        using one = trainer<lenet, cross_entropy, sgd, reproducible<fixed_tree, 8>>;
        static_assert(one::plan(batch{64}).memory(0).gradients == 4 * one::plan(batch{64}).memory(0).parameters);
        using eight = trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<8>>>, reproducible<fixed_tree, 8>>;
        static_assert(eight::plan(batch{64}).memory(7).gradients == eight::plan(batch{64}).memory(7).parameters);
    }
}

} // namespace parallel_plan_test
