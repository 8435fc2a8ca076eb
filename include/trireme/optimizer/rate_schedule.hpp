// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

namespace trireme {

/// Learning rates from step to step, as a value: `.rate = cosine_rate{.steps = 2'000, .warm_up = 100}`. The option
/// learning_rate is multiplied by factor(step) in every step of the trainer, counted from 0. The default is constant.
/// Every device computes it for itself; on accelerators it is staged with the samples.
struct rate_schedule {
    enum class kind : std::uint8_t { constant, in_steps, cosine, one_cycle };

    kind is = kind::constant;
    std::uint64_t steps = 0;
    std::uint64_t warm_up = 0;
    double share = 1, begin = 1, end = 1; ///< what they mean depends on the kind

    double factor(std::uint64_t step) const noexcept {
        if (step < warm_up) return static_cast<double>(step + 1) / static_cast<double>(warm_up);
        auto const s = static_cast<double>(step - warm_up), all = static_cast<double>(steps - warm_up);
        auto const between = [](double a, double b, double part) {
            return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * part));
        };
        switch (is) {
        case kind::constant:
            return 1;
        case kind::in_steps:
            return std::pow(end, std::floor(s / static_cast<double>(steps)));
        case kind::cosine:
            return step >= steps ? end : between(1, end, s / all);
        case kind::one_cycle:
            double const top = share * all - 1, last = all - 1;
            if (s <= top) return between(begin, 1, s / top);
            return s >= last ? end : between(1, end, (s - top) / (last - top));
        }
        return 1;
    }

    constexpr bool operator==(rate_schedule const&) const = default;
};

/// After so many steps, again and again, the rate is multiplied by `by`. Source: PyTorch's StepLR.
struct step_rate {
    std::uint64_t every = 1;
    double by = 0.1;
    std::uint64_t warm_up = 0; ///< steps in which the rate rises to its first value, before those

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::in_steps, every, warm_up, 1, 1, by};
    }
};

/// After a warm-up the rate falls along half a cosine, to `least` of its first value at step `steps`, where it stays.
/// Source: Loshchilov and Hutter, "SGDR", 2017; PyTorch's CosineAnnealingLR.
struct cosine_rate {
    std::uint64_t steps = 0; ///< warm-up included
    std::uint64_t warm_up = 0;
    double least = 0;

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::cosine, steps, warm_up, 1, 1, least};
    }
};

/// The rate rises from `first` of learning_rate to all of it in a share of the steps, and falls to `last` of it, along
/// cosines. Source: Smith and Topin, "Super-convergence", 2018; PyTorch's OneCycleLR.
struct one_cycle_rate {
    std::uint64_t steps = 0;
    double rising = 0.3;
    double first = 1.0 / 25;
    double last = 1.0 / 250'000;

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::one_cycle, steps, 0, rising, first, last};
    }
};

/// A constant rate after a warm-up.
struct warm_up_rate {
    std::uint64_t steps = 0;

    constexpr operator rate_schedule() const noexcept { return {rate_schedule::kind::constant, 0, steps, 1, 1, 1}; }
};

namespace detail {

template<class Options>
inline constexpr bool has_rate = requires(Options o) { o.rate.value.factor(std::uint64_t{}); };

/// The options of a step, counted from 0: those of the trainer, with the learning rate of the step.
template<class Options>
Options options_of_step(Options o, [[maybe_unused]] std::uint64_t step) {
    if constexpr (has_rate<Options>)
        if (o.rate.value != rate_schedule{})
            o.learning_rate = static_cast<float>(static_cast<double>(o.learning_rate) * o.rate.value.factor(step));
    return o;
}

/// Throws usage_error for a schedule that has no rate for some step.
inline void check_rate_schedule(rate_schedule const& r) {
    auto const refuse = [](std::string const& why) { throw usage_error("rate: " + why); };
    auto const is_factor = [](double x) { return x >= 0 && std::isfinite(x); };
    if (r.is == rate_schedule::kind::in_steps && r.steps == 0)
        refuse("step_rate changes the rate after `every` steps, at least 1");
    if (r.is == rate_schedule::kind::cosine && r.steps <= r.warm_up)
        refuse("cosine_rate needs more steps than its warm-up of " + std::to_string(r.warm_up) + ", and has " +
               std::to_string(r.steps));
    if (r.is == rate_schedule::kind::one_cycle &&
        !(r.share > 0 && r.share < 1 && r.share * static_cast<double>(r.steps) > 1 &&
          (1 - r.share) * static_cast<double>(r.steps) > 1))
        refuse("one_cycle_rate rises in a share of its steps between 0 and 1, and needs more than one step each way; "
               "it has " +
               std::to_string(r.steps));
    if (!is_factor(r.begin) || !is_factor(r.end)) refuse("its factors must be finite numbers, not negative");
}

} // namespace detail

} // namespace trireme
