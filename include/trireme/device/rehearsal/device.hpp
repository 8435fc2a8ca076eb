// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/rehearsal/memory.hpp>
#include <trireme/device/rehearsal/queue.hpp>
#include <trireme/kernels/blocks/policy.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

/// A GPU played on the host: `mesh<rehearsal, dp<2>>` runs the program that `mesh<gpu, dp<2>>` runs, stream by stream,
/// with the same kernels but those of libraries. Work is done as late and in the worst order that its dependencies
/// allow (rehearsal_runtime::stage says how), so that a missing one shows as a wrong result, without a GPU. For tests;
/// slow. One thread may use it.
struct rehearsal {
    static constexpr char const* name = "rehearsal";
    using memory = rehearsal_runtime::memory;
    using pinned_memory = rehearsal_runtime::pinned_memory;
    using stream = rehearsal_runtime::stream;
    using event = rehearsal_runtime::event;
    using graph = rehearsal_runtime::graph;

    /// A device has no library. Policies of tests may note something.
    class libraries {
    public:
        explicit libraries(int) {}
        std::vector<std::string> const& notes() const noexcept { return noted; }
        std::vector<std::string> noted;
    };

    class kernels : public block_kernels<stream> {
    public:
        kernels(stream& queue, std::size_t samples, workspace scratch, libraries&) noexcept
            : block_kernels(queue, samples, scratch) {}
    };
    static constexpr std::size_t workspace_bytes = 1 << 20; ///< per stream with kernels

    static int count() { return rehearsal_runtime::budget.devices; }
    static bool reaches(int, int) { return true; }
    static void enable_peers(int, int) noexcept {}
    static void use(int) noexcept {}

    /// A range of a profile; empty, because a rehearsal has no profile.
    struct range {
        explicit range(char const*) noexcept {}
    };
};
static_assert(accelerator<rehearsal>);

} // namespace trireme
