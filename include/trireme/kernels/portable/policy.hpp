// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

struct portable_with_scratch;
struct portable_together;

/// The default: plain vector code, one sample per lane, specialised on the known shapes. No dependency.
///
/// One granule of `Lanes` samples is one call: value i of sample `lane` stands at [i * Lanes + lane]. Weights are in
/// PyTorch's layout (output, input, kernel height, kernel width), without lanes. A granule is always full.
///
/// A narrow granule has half or a quarter of the lanes, as the policy says at run time: value i of sample `lane` stands
/// at [i * narrow + lane], at the begin of what is a full granule's memory. They are for networks all of whose layers
/// say that their kernels take them (`takes_narrow`).
struct portable : kernel_context {
    static constexpr char const* name = "portable";
    using with_scratch = portable_with_scratch;
    using takes_narrow = portable; ///< policies that derive from this one do not
    using takes_together = portable_together;

    std::size_t narrow = 0; ///< lanes of the granule, if it is a narrow one

    template<class T>
    static constexpr std::size_t lanes = vector_bytes / sizeof(T);
    template<class T>
    static constexpr std::size_t one_by_one = lanes<T> / 2;
};

/// The portable kernels with scratch memory, which they may use as they like until they return: convolutions that want
/// some then go another way, and may round otherwise. `conv2d_scratch_bytes` and the like say how much. A type of its
/// own, so that passes with scratch memory do not compile the kernels for those without.
struct portable_with_scratch : portable {
    void* scratch = nullptr; ///< begins on a cache line
};

/// The portable kernels of one lane for some samples at once, which lie one behind the other: those of few tokens,
/// whose rows fill a product's tile only together. They compute a token as the kernels of one sample do, but for linear
/// layers of one row, and heads that one sample computes by keys: the order of their sums is another one. A type of its
/// own, so that passes of other networks do not compile them.
struct portable_together : portable {
    using of_one_sample = portable;
    std::size_t together = 1; ///< samples of a call
};

} // namespace trireme::inline TRIREME_ISA
