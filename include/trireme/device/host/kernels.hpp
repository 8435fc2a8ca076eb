// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

// Kernel policies of the host. A layer calls `conv2d_forward<Geometry, Lanes>(Policy{}, ...)`; overload resolution
// finds the policy's kernel in this namespace, so a layer names no policy and a policy needs no list of layers.
//
// One granule of `Lanes` samples is one call: value i of sample `lane` stands at [i * Lanes + lane]. Weights are in
// PyTorch's layout (output, input, kernel height, kernel width), without lanes. A granule is always full.
//
// A policy says how many lanes its granules have, `lanes<T>`, and, if it likes, up to how many samples it computes one
// by one, `one_by_one<T>`, in granules of one lane, because a full granule would take longer.

/// The default: plain vector code, one sample per lane, specialised on the known shapes. No dependency.
///
/// `scratch` is memory that a kernel may use as it likes until it returns, beginning on a cache line; how much it wants
/// is what `conv2d_scratch_bytes` and the like say. Passes hand it over; a kernel that is called without it takes a
/// way that needs none, and may round otherwise.
struct portable {
    static constexpr char const* name = "portable";
    void* scratch = nullptr;

    template<class T>
    static constexpr std::size_t lanes = vector_bytes / sizeof(T);
    template<class T>
    static constexpr std::size_t one_by_one = lanes<T> / 2;
};

/// The oracle: the textbook loops, one sample at a time in the order of the formulas. Slow; for tests and for reading.
struct reference {
    static constexpr char const* name = "reference";
    template<class T>
    static constexpr std::size_t lanes = 1;
};

/// Trainer policy: which kernels a device runs. `kernels<portable>` is the default.
template<class Policy>
struct kernels {
    using policy = Policy;
};

} // namespace trireme::inline TRIREME_ISA
