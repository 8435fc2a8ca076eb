// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Measures the numbers of the cost model on this machine, between threads: what `calibrate` prints and `scaling`
// predicts from.

#include <trireme/collective/all_gather.hpp>
#include <trireme/collective/barrier.hpp>
#include <trireme/collective/reduce_scatter.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/machine.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace calibration {

using namespace trireme;
using clock_type = std::chrono::steady_clock;

inline double since(clock_type::time_point start) {
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

inline double median(std::vector<double>& x) {
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
}

/// Seconds of `f(communicator, buffer)`, the median over repetitions. As in training, every rank has written its whole
/// buffer just before, so that nothing of it is in the others' caches.
template<class F>
double seconds_of_call(threads::group& group, std::size_t bytes, F const& f) {
    std::vector<double> times(std::clamp<std::size_t>((64 << 20) / (bytes + 1), 21, 2001));
    group.run([&](threads::communicator& me) {
        std::vector<float> buffer(bytes / sizeof(float));
        for (auto& t : times) {
            std::fill(buffer.begin(), buffer.end(), 1.0f);
            barrier<dissemination>(me);
            auto const start = clock_type::now();
            f(me, std::span(buffer));
            if (me.rank() == 0) t = since(start);
            barrier<dissemination>(me); // nobody writes while others read the clock
        }
    });
    return median(times);
}

/// Barriers without a clock between them.
template<class S>
double seconds_per_barrier(threads::group& group) {
    constexpr int often = 2000;
    std::vector<double> times(11);
    group.run([&](threads::communicator& me) {
        for (auto& t : times) {
            auto const start = clock_type::now();
            for (int i = 0; i < often; ++i) barrier<S>(me);
            if (me.rank() == 0) t = since(start) / often;
        }
    });
    return median(times);
}

inline link_cost measured(threads::group& group, std::size_t bytes) {
    link_cost l;
    int const n = group.size();
    // a round with one source, and one with all others; of two ranks there is only the first kind
    auto const one = seconds_per_barrier<dissemination>(group) / dissemination::barrier(n).steps;
    if (n > 2) l.overhead = std::max(0.0, (seconds_per_barrier<direct>(group) - one) / (n - 2));
    l.alpha = std::max(0.0, one - l.overhead);
    auto const moved = static_cast<double>(bytes) * (n - 1) / n; // by each rank, in both that follow
    auto const waiting = [&](schedule const& s) {
        return seconds_of(s, {0, 1, s.chunks}, {{{l.alpha, 0, 0, l.overhead}}});
    };
    // where threads share processors, a rank takes as long as all those that run on its processor
    auto const share = std::max(1.0, static_cast<double>(n) / patience::processors());
    auto const copying = seconds_of_call(group, bytes, [](auto& me, auto x) { all_gather<direct>(me, x); });
    l.beta = std::max(0.0, ((copying - waiting(direct::all_gather(n))) / share) / moved);
    auto const adding = seconds_of_call(group, bytes, [](auto& me, auto x) { reduce_scatter<direct>(me, x, x); });
    l.gamma = std::max(0.0, ((adding - waiting(direct::reduce_scatter(n))) / share) / moved - l.beta);
    return l;
}

} // namespace calibration
