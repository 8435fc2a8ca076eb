// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/parallel/layout.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::detail {

/// The ranks of a process, neighbours: those of whole replicas, or a part of one replica's.
struct local_ranks {
    int first = 0;
    int count = 1;
    int stages = 1; ///< ranks of a replica

    /// The ranks of process `index` of so many.
    static constexpr local_ranks of(parallel_layout const& l, int index, int processes) noexcept {
        auto const count = l.devices() / processes;
        return {count * index, count, l.stages};
    }
    /// True if a process has whole replicas, or an equal part of one.
    constexpr bool fit() const noexcept { return count > 0 && (count % stages == 0 || stages % count == 0); }

    constexpr bool is_part() const noexcept { return count < stages; }
    constexpr int roles() const noexcept { return std::min(count, stages); } ///< of each replica
    constexpr int first_role() const noexcept { return first % stages; }
    constexpr bool has(int role) const noexcept { return role >= first_role() && role < first_role() + roles(); }
    /// The place of a rank among the process's, or that of its role, which it has, for k = 0.
    constexpr std::size_t place(std::size_t k, int role) const noexcept {
        return k * static_cast<std::size_t>(roles()) + static_cast<std::size_t>(role - first_role());
    }
    /// The replica of the i-th rank, and its role.
    constexpr int replica_of(int i) const noexcept { return i / roles(); }
    constexpr int role_of(int i) const noexcept { return first_role() + i % roles(); }
};

} // namespace trireme::detail
