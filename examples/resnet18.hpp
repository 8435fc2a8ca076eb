// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// ResNet-18 for images of 28 x 28, as in "Dive into Deep Learning", chapter 8.6: a stem of 3 x 3 without pooling, four
// stages of two residuals each, 11.2 million parameters. The names are those of the book's PyTorch module, so that
// files of weights are the same here and there.

#include <trireme/trireme.hpp>

#include <cstddef>

template<std::size_t Channels, std::size_t Stride = 1>
using conv3x3 = trireme::conv2d<Channels, trireme::kernel<3>, trireme::padding<1>, trireme::stride<Stride>>;

template<std::size_t Channels, std::size_t Stride, class Norm>
using residual_body =
    trireme::sequential<trireme::named<"conv1", conv3x3<Channels, Stride>>, trireme::named<"bn1", Norm>, trireme::relu,
                        trireme::named<"conv2", conv3x3<Channels>>, trireme::named<"bn2", Norm>>;

/// y = relu(body(x) + x)
template<std::size_t Channels, class Norm>
using residual_block =
    trireme::sequential<trireme::named<"", trireme::residual<residual_body<Channels, 1, Norm>>>, trireme::relu>;

/// Half as high and wide: the shortcut is a convolution of 1 x 1.
template<std::size_t Channels, class Norm>
using halving_block = trireme::sequential<
    trireme::named<"", trireme::residual<
                           residual_body<Channels, 2, Norm>,
                           trireme::named<"conv3", trireme::conv2d<Channels, trireme::kernel<1>, trireme::stride<2>>>>>,
    trireme::relu>;

template<std::size_t Channels, class Norm>
using stage = trireme::sequential<halving_block<Channels, Norm>, residual_block<Channels, Norm>>;

template<class Norm>
using resnet18 = trireme::network<trireme::input<1, 28, 28>,                                         //
                                  trireme::sequential<conv3x3<64>, Norm, trireme::relu>,             // 64 x 28 x 28
                                  trireme::sequential<trireme::repeat<2, residual_block<64, Norm>>>, //
                                  stage<128, Norm>,                                                  // 128 x 14 x 14
                                  stage<256, Norm>,                                                  // 256 x 7 x 7
                                  stage<512, Norm>,                                                  // 512 x 4 x 4
                                  trireme::global_avg_pool2d, trireme::flatten, trireme::linear<10>>;
