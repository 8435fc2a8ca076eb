// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What the workers of bench/harness.py share that train in Trireme: the steps, and the dialogue.

#include <trireme/trireme.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace bench {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The trainer steps over all samples in turn, from number `place` on, for `limit` seconds at least; returns the number
/// of steps. `each(seconds)`: of a step.
template<class Trainer, class Samples, class Each>
std::size_t train_in_turn(Trainer& trainer, Samples const& all, std::size_t& place, std::size_t batch, double limit,
                          Each&& each) {
    auto const start = std::chrono::steady_clock::now();
    std::size_t steps = 0;
    do {
        auto const samples = all.take(place, batch);
        place = place + 2 * batch <= all.size() ? place + batch : 0;
        auto const begin = std::chrono::steady_clock::now();
        trainer.step(samples);
        each(seconds_since(begin));
        ++steps;
    } while (seconds_since(start) < limit);
    return steps;
}

/// The worker says that it is ready; `name`: what its kernels are.
inline void say_ready(char const* name = "") {
    std::printf("ready Trireme %d.%d.%d%s, %s\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR, TRIREME_VERSION_PATCH,
                name, trireme::instruction_set);
    std::fflush(stdout);
}

/// The worker answers every line, a number of seconds, with `measure(seconds)`: work per second of about so long.
template<class Measure>
void answer(Measure&& measure, char const* name = "") {
    measure(0.0);
    say_ready(name);
    for (double seconds = 0; std::scanf("%lf", &seconds) == 1;) {
        std::printf("%.17g\n", measure(seconds));
        std::fflush(stdout);
    }
}

/// The worker answers with the samples per second of steps over all samples in turn.
template<class Trainer, class Samples>
void answer_steps(Trainer& trainer, Samples const& all, std::size_t batch, char const* name = "") {
    std::size_t place = 0;
    answer(
        [&](double limit) {
            auto const start = std::chrono::steady_clock::now();
            auto const steps = train_in_turn(trainer, all, place, batch, limit, [](double) {});
            return static_cast<double>(steps * batch) / seconds_since(start);
        },
        name);
}

/// The program WORKER BATCH DEVICES, whose devices are replicas; BATCH is the global one.
template<class Trainer, class Samples>
int steps_main(int argc, char** argv, typename Trainer::options training, Samples const& all, char const* name = "") {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    int const devices = argc > 2 ? std::atoi(argv[2]) : 0;
    if (batch > 0 && batch <= all.size() && devices > 0) {
        training.batch = batch;
        Trainer trainer(training, {.devices = devices});
        answer_steps(trainer, all, batch, name);
        return 0;
    }
    std::fprintf(stderr, "usage: WORKER BATCH DEVICES, at most %zu samples per batch\n", all.size());
    return 2;
}

} // namespace bench
