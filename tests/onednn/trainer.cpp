// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <group/os_threads.hpp>
#include <onednn/has_bf16.hpp>
#include <onednn/training.hpp>
#include <support/allocation_hook.hpp>
#include <support/networks.hpp>
#include <trireme/onednn.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace onednn_trainer_test {
using namespace trireme;
using namespace onednn_test;
using test_networks::conv3;
using test_networks::halving;
using test_networks::lenet;
using test_networks::plain;

namespace {

template<class Norm>
using small_resnet = network<input<1, 28, 28>, conv3<8>, Norm, relu, repeat<2, plain<Norm, 8>>, halving<Norm, 16>,
                             plain<Norm, 16>, global_avg_pool2d, flatten, linear<10>>;

/// What onednn has kernels for, in ways that mind the order of a flattened image; functions behind batch norm, of whose
/// gradients some are wanted later on.
using mixed =
    network<input<1, 28, 28>, conv2d<6, kernel<5>>, batch_norm<per_shard>, relu, max_pool2d<2>,
            residual<sequential<conv3<6>, batch_norm<per_shard>, relu>, sequential<batch_norm<per_shard>, sigmoid>>,
            dropout<percent<20>>, conv3<12>, hyperbolic_tangent, avg_pool2d<2>, flatten, dropout<percent<50>>, relu,
            linear<40>, batch_norm<per_shard>, relu, linear<10>>;

template<class Network, class... Policies>
using on_devices = trainer<Network, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>, Policies...>;
template<class Network, class... Policies>
using of_any_size = on_devices<Network, reproducible<fixed_tree, dynamic>, Policies...>;

/// oneDNN's losses beside portable's on some devices.
template<class Network>
void compare(double tolerance) {
    for (int const devices : {1, 2, 3}) {
        CAPTURE(devices);
        auto const is = trained<on_devices<Network, kernels<onednn>>>({.seed = 3, .devices = devices});
        check_near(is, trained<on_devices<Network>>({.seed = 3, .devices = devices}), tolerance);
    }
}

template<class Network>
struct network_word {};
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
        d.in_place = true;
        d.backward_reads_input = d.backward_reads_output = false;
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
    TEST_CASE("losses are portable's on any number of devices") {
        compare<lenet>(1e-6);
        compare<mixed>(1e-3);
        compare<small_resnet<batch_norm<per_shard>>>(2e-3);
        compare<small_resnet<batch_norm<synchronised>>>(2e-3);
    }

    TEST_CASE("fixed logical shards: the same bits on any number of devices, and again") {
        auto const check = []<class Network>(network_word<Network>) {
            using t = of_any_size<Network, kernels<onednn>>;
            auto const of = [](int devices) {
                return trained<t>({.seed = 3, .devices = devices, .logical_shards = 4});
            };
            auto const one = of(1);
            CHECK(of(1) == one);
            for (int const devices : {2, 3, 4}) {
                CAPTURE(devices);
                CHECK(of(devices) == one);
            }
        };
        check(network_word<lenet>{});
        check(network_word<mixed>{});
        check(network_word<small_resnet<batch_norm<per_shard>>>{});
    }

    TEST_CASE("synchronised batch norm: devices without a sample take part") {
        using t = trainer<small_resnet<batch_norm<synchronised>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>,
                          kernels<onednn>>;
        t one({.batch = 8, .seed = 3, .devices = 1}), four({.batch = 8, .seed = 3, .devices = 4});
        for (std::size_t const n : {2u, 8u, 3u}) {
            auto const some = images().take(10, n);
            CHECK(four.step(some).loss == doctest::Approx(one.step(some).loss).epsilon(1e-3));
        }
    }

    TEST_CASE("weights held once: the bits of a copy per device") {
        using held =
            trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, hold_weights<once>, kernels<onednn>>;
        using copied = trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, kernels<onednn>>;
        CHECK(trained<held>({.devices = 3}) == trained<copied>({.devices = 3}));
    }

    TEST_CASE("the caches follow parameters that are loaded") {
        using t = trainer<lenet, cross_entropy, sgd, kernels<onednn>>;
        t a({.batch = 16, .seed = 1}), b({.batch = 16, .seed = 2});
        auto const some = images().take(0, 40);
        auto const loss = a.evaluate(some).loss;
        CHECK(b.evaluate(some).loss != loss);
        b.load_parameters(a.parameters());
        CHECK(b.evaluate(some).loss == loss);
    }

    TEST_CASE("a layer of one's own works by each()") {
        using net = network<input<1, 28, 28>, conv3<4>, doubling, flatten, linear<10>>;
        auto const r = trained<of_any_size<net, kernels<onednn>>>({.seed = 3, .devices = 2});
        CHECK(r.losses.back() < r.losses.front());
    }

    TEST_CASE("a step larger than the batch is refused") {
        trainer<lenet, cross_entropy, sgd, kernels<onednn>> t({.batch = 16});
        CHECK_THROWS_WITH_AS(t.step(images().take(0, 17)), doctest::Contains("17 samples, the option batch is 16"),
                             usage_error);
        CHECK(t.step(images().take(0, 16)).samples == 16);
    }

    TEST_CASE("the plan's memory is what is allocated, to the byte") {
        auto const check = []<class t>(trainer_word<t>) {
            for (int const devices : {1, 3})
                for (std::size_t const shards : {0u, 4u}) {
                    typename t::options const o{.batch = 30, .devices = devices, .logical_shards = shards};
                    auto const plan = t::plan(o.batch, t::layout_of(o));
                    allocation_hook::aligned_to_line = 0;
                    t made(o);
                    bytes_t owned = 0;
                    for (int r = 0; r < devices; ++r) {
                        auto const m = plan.memory(r);
                        owned += m.parameters + m.gradients + m.optimizer_state + m.activations + m.workspace;
                    }
                    CHECK(plan.memory(0).workspace != 0);
                    CHECK(allocation_hook::aligned_to_line == owned);
                    made.step(images().take(0, 30));
                    CHECK(allocation_hook::aligned_to_line == owned);
                }
        };
        check(trainer_word<of_any_size<lenet, kernels<onednn>>>{});
        check(trainer_word<of_any_size<small_resnet<batch_norm<per_shard>>, kernels<onednn>>>{});
        if (has_bf16()) check(trainer_word<of_any_size<lenet, kernels<onednn>, precision<bf16>>>{});
        using t = trainer<lenet, cross_entropy, sgd, kernels<onednn>>;
        constexpr auto plan = t::plan(batch{256});
        static_assert(plan.memory(0).workspace > 0);
    }

    TEST_CASE("no threads but the devices', and the caller's number of OpenMP's is left alone") {
        auto const before = settled_os_threads();
        trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<3>>>, kernels<onednn>> t({.batch = 64});
        t.step(images().take(0, 64));
        t.evaluate(images().take(0, 64));
        CHECK(settled_os_threads() == before + 2);
    }
}

} // namespace onednn_trainer_test
