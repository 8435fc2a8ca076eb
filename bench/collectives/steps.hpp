// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// What the contenders in C++ share: a trainer's step round the all-reduce, its clock, the dialogue of a worker.
namespace bench {

/// A rank came to an all-reduce, and left it, at these times, in ns of a clock that all threads and processes share.
struct stay {
    std::int64_t came, left;
};

inline std::int64_t now() noexcept {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

/// One rank's steps, as many as `stays`: it writes its whole buffer, `all_reduce()`s it in place, and reads it all.
template<class AllReduce>
void run_steps(int rank, int ranks, std::span<float> buffer, std::span<stay> stays, AllReduce&& all_reduce) {
    int wrong = 0, step = 0;
    for (auto& s : stays) {
        int const round = step++ % 1000;
        std::fill(buffer.begin(), buffer.end(), static_cast<float>(round + rank));
        s.came = now();
        all_reduce();
        s.left = now();
        auto const sum = static_cast<float>(ranks * round + ranks * (ranks - 1) / 2);
        for (auto const x : buffer) wrong |= x != sum;
    }
    if (wrong != 0) throw std::runtime_error("the sum is wrong");
}

/// The median step's ns from the coming of the last rank, for which the others can only wait, to the leaving of the
/// last one. `stays` holds those of rank 0, then those of rank 1, ...
inline double median_time(std::vector<stay> const& stays, int ranks) {
    std::vector<std::int64_t> times(stays.size() / static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < times.size(); ++i) {
        auto last = stays[i];
        for (auto j = i; j < stays.size(); j += times.size())
            last = {std::max(last.came, stays[j].came), std::max(last.left, stays[j].left)};
        times[i] = last.left - last.came;
    }
    auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return static_cast<double>(*middle);
}

/// A worker of bench/harness.py: answers every line, a number of seconds, with the all-reduces per second.
/// `run(steps)` returns the stays of all ranks.
template<class Run>
void answer(std::string const& name, int ranks, Run&& run) {
    auto const start = now();
    double seconds = 0, steps = 1, done = 0;
    for (; seconds < 0.05; done += steps, steps *= 2, seconds = 1e-9 * static_cast<double>(now() - start))
        run(static_cast<std::size_t>(steps));
    auto per_second = done / seconds;
    std::printf("ready %s\n", name.c_str());
    std::fflush(stdout);
    while (std::scanf("%lf", &seconds) == 1) {
        steps = std::clamp(seconds * per_second, 3.0, 1e5);
        auto const before = now();
        auto const stays = run(static_cast<std::size_t>(steps));
        per_second = steps * 1e9 / static_cast<double>(now() - before);
        std::printf("%.17g\n", 1e9 / median_time(stays, ranks));
        std::fflush(stdout);
    }
}

} // namespace bench
