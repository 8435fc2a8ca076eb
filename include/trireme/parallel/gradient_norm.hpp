// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme {

/// A gradient is measured in pieces: runs of at most so many elements of one row's parameters. The squares of a piece
/// are added by one call of a kernel, the sums of pieces in their order. Neither knows how rows are spread over
/// devices, so that the norm has the same bits on all of them.
inline constexpr std::size_t most_of_gradient_piece = 16384;

/// f(piece, first, elements) for the pieces of some rows of a network, numbered from its first row; `first` counts the
/// network's parameters.
template<class Network, class F>
constexpr void for_each_gradient_piece(range rows, F&& f) {
    std::size_t piece = 0;
    for (std::size_t row = 0; row < rows.end; ++row) {
        auto const begin = Network::row(row).first_parameter, end = Network::row(row + 1).first_parameter;
        for (auto first = begin; first < end; first += most_of_gradient_piece, ++piece)
            if (row >= rows.begin) f(piece, first, std::min(most_of_gradient_piece, end - first));
    }
}

/// Numbers of the pieces of some rows.
template<class Network>
constexpr range gradient_pieces(range rows) {
    range all = {};
    for_each_gradient_piece<Network>({0, rows.end}, [&](std::size_t piece, std::size_t first, std::size_t) {
        if (first < Network::row(rows.begin).first_parameter) all.begin = piece + 1;
        all.end = piece + 1;
    });
    return all;
}

} // namespace trireme
