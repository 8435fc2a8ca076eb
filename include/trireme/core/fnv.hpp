// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// A number that sums up bytes: two contents of one sum are one content, but for chance. `before`: the sum of what
/// comes before them. Source: Fowler, Noll, Vo, FNV-1a with 64 bits.
constexpr std::uint64_t fnv1a(std::span<std::byte const> bytes, std::uint64_t before = 0xCBF29CE484222325u) noexcept {
    for (auto const byte : bytes) before = (before ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3u;
    return before;
}

} // namespace trireme
