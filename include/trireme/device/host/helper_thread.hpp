// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace trireme {

namespace detail {
[[noreturn]] TRIREME_COLD inline void no_thread(std::string const& whose, std::system_error const& why) {
    throw launch_error(whose + " needs a thread, and the system refuses one (" + why.code().message() +
                       "): use fewer devices, or raise the limits of threads and memory (ulimit -u and -v, the pids "
                       "of the container)");
}
} // namespace detail

/// A thread that runs `f`. Throws launch_error, which names `whose` it was to be, if the system has none.
template<class F>
std::thread start_thread(std::string const& whose, F f) {
    try {
        return std::thread(std::move(f));
    } catch (std::system_error const& e) {
        detail::no_thread(whose, e);
    }
}

/// Calls `f` with all signals blocked in this thread, and in a thread that `f` starts: signals are for the program's
/// own threads, and end some calls of the system too early.
template<class F>
auto without_signals(F&& f) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct restore {
        sigset_t const& mask;
        ~restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
    } const restore_at_end{before};
    return std::forward<F>(f)();
}

} // namespace trireme
