// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme {

/// Philox4x32-10: a counter-based random number generator. The same (key, counter) gives the same four words on every
/// device, in any order, so that a random number belongs to a (seed, step, shard, layer) and never to a thread.
///
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
/// Cost: 10 rounds of two 32x32->64 bit multiplications for 128 random bits.
struct philox {
    /// std::array's members are no functions of a GPU.
    template<std::size_t N>
    struct words {
        std::uint32_t word[N];

        TRIREME_HOST_DEVICE constexpr std::uint32_t operator[](std::size_t i) const noexcept { return word[i]; }
        friend constexpr bool operator==(words const&, words const&) = default;
    };
    using counter = words<4>;
    using key = words<2>;

    static constexpr int rounds = 10;
    static constexpr std::uint32_t first_factor = 0xD2511F53, second_factor = 0xCD9E8D57;

    TRIREME_HOST_DEVICE static constexpr counter block(key k, counter c) noexcept {
        for (int round = 0; round < rounds; ++round) {
            auto const a = std::uint64_t{first_factor} * c[0];
            auto const b = std::uint64_t{second_factor} * c[2];
            c = {{static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
                  static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)}};
            k = next(k);
        }
        return c;
    }
    /// The key of the next round.
    TRIREME_HOST_DEVICE static constexpr key next(key k) noexcept { return {{k[0] + 0x9E3779B9, k[1] + 0xBB67AE85}}; }
};

/// The purpose of a stream of random numbers. Two purposes never share a number.
enum class random_purpose : std::uint16_t {
    parameters = 1,
    sample_order = 2,
    dropout = 3,
    sample_split = 4,
    image_changes = 5,
    user = 64
};

/// An indexed stream of random numbers: element i is a pure function of (seed, purpose, a, b, c, i), i below 2^34, or
/// below 2^50 where b is below 2^16, whose upper half counts on. `a`, `b` and `c` are the stream's coordinates: the
/// tensor for parameters, the epoch for the order of samples; step, layer and logical shard for what is drawn in a
/// step. Never a device.
class random_stream {
public:
    TRIREME_HOST_DEVICE constexpr random_stream(std::uint64_t seed, random_purpose purpose, std::uint32_t a = 0,
                                                std::uint32_t b = 0, std::uint16_t c = 0) noexcept
        : key_{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}}, a_(a), b_(b),
          purpose_(static_cast<std::uint32_t>(purpose) << 16 | c) {}

    /// 32 uniform random bits.
    TRIREME_HOST_DEVICE constexpr std::uint32_t bits(std::uint64_t i) const noexcept { return words(i / 4)[i % 4]; }

    /// The bits of the numbers 4 k .. 4 k + 3, for the price of one.
    TRIREME_HOST_DEVICE constexpr philox::counter words(std::uint64_t k) const noexcept {
        return philox::block(key_, counter_of(k));
    }

    /// The counter and the key that make these numbers.
    TRIREME_HOST_DEVICE constexpr philox::counter counter_of(std::uint64_t k) const noexcept {
        auto const above = static_cast<std::uint32_t>(k >> 32) << 16;
        return {{static_cast<std::uint32_t>(k), b_ ^ above, a_, purpose_}};
    }
    TRIREME_HOST_DEVICE constexpr philox::key key() const noexcept { return key_; }

    /// Uniform in (0, 1), never 0 and never 1, on a grid of 2^24 values.
    constexpr double uniform(std::uint64_t i) const noexcept { return ((bits(i) >> 8) + 0.5) / 16777216.0; }

    /// Uniform in [0, bound) without bias beyond bound / 2^32 (Lemire's multiply-shift without rejection).
    constexpr std::uint32_t below(std::uint64_t i, std::uint32_t bound) const noexcept {
        return static_cast<std::uint32_t>((std::uint64_t{bits(i)} * bound) >> 32);
    }

private:
    philox::key key_;
    std::uint32_t a_;
    std::uint32_t b_;
    std::uint32_t purpose_;
};

} // namespace trireme
