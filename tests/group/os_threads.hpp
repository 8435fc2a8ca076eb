// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

/// Threads of this process, as the kernel counts them: one that has been joined is counted a moment longer.
inline int os_threads() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == "Threads:") {
            int n = 0;
            status >> n;
            return n;
        }
    return -1;
}

/// Threads are counted until their number has not changed for a tenth of a second.
inline int settled_os_threads() {
    int n = os_threads();
    for (int same = 0; same < 100; ++same) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        int const now = os_threads();
        if (now != n) same = 0;
        n = now;
    }
    return n;
}

/// True if there are at most `most` threads, ten seconds from now at the latest.
inline bool os_threads_fall_to(int most) {
    for (int i = 0; i < 10000 && os_threads() > most; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return os_threads() <= most;
}
