// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <unistd.h>

/// Ends the program if a test does not end: the test is named, nothing hangs. The bound is generous, because it must
/// hold on a busy machine and under sanitizers.
class watchdog {
public:
    explicit watchdog(char const* test, unsigned seconds = 120) {
        name = test;
        std::signal(SIGALRM, [](int) {
            for (char const* const text : {"\nwatchdog: this test hangs: ", name, "\n"})
                if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
            std::abort();
        });
        alarm(seconds);
    }
    watchdog(watchdog const&) = delete;
    watchdog& operator=(watchdog const&) = delete;
    ~watchdog() { alarm(0); }

private:
    inline static char const* volatile name = "";
};
