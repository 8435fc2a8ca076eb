// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <string>

namespace trireme {

/// `path` as it is. Throws usage_error for a path with a zero byte in it: the system would take it to end there, and
/// open another file.
inline std::string const& checked_path(std::string const& path) {
    auto const zero = path.find('\0');
    if (zero == std::string::npos) return path;
    std::string shown;
    for (char const c : path) c == '\0' ? shown += "\\0" : shown += c;
    throw usage_error("the path \"" + shown + "\" has a zero byte behind its first " + std::to_string(zero) +
                      " bytes, where the system would take it to end: pass a path without one");
}

} // namespace trireme
