// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <cstddef>

// Who reads these counts has the global operators new and delete of its program replaced by some that count.
namespace allocation_hook {

extern std::atomic<std::size_t> allocations;     ///< calls of any operator new
extern std::atomic<std::size_t> aligned_to_line; ///< bytes asked for with the alignment of a cache line
extern std::atomic<std::size_t> aligned_beyond;  ///< bytes asked for with a larger alignment

} // namespace allocation_hook
