// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme::cuda_runtime {

/// A warp of a GPU with tensor cores for bf16, of compute capability 8.0 or newer. Every lane holds its part of a tile,
/// as PTX's mma.m16n8k16 lays it out; all lanes of a warp call these functions together.
struct warp {
    static constexpr std::uint32_t lanes = 32;

    /// 16 x 16, the left factor.
    struct left {
        std::uint32_t v[4];
    };
    /// 16 x 8, the right factor.
    struct right {
        std::uint32_t v[2];
    };
    /// 16 x 8 sums of products.
    struct sums {
        float v[4];
    };
    /// A number of each of a tile's 16 rows. A lane has those of its two rows: three other lanes have them as well.
    struct of_rows {
        float v[2];
    };
    struct place {
        std::uint32_t row, column, part;
    };

    TRIREME_HOST_DEVICE static float& at(of_rows& r, place const& p) { return r.v[p.part]; }

    /// from[row][k] in shared memory, where rows are `pitch` values apart and begin on 16 bytes.
    TRIREME_HOST_DEVICE static void load(left& to, bf16 const* from, std::uint32_t pitch) {
        std::uint32_t const lane = lane_number();
        load_matrices<false>(to.v[0], to.v[1], to.v[2], to.v[3], from + lane % 16 * pitch + lane / 16 * 8);
    }
    /// Two tiles side by side, from[column][k].
    TRIREME_HOST_DEVICE static void load(right (&to)[2], bf16 const* from, std::uint32_t pitch) {
        std::uint32_t const lane = lane_number(), matrix = lane / 8;
        load_matrices<false>(to[0].v[0], to[0].v[1], to[1].v[0], to[1].v[1],
                             from + (matrix / 2 * 8 + lane % 8) * pitch + matrix % 2 * 8);
    }
    /// Two tiles side by side, from[k][column].
    TRIREME_HOST_DEVICE static void load_transposed(right (&to)[2], bf16 const* from, std::uint32_t pitch) {
        std::uint32_t const lane = lane_number(), matrix = lane / 8;
        load_matrices<true>(to[0].v[0], to[0].v[1], to[1].v[0], to[1].v[1],
                            from + (matrix % 2 * 8 + lane % 8) * pitch + matrix / 2 * 8);
    }

    TRIREME_HOST_DEVICE static void multiply_add(sums& to, left const& a, right const& b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(to.v[0]), "+f"(to.v[1]), "+f"(to.v[2]), "+f"(to.v[3])
            : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
#else
        static_cast<void>(to), static_cast<void>(a), static_cast<void>(b);
        no_tensor_cores();
#endif
    }

    /// 2 to the power of x, the small ones 0, as the GPU computes it in one instruction.
    TRIREME_HOST_DEVICE static float exp2(float x) {
#if defined(__CUDA_ARCH__)
        float power;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
        return power;
#else
        return std::exp2(x);
#endif
    }

    /// Two tiles side by side, rounded, as a left factor.
    TRIREME_HOST_DEVICE static left rounded(sums const& first, sums const& second) {
        return {{pair(first.v[0], first.v[1]), pair(first.v[2], first.v[3]), pair(second.v[0], second.v[1]),
                 pair(second.v[2], second.v[3])}};
    }

    /// f(place, sum) for all sums of the tile.
    template<class F>
    TRIREME_HOST_DEVICE static void each(sums& s, F const& f) {
        std::uint32_t const lane = lane_number();
        TRIREME_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) f(place{lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, i / 2}, s.v[i]);
    }
    /// f(place, sum, other) for the sums of two tiles.
    template<class F>
    TRIREME_HOST_DEVICE static void each(sums& s, sums& others, F const& f) {
        std::uint32_t const lane = lane_number();
        TRIREME_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i)
            f(place{lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, i / 2}, s.v[i], others.v[i]);
    }
    /// f(row, number) for the numbers of rows; each row may be met by several lanes.
    template<class F>
    TRIREME_HOST_DEVICE static void each(of_rows& r, F const& f) {
        std::uint32_t const lane = lane_number();
        TRIREME_UNROLL
        for (std::uint32_t i = 0; i < 2; ++i) f(lane / 4 + i * 8, r.v[i]);
    }
    /// f(number, other) for the numbers of the same rows.
    template<class F>
    TRIREME_HOST_DEVICE static void each(of_rows& r, of_rows const& others, F const& f) {
        TRIREME_UNROLL
        for (std::uint32_t i = 0; i < 2; ++i) f(r.v[i], others.v[i]);
    }
    /// Lanes that have parts of a row's number put them together: all have join(...) of them then.
    template<class Join>
    TRIREME_HOST_DEVICE static void join(of_rows& r, Join const& join) {
        TRIREME_UNROLL
        for (std::uint32_t i = 0; i < 2; ++i) {
            r.v[i] = join(r.v[i], of_lane_beside(r.v[i], 1));
            r.v[i] = join(r.v[i], of_lane_beside(r.v[i], 2));
        }
    }

    /// Stores the tile, rounded, from row to row `step` values apart: the first `count` rows.
    TRIREME_HOST_DEVICE static void store(bf16* to, std::uint32_t step, std::uint32_t count, sums const& s) {
        std::uint32_t const lane = lane_number();
        TRIREME_UNROLL
        for (std::uint32_t i = 0; i < 2; ++i) {
            std::uint32_t const row = lane / 4 + i * 8;
            if (row >= count) continue;
            bf16* const place = to + std::size_t{row} * step + lane % 4 * 2;
            std::uint32_t const both = pair(s.v[2 * i], s.v[2 * i + 1]);
            if (reinterpret_cast<std::uintptr_t>(place) % 4 == 0) {
                *reinterpret_cast<std::uint32_t*>(place) = both;
            } else {
                place[0].bits = static_cast<std::uint16_t>(both);
                place[1].bits = static_cast<std::uint16_t>(both >> 16);
            }
        }
    }

    /// Eight values on their way into shared memory, which is on 16 bytes as they are; or zeros, if they are not there.
    /// They have come after `arrive`, and for other threads after the next barrier.
    TRIREME_HOST_DEVICE static void bring([[maybe_unused]] bf16* to, [[maybe_unused]] bf16 const* from,
                                          [[maybe_unused]] bool are_there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address(to)), "l"(from),
                     "r"(are_there ? 16 : 0)
                     : "memory");
#else
        no_tensor_cores();
#endif
    }
    TRIREME_HOST_DEVICE static void arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    }

private:
    TRIREME_HOST_DEVICE static void no_tensor_cores() {
#if defined(__CUDA_ARCH__)
        asm volatile("trap;");
#else
        __builtin_trap();
#endif
    }
    TRIREME_HOST_DEVICE static std::uint32_t lane_number() {
#if defined(__CUDA_ARCH__)
        return threadIdx.x % lanes;
#else
        return 0;
#endif
    }
    TRIREME_HOST_DEVICE static std::uint32_t address([[maybe_unused]] void const* shared) {
#if defined(__CUDA_ARCH__)
        return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
#else
        return 0;
#endif
    }
    /// Four matrices of 8 x 8, whose rows lanes 0 to 7, 8 to 15 and so on point at.
    template<bool Transposed>
    TRIREME_HOST_DEVICE static void load_matrices(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c,
                                                  std::uint32_t& d, bf16 const* row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        if constexpr (Transposed)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                         : "r"(address(row))
                         : "memory");
        else
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                         : "r"(address(row))
                         : "memory");
#else
        a = b = c = d = address(row);
        no_tensor_cores();
#endif
    }
    /// Both rounded; the first one lies in front.
    TRIREME_HOST_DEVICE static std::uint32_t pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        std::uint32_t both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
        return both;
#else
        return bf16(first).bits | static_cast<std::uint32_t>(bf16(second).bits) << 16;
#endif
    }
    TRIREME_HOST_DEVICE static float of_lane_beside(float value, [[maybe_unused]] int distance) {
#if defined(__CUDA_ARCH__)
        return __shfl_xor_sync(0xffffffffu, value, distance);
#else
        return value;
#endif
    }
};

} // namespace trireme::cuda_runtime
