// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// A network's training on a GPU, as a worker of bench/harness.py.

#include <trireme/cuda.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace gpu_bench {

using namespace trireme;

inline labelled_images made_up(std::size_t n) {
    random_stream const random(0, random_purpose::user);
    std::vector<std::uint8_t> pixels(n * 28 * 28), labels(n);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < n; ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    return {std::move(pixels), std::move(labels), 28, 28, 10};
}

/// Answers every line, a number of seconds, with the samples per second of a measurement about as long: of epochs of
/// `images` different images, drawn in an order that is shuffled anew in each; or, `step`, of calls of `step` on one batch.
template<class Trainer>
int answer(std::size_t batch, std::size_t images, bool eager, bool step) {
    using clock = std::chrono::steady_clock;
    auto const all = made_up(step ? batch : images);
    Trainer trainer({.learning_rate = 0.1f, .batch = batch, .eager = eager});
    auto const measure = [&](double seconds) {
        double samples = 0, spent = 0;
        if (step) {
            auto const start = clock::now();
            for (; spent < seconds; spent = std::chrono::duration<double>(clock::now() - start).count())
                for (int i = 0; i < 20; ++i) samples += static_cast<double>(trainer.step(all).samples);
        } else {
            for (auto const& epoch : trainer.fit({all, {}}, {.epochs = 1 << 20})) {
                samples += static_cast<double>(images);
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

} // namespace gpu_bench
