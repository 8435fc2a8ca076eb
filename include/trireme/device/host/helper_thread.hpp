// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <csignal>
#include <utility>

namespace trireme {

/// Calls `start`, which starts a thread, with all signals blocked: signals are for the program's own threads.
template<class Start>
auto without_signals(Start&& start) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct restore {
        sigset_t const& mask;
        ~restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
    } const restore_at_end{before};
    return std::forward<Start>(start)();
}

} // namespace trireme
