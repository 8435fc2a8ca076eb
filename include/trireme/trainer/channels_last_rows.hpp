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
/// A view moves nothing: a flattened image is still one, and a list that is viewed as an image still a list, so that
/// values are in another order than elsewhere. Functions of each value by itself are right in any order, and linear has
/// its weights in that of a flattened image; no other layer, and no loss, may read such values.
template<class Network>
struct channels_last_rows {
    layer_shapes of[Network::depth + 1] = {};
    std::size_t misread = npos; ///< the first row that would take a value for another; depth: the output
    bool image_to_loss = false; ///< true if the output lies channels last, and a loss's targets do not

    constexpr channels_last_rows() {
        shape lies[Network::depth + 1] = {Network::row(0).input};
        for (std::size_t i = 0; i < Network::depth; ++i) {
            auto const& row = Network::row(i);
            auto const& d = row.description;
            auto const viewed = lies[row.from];
            bool const other_order = is_in_other_order(row.input, viewed);
            of[i] = {row.input, d.output, other_order ? viewed : row.input,
                     d.parameter_count > 0 ? d.parameters[0].shape : shape{}};
            bool const each_by_itself = d.execution.view || (d.execution.in_place && d.parameter_count == 0);
            bool const weighs_each =
                d.parameter_count > 0 && d.parameters[0].shape.rank == 2 && d.execution.parameters_as_values;
            bool const any_order = each_by_itself || (weighs_each && row.input.rank == 1);
            bool const apart = row.is_sum() && is_in_other_order(lies[row.other], viewed);
            if (misread == npos && (apart || (other_order && !any_order))) misread = i;
            lies[i + 1] = each_by_itself ? viewed : d.output;
        }
        auto const output = lies[Network::depth];
        if (misread == npos && is_in_other_order(Network::output_extents::shape, output)) misread = Network::depth;
        image_to_loss = reorders(output);
    }

private:
    /// True if an image's values are in another order channels last.
    static constexpr bool reorders(shape const& s) noexcept {
        return s.rank == 3 && s.extent[0] > 1 && s.extent[1] * s.extent[2] > 1;
    }
    static constexpr bool is_in_other_order(shape const& a, shape const& b) noexcept {
        return (reorders(a) || reorders(b)) && !(a == b);
    }
};

} // namespace trireme::inline TRIREME_ISA

namespace trireme::detail::inline TRIREME_ISA {

/// A network's rows, for as long as the program runs: a context of kernels may keep a pointer to them.
template<class Network>
inline constexpr channels_last_rows<Network> lasting_rows{};

} // namespace trireme::detail::inline TRIREME_ISA
