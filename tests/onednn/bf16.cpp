// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training with bf16 between the layers and float parameters, beside training in float.

#include <doctest/doctest.h>
#include <onednn/has_bf16.hpp>
#include <onednn/training.hpp>
#include <support/networks.hpp>
#include <trireme/onednn.hpp>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace onednn_bf16_test {
using namespace trireme;
using namespace onednn_test;
using test_networks::lenet;

namespace {

/// Every layer that oneDNN's policy has kernels for.
using net =
    network<input<1, 28, 28>, conv2d<8, kernel<5>>, batch_norm<per_shard>, relu, max_pool2d<2>,
            residual<sequential<conv2d<8, kernel<3>, padding<1>>, batch_norm<per_shard>, relu>>, dropout<percent<10>>,
            conv2d<16, kernel<3>, stride<2>>, hyperbolic_tangent, avg_pool2d<2>, flatten, linear<40>, relu, linear<10>>;

template<class Network, class... Policies>
using of_any_size = trainer<Network, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                            reproducible<fixed_tree, dynamic>, kernels<onednn>, Policies...>;
template<class Network>
using in_bf16 = of_any_size<Network, precision<bf16>>;

template<class Network>
void follows_float(double tolerance) {
    for (int const devices : {1, 2}) {
        CAPTURE(devices);
        auto const is = trained<in_bf16<Network>>({.seed = 3, .devices = devices}, 12),
                   wanted = trained<of_any_size<Network>>({.seed = 3, .devices = devices}, 12);
        check_near(is, wanted, tolerance);
        CHECK(is.losses != wanted.losses); // or it would not be in bf16
        // parameters are not rounded
        std::size_t finer = 0;
        for (float const p : is.parameters) finer += static_cast<float>(bf16(p)) != p ? 1 : 0;
        CHECK(finer > is.parameters.size() / 2);
    }
}

} // namespace

TEST_SUITE("onednn/bf16") {
    TEST_CASE("losses follow those in float") {
        if (!has_bf16()) return;
        follows_float<lenet>(2e-2);
        follows_float<net>(5e-2);
    }

    TEST_CASE("fixed logical shards: the same bits on any number of devices, and again") {
        if (!has_bf16()) return;
        auto const of = [](int devices) {
            return trained<in_bf16<net>>({.seed = 3, .devices = devices, .logical_shards = 4});
        };
        auto const one = of(1);
        CHECK(of(1) == one);
        for (int const devices : {2, 3, 4}) {
            CAPTURE(devices);
            CHECK(of(devices) == one);
        }
    }

    TEST_CASE("a processor without AVX-512 is told so") {
        std::string const own = std::filesystem::read_symlink("/proc/self/exe").string();
        auto const played = "ONEDNN_MAX_CPU_ISA=AVX2 '" + own + "' --no-skip --test-case='onednn on AVX2*' >/dev/null";
        CHECK(std::system(played.c_str()) == 0);
    }
    TEST_CASE("onednn on AVX2, in a process of its own" * doctest::skip()) {
        CHECK_THROWS_WITH_AS((trainer<lenet, cross_entropy, sgd, kernels<onednn>, precision<bf16>>{}),
                             doctest::Contains("oneDNN has no bf16 for this processor, it takes AVX-512"),
                             device_error);
    }

    TEST_CASE("activations take half of the memory") {
        using t = in_bf16<net>;
        auto const memory = []<class Trainer>(Trainer*) {
            typename Trainer::options const o{.batch = 64, .devices = 2};
            return Trainer::plan(o.batch, Trainer::layout_of(o)).memory(0);
        };
        auto const bf = memory(static_cast<t*>(nullptr)), f = memory(static_cast<of_any_size<net>*>(nullptr));
        CHECK(bf.parameters == f.parameters);
        CHECK(bf.gradients == f.gradients);
        CHECK(bf.activations * 10 < f.activations * 6);
        CHECK(bf.workspace < f.workspace);
    }
}

} // namespace onednn_bf16_test
