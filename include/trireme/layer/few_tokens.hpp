// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/sample_by_sample.hpp>
#include <trireme/layer/loss.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

// Samples of few tokens, some of which go through the rows of a network together, one behind the other.

namespace trireme::detail {

/// The most tokens that a layer of a network takes of a sample, if its samples go one by one; 0 if that is not known of
/// all layers that ask for it: rows of tokens are matrices, or what is looked up.
template<class Network>
inline constexpr std::size_t tokens_of_samples = [] {
    std::size_t most = 0;
    for (std::size_t i = 0; i < Network::depth; ++i) {
        auto const& row = Network::row(i);
        if (!row.description.execution.sample_by_sample) continue;
        if (row.input.rank != 2 && !(row.input.rank == 1 && row.description.embeds)) return std::size_t{0};
        most = std::max(most, row.input.extent[0]);
    }
    return most;
}();

/// The samples of a network that go together; 1 for those of many tokens, and where samples need a whole shard.
template<class Network>
inline constexpr std::size_t samples_together = [] {
    constexpr auto tokens = tokens_of_samples<Network>;
    if constexpr (tokens == 0 || tokens >= enough_tokens || Network::whole_shard)
        return std::size_t{1};
    else
        return tokens_together / tokens;
}();

/// True for a policy whose calls may have several samples.
template<class Kernels>
concept takes_several = requires(Kernels k) { k.together; };

/// True if a policy gives several samples to a layer that does not take them. A layer that derives from one that takes
/// them does not: its own functions see one sample.
template<class Layer, class K>
inline constexpr bool goes_alone = takes_several<K>;
template<class Layer, class K>
    requires std::is_same_v<typename Layer::takes_together, Layer>
inline constexpr bool goes_alone<Layer, K> = false;

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

namespace trireme {

/// The kernels that the passes of a network, trained with a loss, run with.
template<class Network, class Kernels, class Loss = void>
using kernels_of =
    kernels_for<Kernels, detail::goes_sample_by_sample<Network, Loss>, (detail::samples_together<Network> > 1)>;

} // namespace trireme
