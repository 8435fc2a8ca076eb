// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/granule_place.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace trireme {

/// The numbers of a batch norm with C channels, for all of its kernels; most look at a few of them.
///
/// Kept of a shard, 4 C behind one another: mean, deviation = 1 / sqrt(variance + epsilon) (first the sum of squared
/// differences from the mean), and on the way back the sums of dy and of dy times the normalised x, later their means.
template<class T>
struct batch_norm_numbers {
    granule_place granule = {}; ///< kernels that read the step's numbers where they are staged do not look at it
    T* mean = nullptr;
    T* deviation = nullptr; ///< mean + C
    T* sums = nullptr;      ///< mean + 2 C
    T const* weight = nullptr;
    T const* bias = nullptr;
    T* weight_gradient = nullptr; ///< to be added to
    T* bias_gradient = nullptr;   ///< likewise
    T* statistics = nullptr;      ///< likewise: mean and unbiased variance, times the shard's share of the batch
    T const* left_out = nullptr;  ///< null, or of each channel what x lacks and the running mean has
    double epsilon = 1e-5;
};

inline namespace TRIREME_ISA {

// Agreements of the host's devices are computed where their numbers lie, from what any family's kernels have gathered.
// G: a channel_geometry. WholeBatch: the statistics are of all shards, which add what they tell one another between two
// phases.

/// deviation, and what goes into the running statistics, from the sums of squared differences of a shard.
template<class G, bool WholeBatch, class K, class T>
    requires(!K::remote)
void batch_norm_agree(K const&, batch_norm_numbers<T> const& n, int phase) {
    constexpr auto channels = G::channels, positions = G::positions;
    auto const& at = n.granule;
    T *const mean = n.mean, *const variance = n.deviation;
    auto const share = static_cast<T>(at.share());
    if (phase == 0) {
        auto const values = static_cast<double>(at.samples * positions);
        if (at.samples == 0) std::fill_n(mean, 2 * channels, T(0)); // a short batch need not reach all shards
        for (std::size_t c = 0; c < channels && at.samples != 0; ++c)
            variance[c] = static_cast<T>(variance[c] / values);
    }
    if constexpr (WholeBatch) {     // of several means that of all, and the variances around it
        T* const own_mean = n.sums; // backward has no use for its place yet
        for (std::size_t c = 0; c < channels && phase == 0; ++c) {
            own_mean[c] = mean[c];
            mean[c] *= share;
        }
        for (std::size_t c = 0; c < channels && phase == 1; ++c) {
            auto const apart = own_mean[c] - mean[c];
            variance[c] = share * (variance[c] + apart * apart);
        }
        if (phase != 2) return;
    }
    auto const values = static_cast<double>((WholeBatch ? at.batch : at.samples) * positions);
    auto const unbiased = static_cast<T>(values > 1 ? values / (values - 1) : 1.0);
    for (std::size_t c = 0; c < channels; ++c) {
        n.statistics[c] += share * mean[c];
        n.statistics[channels + c] += share * variance[c] * unbiased;
        variance[c] = T(1) / std::sqrt(variance[c] + static_cast<T>(n.epsilon));
    }
}

/// Adds the sums of a shard to the gradients, and makes means of them.
template<class G, bool WholeBatch, class K, class T>
    requires(!K::remote)
void batch_norm_backward_agree(K const&, batch_norm_numbers<T> const& n, int phase) {
    constexpr auto channels = G::channels, positions = G::positions;
    auto const& at = n.granule;
    if (phase == 0) {
        if (at.samples == 0) std::fill_n(n.sums, 2 * channels, T(0));
        for (std::size_t c = 0; c < channels; ++c) {
            n.weight_gradient[c] += n.sums[channels + c];
            n.bias_gradient[c] += n.sums[c];
        }
        if (WholeBatch) return;
    }
    auto const samples = WholeBatch ? at.batch : at.samples;
    auto const values = static_cast<double>(samples * positions);
    for (std::size_t i = 0; i < 2 * channels && samples != 0; ++i) n.sums[i] = static_cast<T>(n.sums[i] / values);
}

/// y by the statistics of all steps so far.
template<class G, std::size_t Lanes, class K, class A, class T>
    requires(!K::remote)
void batch_norm_evaluate(K const& k, A const* x, T const* running_mean, T const* running_variance,
                         batch_norm_numbers<T> n, A* y) {
    T mean[G::channels], deviation[G::channels];
    for (std::size_t c = 0; c < G::channels; ++c) {
        mean[c] = running_mean[c];
        deviation[c] = T(1) / std::sqrt(running_variance[c] + static_cast<T>(n.epsilon));
    }
    n.mean = mean;
    n.deviation = deviation;
    batch_norm_forward<G, Lanes>(k, x, n, y);
}

} // namespace TRIREME_ISA
} // namespace trireme
