// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// ResNet-18's training step in Trireme, as a worker of bench/harness.py: WORKER BATCH DEVICES

#include "../../examples/resnet18.hpp"
#include "../made_up.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace resnet18_bench {

using namespace trireme;

template<class... Policies>
using trainer_with = trainer<resnet18<batch_norm<per_shard>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>,
                             hold_weights<once>, Policies...>;

inline constexpr std::size_t images = 2048; ///< different ones

/// Answers every line, a number of seconds, with the images per second of a measurement about as long.
template<class Trainer>
void work(std::size_t batch, int devices, char const* name) {
    auto const all = bench::made_up_images(images);
    Trainer trainer({.learning_rate = 0.1f, .batch = batch}, {.devices = devices});
    std::size_t place = 0;
    auto const measure = [&](double limit) {
        auto const start = std::chrono::steady_clock::now();
        auto const seconds = [&] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        };
        std::size_t steps = 0;
        do {
            trainer.step(all.take(place, batch));
            place = place + 2 * batch <= images ? place + batch : 0;
            ++steps;
        } while (seconds() < limit);
        return static_cast<double>(steps * batch) / seconds();
    };
    measure(0);
    std::printf("ready Trireme %d.%d.%d%s, %s\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR, TRIREME_VERSION_PATCH,
                name, instruction_set);
    std::fflush(stdout);
    for (double seconds = 0; std::scanf("%lf", &seconds) == 1;) {
        std::printf("%.17g\n", measure(seconds));
        std::fflush(stdout);
    }
}

/// `name`: what its kernels are.
template<class Trainer>
int run(int argc, char** argv, char const* name) {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    int const devices = argc > 2 ? std::atoi(argv[2]) : 0;
    if (batch > 0 && batch <= images && devices > 0) {
        work<Trainer>(batch, devices, name);
        return 0;
    }
    std::fprintf(stderr, "usage: WORKER BATCH DEVICES, at most %zu images per batch\n", images);
    return 2;
}

} // namespace resnet18_bench
