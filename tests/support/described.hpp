// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/layer.hpp>

// Descriptions of layers of a test's own, whose functions differ from device to device.
namespace test_described {
using namespace trireme;

/// A layer adds numbers over all devices on the way there, and others on the way back.
constexpr layer_description sums_both_ways(shape in) {
    layer_description d;
    d.output = in;
    d.kept = 2 * in.size();
    d.forward = {2, {{0, in.size()}}};
    d.backward = {2, {{in.size(), in.size()}}};
    return d;
}

/// A layer has one running statistic, which begins with 0.
constexpr layer_description one_statistic(shape in) {
    layer_description d;
    d.output = in;
    d.buffer_count = 1;
    d.buffers[0] = {.name = "seen", .shape = make_shape(1), .init = initial::zeros};
    return d;
}

} // namespace test_described
