// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/batch_norm_numbers.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// The samples of a granule join those before it in the mean and the sum of squared differences from
/// it, of every channel.
template<class G, std::size_t Lanes, class T>
void batch_norm_gather(reference, T const* x, batch_norm_numbers<T> const& n) {
    auto const count = n.granule.count, before = n.granule.first;
    T *const mean = n.mean, *const squares = n.deviation;
    for (std::size_t c = 0; c < G::channels; ++c) {
        T const* const values = x + c * G::positions * Lanes;
        T sum = 0, sum_of_squares = 0;
        for (std::size_t i = 0; i < G::positions; ++i)
            for (std::size_t lane = 0; lane < count; ++lane) sum += values[i * Lanes + lane];
        T const here = static_cast<T>(count * G::positions), there = static_cast<T>(before * G::positions);
        T const own = sum / here;
        for (std::size_t i = 0; i < G::positions; ++i)
            for (std::size_t lane = 0; lane < count; ++lane) {
                T const apart = values[i * Lanes + lane] - own;
                sum_of_squares += apart * apart;
            }
        if (before == 0) {
            mean[c] = own;
            squares[c] = sum_of_squares;
            continue;
        }
        T const apart = own - mean[c];
        mean[c] += apart * here / (here + there);
        squares[c] += sum_of_squares + apart * apart * here * there / (here + there);
    }
}

/// y = weight (x - mean) deviation + bias, of every channel; deviation is 1 / sqrt(variance + epsilon).
template<class G, std::size_t Lanes, class T>
void batch_norm_forward(reference, T const* x, batch_norm_numbers<T> const& n, T* y) {
    T const *const mean = n.mean, *const deviation = n.deviation, *const weight = n.weight, *const bias = n.bias;
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t i = c * G::positions * Lanes; i < (c + 1) * G::positions * Lanes; ++i)
            y[i] = weight[c] * ((x[i] - mean[c]) * deviation[c]) + bias[c];
}

/// Adds to sums[c] those of dy, to sums[C + c] those of dy times the normalised x; the first granule begins them.
template<class G, std::size_t Lanes, class T>
void batch_norm_backward_gather(reference, T const* x, T const* dy, batch_norm_numbers<T> const& n) {
    auto const count = n.granule.count, before = n.granule.first;
    T const *const mean = n.mean, *const deviation = n.deviation;
    T* const sums = n.sums;
    for (std::size_t c = 0; c < G::channels; ++c) {
        T sum = 0, with_x = 0;
        for (std::size_t i = 0; i < G::positions; ++i)
            for (std::size_t lane = 0; lane < count; ++lane) {
                std::size_t const at = (c * G::positions + i) * Lanes + lane;
                sum += dy[at];
                with_x += dy[at] * ((x[at] - mean[c]) * deviation[c]);
            }
        sums[c] = before == 0 ? sum : sums[c] + sum;
        sums[G::channels + c] = before == 0 ? with_x : sums[G::channels + c] + with_x;
    }
}

/// dx = weight deviation (dy - mean of dy - normalised x times mean of dy times it); zero for lanes without a sample.
template<class G, std::size_t Lanes, class T>
void batch_norm_backward_input(reference, T const* x, T const* dy, batch_norm_numbers<T> const& n, T* dx) {
    auto const count = n.granule.count;
    T const *const mean = n.mean, *const deviation = n.deviation, *const means = n.sums, *const weight = n.weight;
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t i = 0; i < G::positions; ++i)
            for (std::size_t lane = 0; lane < Lanes; ++lane) {
                std::size_t const at = (c * G::positions + i) * Lanes + lane;
                T const normalised = (x[at] - mean[c]) * deviation[c];
                dx[at] = lane < count
                             ? weight[c] * deviation[c] * (dy[at] - means[c] - normalised * means[G::channels + c])
                             : T(0);
            }
}

} // namespace trireme::inline TRIREME_ISA
