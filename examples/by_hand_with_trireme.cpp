// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The training of by_hand.cpp, with Trireme: the same network, weights, images and steps, the same two devices, and the
// same losses but for rounding (sums are taken in another order).
//
// What the library takes away:
//   - shapes and offsets: five numbers below; the compiler deduces the rest and refuses what does not fit;
//   - gradients: each layer brings its own, checked against numeric derivatives in the tests;
//   - synchronisation: the all-reduce is a schedule that the compiler has proved (no deadlock, every contribution added
//     once, nothing overwritten while it is read); `reduce_by<ring>` is another one, in one word;
//   - failure: a device that throws or stalls is an error with its number, after a deadline, never a hang;
//   - cost: memory and traffic are constants, so a budget is a static_assert.
//
// What it does not: by_hand.cpp shows every operation, here one has to believe or read the library. And a computation
// that is no chain of layers is still best begun by hand.

#include "standard_output.hpp"

#include <trireme/trireme.hpp>

#include <cstdio>

using namespace trireme;

using net = network<input<1, 28, 28>, flatten, linear<64>, sigmoid, linear<10>>;
using net_trainer = data_parallel_trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<direct>>;

constexpr std::size_t samples = 256;
static_assert(net_trainer::plan(batch{samples}).bytes_per_device() < 1_MiB);

int main() try {
    watch_standard_output();
    auto const train = fashion_mnist::load().train;
    net_trainer t{{.learning_rate = 0.5f, .batch = samples, .seed = 1}};
    for (std::size_t step = 1; step <= 100; ++step) {
        // in the order of the file, because by_hand.cpp does not shuffle; `fit` would
        auto const done = t.step(train.take((step - 1) * samples, samples));
        if (step % 10 == 0) std::printf("step %zu loss %.6f\n", step, done.loss);
    }
} catch (std::exception const& e) {
    std::fprintf(stderr, "by_hand_with_trireme: %s\n", e.what());
    return exit_code::of(e);
}
