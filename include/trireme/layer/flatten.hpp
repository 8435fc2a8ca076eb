// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/layer.hpp>

namespace trireme {

/// Gives the values of its input a shape of one dimension. Costs nothing: its output is its input.
struct flatten {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = make_shape(in.size());
        d.execution.view = true;
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        return d;
    }
};

} // namespace trireme
