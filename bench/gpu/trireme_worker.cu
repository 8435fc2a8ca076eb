// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's training step on a GPU, as a worker of bench/harness.py: trireme_worker BATCH WAY
//
// WAY is one of: fit, epochs as a user trains; fit-eager, the same without a graph; fit-blocks and fit-libraries, the
// same by other kernels; step, one call of `step` per batch, which waits for the loss.

#include <trireme/cuda.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace trireme;

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;
template<class Kernels>
using trainer_by = data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<gpu, dp<1>>>, kernels<Kernels>>;

constexpr std::size_t images = 61440; // different ones, drawn in an order that is shuffled anew in every epoch

labelled_images made_up(std::size_t n) {
    random_stream const random(0, random_purpose::user);
    std::vector<std::uint8_t> pixels(n * 28 * 28), labels(n);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < n; ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    return {std::move(pixels), std::move(labels), 28, 28, 10};
}

/// Answers every line, a number of seconds, with the samples per second of a measurement about as long.
template<class Kernels>
int answer(std::size_t batch, bool eager, bool step) {
    using clock = std::chrono::steady_clock;
    auto const all = made_up(step ? batch : images);
    trainer_by<Kernels> trainer({.learning_rate = 0.1f, .batch = batch, .eager = eager});
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

} // namespace

int main(int argc, char** argv) try {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    std::string_view const way = argc > 2 ? argv[2] : "";
    if (batch > 0 && images % batch == 0) {
        if (way == "fit") return answer<cuda_kernels>(batch, false, false);
        if (way == "fit-eager") return answer<cuda_kernels>(batch, true, false);
        if (way == "step") return answer<cuda_kernels>(batch, false, true);
        if (way == "fit-blocks") return answer<cuda_block_kernels>(batch, false, false);
        if (way == "fit-libraries") return answer<cuda_library_kernels>(batch, false, false);
    }
    std::fprintf(stderr,
                 "usage: trireme_worker BATCH WAY; BATCH divides %zu, WAY is fit, fit-eager, fit-blocks, "
                 "fit-libraries or step\n",
                 images);
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "trireme_worker: %s\n", e.what());
    return 1;
}
