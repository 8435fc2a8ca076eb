// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::detail {

/// A message shows text of a file in quotes: its first 80 bytes, and no control characters.
inline std::string in_quotes(std::string_view name) {
    auto length = std::min<std::size_t>(name.size(), 80);
    while (length != 0 && length != name.size() && (name[length] & 0xC0) == 0x80) --length; // no half of a character
    std::string text = "'";
    for (char const letter : name.substr(0, length)) {
        text += static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F ? '?' : letter;
    }
    return text + (length == name.size() ? "'" : "...'");
}

} // namespace trireme::detail
