// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>

#include <trireme/layer/names.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <cmath>

// The networks that several tests train.
namespace test_networks {
using namespace trireme;

/// Both braces of a trainer's constructor.
template<class Trainer>
struct settings {
    typename Trainer::options training = {};
    typename Trainer::run_options run = {};
};

template<class Activation, class Pooling>
using lenet_of = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, Activation, Pooling, conv2d<16, kernel<5>>,
                         Activation, Pooling, flatten, linear<120>, Activation, linear<84>, Activation, linear<10>>;
using lenet = lenet_of<sigmoid, avg_pool2d<2>>;

/// Small enough for hundreds of trainings in a test.
using small = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, hyperbolic_tangent, max_pool2d<2>, flatten,
                      linear<10>>;
using softmax_regression = network<input<1, 28, 28>, flatten, linear<10>>;

/// The blocks of residual networks: one that keeps its input's shape, and one that halves it.
template<std::size_t C, std::size_t S = 1>
using conv3 = conv2d<C, kernel<3>, padding<1>, stride<S>>;
template<class Norm, std::size_t C>
using plain = sequential<residual<sequential<conv3<C>, Norm, relu, conv3<C>, Norm>>, relu>;
template<class Norm, std::size_t C>
using halving =
    sequential<residual<sequential<conv3<C, 2>, Norm, relu, conv3<C>, Norm>, conv2d<C, kernel<1>, stride<2>>>, relu>;

/// Residual networks of "Dive into Deep Learning", chapter 8.6, as PyTorch's modules in the book nest and are called:
/// nn.Sequential(stem, stages of nn.Sequential(Residual, Residual), pooling, flattening, linear), and Residual has the
/// members conv1, bn1, conv2, bn2 and, if it halves, conv3. Each stage has so many channels.
namespace as_in_the_book {
template<std::size_t C, std::size_t S = 1>
using body = sequential<named<"conv1", conv3<C, S>>, named<"bn1", batch_norm<>>, relu, named<"conv2", conv3<C>>,
                        named<"bn2", batch_norm<>>>;
template<std::size_t C>
using plain = sequential<named<"", residual<body<C>>>, relu>;
template<std::size_t C>
using halving = sequential<named<"", residual<body<C, 2>, named<"conv3", conv2d<C, kernel<1>, stride<2>>>>>, relu>;
template<std::size_t First, std::size_t... Others>
using resnet =
    network<input<1, 28, 28>, sequential<conv3<First>, batch_norm<>, relu>, sequential<repeat<2, plain<First>>>,
            sequential<halving<Others>, plain<Others>>..., global_avg_pool2d, flatten, linear<10>>;
} // namespace as_in_the_book

/// Every kind of layer, and every kind of residual: alone, repeated, with a shortcut that has weights, and one in
/// another; functions before the fork, right behind it, and where the ways meet; what is dropped of a flattened image.
using shard_norm = batch_norm<per_shard>;
using nested =
    residual<sequential<relu, conv3<4>, residual<sequential<shard_norm, sigmoid>>>, sequential<shard_norm, sigmoid>>;
using every_layer =
    network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, shard_norm, relu, repeat<2, plain<shard_norm, 3>>,
            halving<shard_norm, 4>, nested, repeat<2, relu, conv3<4>>, hyperbolic_tangent, max_pool2d<2>,
            dropout<percent<20>>, flatten, linear<12>, sigmoid, linear<10>>;

/// Layers that add numbers over all ranks in the middle of a step: one as the first layer, others in repeats, and of a
/// list of values.
using every_sum = network<input<1, 28, 28>, batch_norm<synchronised>, avg_pool2d<4>, conv3<3>, batch_norm<synchronised>,
                          relu, repeat<2, plain<batch_norm<synchronised>, 3>>, halving<batch_norm<synchronised>, 4>,
                          global_avg_pool2d, batch_norm<synchronised>, linear<10>>;

/// Trainers whose layout is chosen when they are made: any numbers of replicas, stages and logical shards.
template<class Device, class Network, class Loss, class Optimizer, class... Policies>
using any_stages = trainer<Network, Loss, Optimizer, on<mesh<Device, dp<dynamic>, pp<dynamic>>>,
                           reproducible<fixed_tree, dynamic>, Policies...>;
/// Trainers of one stage, with any numbers of replicas and logical shards.
template<class Device, class Network, class Loss, class Optimizer, class... Policies>
using any_replicas =
    trainer<Network, Loss, Optimizer, on<mesh<Device, dp<dynamic>>>, reproducible<fixed_tree, dynamic>, Policies...>;
/// Classifiers on the host, of one stage, that choose their strategy, too.
template<class Network, class Optimizer = sgd, class... Policies>
using any_layout = any_replicas<host, Network, cross_entropy, Optimizer, reduce_by<chosen_at_run_time>, Policies...>;

/// `n` made-up images with labels, the same for the same seed; the label can be learnt from the image.
inline labelled_images made_up(std::size_t n, std::uint64_t seed = 7) {
    random_stream const r(seed, random_purpose::user, 1);
    std::vector<std::uint8_t> pixels(n * 28 * 28), labels(n);
    for (std::size_t i = 0; i < n; ++i) {
        labels[i] = static_cast<std::uint8_t>(r.below(i, 10));
        for (std::size_t p = 0; p < 28 * 28; ++p)
            pixels[i * 28 * 28 + p] =
                static_cast<std::uint8_t>(r.below(n + i * 784 + p, 128) + (p / 28 / 3 == labels[i] ? 127 : 0));
    }
    return {std::move(pixels), std::move(labels), 28, 28, 10};
}

/// The parameters that a device holds, or its buffers, piece by piece.
template<class Trainer>
std::vector<typename Trainer::value_type> held(Trainer const& t, int device, bool buffers = false) {
    std::vector<typename Trainer::value_type> all;
    t.for_each_piece(device, [&](auto const& piece) {
        if (piece.is_buffer == buffers) all.insert(all.end(), piece.values.begin(), piece.values.end());
    });
    return all;
}

/// All bits of a trainer's weights.
template<class Trainer>
std::vector<typename Trainer::value_type> weights(Trainer const& t) {
    return t.gather_parameters();
}
template<class Trainer>
std::vector<typename Trainer::value_type> weights(Trainer const& t, int device) {
    return held(t, device);
}

/// Two trainings that began with the same parameters have moved this far apart: of each tensor with at least two
/// dimensions the distance, over what it has moved; the worst of them.
template<class Network>
double moved_apart(auto const& before, auto const& a, auto const& b) {
    double worst = 0;
    for (auto const& tensor : tensors_of<Network>()) {
        shape const& s = tensor.shape; // a name of its own: there is a word called rank, too
        if (tensor.is_buffer || s.rank < 2) continue;
        double distance = 0, way = 0;
        for (auto i = tensor.first; i < tensor.first + s.size(); ++i) {
            double const apart = static_cast<double>(a[i]) - static_cast<double>(b[i]);
            double const moved = static_cast<double>(b[i]) - static_cast<double>(before[i]);
            distance += apart * apart;
            way += moved * moved;
        }
        worst = std::max(worst, std::sqrt(distance / way));
    }
    return worst;
}

using test_support::same_bits;

} // namespace test_networks
