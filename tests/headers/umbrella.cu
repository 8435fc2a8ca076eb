// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// nvcc takes every header of the host. It evaluates constants in a pass of its own before the host compiler does it
// again: both must agree on a network, its plan and the proof of a schedule, and what runs must be what was asserted.
#include <trireme/trireme.hpp>

#include <cstdio>

using namespace trireme;

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;
using lenet_trainer =
    data_parallel_trainer<lenet, cross_entropy, sgd_momentum, on<mesh<host, dp<16>>>, reduce_by<double_binary_tree>>;

static_assert(lenet::parameters == 61706);
static_assert(lenet_trainer::plan(batch{256}).bytes_per_device() < 4_MiB);
static_assert(verify(collective::all_reduce, ring::all_reduce(16)).ok());

int main() {
    constexpr auto plan = lenet_trainer::plan(batch{256});
    auto const now = lenet_trainer::plan(batch{256});
    lenet_trainer t({.learning_rate = 0.1f, .batch = 32});
    random_stream const r(1, random_purpose::user);
    std::vector<std::uint8_t> pixels(32 * 784), labels(32);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(r.below(i, 256));
    auto const loss = t.step(labelled_images(pixels, labels, 28, 28, 10)).loss;
    std::printf("%llu bytes per device, %llu bytes on the wire, loss %.4f\n",
                static_cast<unsigned long long>(plan.bytes_per_device()),
                static_cast<unsigned long long>(plan.wire_bytes_per_step()), loss);
    bool const same = plan.bytes_per_device() == now.bytes_per_device() &&
                      plan.wire_bytes_per_step() == now.wire_bytes_per_step() && loss > 0;
    std::printf("%d passed, %d failed\n", same ? 1 : 0, same ? 0 : 1);
    return same ? 0 : 1;
}
