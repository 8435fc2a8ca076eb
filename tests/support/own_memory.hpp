// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace test_support {

/// Bytes of memory of this process that belong to no file.
inline std::size_t memory_of_its_own() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == "RssAnon:") {
            std::size_t kib = 0;
            status >> kib;
            return kib * 1024;
        }
    FAIL("/proc/self/status does not name RssAnon");
    return 0;
}

} // namespace test_support
