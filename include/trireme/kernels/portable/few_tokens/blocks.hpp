// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>

#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Walks n tokens in blocks of Most, a power of two, and the rest in blocks half as long each: f(block_length<N>,
/// first).
template<std::size_t Most, class F>
[[gnu::always_inline]] inline void for_blocks_of_tokens(std::size_t n, F const& f, std::size_t first = 0) noexcept {
    for (; first + Most <= n; first += Most) f(block_length<Most>{}, first);
    if constexpr (Most > 1) for_blocks_of_tokens<Most / 2>(n, f, first);
}

} // namespace trireme::detail::inline TRIREME_ISA
