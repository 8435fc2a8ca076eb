// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <limits>
#include <string>
#include <trireme/core/macros.hpp>

namespace trireme {

/// Report of one step.
struct step_report {
    std::uint64_t step = 0;  ///< steps taken by this trainer, this one included
    double loss = 0;         ///< mean over the batch's samples, before the update
    std::size_t samples = 0; ///< samples of the batch
    /// The norm before it was clipped; with clip_norm only.
    double gradient_norm = std::numeric_limits<double>::quiet_NaN();
};

/// Report of an epoch under way, for observers; told after every step, on the caller's thread.
struct progress_report {
    int epoch = 0;                     ///< the epoch's number, counted from 1
    int epochs = 0;                    ///< epochs of the fit, at most
    std::size_t batch = 0;             ///< the batch's number in the epoch, counted from 1
    std::size_t batches = 0;           ///< batches of an epoch
    double loss = 0;                   ///< mean loss of this step
    double seconds = 0;                ///< seconds since the epoch began
    std::size_t samples = 0;           ///< samples done in this epoch
    std::size_t samples_per_epoch = 0; ///< samples of an epoch

    double samples_per_second() const noexcept { return static_cast<double>(samples) / seconds; }
    /// Of training, at this epoch's speed; tests not included.
    double seconds_left() const noexcept {
        auto const left = static_cast<std::size_t>(epochs - epoch + 1) * samples_per_epoch - samples;
        return static_cast<double>(left) / samples_per_second();
    }
};

/// Mean loss and share of right answers over a set of samples.
struct evaluation {
    double loss = 0;         ///< mean over the samples
    double accuracy = 0;     ///< share of right answers, in [0, 1]
    std::size_t samples = 0; ///< samples that were evaluated
};

/// Report of one epoch. Shares are of device 0's time in steps.
struct epoch_report {
    int epoch = 0;                 ///< the epoch's number, counted from 1
    double loss = 0;               ///< mean over the samples of the epoch, each before its step's update
    bool tested = false;           ///< true if a test followed the epoch
    evaluation test = {};          ///< the test's result, if there was one
    double seconds = 0;            ///< seconds of training, without the test
    double samples_per_second = 0; ///< samples over `seconds`, of all devices
    int devices = 1;               ///< devices of the trainer
    /// Share of adding gradients, waiting for other devices included; NaN on accelerators: not measured.
    double sync_share = 0;
    double data_share = 0;  ///< share of gathering samples
    bool best = false;      ///< the test is the best of this fit so far
    bool of_values = false; ///< the loss is one for values, so that a test has no right answers
};

namespace detail {
inline std::string number_in(char const* format, double value) {
    char text[400]; // a double in %f is shorter
    std::snprintf(text, sizeof text, format, value);
    return text;
}
inline std::string loss_text(double loss) { return number_in(loss < 1e6 ? "%.4f" : "%.4g", loss); }
inline std::string samples_text(std::size_t n) { return std::to_string(n) + (n == 1 ? " sample" : " samples"); }
} // namespace detail

TRIREME_COLD inline std::string to_string(step_report const& s) {
    auto line = "step " + std::to_string(s.step) + "  loss " + detail::loss_text(s.loss) + "  " +
                detail::samples_text(s.samples);
    if (!std::isnan(s.gradient_norm)) line += "  gradient norm " + detail::number_in("%.4g", s.gradient_norm);
    return line;
}

TRIREME_COLD inline std::string to_string(evaluation const& e) {
    auto line = "loss " + detail::loss_text(e.loss);
    if (!std::isnan(e.accuracy)) line += "  accuracy " + detail::number_in("%.4f", e.accuracy);
    return line + "  " + detail::samples_text(e.samples);
}

TRIREME_COLD inline std::string to_string(epoch_report const& e) {
    if (e.epoch == 0) return "no epoch was trained"; // train was asked for none
    auto const number = &detail::number_in;
    auto const loss = &detail::loss_text;
    auto line = "epoch " + std::to_string(e.epoch) + "  loss " + loss(e.loss);
    if (e.tested)
        line += e.of_values ? "  test loss " + loss(e.test.loss) : "  test accuracy " + number("%.4f", e.test.accuracy);
    line += "  " + number("%.0f", e.samples_per_second) + " samples/s  " + std::to_string(e.devices) + " device" +
            (e.devices == 1 ? "" : "s");
    if (!std::isnan(e.sync_share)) line += "  sync " + number("%.1f%%", 100 * e.sync_share);
    return line + "  data " + number("%.2f%%", 100 * e.data_share);
}

template<class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, step_report const& s) {
    return out << to_string(s).c_str();
}
template<class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, evaluation const& e) {
    return out << to_string(e).c_str();
}
template<class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, epoch_report const& e) {
    return out << to_string(e).c_str();
}

} // namespace trireme
