// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trainer/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

namespace trireme {

/// Options of progress_bar.
struct progress_bar_options {
    std::FILE* out = stdout; ///< the terminal or file that it writes to
    bool epochs = true;      ///< a line for every epoch; false if the program prints its own
    double every = 30;       ///< seconds from one line to the next within an epoch, where `out` is no terminal
    double redraw = 0.1;     ///< seconds from one drawing of the bar to the next, where it is one
};

/// An observer that shows how far training is. On a terminal the last line is a bar, which redraws itself; elsewhere
/// an epoch that takes long gets a line now and then.
class progress_bar {
public:
    explicit progress_bar(progress_bar_options const& o = {}) : o_(o), terminal_(::isatty(::fileno(o.out)) == 1) {}

    void operator()(progress_report const& p) {
        if (p.batch == 1) shown_ = 0;
        bool const drawn_first_and_last = terminal_ && (p.batch == 1 || p.batch == p.batches);
        if (p.seconds - shown_ < (terminal_ ? o_.redraw : o_.every) && !drawn_first_and_last) return;
        shown_ = p.seconds;
        char text[512];
        auto const size = std::min(
            std::snprintf(text, sizeof text, "epoch %d of %d  step %zu of %zu  loss %#.4g  %.0f samples/s  %.0f s left",
                          p.epoch, p.epochs, p.batch, p.batches, p.loss, p.samples_per_second(),
                          std::ceil(p.seconds_left())),
            static_cast<int>(sizeof text) - 1);
        if (terminal_)
            draw(p, text, size);
        else
            std::fprintf(o_.out, "%s\n", text);
        std::fflush(o_.out);
    }

    void operator()(epoch_report const& e) {
        if (terminal_) std::fputs("\r\033[K", o_.out);
        if (o_.epochs) std::fprintf(o_.out, "%s\n", to_string(e).c_str());
        std::fflush(o_.out);
    }

private:
    /// Columns of the terminal.
    int width() const noexcept {
        struct ::winsize w = {};
        return ::ioctl(::fileno(o_.out), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
    }

    /// The bar takes what the text leaves of the line; a text that is too long is cut, for a line that is broken in two
    /// would not be redrawn.
    void draw(progress_report const& p, char const* text, int size) const {
        constexpr char full[] = "========================================";
        constexpr int most = sizeof full - 1;
        int const columns = width() - 1, bar = std::min(most, columns - size - 4);
        if (bar < 5) {
            std::fprintf(o_.out, "\r%.*s\033[K", columns, text);
            return;
        }
        auto const done =
            static_cast<int>(static_cast<double>(bar) * static_cast<double>(p.batch) / static_cast<double>(p.batches));
        std::fprintf(o_.out, "\r[%.*s%*s]  %s\033[K", done, full, bar - done, "", text);
    }

    progress_bar_options o_;
    bool terminal_;
    double shown_ = 0; ///< the second of this epoch
};

} // namespace trireme
