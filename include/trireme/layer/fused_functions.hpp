// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/network.hpp>

#include <cstddef>

namespace trireme::detail {

/// Whether a unit is an elementwise function that works in place, and whose slope is told by its output.
template<class Chain, std::size_t Unit>
constexpr bool is_plain_function() {
    if constexpr (Unit >= Chain::units) {
        return false;
    } else if constexpr (is_repeat<typename Chain::template layer_type<Unit>>) {
        return false;
    } else {
        constexpr auto const& d = Chain::description_of(Unit);
        return requires { typename Chain::template layer_type<Unit>::function; } && d.in_place &&
               !d.backward_reads_input && d.parameter_count == 0;
    }
}

// A layer and a function are one kernel only where one stands right behind the other in the same chain. Then nobody
// else reads what is between them: what a residual reads twice, it reads through its fork and its branch, and what it
// adds, through its sum, which apply nothing and are no functions; a repeat is a chain of its own. So the function's
// output lies where the layer's does, and the gradient of its input where that of its output does (plan_activations).

/// Whether forward through a unit ends with the function that is the next one, in one kernel.
template<class Chain, std::size_t Unit>
constexpr bool applies_next() {
    if constexpr (Unit >= Chain::units || !is_plain_function<Chain, Unit + 1>())
        return false;
    else if constexpr (is_repeat<typename Chain::template layer_type<Unit>>)
        return false;
    else
        return Chain::description_of(Unit).applies && !Chain::description_of(Unit).backward_reads_output;
}

/// Whether backward through a unit goes on through the function that is the one before, in one kernel.
template<class Chain, std::size_t Unit>
constexpr bool applies_previous() {
    if constexpr (Unit == 0 || Unit >= Chain::units || !is_plain_function<Chain, Unit - 1>())
        return false;
    else if constexpr (is_repeat<typename Chain::template layer_type<Unit>>)
        return false;
    else
        return Chain::description_of(Unit).applies;
}

} // namespace trireme::detail
