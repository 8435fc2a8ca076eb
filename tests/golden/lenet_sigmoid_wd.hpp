// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Made by make_golden.py with torch 2.15.0+cu132 on 2026-11-20; do not edit.
// LeNet with Sigmoid and AvgPool2d(2, 2): conv 6@5x5 pad 2, conv 16@5x5, linear 120, 84, 10. Step k uses the next
// batch_sizes[k] Fashion-MNIST training images in file order; its loss is taken before its update.
// loss_f64: PyTorch in float64 from the float32 weights and pixels. loss_f32: PyTorch in float32.

// clang-format off
namespace trireme_golden::lenet_sigmoid_wd {

inline constexpr int steps = 20;
inline constexpr double lr = 0.90000000000000002;
inline constexpr double momentum = 0.0;
inline constexpr double weight_decay = 0.001;
inline constexpr bool nesterov = false;

inline constexpr int batch_sizes[20] = {
    256, 96, 1, 7, 255, 256, 2, 128, 3, 250, 64, 256, 5, 33, 256, 100, 1, 17, 192, 256};

inline constexpr double loss_f64[20] = {
    2.6033980215145331, 2.6246697355245159, 2.3140544774920779, 17.545251890400117, 2.7066035313143848,
    2.3569914527855724, 2.627739915905106, 2.389582399727967, 2.5603667013789893, 2.3205682054290717,
    2.3692326477678805, 2.3192877868964521, 2.3908893782590956, 2.3544846836507287, 2.3041350283888007,
    2.3053165974900209, 2.0343787788912655, 2.5700169903553047, 2.3539092272748623, 2.3594874623622175};

inline constexpr double loss_f32[20] = {
    2.6033980846405029, 2.6246695518493652, 2.3140544891357422, 17.545253753662109, 2.7066035270690918,
    2.3569912910461426, 2.6277399063110352, 2.3895823955535889, 2.5603666305541992, 2.3205680847167969,
    2.3692326545715332, 2.3192880153656006, 2.3908896446228027, 2.3544845581054688, 2.3041348457336426,
    2.305316686630249, 2.0343787670135498, 2.5700168609619141, 2.3539094924926758, 2.3594875335693359};

} // namespace trireme_golden::lenet_sigmoid_wd
// clang-format on
