// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// LeNet on Fashion-MNIST, on two devices of this process.

// clang-format off
#include <trireme/trireme.hpp>
using namespace trireme;

// layers in data order; every shape is deduced and checked by the compiler
using lenet = network<input<1, 28, 28>,
    conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>,
    conv2d<16, kernel<5>>,            sigmoid, avg_pool2d<2>,
    flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

// who computes: two devices of this process; how they agree: a ring
using lenet_trainer = data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<ring>>;

static_assert(lenet_trainer::plan(batch{256}).bytes_per_device() < 64_MiB);

int main() {
    auto data = fashion_mnist::load();
    lenet_trainer t{{.learning_rate = 0.9f, .batch = 256, .seed = 1}};
    for (auto const& epoch : t.fit(data, {.epochs = 10}))
        std::cout << epoch << std::endl;
}
