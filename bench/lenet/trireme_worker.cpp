// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's training step in Trireme, as a worker of bench/harness.py: trireme_worker BATCH DEVICES

#include <trireme/trireme.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace trireme;

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

template<int Devices>
using trainer_t = trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<Devices>>>, hold_weights<once>>;

constexpr std::size_t images = 8192; // different ones, drawn in an order that is shuffled anew in every epoch

/// Answers every line, a number of seconds, with the samples per second of a measurement about as long.
template<int Devices>
int work(std::size_t batch) {
    random_stream const random(0, random_purpose::user);
    std::vector<std::uint8_t> pixels(images * 28 * 28), labels(images);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    labelled_images const all(pixels, labels, 28, 28, 10);
    trainer_t<Devices> trainer({.learning_rate = 0.1f, .batch = batch});
    auto const measure = [&](double seconds) {
        double samples = 0, spent = 0;
        for (auto const& epoch : trainer.fit({all, {}}, {.epochs = 1 << 20})) {
            samples += static_cast<double>(images);
            spent += epoch.seconds;
            if (spent >= seconds) break;
        }
        return samples / spent;
    };
    measure(0);
    std::printf("ready Trireme %d.%d.%d, %s\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR, TRIREME_VERSION_PATCH,
                instruction_set);
    std::fflush(stdout);
    for (double seconds = 0; std::scanf("%lf", &seconds) == 1;) {
        std::printf("%.17g\n", measure(seconds));
        std::fflush(stdout);
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    int const devices = argc > 2 ? std::atoi(argv[2]) : 0;
    if (batch > 0 && devices == 1) return work<1>(batch);
    if (batch > 0 && devices == 2) return work<2>(batch);
    std::fprintf(stderr, "usage: trireme_worker BATCH DEVICES, with 1 or 2 devices\n");
    return 2;
}
