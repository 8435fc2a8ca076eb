// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/pipeline/span.hpp>

#include <cstddef>

namespace trireme {

/// A plan is the cost of a program before it runs: memory, traffic, operations. A constant expression if the type fixes
/// the layout.
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
    /// The map of a rank's memory.
    memory_map (*map)(parallel_layout const&, std::size_t batch, int rank) = nullptr;
    /// The traffic that a rank reads from the others in a step on a full batch.
    traffic (*moves)(parallel_layout const&, std::size_t batch, int rank) = nullptr;

    // of the run
    trireme::batch batch = {};
    parallel_layout layout = {};

    constexpr int devices() const noexcept { return layout.devices(); }

    /// Owned memory of device `rank`.
    constexpr owned_bytes memory(int rank) const { return map(layout, batch.samples, rank).owned(); }

    /// Owned memory of the device that needs most: devices with fewer logical shards need less for gradients.
    constexpr owned_bytes memory() const {
        auto most = memory(0);
        for (int r = 1; r < devices(); ++r)
            if (memory(r).total() > most.total()) most = memory(r);
        return most;
    }
    constexpr bytes_t bytes_per_device() const { return memory().total(); }

    /// Traffic that device `rank` reads from the others in one step.
    constexpr traffic wire(int rank) const { return moves(layout, batch.samples, rank); }

    /// The part of a step in which a device of a pipeline waits for the others, if all stages take equally long, and
    /// moves no time: that of the device that waits least. 0 without a pipeline.
    constexpr double bubble() const {
        if (layout.stages == 1) return 0;
        auto const shape = shape_of_step(layout, 0);
        auto const capacity = step_capacity(layout.schedule, shape);
        detail::scratch<step_task> room(capacity);
        return bubble_fraction(build_step(layout.schedule, shape, {room.data(), capacity}));
    }

    /// Bytes between devices in one step, over all of them.
    constexpr bytes_t wire_bytes_per_step() const {
        bytes_t sum = 0;
        for (int r = 0; r < devices(); ++r) sum += wire(r).bytes;
        return sum;
    }

    /// Floating-point operations of the layers and the loss for one full batch, over all devices. Optimizer and
    /// reduction (a few per parameter) are not in it.
    constexpr flops_t flops_per_step() const noexcept { return training_flops * batch.samples; }
};

} // namespace trireme
