// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether two threads have two cores, now: how much more arithmetic two do than one. On shared machines two processors
// are now and then two halves of one core, and no program gains from the second.
//
// Also prints what one core does at best: GFLOP/s, the units for multiply-adds of full registers, the instruction set.

#include "../roofs.hpp"

#include <trireme/device/host/isa.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
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

/// The fastest short stretch, which other programs have not interrupted.
template<std::size_t Chains>
double best_flops_per_second(double& sink) {
    auto const start = std::chrono::steady_clock::now();
    double best = 0;
    for (auto begin = start; begin - start < std::chrono::milliseconds(100);) {
        auto const work = bench::multiply_adds<Chains>(sink);
        auto const end = std::chrono::steady_clock::now();
        best = std::max(best, work / std::chrono::duration<double>(end - begin).count());
        begin = end;
    }
    return best;
}

/// The units of a core: in one chain each multiply-add waits four cycles for the last, or five on some cores; many
/// chains keep all units busy.
int multiply_add_units(double all, double one_chain) { return static_cast<int>(std::floor(all / one_chain / 4 + 0.4)); }

} // namespace

int main() {
    double sinks[5] = {};
    flops_per_second(sinks[0]);
    auto const one = flops_per_second(sinks[0]);
    double second = 0;
    std::thread other([&] { second = flops_per_second(sinks[1]); });
    auto const first = flops_per_second(sinks[2]);
    other.join();
    auto const peak = best_flops_per_second<bench::enough_chains>(sinks[3]), chain = best_flops_per_second<1>(sinks[4]);
    bool const used = sinks[0] + sinks[1] + sinks[2] + sinks[3] + sinks[4] != 0;
    std::printf("%.2f %d %.1f %d %s\n", (first + second) / one, used, 1e-9 * peak, multiply_add_units(peak, chain),
                trireme::instruction_set);
}
