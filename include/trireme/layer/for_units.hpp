// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/network.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme::detail {

/// Stands for a layer of a chain.
template<class Chain, std::size_t Unit>
struct unit {};

/// f(unit<Chain, Unit>, row) for all layers in the order of their work: straight code, but for the loops of repeats,
/// whose chain is that of their block. `Back`: from the last to the first.
template<class Chain, bool Back = false, class F>
constexpr void for_units(std::size_t row, F const& f) {
    auto const visit = [&]<std::size_t Unit>(std::integral_constant<std::size_t, Unit>) {
        using layer = typename Chain::template layer_type<Unit>;
        auto const first = row + Chain::first_row(Unit);
        if constexpr (is_repeat<layer>) {
            using block = typename block_of<layer, typename Chain::template input_of<Unit>>::type;
            for (std::size_t n = 0; n < repetitions<layer>; ++n)
                for_units<block, Back>(first + (Back ? repetitions<layer> - 1 - n : n) * block::depth, f);
        } else {
            f(unit<Chain, Unit>{}, first);
        }
    };
    [&]<std::size_t... Unit>(std::index_sequence<Unit...>) { // no fold expression: clang folds no more than 256
        int const in_order[] = {
            0, (visit(std::integral_constant<std::size_t, (Back ? Chain::units - 1 - Unit : Unit)>{}), 0)...};
        (void)in_order;
    }(std::make_index_sequence<Chain::units>{});
}

} // namespace trireme::detail
