// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/device/host/isa.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string>

namespace trireme {

/// Learning rates from step to step, as a value: `.rate = cosine_rate{.steps = 2'000, .warm_up = 100}`. The option
/// learning_rate is multiplied by factor(step) in every step of the trainer, counted from 0, and by
/// factor_of_batch(batch), the option batch. The default is constant.
/// Every device computes it for itself; on accelerators it is staged with the samples.
struct rate_schedule {
    enum class kind : std::uint8_t { constant, warm_up_alone, in_steps, cosine, one_cycle };

    kind is = kind::constant;  ///< the curve that the factor follows
    std::uint64_t steps = 0;   ///< steps of the curve, warm-up included; in_steps: steps between two cuts
    std::uint64_t warm_up = 0; ///< steps in which the factor rises to 1, before the curve
    /// Share of the steps that rise, first and last factor; in_steps: `end` is each cut's.
    double share = 1, begin = 1, end = 1;
    bool scales = false;    ///< true if the rate grows with the batch
    std::uint64_t from = 0; ///< samples of the batch that learning_rate is for, if it scales

    double factor(std::uint64_t step) const noexcept;

    [[gnu::always_inline]] constexpr double factor_of_batch(std::size_t samples) const noexcept {
        return scales ? static_cast<double>(samples) / static_cast<double>(from) : 1.0;
    }

    constexpr bool operator==(rate_schedule const&) const = default;
};

namespace detail::inline TRIREME_ISA {

/// The arithmetic of rate_schedule::factor, once for each kind of machine code, as kernels have it.
inline double rate_factor(rate_schedule const& r, std::uint64_t step) noexcept {
    if (step < r.warm_up) return static_cast<double>(step + 1) / static_cast<double>(r.warm_up);
    auto const s = static_cast<double>(step - r.warm_up), all = static_cast<double>(r.steps - r.warm_up);
    auto const between = [](double a, double b, double part) {
        return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * part));
    };
    switch (r.is) {
    case rate_schedule::kind::constant:
    case rate_schedule::kind::warm_up_alone:
        return 1;
    case rate_schedule::kind::in_steps:
        return std::pow(r.end, std::floor(s / static_cast<double>(r.steps)));
    case rate_schedule::kind::cosine:
        return step >= r.steps ? r.end : between(1, r.end, s / all);
    case rate_schedule::kind::one_cycle:
        double const top = r.share * all - 1, last = all - 1;
        if (s <= top) return between(r.begin, 1, s / top);
        return s >= last ? r.end : between(1, r.end, (s - top) / (last - top));
    }
    return 1;
}

} // namespace detail::inline TRIREME_ISA

// Objects have no function of this name, which one that was compiled with fast-math could give to the others.
[[gnu::always_inline]] inline double rate_schedule::factor(std::uint64_t step) const noexcept {
    return detail::rate_factor(*this, step);
}

/// After so many steps, again and again, the rate is multiplied by `by`. Source: PyTorch's StepLR.
struct step_rate {
    std::uint64_t every = 0;   ///< steps from one cut to the next; has to be given
    double by = 0.1;           ///< factor of each cut, above 0; above 1 the rate grows
    std::uint64_t warm_up = 0; ///< steps in which the rate rises to its first value, before those

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::in_steps, every, warm_up, 1, 1, by};
    }
};

/// After a warm-up the rate falls along half a cosine, to `least` of its first value at step `steps`, where it stays.
/// Source: Loshchilov and Hutter, "SGDR", 2017; PyTorch's CosineAnnealingLR.
struct cosine_rate {
    std::uint64_t steps = 0;   ///< steps until the rate stays, warm-up included; has to be given
    std::uint64_t warm_up = 0; ///< steps in which the rate rises to its first value
    double least = 0;          ///< factor of learning_rate at the end

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::cosine, steps, warm_up, 1, 1, least};
    }
};

/// The rate rises from `first` of learning_rate to all of it in a share of the steps, and falls to `last` of it, along
/// cosines. Momentum stays as it is: PyTorch's OneCycleLR cycles it as well, unless cycle_momentum=False.
/// Source: Smith and Topin, "Super-convergence", 2018; PyTorch's OneCycleLR.
struct one_cycle_rate {
    std::uint64_t steps = 0;     ///< steps of the whole cycle; has to be given
    double rising = 0.3;         ///< share of the steps in which the rate rises, in (0, 1)
    double first = 1.0 / 25;     ///< factor of learning_rate in the first step
    double last = 1.0 / 250'000; ///< factor of learning_rate in the last step

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::one_cycle, steps, 0, rising, first, last};
    }
};

/// A constant rate after a warm-up.
struct warm_up_rate {
    std::uint64_t steps = 0; ///< steps in which the rate rises to learning_rate; has to be given

    constexpr operator rate_schedule() const noexcept {
        return {rate_schedule::kind::warm_up_alone, 0, steps, 1, 1, 1};
    }
};

/// learning_rate is that of a batch of `from` samples, and grows with the option batch, whatever the number of devices:
/// `.rate = linear_scaling{.from = 256, .then = warm_up_rate{.steps = 500}}`. From step to step it follows `then`.
/// Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017.
struct linear_scaling {
    std::uint64_t from = 0;  ///< samples of the batch that learning_rate is for; has to be given
    rate_schedule then = {}; ///< the rate from step to step; constant by default

    constexpr operator rate_schedule() const noexcept {
        auto r = then;
        r.scales = true;
        r.from = from;
        return r;
    }
};

namespace detail {

template<class Options>
inline constexpr bool has_rate = requires(Options o) { o.rate.value.factor(std::uint64_t{}); };

/// The name under which a schedule is chosen.
constexpr char const* rate_name(rate_schedule const& r) noexcept {
    switch (r.is) {
    case rate_schedule::kind::constant:
        return r.warm_up == 0 ? "constant" : "warm_up_rate";
    case rate_schedule::kind::warm_up_alone:
        return "warm_up_rate";
    case rate_schedule::kind::in_steps:
        return "step_rate";
    case rate_schedule::kind::cosine:
        return "cosine_rate";
    case rate_schedule::kind::one_cycle:
        return "one_cycle_rate";
    }
    return "";
}

/// All of a schedule, for processes that must agree in it.
TRIREME_COLD inline std::string rate_text(rate_schedule const& r) {
    std::string text = std::string("rate ") + rate_name(r);
    if (r == rate_schedule{}) return text;
    if (r.scales) text += " for batches of " + std::to_string(r.from);
    return text + " of " + std::to_string(r.steps) + " steps, warm-up " + std::to_string(r.warm_up) + ", " +
           number_text(r.share) + " " + number_text(r.begin) + " " + number_text(r.end);
}

/// Throws usage_error for a schedule that has no rate for some step.
TRIREME_COLD inline void check_rate_schedule(rate_schedule const& r) {
    if (r.scales && r.from == 0)
        throw usage_error("rate: linear_scaling{.from = 0}: it must be at least 1; say for which batch learning_rate "
                          "is meant, as in linear_scaling{.from = 256}");
    auto const refuse = [&](char const* field, std::string const& value, std::string const& rule_and_remedy) {
        throw usage_error(std::string("rate: ") + rate_name(r) + "{." + field + " = " + value +
                          "}: " + rule_and_remedy);
    };
    auto const check_factor = [&](char const* field, double x) {
        if (!(x >= 0 && std::isfinite(x)))
            refuse(field, number_text(x),
                   "it must be a finite number, not negative; it is a share of learning_rate, 0.01 for a hundredth");
    };
    auto const steps = std::to_string(r.steps);
    switch (r.is) {
    case rate_schedule::kind::constant:
        return;
    case rate_schedule::kind::warm_up_alone:
        if (r.warm_up == 0)
            refuse("steps", "0",
                   "it must be at least 1; say in how many steps the rate rises, as in warm_up_rate{.steps = 500}");
        return;
    case rate_schedule::kind::in_steps:
        if (r.steps == 0)
            refuse("every", steps,
                   "it must be at least 1; say after how many steps the rate changes, as in step_rate{.every = 1'000}");
        if (!(r.end > 0 && std::isfinite(r.end)))
            refuse("by", number_text(r.end),
                   "it must be a finite number above 0; the rate is multiplied by it, 0.1 for a tenth each time");
        return;
    case rate_schedule::kind::cosine:
        if (r.steps <= r.warm_up)
            refuse("steps", steps,
                   "it must be above .warm_up = " + std::to_string(r.warm_up) +
                       ", which it includes; give all steps of the training");
        return check_factor("least", r.end);
    case rate_schedule::kind::one_cycle:
        if (!(r.share > 0 && r.share < 1))
            refuse("rising", number_text(r.share),
                   "it must be between 0 and 1, without these; it is the share of the steps in which the rate rises");
        if (auto const all = static_cast<double>(r.steps); !(r.share * all > 1 && (1 - r.share) * all > 1))
            refuse("steps", steps,
                   "it must be so many that .rising = " + number_text(r.share) +
                       " of them, and the rest, are more than one step each; give all steps of the training");
        check_factor("first", r.begin);
        return check_factor("last", r.end);
    }
}

} // namespace detail

namespace detail::inline TRIREME_ISA {

/// The options of a step, counted from 0: those of the trainer, with the learning rate of the step.
template<class Options>
Options options_of_step(Options o, [[maybe_unused]] std::uint64_t step) {
    if constexpr (has_rate<Options>)
        if (o.rate.value != rate_schedule{})
            o.learning_rate = static_cast<float>(static_cast<double>(o.learning_rate) * o.rate.value.factor(step) *
                                                 o.rate.value.factor_of_batch(o.batch.samples));
    return o;
}

} // namespace detail::inline TRIREME_ISA

} // namespace trireme
