// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace trireme::detail {

/// Words as they stand in an SVG file.
inline std::string svg_text(std::string const& words) {
    std::string safe;
    for (char const c : words) safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return safe;
}

} // namespace trireme::detail
