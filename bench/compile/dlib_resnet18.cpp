// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// ResNet-18 for images of 28 x 28 and one training step of it in dlib: what bench/compile compiles beside ours. dlib's
// shortcut halves by average pooling, and pads channels with zeros, where ours has a convolution of 1 x 1.

#include <dlib/dnn.h>

#include <vector>

using namespace dlib;

template<int N, int Stride, class Below>
using body =
    bn_con<add_layer<con_<N, 3, 3, 1, 1, 1, 1>, relu<bn_con<add_layer<con_<N, 3, 3, Stride, Stride, 1, 1>, Below>>>>>;
template<int N, class Below>
using plain = relu<add_prev1<body<N, 1, tag1<Below>>>>;
template<int N, class Below>
using halving = relu<add_prev2<avg_pool<2, 2, 2, 2, skip1<tag2<body<N, 2, tag1<Below>>>>>>>;
template<int N, class Below>
using stage = plain<N, halving<N, Below>>;

using net = loss_multiclass_log<
    fc<10, avg_pool_everything<stage<
               512, stage<256, stage<128, plain<64, plain<64, relu<bn_con<add_layer<con_<64, 3, 3, 1, 1, 1, 1>,
                                                                                    input<matrix<float>>>>>>>>>>>>>;

void train(dnn_trainer<net>& t, std::vector<matrix<float>> const& x, std::vector<unsigned long> const& y) {
    t.train_one_step(x, y);
}
