// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme::rehearsal_runtime {

/// A warp that one thread of a block plays: it holds whole tiles. The words are those of cuda_runtime::warp.
struct warp {
    static constexpr std::uint32_t lanes = 1;

    struct left {
        bf16 v[16][16];
    };
    struct right {
        bf16 v[16][8];
    };
    struct sums {
        float v[16][8];
    };
    struct of_rows {
        float v[16];
    };
    struct place {
        std::uint32_t row, column;
    };

    static float& at(of_rows& r, place const& p) { return r.v[p.row]; }

    static void load(left& to, bf16 const* from, std::uint32_t pitch) {
        for (std::uint32_t row = 0; row < 16; ++row)
            for (std::uint32_t k = 0; k < 16; ++k) to.v[row][k] = from[row * pitch + k];
    }
    static void load(right (&to)[2], bf16 const* from, std::uint32_t pitch) {
        for (std::uint32_t column = 0; column < 16; ++column)
            for (std::uint32_t k = 0; k < 16; ++k) to[column / 8].v[k][column % 8] = from[column * pitch + k];
    }
    static void load_transposed(right (&to)[2], bf16 const* from, std::uint32_t pitch) {
        for (std::uint32_t column = 0; column < 16; ++column)
            for (std::uint32_t k = 0; k < 16; ++k) to[column / 8].v[k][column % 8] = from[k * pitch + column];
    }
    static void multiply_add(sums& to, left const& a, right const& b) {
        for (std::uint32_t row = 0; row < 16; ++row)
            for (std::uint32_t k = 0; k < 16; ++k)
                for (std::uint32_t column = 0; column < 8; ++column)
                    to.v[row][column] += static_cast<float>(a.v[row][k]) * static_cast<float>(b.v[k][column]);
    }
    static float exp2(float x) { return std::exp2(x); }
    static left rounded(sums const& first, sums const& second) {
        left result;
        for (std::uint32_t row = 0; row < 16; ++row)
            for (std::uint32_t k = 0; k < 16; ++k)
                result.v[row][k] = bf16(k < 8 ? first.v[row][k] : second.v[row][k - 8]);
        return result;
    }
    template<class F>
    static void each(sums& s, F const& f) {
        for (std::uint32_t row = 0; row < 16; ++row)
            for (std::uint32_t column = 0; column < 8; ++column) f(place{row, column}, s.v[row][column]);
    }
    template<class F>
    static void each(sums& s, sums& others, F const& f) {
        for (std::uint32_t row = 0; row < 16; ++row)
            for (std::uint32_t column = 0; column < 8; ++column)
                f(place{row, column}, s.v[row][column], others.v[row][column]);
    }
    template<class F>
    static void each(of_rows& r, F const& f) {
        for (std::uint32_t row = 0; row < 16; ++row) f(row, r.v[row]);
    }
    template<class F>
    static void each(of_rows& r, of_rows const& others, F const& f) {
        for (std::uint32_t row = 0; row < 16; ++row) f(r.v[row], others.v[row]);
    }
    template<class Join>
    static void join(of_rows&, Join const&) {}
    static void store(bf16* to, std::uint32_t step, std::uint32_t count, sums const& s) {
        for (std::uint32_t row = 0; row < 16 && row < count; ++row)
            for (std::uint32_t column = 0; column < 8; ++column)
                to[std::size_t{row} * step + column] = bf16(s.v[row][column]);
    }
    static void bring(bf16* to, bf16 const* from, bool are_there) {
        for (int i = 0; i < 8; ++i) to[i] = are_there ? from[i] : bf16();
    }
    static void arrive() {}
};

} // namespace trireme::rehearsal_runtime
