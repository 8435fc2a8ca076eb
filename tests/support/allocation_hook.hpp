// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstddef>
#include <stdexcept>

// Who reads these counts has the global operators new and delete of its program replaced by some that count.
namespace allocation_hook {

extern std::atomic<std::size_t> allocations;     ///< calls of any operator new, but a rehearsal's own
extern std::atomic<std::size_t> aligned_to_line; ///< bytes asked for with the alignment of a cache line
extern std::atomic<std::size_t> aligned_beyond;  ///< bytes asked for with a larger alignment
extern std::atomic<std::size_t> most_aligned;    ///< bytes of an allocation with an alignment: more are not to be had

/// A step that allocates nothing returns this report. Throws std::runtime_error if it allocates, on any thread.
template<class Step>
auto nothing_by(Step const& step) {
    auto const before = allocations.load();
    auto const report = step();
    if (allocations != before) throw std::runtime_error("a step allocates");
    return report;
}

} // namespace allocation_hook
