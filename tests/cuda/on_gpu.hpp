// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda/patient.hpp>
#include <support/networks.hpp>
#include <support/promises.hpp>
#include <support/training.hpp>

#include <trireme/cuda.hpp>

#include <cstddef>
#include <vector>

namespace promises {

/// Convolutions that cuDNN takes and such as it does not, and a flattened image.
using wide_layers =
    network<input<1, 28, 28>, conv3<32>, shard_norm, relu, max_pool2d<2>, plain<shard_norm, 32>, conv3<64, 2>,
            shard_norm, relu, avg_pool2d<2>, flatten, dropout<percent<20>>, linear<20>, relu, linear<10>>;

/// Ranks on GPUs, which they share if there are fewer; a step as a graph or without one.
template<class Dtype, class... Own>
struct on_gpu : trains_on<gpu, Dtype, Own...> {
    struct order {
        bool eager;
    };
    static std::vector<order> orders() { return {{false}, {true}}; }
    template<class Trainer>
    static typename Trainer::run_options ranks(int n) {
        return cuda_test::patient(typename Trainer::run_options{.devices = n, .share_devices = true});
    }
    template<class Trainer>
    static auto trained(test_networks::settings<Trainer> s, order how, std::vector<std::size_t> const& sizes) {
        s.run.eager = how.eager;
        s.run.share_devices = true;
        s.run = cuda_test::patient(s.run);
        return test_networks::trained<Trainer>(s, sizes);
    }
    using reference = on_threads<Dtype>;
};

/// GPUs train wide layers: in bf16, and in f32 to compare with.
template<class Dtype, class... Own>
struct on_gpu_with_wide_layers : on_gpu<Dtype, Own...> {
    using layers = wide_layers;
    using wide = on_gpu_with_wide_layers<f32>;
    static constexpr double apart_from_wide = 0.05;
};

} // namespace promises
