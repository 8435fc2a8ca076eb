// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// NVTX comes with CUDA's toolkit, but not with all of its packages; without it no profiler shows ranges.
#if __has_include(<nvtx3/nvtx3.hpp>)
#include <nvtx3/nvtx3.hpp>

namespace trireme::cuda_runtime {

/// The library's ranges have a domain of their own, so that profilers can show or hide them together.
struct profiler_domain {
    static constexpr char const* name = "trireme";
};

/// A named range of the host's time, for profilers. Ranges of a thread nest. Costs next to nothing without a profiler.
using range_scope = nvtx3::v1::scoped_range_in<profiler_domain>;

} // namespace trireme::cuda_runtime

#else

namespace trireme::cuda_runtime {

/// Nothing.
class range_scope {
public:
    explicit range_scope(char const*) noexcept {}
    range_scope(range_scope const&) = delete;
    range_scope& operator=(range_scope const&) = delete;
};

} // namespace trireme::cuda_runtime

#endif
