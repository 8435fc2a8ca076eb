// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// A network's training on a GPU, as a worker of bench/harness.py.

#include "../made_up.hpp"

#include <trireme/cuda.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>

namespace gpu_bench {

using namespace trireme;

/// Answers every line, a number of seconds, with the samples per second of a measurement about as long: of epochs of
/// all samples, drawn in an order that is shuffled anew in each; or, `step`, of calls of `step` on them, one batch.
template<class Trainer, class Samples>
int answer(typename Trainer::options const& training, Samples const& all, bool eager = false, bool step = false) {
    using clock = std::chrono::steady_clock;
    Trainer trainer(training, {.eager = eager});
    for (auto const& note : trainer.notes()) std::fprintf(stderr, "%s\n", note.c_str());
    auto const measure = [&](double seconds) {
        double samples = 0, spent = 0;
        if (step) {
            auto const start = clock::now();
            for (; spent < seconds; spent = std::chrono::duration<double>(clock::now() - start).count())
                for (int i = 0; i < 20; ++i) samples += static_cast<double>(trainer.step(all).samples);
        } else {
            for (auto const& epoch : trainer.fit(training_set{all, all}, {.epochs = 1 << 20, .test_every = 1 << 20})) {
                samples += static_cast<double>(all.size());
                spent += epoch.seconds;
                if (spent >= seconds) break;
            }
        }
        return samples / spent;
    };
    measure(0.05);
    std::printf("ready Trireme %d.%d.%d on %s\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR, TRIREME_VERSION_PATCH,
                gpu::describe(0).c_str());
    std::fflush(stdout);
    for (double seconds = 0; std::scanf("%lf", &seconds) == 1;) {
        std::printf("%.17g\n", measure(seconds));
        std::fflush(stdout);
    }
    return 0;
}

/// Answers for a network of images, of `images` different ones or, `step`, of one batch.
template<class Trainer>
int answer_images(std::size_t batch, std::size_t images, bool eager = false, bool step = false) {
    return answer<Trainer>({.learning_rate = 0.1f, .batch = batch}, bench::made_up_images(step ? batch : images), eager,
                           step);
}

} // namespace gpu_bench
