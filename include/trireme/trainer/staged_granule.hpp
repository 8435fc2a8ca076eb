// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>

#include <cstddef>

namespace trireme::detail {

/// The samples that a rank computes at once, as they are staged: what they are (staged_shard), targets and weights in
/// the loss for the last stage, inputs for the first; each begins on a cache line. Inputs are bytes, or as wide as
/// parameters: there is room for these, and what is copied is what is there.
template<class Model>
struct staged_granule {
    using T = typename Model::value_type;
    using target = typename Model::target;
    static constexpr std::size_t values = Model::network::input_extents::size;

    std::size_t samples;
    bool first = true, last = true;

    constexpr staged_granule(parallel_layout const& l, std::size_t most, int rank)
        : samples(most), first(l.role_of(rank) == 0), last(l.role_of(rank) + 1 == l.stages) {}

    constexpr std::size_t targets() const noexcept { return cache_line; }
    constexpr std::size_t weights() const noexcept {
        return targets() + scored() * round_up(samples * Model::targets * sizeof(target), cache_line);
    }
    constexpr std::size_t inputs() const noexcept {
        return weights() + scored() * round_up(samples * sizeof(T), cache_line);
    }
    constexpr std::size_t bytes() const noexcept { return inputs() + (first ? input_bytes(sizeof(T)) : 0); }
    /// Of inputs, each number so wide.
    constexpr std::size_t input_bytes(std::size_t of_number) const noexcept {
        return round_up(samples * values * of_number, cache_line);
    }

    /// Kernels leave of each sample, beside the staged, its loss, and whether it was right.
    constexpr std::size_t correct() const noexcept { return round_up(samples * sizeof(T), cache_line); }
    constexpr std::size_t loss_bytes() const noexcept {
        return scored() * (correct() + round_up(samples * sizeof(int), cache_line));
    }

private:
    constexpr std::size_t scored() const noexcept { return last ? 1 : 0; }
};

} // namespace trireme::detail
