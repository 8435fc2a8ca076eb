// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the programs share that measure kernel after kernel: rounds in turn, one line of tab-separated figures per case
// and round: case, peer, ours, theirs, unit, microseconds of one call of ours.

#include "../roofs.hpp"

#include <trireme/trireme.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

namespace bench {

using namespace trireme;

using clock_type = std::chrono::steady_clock;

/// Work per second of `f()`, which returns how much work one call did, over at least `seconds`.
template<class F>
double rate(double seconds, F&& f) {
    auto const start = clock_type::now();
    double work = 0, spent = 0;
    do {
        work += f();
        spent = std::chrono::duration<double>(clock_type::now() - start).count();
    } while (spent < seconds);
    return work / spent;
}

struct options {
    int rounds = 15;
    double seconds = 0.01; // of one measurement
};

/// `work` is that of one call, `ours` and `theirs` are work per second.
inline void report(std::string const& name, char const* peer, double work, double ours, double theirs,
                   char const* unit) {
    std::printf("%s\t%s\t%.6g\t%.6g\t%s\t%.6g\n", name.c_str(), peer, ours / 1e9, theirs / 1e9, unit,
                work / ours * 1e6);
}

/// Numbers on cache lines, as in an arena: ordinary ones, for kernels are not measured on zeros nor on denormal
/// numbers.
class numbers {
public:
    explicit numbers(std::size_t n) : memory_(n * sizeof(float)), size_(n) {
        random_stream const random(7, random_purpose::user);
        for (std::size_t i = 0; i < n; ++i) data()[i] = static_cast<float>(2 * random.uniform(i) - 1);
    }
    float* data() const noexcept { return static_cast<float*>(memory_.data()); }
    std::size_t size() const noexcept { return size_; }

private:
    host_memory memory_;
    std::size_t size_;
};

} // namespace bench
