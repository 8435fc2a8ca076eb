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

struct portable_with_scratch;

/// The default: plain vector code, one sample per lane, specialised on the known shapes. No dependency.
struct portable {
    static constexpr char const* name = "portable";
    using with_scratch = portable_with_scratch;

    template<class T>
    static constexpr std::size_t lanes = vector_bytes / sizeof(T);
    template<class T>
    static constexpr std::size_t one_by_one = lanes<T> / 2;
};

/// The same kernels with memory that they may use as they like until they return: convolutions that want some then go
/// another way, and may round otherwise. How much is what `conv2d_scratch_bytes` and the like say. A type of its own,
/// for passes that hand it over need not compile what is done without.
struct portable_with_scratch : portable {
    void* scratch = nullptr; ///< begins on a cache line
};

/// The oracle: the textbook loops, one sample at a time in the order of the formulas. Slow; for tests and for reading.
struct reference {
    static constexpr char const* name = "reference";
    template<class T>
    static constexpr std::size_t lanes = 1;
};

} // namespace trireme::inline TRIREME_ISA
