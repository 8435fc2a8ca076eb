// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/clipping.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme {

/// A run of a rank's gradients whose squares one block adds.
struct gradient_run {
    std::uint64_t first = 0; ///< may lie behind 2^32 parameters of the rank
    std::uint32_t elements = 0;
};

/// The norm of a gradient, and the factor that clips it.
struct measured_norm {
    double norm = 0;
    double factor = 1;
};

} // namespace trireme

namespace trireme::blocks {

/// One block per run: sums[run] = the sum of its squares, in double.
template<class T>
struct squares_program {
    static constexpr u32 threads = halved_sum<double>::threads;
    using shared = halved_sum<double>::shared;
    using own = nothing_kept;

    T const* gradients;
    gradient_run const* runs;
    double* sums;

    TRIREME_HOST_DEVICE int phases() const { return 1 + halved_sum<double>::halvings; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        if (k == 0) {
            auto const run = runs[at.block];
            double sum = 0;
            for (u32 i = at.thread; i < run.elements; i += threads) {
                auto const value = static_cast<double>(static_cast<accumulate_t<T>>(gradients[run.first + i]));
                sum += value * value;
            }
            s.part[at.thread] = sum;
            return;
        }
        if (halved_sum<double>::add(k, at, s)) sums[at.block] = s.part[0];
    }
};

/// One block: the norm of all sums, and the factor for the largest norm.
struct norm_program {
    static constexpr u32 threads = halved_sum<double>::threads;
    using shared = halved_sum<double>::shared;
    using own = nothing_kept;

    double const* sums;
    u32 count;
    double const* most;
    measured_norm* to;

    TRIREME_HOST_DEVICE int phases() const { return 1 + halved_sum<double>::halvings; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        if (k == 0) {
            double sum = 0;
            for (u32 i = at.thread; i < count; i += threads) sum += sums[i];
            s.part[at.thread] = sum;
            return;
        }
        if (!halved_sum<double>::add(k, at, s)) return;
        double const norm = std::sqrt(s.part[0]);
        *to = {norm, clipping_factor(norm, *most)};
    }
};

template<class T>
struct clipped_value {
    T* gradient;
    measured_norm const* by;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        double const factor = by->factor;
        if (factor == 1) return; // nothing is read or written
        gradient[i] = static_cast<T>(static_cast<accumulate_t<T>>(gradient[i]) * static_cast<accumulate_t<T>>(factor));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// sums[r] = the sum of the squares of run r, `runs` of them, in double and in an order that the run alone decides.
template<class Stream, class T>
void sums_of_squares(block_kernels<Stream> const& k, T const* gradients, gradient_run const* run, std::size_t runs,
                     double* sums) {
    if (runs != 0) k.queue().launch(blocks::squares_program<T>{gradients, run, sums}, static_cast<blocks::u32>(runs));
}

/// *to = the norm whose squares are in `count` sums, and its factor for the largest norm *most.
template<class Stream>
void norm_of_squares(block_kernels<Stream> const& k, double const* sums, std::size_t count, double const* most,
                     measured_norm* to) {
    k.queue().launch(blocks::norm_program{sums, static_cast<blocks::u32>(count), most, to}, 1);
}

/// gradient *= by->factor, n values, whatever the number of samples.
template<class Stream, class T>
void clip_values(block_kernels<Stream> const& k, T* gradient, measured_norm const* by, std::size_t n) {
    k.each(n, blocks::clipped_value<T>{gradient, by});
}

} // namespace trireme
