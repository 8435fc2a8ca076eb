// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <onednn/has_bf16.hpp>
#include <support/networks.hpp>
#include <support/promises.hpp>

#include <trireme/onednn.hpp>

#include <concepts>

namespace promises {

/// Ranks that are threads, with oneDNN's kernels, on layers wide enough for its own orders of channels.
template<class Dtype>
struct by_onednn : on_threads<Dtype, kernels<onednn>> {
    /// In ways that mind the order of a flattened image; functions behind batch norm, of whose gradients some are
    /// wanted later on.
    using layers = network<input<1, 28, 28>, conv2d<6, kernel<5>>, shard_norm, relu, max_pool2d<2>,
                           residual<sequential<conv3<6>, shard_norm, relu>, sequential<shard_norm, sigmoid>>,
                           dropout<percent<20>>, halving<shard_norm, 16>, hyperbolic_tangent, avg_pool2d<2>, flatten,
                           dropout<percent<50>>, relu, linear<40>, relu, linear<10>>;
    using sums = network<input<1, 28, 28>, conv3<8, 2>, batch_norm<synchronised>, relu,
                         repeat<2, plain<batch_norm<synchronised>, 8>>, halving<batch_norm<synchronised>, 16>,
                         global_avg_pool2d, flatten, batch_norm<synchronised>, linear<10>>;
    static constexpr bool takes_large_steps = false; // its kernels are made for a number of samples
    static bool runs_here() { return !std::same_as<Dtype, bf16> || has_bf16(); }

    using reference = on_threads<f32>;
    static constexpr nearness near = {1e-2, 1e-2}; ///< layers that add over all ranks get to 4.7e-3, on few samples
    using wide = by_onednn<f32>;                   ///< what bf16 is compared with
    static constexpr double apart_from_wide = 0.05;
};

} // namespace promises
