// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/data/dataset.hpp>
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

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// Fills one granule, lanes innermost: out[i * Lanes + lane] = scale * pixel i of image indices[lane], and
/// labels[lane] = its label. Lanes beyond indices.size() repeat the last image, so that kernels meet ordinary numbers
/// there; give them weight 0.
///
/// Shapes: `out` [values_per_image][Lanes], `labels` [Lanes]. 1 <= indices.size() <= Lanes, each index < images.size().
/// Cost: a transpose of bytes in registers. 16 lanes of 28 x 28 to float, g++ 12 -O3, AVX-512: 1.8 us from the
/// cache, 3.2 us from shuffled places in memory; a plain double loop takes about three times as long.
template<std::size_t Lanes, class T, class Label>
void gather_images(labelled_images const& images, std::span<std::uint32_t const> indices, T scale,
                   T* TRIREME_RESTRICT out, Label* TRIREME_RESTRICT labels) noexcept {
    std::uint8_t const* source[Lanes];
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        auto const image = indices[std::min(lane, indices.size() - 1)];
        source[lane] = images.image(image).data();
        labels[lane] = static_cast<Label>(images.label(image));
    }
    auto const values = images.values_per_image();
    // Shuffled images are far apart, and the processor's own prefetcher starts late in each: tell it, 3 lines ahead.
    constexpr std::size_t line = 64, ahead = 3 * line;
    for (std::size_t at = 0; at < std::min(ahead, values); at += line) {
        for (std::size_t lane = 0; lane < Lanes; ++lane) __builtin_prefetch(source[lane] + at);
    }
    std::size_t i = 0;
    if constexpr (Lanes > 1 && Lanes <= 16 && std::has_single_bit(Lanes)) {
        constexpr std::size_t pixels = sizeof(detail::byte_vector); // of every image per tile
        std::uint8_t tile[pixels * Lanes];
        for (; i + pixels <= values; i += pixels) {
            if (i % line == 0 && i + ahead < values) {
                for (std::size_t lane = 0; lane < Lanes; ++lane) __builtin_prefetch(source[lane] + i + ahead);
            }
            detail::byte_vector rows[Lanes];
#pragma GCC unroll 16
            for (std::size_t lane = 0; lane < Lanes; ++lane) std::memcpy(&rows[lane], source[lane] + i, pixels);
#pragma GCC unroll 4
            for (std::size_t round = 1; round < Lanes; round *= 2) detail::shuffle_rows(rows);
            constexpr std::size_t half = pixels / 2;
#pragma GCC unroll 16
            for (std::size_t lane = 0; lane < Lanes; ++lane) {
                std::uint8_t both[pixels];
                std::memcpy(both, &rows[lane], pixels);
                std::memcpy(tile + lane * half, both, half);
                std::memcpy(tile + (Lanes + lane) * half, both + half, half);
            }
            auto* const to = out + i * Lanes;
            for (std::size_t k = 0; k < pixels * Lanes; ++k) to[k] = static_cast<T>(tile[k]) * scale;
        }
    }
    for (; i < values; ++i) {
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            out[i * Lanes + lane] = static_cast<T>(source[lane][i]) * scale;
        }
    }
}

/// Brings images near while something else is computed: one with every call, so that the requests never wait for each
/// other. `gather_images` then finds them in the cache. Cost of a call: one instruction per cache line.
class image_prefetch {
public:
    image_prefetch(labelled_images const& images, std::span<std::uint32_t const> indices) noexcept
        : images_(&images), indices_(indices) {}

    void operator()() noexcept {
        if (indices_.empty()) return;
        auto const image = images_->image(indices_.front());
        indices_ = indices_.subspan(1);
        for (std::size_t at = 0; at < image.size(); at += 64) __builtin_prefetch(image.data() + at);
    }

private:
    labelled_images const* images_;
    std::span<std::uint32_t const> indices_;
};

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
