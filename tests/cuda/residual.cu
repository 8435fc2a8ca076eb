// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Residuals, repeats, batch norm and dropout on a GPU, and on several ranks of one, beside the host's own training.
#include <trireme/cuda.hpp>
#include <trireme/device/blocks/add.hpp>
#include <trireme/device/blocks/batch_norm.hpp>
#include <trireme/device/blocks/dropout.hpp>

#include <cuda/patient.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

using namespace trireme;
using namespace test_networks;

namespace cuda_test {

using norm = batch_norm<per_shard>;
using net = network<input<1, 28, 28>, avg_pool2d<4>, conv3<8>, norm, relu, repeat<2, plain<norm, 8>>, halving<norm, 12>,
                    plain<norm, 12>, dropout<percent<20>>, global_avg_pool2d, named<"first", linear<20>>, norm,
                    hyperbolic_tangent, linear<10>>;

/// Convolutions that cuDNN takes and such as it does not, and a flattened image.
using wide_net = network<input<1, 28, 28>, conv3<32>, norm, relu, max_pool2d<2>, plain<norm, 32>, conv3<64, 2>, norm,
                         relu, avg_pool2d<2>, flatten, dropout<percent<20>>, linear<20>, relu, linear<10>>;
template<class... Policies>
using in_bf16 = trainer<wide_net, cross_entropy, sgd_momentum, on<mesh<gpu, dp<dynamic>>>,
                        reproducible<fixed_tree, dynamic>, precision<bf16>, Policies...>;

template<class Device, class Dtype, class... Policies>
using any_trainer =
    trainer<net, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>, reduce_by<chosen_at_run_time>,
            reproducible<fixed_tree, dynamic>, precision<Dtype>, Policies...>;

template<class Device, class Dtype>
using synchronised_trainer =
    trainer<network<input<1, 28, 28>, avg_pool2d<4>, conv3<8>, batch_norm<synchronised>, relu,
                    plain<batch_norm<synchronised>, 8>, global_avg_pool2d, batch_norm<synchronised>, linear<10>>,
            cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>, reduce_by<chosen_at_run_time>,
            precision<Dtype>>;

/// Parameters, running statistics, and the losses of steps, the last one smaller, and of an evaluation.
template<class Trainer>
std::vector<double> trained(typename Trainer::options o) {
    o.learning_rate = 0.02f;
    o.batch = 48;
    Trainer t(patient(o));
    std::vector<double> result;
    for (std::size_t const samples : {48, 48, 48, 48, 30})
        result.push_back(t.step(made_up(samples, result.size() + 1)).loss);
    result.push_back(t.evaluate(made_up(150)).loss);
    for (auto const p : t.parameters()) result.push_back(static_cast<double>(p));
    for (auto const b : t.buffers()) result.push_back(static_cast<double>(b));
    return result;
}

using test_support::distance;

template<class Kernels>
void trains_like_the_host() {
    CAPTURE(Kernels::name);
    auto const expected = trained<any_trainer<host, f32>>({.devices = 1});
    CHECK(distance(trained<any_trainer<gpu, f32, kernels<Kernels>>>({.devices = 1}), expected) < 1e-3);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("cuda/residual") {
    TEST_CASE("every kernel policy trains like the host") {
        trains_like_the_host<cuda_kernels>();
        trains_like_the_host<cuda_library_kernels>();
        trains_like_the_host<cuda_block_kernels>();
    }

    TEST_CASE("in double the GPU is the host but for rounding, on one rank and on several, shard by shard") {
        CHECK(distance(trained<any_trainer<gpu, f64>>({.devices = 1}),
                       trained<any_trainer<host, f64>>({.devices = 1})) < 1e-9);
        auto const expected = trained<any_trainer<host, f64>>({.devices = 1, .logical_shards = 4});
        for (int const devices : {1, 2, 4})
            CHECK(distance(
                      trained<any_trainer<gpu, f64>>({.devices = devices, .logical_shards = 4, .share_devices = true}),
                      expected) < 1e-9);
    }

    TEST_CASE(
        "statistics of the whole batch: in double the host's, and in float the same bits in a graph and without") {
        CHECK(distance(trained<synchronised_trainer<gpu, f64>>({.devices = 1}),
                       trained<synchronised_trainer<host, f64>>({.devices = 1})) < 1e-9);
        auto const expected = trained<synchronised_trainer<host, f64>>({.devices = 3});
        CHECK(distance(trained<synchronised_trainer<gpu, f64>>({.devices = 3, .share_devices = true}), expected) <
              1e-9);
        synchronised_trainer<gpu, f32>::options o{.devices = 3, .share_devices = true};
        auto const first = trained<synchronised_trainer<gpu, f32>>(o);
        o.eager = true;
        CHECK(trained<synchronised_trainer<gpu, f32>>(o) == first);
    }

    TEST_CASE("a graph, another run and another number of ranks have the same bits") {
        any_trainer<gpu, f32>::options o{.devices = 1, .logical_shards = 4, .share_devices = true};
        auto const first = trained<any_trainer<gpu, f32>>(o);
        CHECK(trained<any_trainer<gpu, f32>>(o) == first);
        o.devices = 4;
        CHECK(trained<any_trainer<gpu, f32>>(o) == first);
        o.eager = true;
        CHECK(trained<any_trainer<gpu, f32>>(o) == first);
    }

    TEST_CASE("in bf16 the losses follow those in float, and a graph has the same bits on any number of ranks") {
        auto const losses = [](std::vector<double> numbers) {
            numbers.resize(6);
            return numbers;
        };
        any_trainer<gpu, bf16>::options o{.devices = 1, .logical_shards = 4, .share_devices = true};
        auto const first = trained<any_trainer<gpu, bf16>>(o);
        auto const wide = trained<any_trainer<gpu, f32>>({.devices = 1, .logical_shards = 4, .share_devices = true});
        CHECK(distance(losses(first), losses(wide)) < 0.05);
        o.devices = 2;
        CHECK(trained<any_trainer<gpu, bf16>>(o) == first);
        o.eager = true;
        CHECK(trained<any_trainer<gpu, bf16>>(o) == first);
    }

    TEST_CASE("channels last trains like channels first, and with the same bits on any number of ranks") {
        using last = in_bf16<kernels<channels_last<cuda_kernels>>>;
        using by_blocks = in_bf16<kernels<channels_last<cuda_block_kernels>>>;
        using by_libraries = in_bf16<kernels<channels_last<cuda_library_kernels>>>;
        last::options o{.devices = 1, .logical_shards = 4, .share_devices = true};
        auto const first = trained<last>(o);
        auto const before = weights(last({.devices = 1}));
        auto const near = [&](std::vector<double> const& other) {
            for (std::size_t i = 0; i < 6; ++i) CHECK(other[i] == doctest::Approx(first[i]).epsilon(0.02)); // losses
            auto const parameters = [](std::vector<double> const& all) { return std::span(all).subspan(6); };
            CHECK(moved_apart<wide_net>(before, parameters(other), parameters(first)) < 0.2);
        };
        near(trained<in_bf16<>>({.devices = 1, .logical_shards = 4, .share_devices = true}));
        near(trained<by_blocks>({.devices = 1, .logical_shards = 4, .share_devices = true}));
        near(trained<by_libraries>({.devices = 1, .logical_shards = 4, .share_devices = true}));
        o.devices = 2;
        CHECK(trained<last>(o) == first);
        o.eager = true;
        CHECK(trained<last>(o) == first);
    }
}
