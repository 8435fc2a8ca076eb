// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// measured_cut [SAMPLES [ROUNDS]]    cuts ResNet-18 into stages by the seconds that its layers take on this machine
//
// FLOPs are constants, and balanced_by_flops cuts by them; but kernels need more time for one FLOP in some layers than
// in others. This program times every layer on SAMPLES images of a micro-batch (32 by default), ROUNDS times (5), and
// prints for 2, 3, ... stages how even the stages of both cuts are, in seconds, and the policy to write into a program.
// The seconds of a busy machine say little: run it twice.
//
// Exit codes: 0; 2 for a wrong argument; 3 for a failure while it runs.

#include "resnet18.hpp"
#include "standard_output.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/parallel/measured_rows.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

using namespace trireme;

namespace {

using net = resnet18<batch_norm<per_shard>>;

std::size_t number(char const* text, std::size_t most, char const* what) {
    std::size_t n = 0;
    auto const* const end = text + std::strlen(text);
    if (auto const read = std::from_chars(text, end, n); read.ec != std::errc{} || read.ptr != end || n < 1 || n > most)
        throw usage_error(std::string(what) + " = '" + text + "': it is a number from 1 to " + std::to_string(most));
    return n;
}

/// The time of the slowest stage of the cut by FLOPs, by that of stages which all take as long.
double imbalance_by_flops(measured_rows<net> const& measured, int stages) {
    double slowest = 0;
    for (int s = 0; s < stages; ++s)
        slowest = std::max(slowest, measured.seconds(balanced_by_flops::rows<net>(stages, s)));
    return slowest * stages / measured.seconds({0, net::depth});
}

} // namespace

int main(int argc, char** argv) try {
    watch_standard_output();
    if (argc > 3) throw usage_error("usage: measured_cut [SAMPLES [ROUNDS]]");
    auto const samples = argc > 1 ? number(argv[1], 4096, "SAMPLES") : 32;
    auto const rounds = argc > 2 ? static_cast<int>(number(argv[2], 1000, "ROUNDS")) : 5;
    auto const measured = measure_rows<net>(samples, rounds);

    std::printf("ResNet-18, %zu images in a micro-batch, kernels for %s\n\n", samples, instruction_set);
    std::printf("%-10s %14s %10s %14s\n", "rows", "FLOPs", "time", "GFLOP/s");
    for (std::size_t i = 0; i < segments_of<net>.count; ++i) { // what no cut divides
        range const rows{segments_of<net>.begin[i], segments_of<net>.begin[i + 1]};
        auto const name = std::to_string(rows.begin) + " to " + std::to_string(rows.end - 1);
        auto const flops = net::flops(rows).total();
        std::printf("%-10s %14s %7.1f us %14.1f\n", name.c_str(), with_commas(flops).c_str(),
                    1e6 * measured.seconds(rows), 1e-9 * static_cast<double>(flops) / measured.seconds(rows));
    }

    std::printf("\nthe slowest stage takes so many times as long as if all were even\n");
    std::printf("%-8s %10s %12s\n", "stages", "by FLOPs", "by seconds");
    for (int stages = 2; stages <= 4; ++stages)
        std::printf("%-8d %10.2f %12.2f   %s\n", stages, imbalance_by_flops(measured, stages),
                    measured.imbalance(stages), measured.policy(stages).c_str());
    return 0;
} catch (std::exception const& e) {
    std::fprintf(stderr, "measured_cut: %s\n", e.what());
    return exit_code::of(e);
}
