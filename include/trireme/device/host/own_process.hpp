// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <atomic>

#include <pthread.h>

namespace trireme {

/// The process that has made an object. A fork copies objects, but not the threads that serve them, and the copy of a
/// group shares memory with the ranks that its original works with: the copy must not be used. The question costs one
/// load, since a handler counts forks.
class own_process {
public:
    own_process() noexcept {
        static int const counted = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
        static_cast<void>(counted);
        made_after_ = forks.load();
    }

    bool is_this() const noexcept { return forks.load(std::memory_order_relaxed) == made_after_; }

    /// Throws usage_error in a process that was forked since.
    void require() const {
        if (!is_this()) refuse();
    }

private:
    [[noreturn]] TRIREME_COLD static void refuse() {
        throw usage_error("a group, or a trainer, was used in a process that was forked after it had been made: use it "
                          "in the process that made it, and make another one here");
    }

    inline static std::atomic<unsigned> forks{0}; ///< that lie between this process and the first
    unsigned made_after_ = 0;
};

} // namespace trireme
