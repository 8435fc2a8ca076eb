// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/data/sample_source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

/// Seconds that one device has spent, and where.
struct step_times {
    double step = 0;
    double synchronisation = 0; ///< adding gradients, waiting for others included
    double data = 0;            ///< gathering samples
};

/// The samples that devices work on, and the order in which they come. Each shard's sum of losses goes to
/// losses[shard], and of an evaluation the number of right answers to correct[shard]. `scale`: the factor of a sample's
/// loss in the mean of a step. Where there are `outputs`, an evaluation leaves those of sample i at outputs[i * size],
/// and no score.
template<class T>
struct sample_batch {
    sample_set const* samples = nullptr;
    std::span<std::uint32_t const> indices = {};
    double* losses = nullptr;
    std::size_t* correct = nullptr;
    double scale = 0;
    T* outputs = nullptr;
};

} // namespace trireme
