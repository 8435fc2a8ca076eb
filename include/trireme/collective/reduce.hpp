// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <span>

namespace trireme {

/// Reduce: afterwards the root's `out` holds the sum of all ranks' `in`; the others' `out`, of the same size, is
/// scratch. `in` and `out` may be the same buffer.
///
/// Strategies: direct, binomial_tree, double_binary_tree, chain, hierarchical. Throws usage_error (sizes, no such
/// root), and as all_reduce.
template<class Strategy, reduction_operation Op = op::sum, pull_communicator C, reducible T>
in_flight<T, Op, C> start_reduce(C& comm, std::span<T const> in, std::span<T> out, int root = 0, Op = {}) {
    detail::check_root("reduce", root, comm.size());
    if (in.size() != out.size())
        detail::wrong_size("reduce", "output", out.size(), std::to_string(in.size()) + ", as many as the input");
    auto const s = proved_schedule<Strategy, collective::reduce>(comm.size(), root, detail::groups_of(comm));
    if (comm.size() == 1) detail::copy_elements(in.data(), out.data(), in.size());
    return {comm,
            s,
            {in.size(), sizeof(T), s.chunks},
            detail::call_of<T, Op>(collective::reduce, s, in.size(), in.data(), out.data()),
            {0, comm.rank() == root ? out.size() : 0}};
}
template<class Strategy, reduction_operation Op = op::sum, pull_communicator C, reducible T>
in_flight<T, Op, C> start_reduce(C& comm, std::span<T> buffer, int root = 0, Op o = {}) {
    return start_reduce<Strategy>(comm, std::span<T const>(buffer), buffer, root, o);
}

template<class Strategy, reduction_operation Op = op::sum, pull_communicator C, reducible T>
void reduce(C& comm, std::span<T const> in, std::span<T> out, int root = 0, Op o = {}) {
    start_reduce<Strategy>(comm, in, out, root, o).wait();
}
template<class Strategy, reduction_operation Op = op::sum, pull_communicator C, reducible T>
void reduce(C& comm, std::span<T> buffer, int root = 0, Op o = {}) {
    start_reduce<Strategy>(comm, buffer, root, o).wait();
}

} // namespace trireme
