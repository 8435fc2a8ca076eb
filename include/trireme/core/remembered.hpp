// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/levels.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace trireme::detail {

/// Ranks and groups as one number below 2^50; 0 for those that do not fit.
constexpr std::uint64_t key_of(int ranks, levels const& groups) noexcept {
    constexpr int limit = 1 << 10;
    if (ranks < 1 || ranks >= limit) return 0;
    auto key = static_cast<std::uint64_t>(ranks);
    for (int i = 0; i < levels::most; ++i) {
        int const size = i < groups.count ? groups.sizes[i] : 0;
        if (size < 0 || size >= limit) return 0;
        key = key * limit + static_cast<std::uint64_t>(size);
    }
    return key;
}

/// Small answers by key, for any number of threads: `N` places, of which a key has one, and the latest stays.
template<std::size_t N>
class remembered {
public:
    /// 0 if it is not known. Keys are below 2^56.
    std::uint8_t find(std::uint64_t key) const noexcept {
        auto const kept = place(key).load(std::memory_order_relaxed);
        return kept >> 8 == key ? static_cast<std::uint8_t>(kept & 0xFF) : std::uint8_t{0};
    }
    void keep(std::uint64_t key, std::uint8_t answer) noexcept {
        place(key).store(key << 8 | answer, std::memory_order_relaxed);
    }

private:
    static std::size_t index(std::uint64_t key) noexcept {
        return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 48) %
               N; // keys end in zeros: its high bits differ
    }
    std::atomic<std::uint64_t>& place(std::uint64_t key) noexcept { return kept_[index(key)]; }
    std::atomic<std::uint64_t> const& place(std::uint64_t key) const noexcept { return kept_[index(key)]; }

    std::array<std::atomic<std::uint64_t>, N> kept_{};
};

} // namespace trireme::detail
