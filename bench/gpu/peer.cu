// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All-reduce of floats between two ranks of one GPU, beside CUDA's copy of as many bytes within its memory. An
// all-reduce reads two buffers and writes two; a copy of two buffers does the same.
//
// peer ROUNDS prints a line per round and size: bytes of a buffer, microseconds of the all-reduce, of the copy.

#include "timing.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

namespace {

using namespace trireme;

constexpr std::size_t largest = 256_MiB;

void measure(std::size_t bytes, gpu::stream& first, gpu::stream& second, float* a, float* b, void* copy) {
    std::size_t const elements = bytes / sizeof(float);
    peer_group<gpu> const group(2, true);
    auto const s = direct::all_reduce(2);
    peer_collective<gpu, float> sum(group, s, {elements, sizeof(float), s.chunks}, {{a, a}, {b, b}});
    gpu::stream* const streams[] = {&first, &second};
    gpu::event fork(0), join(0);
    int const times = bytes < 1_MiB ? 20 : 2; // in a graph, so that launching it does not count
    bench::runnable const all_reduce(bench::noted(first, [&] {
        first.record(fork);
        second.wait(fork);
        for (int i = 0; i < times; ++i) sum.enqueue(streams);
        second.record(join);
        first.wait(join);
    }));
    bench::runnable const copies(bench::noted(first, [&] {
        for (int i = 0; i < times; ++i)
            bench::check(cudaMemcpyAsync(copy, a, 2 * bytes, cudaMemcpyDeviceToDevice, first.handle()),
                         "cudaMemcpyAsync");
    }));
    bench::stopwatch watch(first.handle());
    double const ours = watch.of(all_reduce) / times, theirs = watch.of(copies) / times;
    std::printf("%zu\t%.6g\t%.6g\n", bytes, ours, theirs);
    std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) try {
    int const rounds = argc > 1 ? std::atoi(argv[1]) : 0;
    if (rounds < 1) {
        std::fprintf(stderr, "usage: peer ROUNDS\n");
        return 2;
    }
    gpu::count();
    gpu::stream first(0), second(0);
    gpu::memory const buffers(0, 2 * largest, "numbers"), copy(0, 2 * largest, "copy"); // zeros, whose sums are zeros
    auto* const a = static_cast<float*>(buffers.data());
    for (int r = 0; r < rounds; ++r)
        for (std::size_t bytes = 1_KiB; bytes <= largest; bytes *= 4)
            measure(bytes, first, second, a, a + bytes / sizeof(float), copy.data());
    return 0;
} catch (std::exception const& e) {
    std::fprintf(stderr, "peer: %s\n", e.what());
    return 1;
}
