// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/kernels/portable/policy.hpp>

namespace trireme {

/// The processor this program runs on. One device is one thread of control with its own replica of the model; device 0
/// is the caller's own thread.
struct host {
    using memory = host_memory;
    using kernels = portable; ///< the default
    static constexpr char const* name = "host";

    /// Processors that this process may use.
    static int processors() noexcept { return patience::processors(); }
};

} // namespace trireme
