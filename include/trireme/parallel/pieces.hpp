// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>
#include <span>

namespace trireme {

/// A part of one of a network's tensors, as a device holds it. Its coordinates are canonical: the tensor's number in
/// tensors_of<network>(), and an element of it, whatever the devices are.
template<class T>
struct tensor_piece {
    std::size_t tensor = 0;
    std::size_t first = 0; ///< element of the tensor that values[0] is
    std::span<T const> values = {};
    bool is_buffer = false; ///< a running statistic; else a parameter
};

/// Numbers that a device computes with: the parameters and the buffers of rows [begin, end) of a network, row by row.
template<class T>
struct held_numbers {
    range rows = {};
    std::span<T const> parameters = {};
    std::span<T const> buffers = {};
};

/// f(piece) for all tensors that are held, in the order of tensors_of<Network>().
template<class Network, class T, class F>
void for_each_piece_of(held_numbers<T> const& held, F&& f) {
    std::size_t tensor = 0;
    for (std::size_t row = 0; row < held.rows.end; ++row) {
        auto const& here = Network::row(row);
        auto const& d = here.description;
        auto const visit = [&](int count, parameter_tensor const* tensors, std::span<T const> from, std::size_t first,
                               bool is_buffer) {
            for (int k = 0; k < count; ++k, ++tensor) {
                auto const size = tensors[k].shape.size();
                if (row >= held.rows.begin) f(tensor_piece<T>{tensor, 0, from.subspan(first, size), is_buffer});
                first += size;
            }
        };
        auto const& begin = Network::row(held.rows.begin);
        visit(here.own_tensors(), d.parameters, held.parameters, here.first_parameter - begin.first_parameter, false);
        visit(d.buffer_count, d.buffers, held.buffers, here.first_buffer - begin.first_buffer, true);
    }
}

} // namespace trireme
