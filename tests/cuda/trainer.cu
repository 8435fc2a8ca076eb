// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training on a GPU, and on several ranks of one, beside the same training on the host.
#include <trireme/cuda.hpp>

#include <cuda/patient.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace trireme;
using namespace test_networks;

namespace cuda_test {

/// A trainer whose layout is chosen when it is made.
template<class Device, class Dtype = f32, class... Policies>
using any_trainer =
    trainer<small, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>, reduce_by<chosen_at_run_time>,
            reproducible<fixed_tree, dynamic>, precision<Dtype>, Policies...>;

using test_support::distance;

/// The weights after two epochs, the last batch of which is not full, and one step on more samples than a batch.
template<class Trainer>
std::vector<typename Trainer::value_type> trained(typename Trainer::options o) {
    auto const images = made_up(150);
    o.learning_rate = 0.05f;
    o.batch = 64;
    Trainer t(patient(o));
    for (auto const& epoch : t.fit({images, {}}, {.epochs = 2})) CHECK(std::isfinite(epoch.loss));
    t.step(images);
    return weights(t);
}

template<class Kernels>
void trains_like_the_host() {
    CAPTURE(Kernels::name);
    auto const host_weights = trained<any_trainer<host>>({.devices = 1});
    auto const gpu_weights = trained<any_trainer<gpu, f32, kernels<Kernels>>>({.devices = 1});
    CHECK(distance(gpu_weights, host_weights) < 1e-4);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("cuda/trainer") {

    TEST_CASE("every kernel policy trains like the host") {
        trains_like_the_host<cuda_kernels>();
        trains_like_the_host<cuda_library_kernels>();
        trains_like_the_host<cuda_block_kernels>();
    }

    TEST_CASE("in double the GPU is the host but for rounding") {
        auto const host_weights = trained<any_trainer<host, f64>>({.devices = 1});
        CHECK(distance(trained<any_trainer<gpu, f64>>({.devices = 1}), host_weights) < 1e-12);
        CHECK(distance(trained<any_trainer<gpu, f64>>({.devices = 3, .strategy = ring{}, .share_devices = true}),
                       host_weights) < 1e-12);
    }

    TEST_CASE("a graph does what its work does when it is handed over directly") {
        for (int devices : {1, 2}) {
            any_trainer<gpu>::options o{.devices = devices, .share_devices = true};
            auto const as_graph = trained<any_trainer<gpu>>(o);
            o.eager = true;
            CHECK(same_bits(trained<any_trainer<gpu>>(o), as_graph));
        }
    }

    TEST_CASE("with a fixed tree the number of ranks does not change a bit") {
        auto const alone = trained<any_trainer<gpu>>({.devices = 1, .logical_shards = 6});
        for (int devices : {2, 3, 6})
            CHECK(same_bits(trained<any_trainer<gpu>>({.devices = devices, .logical_shards = 6, .share_devices = true}),
                            alone));
    }

    TEST_CASE("every strategy trains alike") {
        auto const one = trained<any_trainer<gpu>>({.devices = 1});
        for (auto const& strategy : {strategy_choice(direct{}), strategy_choice(ring{}), strategy_choice(chain{}),
                                     strategy_choice(double_binary_tree{})})
            CHECK(distance(trained<any_trainer<gpu>>({.devices = 4, .strategy = strategy, .share_devices = true}),
                           one) < 1e-4);
    }

    TEST_CASE("LeNet learns, and is judged like the host judges it") {
        using on_gpu = data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<gpu, dp<1>>>>;
        on_gpu t(patient(on_gpu::options{.learning_rate = 0.5f, .batch = 50}));
        data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<1>>>> judge({.learning_rate = 0.5f});
        auto const images = made_up(500);
        auto const before = t.evaluate(images);
        for (auto const& epoch : t.fit({images, {}}, {.epochs = 20})) static_cast<void>(epoch);
        auto const after = t.evaluate(images);
        CHECK(after.loss < before.loss);
        judge.load_parameters(weights(t));
        auto const judged = judge.evaluate(images);
        CHECK(judged.loss == doctest::Approx(after.loss).epsilon(1e-4));
        CHECK(std::abs(judged.accuracy - after.accuracy) <= 0.01);
    }
}
