// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme {

/// A gradient is measured in pieces: runs of at most so many elements of one row's parameters. The squares of a piece
/// are added by one call of a kernel, the sums of all pieces in an order that their number decides. Neither knows how
/// rows are spread over devices, so that the norm has the same bits on any number of them.
inline constexpr std::size_t most_of_gradient_piece = 16384;

/// Numbers of the pieces of some rows of a network, counted from its first row.
template<class Network>
constexpr range gradient_pieces(range rows) {
    std::size_t before = 0, end = 0;
    for (std::size_t row = 0; row < rows.end; ++row) {
        if (row == rows.begin) before = end;
        auto const elements = Network::row(row + 1).first_parameter - Network::row(row).first_parameter;
        end += (elements + most_of_gradient_piece - 1) / most_of_gradient_piece;
    }
    return {rows.begin < rows.end ? before : end, end};
}

/// f(piece, first, elements) for the pieces of some rows; `first` counts the network's parameters.
template<class Network, class F>
constexpr void for_each_gradient_piece(range rows, F&& f) {
    auto piece = gradient_pieces<Network>(rows).begin;
    for (auto row = rows.begin; row < rows.end; ++row) {
        auto const begin = Network::row(row).first_parameter, end = Network::row(row + 1).first_parameter;
        for (auto first = begin; first < end; first += most_of_gradient_piece, ++piece)
            f(piece, first, std::min(most_of_gradient_piece, end - first));
    }
}

} // namespace trireme
