// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's training step in Trireme, as a worker of bench/harness.py: trireme_worker BATCH DEVICES

#include "worker.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

using namespace trireme;

template<int Devices>
using trainer_t = trainer<bench::lenet, cross_entropy, sgd, on<mesh<host, dp<Devices>>>, hold_weights<once>>;

/// Answers every line, a number of seconds, with the samples per second of a measurement about as long.
template<int Devices>
int work(std::size_t batch) {
    auto const all = bench::made_up_images(bench::images);
    trainer_t<Devices> trainer({.learning_rate = 0.1f, .batch = batch});
    auto const measure = [&](double limit) {
        return bench::measure(trainer, all, [&](double seconds, int) { return seconds >= limit; });
    };
    bench::answer(measure);
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
