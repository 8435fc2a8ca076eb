// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/group/transport/mpi/errors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Numbers, and counts of them, as MPI's calls take them.
namespace trireme {

template<class T>
MPI_Datatype mpi_dtype() noexcept {
    if constexpr (std::is_same_v<T, float>)
        return MPI_FLOAT;
    else if constexpr (std::is_same_v<T, double>)
        return MPI_DOUBLE;
    else if constexpr (std::is_same_v<T, std::int32_t>)
        return MPI_INT32_T;
    else
        return MPI_DATATYPE_NULL;
}

/// Calls `f(offset, count)` for pieces of `total` that a count of MPI, an int, can tell. `most` is for tests.
template<class F>
void in_pieces(std::size_t total, F&& f, std::size_t most = std::size_t{1} << 30) {
    if (total == 0) return f(std::size_t{0}, 0);
    for (std::size_t at = 0; at < total; at += most) f(at, static_cast<int>(std::min(most, total - at)));
}

} // namespace trireme
