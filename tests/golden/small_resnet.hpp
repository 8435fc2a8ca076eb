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
    64, 64, 64, 64, 33, 1, 64, 7, 64, 64, 40, 64, 64, 64, 64, 64, 64, 64, 64, 64};

inline constexpr double loss_f64[20] = {
    2.6668248246394421, 2.5840428089657874, 2.4388760450530276, 2.3097374724066579, 2.3432660644675432,
    2.4070562173759238, 2.3194202739768404, 2.4034125145384673, 2.265835055479418, 2.2317230692842327,
    2.3622686975015728, 2.2570400723791115, 2.1889145927943492, 2.1953646130248061, 2.1055789981372381,
    2.1386553964079886, 2.2190664869987899, 2.1621924712716134, 2.0793431491072512, 2.1605088614493866};

inline constexpr double loss_f32[20] = {
    2.6668248176574707, 2.5840425491333008, 2.4392664432525635, 2.3130197525024414, 2.3420500755310059,
    2.4295816421508789, 2.3086755275726318, 2.384000301361084, 2.2849223613739014, 2.2628810405731201,
    2.3613295555114746, 2.2709167003631592, 2.2060835361480713, 2.2041406631469727, 2.1285252571105957,
    2.1678962707519531, 2.2207674980163574, 2.2006597518920898, 2.1129071712493896, 2.175288200378418};

inline constexpr double first_statistics[8] = {
    0.094660265596530388, -0.0063415698043348973, -0.031694558916621422, 0.15954207043653146, 0.13171655801079798,
    0.12923219042530529, 0.14453139379826974, 0.16172467487107006};

inline constexpr double evaluated = 2.1540988981014579;

} // namespace trireme_golden::small_resnet
// clang-format on
