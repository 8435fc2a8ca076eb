// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

namespace trireme::detail {

/// The outcome of what each process of a trainer does on its own, as reading a file: a digest of what it has read, or
/// why it could not.
struct process_outcome {
    std::uint64_t digest = 0;
    stop_reason why; ///< unknown if nothing has failed
    bool failed() const noexcept { return why.what != stop_reason::kind::unknown; }

    /// `rank`: the first one of this process. `failed`: null if all went well.
    static process_outcome of(int rank, std::exception_ptr const& failed,
                              std::span<std::span<std::byte const> const> read) {
        process_outcome o;
        if (failed != nullptr)
            o.why = stop_reason::of(rank, failed);
        else
            for (auto const bytes : read) o.digest = digest_of(bytes, o.digest);
        return o;
    }
};

/// Throws why another process has failed, as a device_error, or mismatch_error if they have read different values. A
/// process that has failed itself returns. `each`: what the numbers of the outcomes count.
TRIREME_COLD inline void require_same_outcome(std::span<process_outcome const> all, process_outcome const& own,
                                              char const* each) {
    if (own.failed()) return;
    for (auto const& other : all)
        if (other.failed()) other.why.raise();
    for (std::size_t k = 1; k < all.size(); ++k)
        if (all[k].digest != all[0].digest)
            throw mismatch_error(std::string("the weights that ") + each + " " + std::to_string(k) +
                                 " has read are not those that " + each +
                                 " 0 has read, and all begin with one set: no " + each +
                                 " has taken them; give all of them a file with one content");
}

} // namespace trireme::detail
