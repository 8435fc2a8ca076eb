// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

// Samples of few tokens, some of which go through the rows of a network together, one behind the other.

namespace trireme::detail {

/// The most tokens that a layer of a network takes of a sample, if its samples go one by one; 0 if none says how many.
template<class Network>
inline constexpr std::size_t tokens_of_samples = [] {
    std::size_t most = 0;
    for (std::size_t i = 0; i < Network::depth; ++i) {
        auto const& row = Network::row(i);
        if (row.description.execution.sample_by_sample) most = std::max(most, row.input.extent[0]);
    }
    return most;
}();

/// The most samples of a granule of one lane that lie one behind the other.
template<class Network, class Kernels, class Scratch, std::size_t Lanes>
constexpr std::size_t most_together() {
    if constexpr (Lanes == 1 && !Network::whole_shard && std::is_same_v<Kernels, Scratch> &&
                  requires { Kernels::most_together; })
        return Kernels::most_together;
    else
        return 1;
}

/// True if a layer's kernels of a policy do not take the samples that it has together.
template<class Layer, class K>
inline constexpr bool goes_alone = requires(K k) { k.together; } && !requires { requires Layer::takes_together; };

/// Moves a layer's operands on to the next sample.
template<class In, class Out, class At>
void next_sample(At& at, std::size_t saved_bytes) noexcept {
    auto const move = [](auto& to, std::size_t by) { to += to == nullptr ? 0 : by; };
    move(at.x, In::size);
    move(at.y, Out::size);
    move(at.dy, Out::size);
    move(at.dx, In::size);
    move(at.place.other, In::size);
    move(at.place.saved, saved_bytes);
    move(at.place.loss, 1);
    move(at.place.loss_weight, 1);
    ++at.place.granule.first;
}

} // namespace trireme::detail
