// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/networks.hpp>
#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/add.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/pool2d.hpp>
#include <trireme/kernels/reference/sgd.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>

#include <cstddef>
#include <vector>

namespace trainer_many_channels_test {
using namespace trireme;
using test_networks::halving;
using test_networks::made_up;
using test_networks::plain;

TEST_SUITE("trainer/many channels") {
    TEST_CASE("where convolutions go another way: losses are those of the kernels of the reference") {
        using norm = batch_norm<per_shard>;
        using net = network<input<1, 28, 28>, conv2d<32, kernel<3>, stride<2>>, norm, relu, plain<norm, 32>,
                            halving<norm, 40>, global_avg_pool2d, linear<10>>;
        static_assert(detail::scratch_bytes<net, portable, double, portable::lanes<double>>() > 0 ||
                      portable::lanes<double> == 1);
        auto const of = [](auto kernel_policy) {
            trainer<net, cross_entropy, sgd, kernels<decltype(kernel_policy)>, precision<f64>> t(
                {.learning_rate = 0.125f, .batch = 19}); // two full granules and another one
            std::vector<double> losses;
            for (std::size_t k = 0; k < 3; ++k) losses.push_back(t.step(made_up(19, k)).loss);
            return losses;
        };
        auto const ours = of(portable{}), plainly = of(reference{});
        for (std::size_t k = 0; k < 3; ++k) CHECK(ours[k] == doctest::Approx(plainly[k]).epsilon(1e-9));
    }
}

} // namespace trainer_many_channels_test
