// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/trainer/sample_digests.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme::detail {

/// The work that a process of a trainer begins, in words of 64 bits: what all of them must have in common, but for
/// inputs or targets that some do not have.
struct process_work {
    enum job : std::uint64_t { none, step, epoch, evaluation, file };
    std::uint64_t is = none;             ///< all zero, so that processes' entries can be added
    std::uint64_t steps = 0, epochs = 0; ///< before it
    std::uint64_t samples = 0;
    sample_digest digest = {};
    double learning_rate = 0;

    bool agrees_with(process_work const& other) const noexcept {
        auto const same = [](std::uint64_t a, std::uint64_t b) { return a == b || a == 0 || b == 0; };
        return is == other.is && steps == other.steps && epochs == other.epochs && samples == other.samples &&
               learning_rate == other.learning_rate && same(digest.inputs, other.digest.inputs) &&
               same(digest.targets, other.digest.targets);
    }

    /// "a step on 64 samples with digest 0123456789abcdef, learning rate 0.1, after 10 steps and 2 epochs"; "a load or
    /// a save, after 10 steps".
    TRIREME_COLD std::string text() const {
        auto const number = [](std::uint64_t n) { return std::to_string(n); };
        if (is == file) return "a load or a save, after " + number(steps) + " steps";
        char const* const name = is == step ? "a step" : is == epoch ? "an epoch" : "an evaluation";
        return std::string(name) + " on " + number(samples) + " samples with digest " + digest_text(digest.both()) +
               ", learning rate " + number_text(static_cast<float>(learning_rate)) + ", after " + number(steps) +
               " steps and " + number(epochs) + " epochs";
    }
};

/// Throws mismatch_error, with the same text in all processes, unless they begin the same work.
TRIREME_COLD inline void require_same_work(std::span<process_work const> all) {
    auto const said = [&](std::size_t k) { return "process " + std::to_string(k) + " begins " + all[k].text(); };
    for (std::size_t k = 1; k < all.size(); ++k)
        for (std::size_t before = 0; before < k; ++before) // each: two may have nothing that they can compare
            if (!all[k].agrees_with(all[before]))
                throw mismatch_error("the processes do not begin the same work: " + said(before) + ", " + said(k) +
                                     "; give all of them the same samples, states and rates, and the same calls");
}

} // namespace trireme::detail
