// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// A part of one of a network's tensors, as a device holds it. Its coordinates are canonical: the tensor's number in
/// tensors_of<network>(), and an element of it, whatever the devices are.
template<class T>
struct tensor_piece {
    std::size_t tensor = 0;         ///< number of the tensor, in the order of the network's
    std::size_t first = 0;          ///< element of the tensor that values[0] is
    std::span<T const> values = {}; ///< numbers of the tensor, side by side
    bool is_buffer = false;         ///< a running statistic; else a parameter
};

/// A list of numbers in canonical coordinates: all parameters of a network, all its buffers, or one of the arrays that
/// the optimizer keeps, which have a number for each parameter.
struct canonical_list {
    enum kind : unsigned char { parameters, buffers, optimizer };
    kind of = parameters;  ///< kind of the list
    std::size_t array = 0; ///< number of the array, of those that the optimizer keeps
};

/// Numbers that devices are to take; of an empty list they keep those that they have.
template<class T>
struct numbers_to_take {
    std::span<T const> parameters = {}, buffers = {};
    std::span<std::vector<T> const> optimizer = {}; ///< its arrays
    std::uint64_t updates = 0, steps = 0;           ///< made before, if the optimizer's numbers are taken
    bool goes_on = false;                           ///< they are

    /// The numbers of a list.
    std::span<T const> of(canonical_list const& list) const noexcept {
        if (list.of == canonical_list::optimizer) return optimizer[list.array];
        return list.of == canonical_list::buffers ? buffers : parameters;
    }
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
