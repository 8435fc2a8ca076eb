// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether two threads have two cores, now: how much more arithmetic two do than one. On shared machines two processors
// are now and then two halves of one core, and no program gains from the second.

#include "../roofs.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

namespace {

double flops_per_second(double& sink) {
    auto const start = std::chrono::steady_clock::now();
    double work = 0, spent = 0;
    for (; spent < 0.1; spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())
        work += bench::multiply_adds(sink);
    return work / spent;
}

} // namespace

int main() {
    double sinks[3] = {};
    flops_per_second(sinks[0]);
    auto const one = flops_per_second(sinks[0]);
    double second = 0;
    std::thread other([&] { second = flops_per_second(sinks[1]); });
    auto const first = flops_per_second(sinks[2]);
    other.join();
    std::printf("%.2f %d\n", (first + second) / one, sinks[0] + sinks[1] + sinks[2] != 0);
}
