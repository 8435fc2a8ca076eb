// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/philox.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/device/host/lanes.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trireme::detail::inline TRIREME_ISA {

/// Lanes of 64 bits with a word each, in their lower halves.
using word_lanes = typename lane_register<std::uint64_t, full_register<std::uint64_t>>::type;

/// The products of the lower halves, of 64 bits, by the instruction itself: compilers multiply the upper ones, too.
[[gnu::always_inline]] inline word_lanes multiply_words(word_lanes a, word_lanes b) noexcept {
#if defined(__AVX512F__)
    asm("vpmuludq {%1, %0, %0|%0, %0, %1}" : "+v"(a) : "v"(b));
    return a;
#elif defined(__AVX__)
    asm("vpmuludq {%1, %0, %0|%0, %0, %1}" : "+x"(a) : "x"(b));
    return a;
#elif defined(__SSE2__)
    asm("pmuludq {%1, %0|%0, %1}" : "+x"(a) : "x"(b));
    return a;
#else
    return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
#endif
}

/// As many blocks of four words as a register has lanes of 64 bits.
inline constexpr std::size_t blocks_at_once = full_register<std::uint64_t>;

/// The block of each lane: even lanes have the first half of them, odd ones the second.
struct block_of_lane_table {
    alignas(64) std::uint64_t of[blocks_at_once] = {};
    constexpr block_of_lane_table() noexcept {
        for (std::size_t i = 0; i < blocks_at_once; ++i) of[i] = i / 2 + i % 2 * (blocks_at_once / 2);
    }
};
inline constexpr block_of_lane_table block_of_lane;

/// to[4 i + j] = random.words(k + i)[j] for `blocks_at_once` blocks. Cost: 10 rounds of two multiplications for all.
[[gnu::always_inline]] inline void random_words(random_stream const& random, std::uint64_t k,
                                                std::uint32_t* to) noexcept {
    constexpr std::size_t n = blocks_at_once;
    auto const counter = random.counter_of(k);
    if (counter[0] > 0xFFFFFFFF - (n - 1)) { // other words of the counter change, too
        for (std::size_t i = 0; i < n; ++i) {
            auto const words = random.words(k + i);
            for (std::size_t j = 0; j < 4; ++j) to[4 * i + j] = words[j];
        }
        return;
    }
    using vector = lane_vector<std::uint64_t, n>;
    word_lanes c0 = counter[0] + vector::load(block_of_lane.of).value, c1 = word_lanes{} + counter[1],
               c2 = word_lanes{} + counter[2], c3 = word_lanes{} + counter[3];
    auto key = random.key();
    word_lanes const first = word_lanes{} + philox::first_factor, second = word_lanes{} + philox::second_factor;
    for (int round = 0; round < philox::rounds; ++round) {
        auto const a = multiply_words(c0, first), b = multiply_words(c2, second);
        c0 = (b >> 32) ^ c1 ^ std::uint64_t{key[0]};
        c2 = (a >> 32) ^ c3 ^ std::uint64_t{key[1]};
        c1 = b;
        c3 = a;
        key = philox::next(key);
    }
    vector front{(c0 & 0xFFFFFFFF) | (c1 << 32)}, back{(c2 & 0xFFFFFFFF) | (c3 << 32)};
    static_assert(std::endian::native == std::endian::little); // a lane's lower half is the first word
    swap_blocks<1>(front, back);                               // a block's back behind its front
    std::memcpy(to, &front.value, sizeof front.value);
    std::memcpy(to + 2 * n, &back.value, sizeof back.value);
}

} // namespace trireme::detail::inline TRIREME_ISA
