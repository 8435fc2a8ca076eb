// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// NVTX comes with CUDA's toolkit, but not with all of its packages; without it no profiler shows ranges.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace trireme::cuda_runtime {

/// The library's ranges have a domain of their own, so that profilers can show or hide them together.
inline nvtxDomainHandle_t profiler_domain() {
    static nvtxDomainHandle_t const the_only = nvtxDomainCreateA("trireme");
    return the_only;
}

/// A named range of the host's time, for profilers. Ranges of a thread nest. Costs next to nothing without a profiler.
class range_scope {
public:
    explicit range_scope(char const* name) noexcept {
        nvtxEventAttributes_t range{};
        range.version = NVTX_VERSION;
        range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        range.messageType = NVTX_MESSAGE_TYPE_ASCII;
        range.message.ascii = name;
        nvtxDomainRangePushEx(profiler_domain(), &range);
    }
    range_scope(range_scope const&) = delete;
    range_scope& operator=(range_scope const&) = delete;
    ~range_scope() { nvtxDomainRangePop(profiler_domain()); }
};

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
