// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

/// Bytes, floating-point operations and counts are plain 64-bit numbers; the literals say which unit is meant.
using bytes_t = std::uint64_t;
using flops_t = std::uint64_t;

inline namespace literals {

/// Literals of bytes: `64_MiB`.
constexpr bytes_t operator""_KiB(unsigned long long n) noexcept { return n << 10; }
constexpr bytes_t operator""_MiB(unsigned long long n) noexcept { return n << 20; }
constexpr bytes_t operator""_GiB(unsigned long long n) noexcept { return n << 30; }

} // namespace literals

/// Traffic between devices: reads of a peer's memory (or messages) and the bytes they carry.
struct traffic {
    std::uint64_t messages = 0; ///< reads of a peer's memory, or messages
    bytes_t bytes = 0;          ///< bytes that they carry

    constexpr traffic& operator+=(traffic const& other) noexcept {
        messages += other.messages;
        bytes += other.bytes;
        return *this;
    }
    friend constexpr traffic operator-(traffic a, traffic const& b) noexcept {
        a.messages -= b.messages;
        a.bytes -= b.bytes;
        return a;
    }
};

/// Samples per step, over all devices together.
struct batch {
    std::size_t samples = 0;
    constexpr batch() = default;
    constexpr batch(std::size_t n) noexcept : samples(n) {}
};

/// A size that is known only when the program runs: `dp<dynamic>`.
inline constexpr int dynamic = -1;

/// Arenas begin on a cache line, and chunks of a collective are cut at the same grain, so that two devices do not write
/// one line of a whole arena.
inline constexpr std::size_t cache_line = 64;

/// Memory of at least two of these asks for pages of this size.
inline constexpr std::size_t huge_page = 2_MiB;

template<class T>
constexpr T round_up(T n, T unit) noexcept {
    return (n + unit - 1) / unit * unit;
}

/// A half-open range [begin, end) of elements, samples or shards.
struct range {
    std::size_t begin = 0;
    std::size_t end = 0;
    constexpr std::size_t size() const noexcept { return end - begin; }
};

/// Part `k` of `n` cut as evenly as whole units allow: sizes differ by at most one unit, and the parts tile [0, total).
constexpr range part(std::size_t total, std::size_t k, std::size_t n, std::size_t unit = 1) noexcept {
    auto const units = (total + unit - 1) / unit;
    auto const cut = [&](std::size_t i) {
        auto const at = units * i / n * unit;
        return at < total ? at : total;
    };
    return {cut(k), cut(k + 1)};
}

} // namespace trireme
