// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Made by make_golden.py with torch 2.15.0+cu132 on 2026-11-22; do not edit.
// A residual network of widths [4, 8, 12]. Step k uses the next batch_sizes[k] Fashion-MNIST training
// images in file order; its loss is taken before its update. loss_f64: PyTorch in float64 from the float32
// weights, with pixels in float64. loss_f32: PyTorch in float32. first_statistics: running_mean and running_var of the
// first batch norm after the last step. evaluated: the loss of the first 256 training images then.

// clang-format off
namespace trireme_golden::small_resnet {

inline constexpr double lr = 0.10000000000000001;

inline constexpr int batch_sizes[20] = {
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 33, 1, 64, 7, 64, 64, 40, 64};

inline constexpr double loss_f64[20] = {
    2.6668248246394417, 2.5840428089657874, 2.4388760450530267, 2.3097374724066588, 2.2790367562412865,
    2.2962266971194119, 2.2768012272977924, 2.2316810899338586, 2.2846982049286955, 2.1767975058475368,
    2.2468081606279706, 2.1357108754244072, 2.1439321264039193, 1.9980590206137223, 2.302545167221377,
    2.5168196027490808, 2.2170046889476116, 2.2066643691835415, 2.0441863505034772, 2.1526631275944599};

inline constexpr double loss_f32[20] = {
    2.6668248176574707, 2.5840425491333008, 2.4392664432525635, 2.312903881072998, 2.2790160179138184,
    2.2962260246276855, 2.268143892288208, 2.2383987903594971, 2.2883753776550293, 2.1746931076049805,
    2.2503836154937744, 2.1486029624938965, 2.1404566764831543, 2.0963501930236816, 2.3082587718963623,
    2.6009159088134766, 2.2245218753814697, 2.2068493366241455, 2.0705952644348145, 2.1621363162994385};

inline constexpr double first_statistics[8] = {
    0.084195178740878382, -0.10486113449873116, 0.013881685221599204, 0.15841072126511885, 0.13059474866076493,
    0.13646238860206086, 0.1402406737053217, 0.16397391681736773};

inline constexpr double evaluated = 2.2141966058878242;

} // namespace trireme_golden::small_resnet
// clang-format on
