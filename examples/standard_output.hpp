// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/exit_code.hpp>

#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

/// Loses no output in silence: the process ends with exit code 3 if what it printed could not be written. A descriptor
/// of 0, 1 and 2 that is closed becomes /dev/null; a file would get its number, and all that is printed. Where there is
/// no reader any more, or no room for a file, writing fails, and ends no process.
inline void watch_standard_output() {
    for (int at = 0; at <= 2; ++at)
        if (::fcntl(at, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDWR)); // gets the lowest free number
    for (int const signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
    std::atexit([] {
        if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
        std::fprintf(stderr, "standard output: writing failed; is the disk full, or the reader of the pipe gone?\n");
        std::_Exit(trireme::exit_code::failure);
    });
}
