// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>

#include <chrono>

namespace trireme {

/// The deadline of a wait that looks at it at least ten times a second. Time for which the whole program was stopped,
/// by Ctrl-Z, a debugger, or a machine that slept, is no part of it: those that are waited for did not have it
/// either.
class watched_deadline {
public:
    using clock = deadline::clock;

    explicit watched_deadline(deadline const& d) : at_(d.at()), looked_(clock::now()) {}

    /// Looks at the clock. A second without a look is taken for a stop of the program, of which a look's usual time
    /// counts, so that looks that are always late end the wait, too.
    bool passed() noexcept {
        using namespace std::chrono_literals;
        auto const now = clock::now();
        if (auto const unseen = now - looked_; unseen > 1s) at_ += unseen - 100ms;
        looked_ = now;
        return now >= at_;
    }

    /// The time of the last look.
    clock::time_point looked() const noexcept { return looked_; }
    /// Time that was left then.
    clock::duration left() const noexcept { return at_ - looked_; }

private:
    clock::time_point at_, looked_;
};

} // namespace trireme
