// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <group/os_threads.hpp>
#include <onednn/by_onednn.hpp>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/networks.hpp>
#include <support/recomputing.hpp>
#include <trireme/onednn.hpp>
#include <trireme/schedules.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace test_pipelines {
/// oneDNN takes memory of its own in its calls.
template<class... Policies>
    requires(std::is_same_v<Policies, kernels<onednn>> || ...)
inline constexpr bool counts_allocations<trainer<Policies...>> = false;
} // namespace test_pipelines

namespace onednn_trainer_test {
using namespace trireme;
using promises::any_layout;
using promises::by_onednn;
using test_networks::conv3;
using test_networks::lenet;
using test_networks::made_up;

namespace {

template<class Trainer>
struct trainer_word {};

/// A layer of a user's: it doubles each value.
struct doubling {
    struct twice {
        float const* from;
        float* to;
        void operator()(std::size_t i) const { to[i] = 2 * from[i]; }
    };
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.execution.in_place = true;
        d.execution.backward_reads_input = d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), twice{io.x.data, io.y.data});
    }
    static void backward_input(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), twice{io.dy.data, io.dx.data});
    }
};

} // namespace

TEST_SUITE("onednn/trainer") {
    TEST_CASE("the caches follow parameters that are loaded") {
        using t = trainer<lenet, cross_entropy, sgd, kernels<onednn>>;
        t a({.batch = 16, .seed = 1}), b({.batch = 16, .seed = 2});
        auto const some = made_up(40);
        auto const loss = a.evaluate(some).loss;
        CHECK(b.evaluate(some).loss != loss);
        b.load_parameters(a.gather_parameters());
        CHECK(b.evaluate(some).loss == loss);
    }

    TEST_CASE("stages have the bits of one device, with the halves of backward apart, and several a device") {
        auto const check = []<class Dtype>(trainer_word<Dtype>) {
            using t = test_networks::any_stages<host, typename by_onednn<f32>::layers, cross_entropy, sgd_momentum,
                                                kernels<onednn>, precision<Dtype>>;
            auto const trained = [](int devices, int stages, schedule_choice const& schedule) {
                t many({.learning_rate = 0.05f, .batch = 30, .seed = 3, .logical_shards = 6},
                       {.devices = devices, .stages = stages, .schedule = schedule});
                std::vector<double> told;
                for (std::size_t const n : {30u, 17u, 30u}) told.push_back(many.step(made_up(n, n)).loss);
                told.push_back(many.evaluate(made_up(41, 9)).loss);
                for (double const x : many.gather_parameters()) told.push_back(x);
                for (double const x : many.gather_buffers()) told.push_back(x);
                return told;
            };
            auto const wanted = trained(1, 1, {});
            for (schedule_choice const& schedule :
                 {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{}), schedule_choice(interleaved<2>{}),
                  schedule_choice(zero_bubble_v{})})
                for (int const devices : {1, 2}) {
                    CAPTURE(std::string(schedule.name));
                    CAPTURE(devices);
                    CHECK(trained(devices, 2, schedule) == wanted);
                }
        };
        check(trainer_word<f32>{});
        if (has_bf16()) check(trainer_word<bf16>{});
    }

    TEST_CASE("values that are dropped and computed again leave the bits as they are, in less memory") {
        using test_networks::shard_norm;
        using test_support::as_planned;
        using blocks = recompute<residual<sequential<conv3<6>, shard_norm, relu>, sequential<shard_norm, sigmoid>>,
                                 test_networks::halving<shard_norm, 16>>;
        auto const check = [&]<class Dtype>(trainer_word<Dtype>) {
            using layers = typename by_onednn<f32>::layers;
            test_recomputing::has_the_bits_of_none<host, layers, blocks, kernels<onednn>, precision<Dtype>>(
                {one_f_one_b{}}, {1, 2}, {1, 2}, as_planned);
            test_recomputing::has_the_bits_of_none<host, layers, recompute<all>, kernels<onednn>, precision<Dtype>>(
                {one_f_one_b{}, zero_bubble_h1{}, interleaved<2>{}}, {1, 2}, {1, 2}, as_planned);
        };
        check(trainer_word<f32>{});
        if (has_bf16()) check(trainer_word<bf16>{});
    }

    TEST_CASE("a layer of one's own works by each()") {
        using net = network<input<1, 28, 28>, conv3<4>, doubling, flatten, linear<10>>;
        auto const r = by_onednn<f32>::trained<any_layout<by_onednn<f32>, net>>({{.batch = 37}, {.devices = 2}}, {},
                                                                                {37, 37, 37, 23});
        CHECK(r.told.back() < r.told.front());
    }

    TEST_CASE("the loss takes outputs that no stack has room for") {
        constexpr std::size_t side = 1100; // an output and its gradient are 9.7 MB, usual stacks 8 MiB
        std::vector<float> const x(side * side, 0.5f), y(side * side, 0.25f);
        samples_in_memory const some(x, make_shape(1, side, side), y, make_shape(1, side, side));
        using net = network<input<1, side, side>, conv2d<1, kernel<3>, padding<1>>>;
        auto const losses = [&]<class t>(trainer_word<t>) {
            t made({.learning_rate = 0.1f, .batch = 1, .seed = 2});
            auto const first = made.step(some).loss;
            return std::vector{first, made.step(some).loss, made.evaluate(some).loss};
        };
        auto const wanted = losses(trainer_word<trainer<net, mean_squared_error, sgd, precision<f64>>>{});
        auto const near_wanted = [&](std::vector<double> const& told) { // sums of so many floats round
            for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(told[i] - wanted[i]) < 0.02);
        };
        near_wanted(losses(trainer_word<trainer<net, mean_squared_error, sgd, kernels<onednn>>>{}));
        if (has_bf16())
            near_wanted(
                losses(trainer_word<trainer<net, mean_squared_error, sgd, kernels<onednn>, precision<bf16>>>{}));
    }

    TEST_CASE("the plan's memory is what is allocated, to the byte") {
        auto const check = []<class t>(trainer_word<t>) {
            for (int const devices : {1, 3})
                for (std::size_t const shards : {0u, 4u}) {
                    test_networks::settings<t> const s{{.batch = 30, .logical_shards = shards}, {.devices = devices}};
                    auto const plan = t::plan(batch{30}, t::layout_of(s.training, s.run));
                    allocation_hook::aligned_to_line = 0;
                    t made(s.training, s.run);
                    bytes_t owned = 0;
                    for (int r = 0; r < devices; ++r) {
                        auto const m = plan.memory(r);
                        owned += m.parameters + m.gradients + m.optimizer_state + m.activations + m.workspace;
                    }
                    CHECK(plan.memory(0).workspace != 0);
                    CHECK(allocation_hook::aligned_to_line == owned);
                    made.step(made_up(30));
                    CHECK(allocation_hook::aligned_to_line == owned);
                }
        };
        check(trainer_word<any_layout<by_onednn<f32>, by_onednn<f32>::layers>>{});
        if (has_bf16()) check(trainer_word<any_layout<by_onednn<bf16>, by_onednn<bf16>::layers>>{});
        using t = trainer<lenet, cross_entropy, sgd, kernels<onednn>>;
        constexpr auto plan = t::plan(batch{256});
        static_assert(plan.memory(0).workspace > 0);
    }

    TEST_CASE("no threads but the devices', and the caller's number of OpenMP's is left alone") {
        auto const before = settled_os_threads();
        trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<3>>>, kernels<onednn>> t({.batch = 64});
        t.step(made_up(64));
        t.evaluate(made_up(64));
        CHECK(settled_os_threads() == before + 2);
    }
}

} // namespace onednn_trainer_test
