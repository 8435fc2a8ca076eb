// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/standardised_numbers.hpp>
#include <trireme/device/host/isa.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// 16 bytes of two tiles, side by side: registers of 32 bytes shuffle their halves alike.
using byte_vector = std::uint8_t __attribute__((vector_size(32)));

/// One round of a perfect shuffle, in each half: row 2 i takes the first bytes of rows i and i + Rows / 2 by turns, row
/// 2 i + 1 the last ones. After log2(Rows) rounds the bytes of Rows rows of 16 stand column by column.
template<std::size_t Rows>
[[gnu::always_inline]] inline void shuffle_rows(byte_vector (&rows)[Rows]) noexcept {
    byte_vector next[Rows];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Rows / 2; ++i) {
        auto const a = rows[i], b = rows[i + Rows / 2];
        next[2 * i] = __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 16, 48, 17,
                                              49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55);
        next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47,
                                                  24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Rows; ++i) rows[i] = next[i];
}

/// to[i * step] = number some.begin + i of a sample of standardised rows.
template<class T, class Stored>
TRIREME_NOINLINE void scatter_standardised(sample_rows const& rows, std::size_t sample, range some, Stored* to,
                                           std::size_t step) noexcept {
    auto const after = static_cast<T>(rows.standard->after);
    standardised_rows_reader(rows).read(rows.of(sample), some, [=](std::size_t i, float number) {
        to[i * step] = static_cast<Stored>(static_cast<T>(number) * after);
    });
}

/// to[i * step] = scale * number some.begin + i of a sample.
template<class T, class Stored>
TRIREME_NOINLINE void scatter_numbers(sample_rows const& rows, std::size_t sample, range some, Stored* to,
                                      std::size_t step) noexcept {
    if (rows.standard != nullptr) return scatter_standardised<T>(rows, sample, some, to, step);
    auto const scale = static_cast<T>(rows.scale);
    with_number_of(rows.kind, [&]<class N>(N) {
        auto const* const from = reinterpret_cast<N const*>(rows.of(sample)) + some.begin;
        for (std::size_t i = 0; i < some.size(); ++i)
            to[i * step] = static_cast<Stored>(static_cast<T>(from[i]) * scale);
    });
}

/// Bytes of many samples, 32 values of every one per tile; returns how many values it has done.
template<std::size_t Lanes, class T>
std::size_t gather_tiles(std::uint8_t const* const (&source)[Lanes], std::size_t values, T scale,
                         T* TRIREME_RESTRICT out) noexcept {
    // Shuffled samples are far apart, and the processor's own prefetcher starts late in each: tell it, 3 lines ahead.
    constexpr std::size_t line = 64, ahead = 3 * line;
    for (std::size_t at = 0; at < std::min(ahead, values); at += line) {
        for (std::size_t lane = 0; lane < Lanes; ++lane) __builtin_prefetch(source[lane] + at);
    }
    std::size_t i = 0;
    if constexpr (Lanes > 1 && Lanes <= 16 && std::has_single_bit(Lanes)) {
        constexpr std::size_t of_tile = sizeof(byte_vector);
        std::uint8_t tile[of_tile * Lanes];
        for (; i + of_tile <= values; i += of_tile) {
            if (i % line == 0 && i + ahead < values) {
                for (std::size_t lane = 0; lane < Lanes; ++lane) __builtin_prefetch(source[lane] + i + ahead);
            }
            byte_vector rows[Lanes];
#pragma GCC unroll 16
            for (std::size_t lane = 0; lane < Lanes; ++lane) std::memcpy(&rows[lane], source[lane] + i, of_tile);
#pragma GCC unroll 4
            for (std::size_t round = 1; round < Lanes; round *= 2) shuffle_rows(rows);
            constexpr std::size_t half = of_tile / 2;
#pragma GCC unroll 16
            for (std::size_t lane = 0; lane < Lanes; ++lane) {
                std::uint8_t both[of_tile];
                std::memcpy(both, &rows[lane], of_tile);
                std::memcpy(tile + lane * half, both, half);
                std::memcpy(tile + (Lanes + lane) * half, both + half, half);
            }
            auto* const to = out + i * Lanes;
            for (std::size_t k = 0; k < of_tile * Lanes; ++k) to[k] = static_cast<T>(tile[k]) * scale;
        }
    }
    return i;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// Fills one granule, lanes innermost: out[i * Lanes + lane] = scale * number i of sample indices[lane]. Lanes beyond
/// indices.size() repeat the last sample, so that kernels meet ordinary numbers there; give them weight 0.
///
/// Shape: `out` [rows.size()][Lanes]. 1 <= indices.size() <= Lanes, each index below the number of samples.
/// Cost: of bytes, a transpose in registers. 16 lanes of 28 x 28 to float, g++ 12 -O3, AVX-512: 1.8 us from the cache,
/// 3.2 us from shuffled places in memory; a plain double loop, as for other numbers, takes about three times as long.
template<std::size_t Lanes, class T>
void gather_samples(sample_rows const& rows, std::span<std::uint32_t const> indices, T* TRIREME_RESTRICT out) noexcept {
    auto const sample_of = [&](std::size_t lane) { return indices[std::min(lane, indices.size() - 1)]; };
    auto const values = rows.size();
    if (rows.kind != number_kind::u8 || values < sizeof(detail::byte_vector)) {
        for (std::size_t lane = 0; lane < Lanes; ++lane)
            detail::scatter_numbers<T>(rows, sample_of(lane), {0, values}, out + lane, Lanes);
        return;
    }
    std::uint8_t const* source[Lanes];
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        source[lane] = reinterpret_cast<std::uint8_t const*>(rows.of(sample_of(lane)));
    auto const scale = static_cast<T>(rows.scale);
    for (auto i = detail::gather_tiles<Lanes>(source, values, scale, out); i < values; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane)
            out[i * Lanes + lane] = static_cast<T>(source[lane][i]) * scale;
}

/// One sample for kernels that take images channels last: out[p * channels + c] = scale * value p of channel c. Lists
/// have one channel.
template<class T, class Stored>
void gather_channels_last(sample_rows const& rows, std::size_t sample, std::size_t channels, Stored* out) noexcept {
    auto const positions = rows.size() / channels;
    for (std::size_t c = 0; c < channels; ++c)
        detail::scatter_numbers<T>(rows, sample, {c * positions, (c + 1) * positions}, out + c, channels);
}

/// Brings samples near while something else is computed: one with every call, so that the requests never wait for each
/// other. `gather_samples` then finds them in the cache. Cost of a call: one instruction per cache line.
class sample_prefetch {
public:
    sample_prefetch(sample_rows const& rows, std::span<std::uint32_t const> indices) noexcept
        : rows_(&rows), bytes_(rows.bytes()), indices_(indices) {}

    void operator()() noexcept {
        if (indices_.empty()) return;
        auto const* const sample = rows_->of(indices_.front());
        indices_ = indices_.subspan(1);
        for (std::size_t at = 0; at < bytes_; at += 64) __builtin_prefetch(sample + at);
    }

private:
    sample_rows const* rows_;
    std::size_t bytes_;
    std::span<std::uint32_t const> indices_;
};

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
