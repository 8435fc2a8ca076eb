// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/floats.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme::detail {

/// The work that a process of a trainer begins: what all of them must have in common, in words of 64 bits.
struct process_work {
    enum job : std::uint64_t { none, step, epoch, evaluation };
    std::uint64_t is = none;             ///< all zero, so that processes' entries can be added
    std::uint64_t steps = 0, epochs = 0; ///< before it
    std::uint64_t samples = 0, digest = 0;
    double learning_rate = 0;
    bool operator==(process_work const&) const = default;

    /// "a step on 64 samples with digest 0123456789abcdef, learning rate 0.1, after 10 steps and 2 epochs".
    TRIREME_COLD std::string text() const {
        auto const number = [](std::uint64_t n) { return std::to_string(n); };
        char const* const name = is == step ? "a step" : is == epoch ? "an epoch" : "an evaluation";
        return std::string(name) + " on " + number(samples) + " samples with digest " + digest_text(digest) +
               ", learning rate " + number_text(static_cast<float>(learning_rate)) + ", after " + number(steps) +
               " steps and " + number(epochs) + " epochs";
    }
};

/// Throws mismatch_error unless all processes begin the same work.
TRIREME_COLD inline void require_same_work(std::span<process_work const> all, std::size_t own) {
    auto const said = [&](std::size_t k) { return "process " + std::to_string(k) + " begins " + all[k].text(); };
    for (std::size_t k = 0; k < all.size(); ++k)
        if (all[k] != all[own])
            throw mismatch_error("the processes do not begin the same work: " + said(own) + ", " + said(k) +
                                 "; give all of them the same samples, states and rates, and the same calls");
}

} // namespace trireme::detail
