// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>

#include <cstddef>

namespace trireme {

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
    std::size_t element_bytes = 0;  ///< of parameters, gradients and optimizer state
    flops_t training_flops = 0;     ///< per sample, forward and backward and loss
    flops_t forward_flops = 0;      ///< per sample
    /// What is where on a rank.
    memory_map (*map)(data_parallel_layout const&, std::size_t batch, int rank) = nullptr;
    /// What layers add over all devices in a step; none: nothing.
    traffic (*device_sums)(int devices, int rank) = nullptr;

    // of the run
    trireme::batch batch = {};
    data_parallel_layout layout = {};

    constexpr int devices() const noexcept { return layout.devices; }

    /// Owned memory of device `rank`.
    constexpr owned_bytes memory(int rank) const { return map(layout, batch.samples, rank).owned(); }

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
