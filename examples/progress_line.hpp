// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trainer/report.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>

#include <unistd.h>

/// The line that rewrites itself on a terminal, ten times per second. Elsewhere one line per epoch is enough.
class progress_line {
public:
    void operator()(trireme::progress_report const& p) {
        auto const now = std::chrono::steady_clock::now();
        if (!terminal_ || (now < next_ && p.batch != p.batches)) return;
        next_ = now + std::chrono::milliseconds(100);
        std::printf("\repoch %d of %d  step %zu of %zu  loss %.4f  %.0f samples/s  %.0f s left \033[K", p.epoch,
                    p.epochs, p.batch, p.batches, p.loss, p.samples_per_second(), std::ceil(p.seconds_left()));
        std::fflush(stdout);
    }
    /// Before anything else is printed.
    void clear() const {
        if (terminal_) std::printf("\r\033[K");
    }

private:
    bool terminal_ = isatty(STDOUT_FILENO) == 1;
    std::chrono::steady_clock::time_point next_ = {};
};
