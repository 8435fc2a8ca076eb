// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace trireme::detail {

/// Gives all processes a table of what each of them says: all[k] is that of the k-th of so many. `share(bytes)` adds
/// the bytes of all processes, which are zero where another one's entry is.
template<class Entry, class Share>
void share_table(std::vector<Entry>& all, int processes, std::size_t own, Entry const& mine, Share const& share) {
    static_assert(std::is_trivially_copyable_v<Entry>);
    all.resize(static_cast<std::size_t>(processes));
    auto const bytes = std::as_writable_bytes(std::span(all));
    std::memset(bytes.data(), 0, bytes.size());
    all[own] = mine;
    share(bytes);
}

} // namespace trireme::detail
