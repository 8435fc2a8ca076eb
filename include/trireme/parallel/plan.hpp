// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>

#include <cstddef>

namespace trireme {

/// Bytes that the library owns on one device, by what they are for. Exact: what the transport is asked for, to the
/// byte.
struct owned_bytes {
    bytes_t parameters = 0;
    bytes_t gradients = 0;
    bytes_t optimizer_state = 0;
    bytes_t activations = 0; ///< values and gradients of what is computed at once: on the host one granule, however
                             ///< large the batch, unless a layer needs a whole shard (batch_norm)
    bytes_t control = 0;     ///< counters by which devices wait for one another; of accelerators, tables and losses
    bytes_t staging = 0;     ///< samples on their way into an accelerator, of two steps
    bytes_t workspace = 0;   ///< of kernels that come from libraries: their limit

    constexpr bytes_t total() const noexcept {
        return parameters + gradients + optimizer_state + activations + control + staging + workspace;
    }
};

/// What a trainer's type says of a program's cost before it runs. A constant expression if the type fixes the layout.
///
/// On accelerators the bytes are those of the device, each rank having a device of its own.
/// Not counted: the data set, its order (4 bytes per sample), thread stacks, and what libraries take for themselves
/// (the portable kernels take nothing).
struct training_plan {
    // of the network, optimizer and kernels
    std::size_t parameters = 0;     ///< trainable numbers
    std::size_t buffers = 0;        ///< running statistics
    std::size_t arena_elements = 0; ///< both, each padded to whole cache lines
    std::size_t state_per_parameter = 0;
    std::size_t activation_elements = 0;
    std::size_t element_bytes = 0;    ///< of parameters, gradients and optimizer state
    std::size_t activation_bytes = 0; ///< of one activation
    flops_t training_flops = 0;       ///< per sample, forward and backward and loss
    flops_t forward_flops = 0;        ///< per sample
    bytes_t control_bytes = 0;
    bytes_t workspace_bytes = 0;

    // of accelerators, which compute a shard's samples at once
    std::size_t granule_samples = 0; ///< the most samples of one shard; 0 on the host
    bytes_t narrow_bytes = 0;        ///< in bf16: of a copy of the parameters, and of one layer's gradients
    bytes_t granule_bytes = 0;       ///< of a granule while it is staged
    bytes_t stage_header_bytes = 0;
    bytes_t score_bytes = 0; ///< per shard
    bytes_t (*table_bytes)(data_parallel_layout const&, int rank, std::size_t elements,
                           std::size_t element_bytes) = nullptr;

    /// What layers add over all devices in a step; none: nothing.
    traffic (*device_sums)(int devices, int rank) = nullptr;

    // of the run
    trireme::batch batch = {};
    data_parallel_layout layout = {};

    constexpr int devices() const noexcept { return layout.devices; }

    /// Owned memory of device `rank`.
    constexpr owned_bytes memory(int rank) const {
        auto const arena = arena_elements * element_bytes;
        auto const state = layout.slice_of_device(rank, arena_elements, element_bytes).size() * element_bytes;
        owned_bytes m{layout.shared_weights && rank != 0 ? 0 : arena, arena * layout.gradient_slots(rank),
                      state * state_per_parameter, activation_elements * activation_bytes, control_bytes};
        m.workspace = workspace_bytes;
        if (granule_samples != 0) {
            m.parameters += narrow_bytes;
            auto const shards = layout.shards_of_device(rank).size();
            m.staging = 2 * (stage_header_bytes + shards * granule_bytes);
            m.control += round_up<bytes_t>(layout.shards() * score_bytes, cache_line);
            m.control += table_bytes(layout, rank, arena_elements, element_bytes);
        }
        return m;
    }

    /// Owned memory of the device that needs most: devices with fewer logical shards need less for gradients.
    constexpr owned_bytes memory() const {
        auto most = memory(0);
        for (int r = 1; r < layout.devices; ++r)
            if (memory(r).total() > most.total()) most = memory(r);
        return most;
    }
    constexpr bytes_t bytes_per_device() const { return memory().total(); }

    /// What device `rank` reads from the others in one step.
    constexpr traffic wire(int rank) const {
        auto sum = layout.traffic_of_rank(rank, arena_elements, element_bytes);
        if (device_sums != nullptr) sum += device_sums(layout.devices, rank);
        return sum;
    }

    /// Bytes between devices in one step, over all of them.
    constexpr bytes_t wire_bytes_per_step() const {
        bytes_t sum = 0;
        for (int r = 0; r < layout.devices; ++r) sum += wire(r).bytes;
        return sum;
    }

    /// Floating-point operations of the layers and the loss for one full batch, over all devices. Optimizer and
    /// reduction (a few per parameter) are not in it.
    constexpr flops_t flops_per_step() const noexcept { return training_flops * batch.samples; }
};

} // namespace trireme
