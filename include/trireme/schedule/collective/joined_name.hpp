// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme::detail {

template<std::size_t N>
struct name_letters {
    char letters[N + 1] = {};
};
constexpr std::size_t length_of(char const* text) noexcept {
    std::size_t n = 0;
    while (text[n] != 0) ++n;
    return n;
}

/// "hierarchical<direct, ring>": the name of a strategy that is made of two types with names. Ranks that compose
/// differently must not take each other's schedule for their own. Without a name there is one less mistake to report:
/// that of the part.
template<class Kind, class First, class Second>
constexpr auto join_names() noexcept {
    if constexpr (requires { length_of(First::name) + length_of(Second::name); }) {
        constexpr char const* parts[] = {Kind::name, "<", First::name, ", ", Second::name, ">"};
        name_letters<4 + length_of(Kind::name) + length_of(First::name) + length_of(Second::name)> joined;
        std::size_t at = 0;
        for (auto const* part : parts)
            for (; *part != 0; ++part) joined.letters[at++] = *part;
        return joined;
    } else {
        return name_letters<length_of(Kind::name)>{};
    }
}
template<class Kind, class First, class Second>
inline constexpr auto joined_name = join_names<Kind, First, Second>();

} // namespace trireme::detail
