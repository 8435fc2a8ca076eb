// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/optimizer/optimizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// Parameters side by side that are updated alike.
struct update_run {
    range elements = {}; ///< range of the network's parameters
    bool decays = true;  ///< weight_decay applies to them
};

namespace detail {

/// The count of an optimizer's updates, in the last cache line of its memory; null unless it `counts` them.
inline std::uint64_t* count_of_updates(bool counts, void* memory, std::size_t bytes) noexcept {
    if (!counts) return nullptr;
    return reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(memory) + bytes - cache_line);
}

/// Updates some of the network's parameters, run by run; without runs all of them are one. `w`, `gradient` and `state`
/// point to the numbers of the first of them; the arrays of the state begin `apart` elements one behind the other.
/// `decaying` and `other`: what an update needs where the weights decay, and where they do not.
template<optimizer O, class Kernels, class T, class Numbers>
void update_runs(Kernels const& k, std::span<update_run const> runs, range parameters, T* w, T const* gradient,
                 T* state, std::size_t apart, Numbers decaying, Numbers other, std::uint64_t const* made) {
    update_run const whole{parameters, true};
    for (auto const& run : runs.empty() ? std::span(&whole, 1) : runs) {
        auto const begin = std::max(run.elements.begin, parameters.begin),
                   end = std::min(run.elements.end, parameters.end);
        if (begin >= end) continue;
        auto const first = begin - parameters.begin;
        apply_update<O>(k, w + first, gradient + first, state_in<O>(state, apart, first), end - begin,
                        run.decays ? decaying : other, made);
    }
}

} // namespace detail

} // namespace trireme
