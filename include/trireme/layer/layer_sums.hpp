// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme {

/// The numbers that a network's layers add over all devices in a step, call by call: row by row, those of forward
/// before those of backward. They are among what a row keeps of a shard.
template<class Network>
struct layer_sums {
    struct call {
        std::size_t first_kept, elements;
    };

    /// The first call of a row; of `depth`: how many calls there are.
    static constexpr std::size_t first_of(std::size_t row) noexcept {
        std::size_t calls = 0;
        for (std::size_t i = 0; i < row; ++i)
            for (auto const elements : Network::row(i).description.device_sums) calls += elements != 0 ? 1 : 0;
        return calls;
    }
    static constexpr std::size_t count() noexcept { return first_of(Network::depth); }

    /// `f(call)` for all of them, in order.
    template<class F>
    static constexpr void for_each(F&& f) {
        for (std::size_t i = 0; i < Network::depth; ++i) {
            auto place = Network::row(i).first_kept;
            for (auto const elements : Network::row(i).description.device_sums) {
                if (elements != 0) f(call{place, elements});
                place += elements;
            }
        }
    }
};

} // namespace trireme
