// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's outputs in Trireme, as a worker of bench/harness.py: predict_worker BATCH
// A model without gradients tells the outputs of one batch of bytes after the other, on the caller's thread.

#include "worker.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace trireme;

/// Answers every line, a number of seconds, with the samples per second of a measurement about as long.
int work(std::size_t batch) {
    using clock = std::chrono::steady_clock;
    auto const all = bench::made_up_images(bench::images);
    std::vector<labelled_images> batches;
    for (std::size_t at = 0; at + batch <= bench::images; at += batch) batches.push_back(all.take(at, batch));
    trainer<bench::lenet, cross_entropy, sgd> const weights;
    model<bench::lenet> m({.batch = batch});
    m.load_parameters(weights.gather_parameters());
    float sum = 0;
    std::size_t next = 0;
    auto const measure = [&](double limit) {
        auto const start = clock::now();
        double spent = 0;
        std::size_t samples = 0;
        do {
            for (std::size_t some = 0; some < 1024 || some == 0; some += batch, samples += batch) {
                sum += m.predict(batches[next])[0][0];
                next = (next + 1) % batches.size();
            }
            spent = std::chrono::duration<double>(clock::now() - start).count();
        } while (spent < limit);
        return static_cast<double>(samples) / spent;
    };
    bench::answer(measure);
    return sum == 12345.0f ? 1 : 0; // somebody reads the outputs
}

} // namespace

int main(int argc, char** argv) {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (batch > 0 && batch <= bench::images) return work(batch);
    std::fprintf(stderr, "usage: predict_worker BATCH, at most %zu\n", bench::images);
    return 2;
}
