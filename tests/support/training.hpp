// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/require.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// Short trainings that tests compare with one another.
namespace test_networks {

/// A training leaves this behind, on one of its ranks.
template<class T>
struct outcome {
    std::vector<double> told; ///< losses of steps, losses and accuracies of evaluations, both of an epoch
    std::vector<T> numbers;   ///< parameters and buffers
    friend bool operator==(outcome const& a, outcome const& b) {
        return same_bits(a.told, b.told) && same_bits(a.numbers, b.numbers);
    }
};

template<class Trainer>
std::vector<typename Trainer::value_type> numbers_of(Trainer const& t, int rank = 0) {
    auto numbers = held(t, rank);
    auto const b = held(t, rank, true);
    numbers.insert(numbers.end(), b.begin(), b.end());
    return numbers;
}

/// Looks at no trainer.
struct unseen {
    void operator()(auto const&) const {}
};

/// A step on made-up images for each of `sizes`, with an evaluation of some more after it, and an epoch with a short
/// last batch and a test. `look(trainer)` is called before the first step and after the last. Throws
/// std::runtime_error where ranks of this process hold other bits than one another, other bytes have moved than the
/// plan says, a report counts wrong, or a loss is not finite.
template<class Trainer, class Look = unseen>
outcome<typename Trainer::value_type> trained(settings<Trainer> s, std::vector<std::size_t> const& sizes,
                                              Look const& look = {}) {
    using test_support::require;
    s.training.learning_rate = 0.03f;
    s.training.seed = 3;
    Trainer t(s.training, s.run);
    look(t);
    outcome<typename Trainer::value_type> r;
    std::uint64_t steps = 0;
    for (auto const n : sizes) {
        auto const step = t.step(made_up(n, ++steps));
        auto const test = t.evaluate(made_up(n + 5, 100 + steps));
        require(step.step == steps && step.samples == n && test.samples == n + 5, "a report counts wrong");
        r.told.insert(r.told.end(), {step.loss, test.loss, test.accuracy});
    }
    std::size_t const batch = s.training.batch.samples;
    auto const images = made_up(2 * batch + (batch + 1) / 2), test = made_up(53, 9);
    for (auto const& epoch : t.fit({images, test}, {.epochs = 1})) {
        r.told.insert(r.told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
        steps += 3;
    }
    for (double const number : r.told) require(std::isfinite(number), "a loss is not finite");
    auto const planned = [&](int rank) {
        auto const moved = t.wire(rank), once = t.plan().wire(rank);
        require(moved.bytes == steps * once.bytes && moved.messages == steps * once.messages,
                "rank " + std::to_string(rank) + " has moved other bytes than the plan says");
    };
    int const first = t.rank();
    r.numbers = numbers_of(t, first);
    planned(first);
    if constexpr (!requires { s.run.processes.value.rank; }) // else each rank is a process
        for (int rank = 1; rank < t.devices(); ++rank) {
            planned(rank);
            require(same_bits(numbers_of(t, rank), r.numbers),
                    "rank " + std::to_string(rank) + " holds other numbers than rank 0");
        }
    look(t);
    return r;
}

} // namespace test_networks
