// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trainer/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <sys/ioctl.h>
#include <unistd.h>

namespace trireme {

/// A line that shows how far something is. On a terminal it is a bar and a text, and redraws itself; elsewhere the text
/// is a line of its own, now and then.
class progress_line {
public:
    /// `every`: seconds from one line to the next, where `out` is no terminal; `redraw`: likewise, where it is one.
    explicit progress_line(std::FILE* out = stdout, double every = 30, double redraw = 0.1)
        : out_(out), terminal_(::isatty(::fileno(out)) == 1), pause_(terminal_ ? redraw : every) {}

    bool on_terminal() const noexcept { return terminal_; }
    /// True if it is time to show something, `seconds` after the begin.
    bool is_due(double seconds) const noexcept { return seconds - shown_ >= pause_; }
    void begin() noexcept { shown_ = 0; }

    /// Shows the text, and the share that is done.
    void show(double seconds, double share, char const* text) {
        shown_ = seconds;
        if (terminal_)
            draw(share, text);
        else
            std::fprintf(out_, "%s\n", text);
        std::fflush(out_);
    }
    /// Takes away the line of a terminal, so that others can stand there.
    void clear() {
        if (terminal_) std::fputs("\r\033[K", out_);
    }

private:
    /// Columns of the terminal.
    int width() const noexcept {
        struct ::winsize w = {};
        return ::ioctl(::fileno(out_), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
    }

    /// The bar takes what the text leaves of the line; a text that is too long is cut, for a line that is broken in two
    /// would not be redrawn.
    void draw(double share, char const* text) const {
        constexpr char full[] = "========================================";
        constexpr int most = sizeof full - 1;
        int const columns = width() - 1, size = static_cast<int>(std::strlen(text)),
                  bar = std::min(most, columns - size - 4);
        if (bar < 5) {
            std::fprintf(out_, "\r%.*s\033[K", columns, text);
            return;
        }
        auto const done = static_cast<int>(static_cast<double>(bar) * std::clamp(share, 0.0, 1.0));
        std::fprintf(out_, "\r[%.*s%*s]  %s\033[K", done, full, bar - done, "", text);
    }

    std::FILE* out_;
    bool terminal_;
    double pause_;
    double shown_ = 0; ///< at this second
};

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
    explicit progress_bar(progress_bar_options const& o = {}) : o_(o), line_(o.out, o.every, o.redraw) {}

    void operator()(progress_report const& p) {
        if (p.batch == 1) line_.begin();
        bool const drawn_first_and_last = line_.on_terminal() && (p.batch == 1 || p.batch == p.batches);
        if (!line_.is_due(p.seconds) && !drawn_first_and_last) return;
        char text[512];
        std::snprintf(text, sizeof text, "epoch %d of %d  step %zu of %zu  loss %#.4g  %.0f samples/s  %.0f s left",
                      p.epoch, p.epochs, p.batch, p.batches, p.loss, p.samples_per_second(),
                      std::ceil(p.seconds_left()));
        line_.show(p.seconds, static_cast<double>(p.batch) / static_cast<double>(p.batches), text);
    }

    void operator()(epoch_report const& e) {
        line_.clear();
        if (o_.epochs) std::fprintf(o_.out, "%s\n", to_string(e).c_str());
        std::fflush(o_.out);
    }

private:
    progress_bar_options o_;
    progress_line line_;
};

} // namespace trireme
