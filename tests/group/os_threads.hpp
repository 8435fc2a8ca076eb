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

/// Whether there are at most `most`, ten seconds from now at the latest.
inline bool os_threads_fall_to(int most) {
    for (int i = 0; i < 10000 && os_threads() > most; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return os_threads() <= most;
}
