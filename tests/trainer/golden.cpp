// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden_losses.hpp>
#include <support/networks.hpp>

#include <concepts>

namespace trainer_golden_test {
using namespace trireme;
using test_networks::any_layout;
using test_networks::lenet_of;

namespace {

/// A trainer with the optimizer's options of a golden run has its losses. `tolerance` is tighter than what is promised
/// (1e-4) where float32 allows, for a gradient that is missing may move these losses by as little as 1e-5.
template<class Trainer>
void check_losses(char const* name, double tolerance, test_networks::settings<Trainer> s) {
    auto& options = s.training;
    trireme_golden::file const run(name);
    options.learning_rate = static_cast<float>(run.number("learning_rate"));
    options.weight_decay = static_cast<float>(run.number("weight_decay"));
    if constexpr (std::same_as<decltype(options.momentum), float>)
        options.momentum = static_cast<float>(run.number("momentum"));
    Trainer t(options, s.run);
    trireme_golden::has_losses(t, run, tolerance);
}

} // namespace

TEST_SUITE("trainer/golden") {
    TEST_CASE("the first 50 losses of LeNet equal PyTorch's") {
        using sigmoid_lenet = lenet_of<sigmoid, avg_pool2d<2>>;
        using tanh_lenet = lenet_of<hyperbolic_tangent, max_pool2d<2>>;
        using relu_lenet = lenet_of<relu, max_pool2d<2>>;

        SUBCASE("sigmoid, average pooling, plain SGD") {
            using t = any_layout<sigmoid_lenet>;
            check_losses<t>("lenet_sigmoid", 1e-6, {{.batch = 256}});
        }
        SUBCASE("the same on three devices in a ring") {
            using t = any_layout<sigmoid_lenet>;
            check_losses<t>("lenet_sigmoid", 1e-6, {{.batch = 256}, {.devices = 3, .strategy = ring{}}});
        }
        SUBCASE("hyperbolic tangent, maximum pooling, momentum") {
            using t = any_layout<tanh_lenet, sgd_momentum>;
            check_losses<t>("lenet_tanh_max", 5e-5, {{.batch = 256}});
        }
        SUBCASE("the same on two devices, reproducible") {
            using t = any_layout<tanh_lenet, sgd_momentum>;
            check_losses<t>("lenet_tanh_max", 5e-5, {{.batch = 256, .logical_shards = 8}, {.devices = 2}});
        }
        SUBCASE("the same in double precision") {
            using t = any_layout<tanh_lenet, sgd_momentum, precision<f64>>;
            check_losses<t>("lenet_tanh_max", 1e-6, {{.batch = 256}});
        }
        SUBCASE("relu, maximum pooling, Nesterov, weight decay") {
            using t = any_layout<relu_lenet, sgd_nesterov>;
            check_losses<t>("lenet_relu_nesterov", 2e-6, {{.batch = 256}});
        }
        SUBCASE("weight decay, batches of 256, 96, 1, 7, 255, ...") {
            using t = any_layout<sigmoid_lenet>;
            check_losses<t>("lenet_sigmoid_wd", 1e-6, {{.batch = 256}});
        }
        SUBCASE("the same on two devices in a tree: a batch of 1 leaves one of them without samples") {
            using t = any_layout<sigmoid_lenet>;
            check_losses<t>("lenet_sigmoid_wd", 1e-6,
                            {{.batch = 256}, {.devices = 2, .strategy = double_binary_tree{}}});
        }
    }
}

} // namespace trainer_golden_test
