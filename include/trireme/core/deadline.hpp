// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme {

/// The moment after which a wait is an error. Every wait of the library takes one; there is no wait without.
class deadline {
public:
    using clock = std::chrono::steady_clock;

    /// `seconds` from now; anything above ten years means "practically never", which keeps the arithmetic in range.
    static deadline in(std::chrono::duration<double> seconds) {
        constexpr std::chrono::duration<double> longest = std::chrono::hours(24 * 3650);
        auto const span = seconds < longest ? seconds : longest;
        return deadline(clock::now() + std::chrono::duration_cast<clock::duration>(span));
    }

    bool passed() const { return clock::now() >= at_; }
    clock::duration left() const { return at_ - clock::now(); }
    clock::time_point at() const { return at_; }

private:
    explicit deadline(clock::time_point at) : at_(at) {}
    clock::time_point at_;
};

/// Nanoseconds on a clock that all processes of the machine share.
inline std::int64_t shared_clock() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

} // namespace trireme
