// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// The order of a network's values where images are channels last, and the shapes that its kernels are told of each
/// row.
///
/// A flattened image is still one, so that its list of values is in another order than elsewhere. What looks at each
/// value by itself does not mind, and linear has its weights in that order; nothing else may read it.
template<class Network>
struct channels_last_rows {
    layer_shapes of[Network::depth + 1] = {};
    std::size_t misread = npos; ///< the first row that would take a value for another; depth: the loss

    constexpr channels_last_rows() {
        shape lies[Network::depth + 1] = {Network::row(0).input};
        for (std::size_t i = 0; i < Network::depth; ++i) {
            auto const& row = Network::row(i);
            auto const& d = row.description;
            auto const viewed = lies[row.from];
            bool const plain = row.input.rank == 1 && !reorders(viewed);
            of[i] = {row.input, d.output, plain ? row.input : viewed,
                     d.parameter_count > 0 ? d.parameters[0].shape : shape{}};
            bool const each_by_itself = d.execution.view || (d.execution.in_place && d.parameter_count == 0);
            bool const weighs_each =
                d.parameter_count > 0 && d.parameters[0].shape.rank == 2 && d.execution.parameters_as_values;
            bool const other_order = row.is_sum() && is_in_other_order(lies[row.other], viewed);
            if (misread == npos &&
                (other_order || (!(each_by_itself || weighs_each) && is_flattened(row.input, viewed))))
                misread = i;
            lies[i + 1] = each_by_itself ? viewed : d.output;
        }
        if (misread == npos && is_flattened(Network::output_extents::shape, lies[Network::depth]))
            misread = Network::depth;
    }

private:
    /// True if a list lies as an image whose values are in another order channels last.
    static constexpr bool is_flattened(shape const& list, shape const& viewed) noexcept {
        return list.rank == 1 && reorders(viewed);
    }
    static constexpr bool reorders(shape const& s) noexcept {
        return s.rank == 3 && s.extent[0] > 1 && s.extent[1] * s.extent[2] > 1;
    }
    static constexpr bool is_in_other_order(shape const& a, shape const& b) noexcept {
        return (reorders(a) || reorders(b)) && !(a == b);
    }
};

} // namespace trireme::inline TRIREME_ISA
