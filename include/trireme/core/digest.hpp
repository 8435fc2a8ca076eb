// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace trireme {

/// A 64-bit number that differs, for all practical purposes, where the bytes differ: for ranks that compare what they
/// hold without sending it. Not for security. Eight words at a time, each xored with a key of its place and added up by
/// the product of its halves: a vector of the processor does all eight, at the pace of memory.
inline std::uint64_t digest_of(std::span<std::byte const> bytes, std::uint64_t seed = 0) noexcept {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15u;
    constexpr std::size_t lanes = 8, block = lanes * sizeof(std::uint64_t);
    std::uint64_t sums[lanes] = {}, keys[lanes], words[lanes];
    for (std::size_t i = 0; i < lanes; ++i) keys[i] = seed + odd * (i + 1);
    auto const add = [&](std::byte const* from, std::size_t size) {
        if (size < block) std::memset(words, 0, block);
        std::memcpy(words, from, size);
        for (std::size_t i = 0; i < lanes; ++i) {
            auto const x = words[i] ^ keys[i];
            sums[i] += words[i] + (x & 0xffffffffu) * (x >> 32);
            keys[i] += odd * lanes;
        }
    };
    auto const whole = bytes.size() / block * block;
    for (std::size_t at = 0; at < whole; at += block) add(bytes.data() + at, block);
    if (whole != bytes.size()) add(bytes.data() + whole, bytes.size() - whole);

    std::uint64_t all = seed ^ bytes.size(); // zeros at the end count, too
    for (auto const sum : sums) {
        all = (all ^ sum) * odd;
        all ^= all >> 32;
    }
    return all;
}

/// "0123456789abcdef".
inline std::string digest_text(std::uint64_t digest) {
    std::string text(16, '0');
    for (std::size_t i = 16; i-- > 0; digest /= 16) text[i] = "0123456789abcdef"[digest % 16];
    return text;
}

} // namespace trireme
