// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/own_process.hpp>

#include <atomic>
#include <type_traits>

namespace trireme {

template<class... Where>
struct run_function_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0070: a group runs a function that takes the communicator of its rank by reference, since a copy "
                  "would count steps of its own: write [](auto& me) { ... }");
};

/// Calls a function that a group was given to run on a rank.
template<class C, class F>
void call_with(C& comm, F& f) {
    if constexpr (std::is_invocable_v<F&, C&>)
        f(comm);
    else [[maybe_unused]]
        constexpr run_function_rule<wants<C&>> broken{};
}

/// The runs of a group: one at a time, in the process that made the group.
class one_run {
public:
    /// Calls `f()`. Throws usage_error inside of another call, or in a forked copy of the group.
    template<class F>
    void operator()(F&& f) {
        process_.require();
        // every rank of a run sees the flag: it was set before the rank was told to begin
        if (running_.load(std::memory_order_relaxed)) refuse();
        struct over {
            std::atomic<bool>& flag;
            ~over() { flag.store(false, std::memory_order_relaxed); }
        } const at_end{running_};
        running_.store(true, std::memory_order_relaxed);
        f();
    }

    own_process const& process() const noexcept { return process_; }

private:
    [[noreturn]] TRIREME_COLD static void refuse() {
        throw usage_error("the run of a group was called inside of a function that this group runs: use the "
                          "communicator that the function was given");
    }

    std::atomic<bool> running_{false};
    own_process process_;
};

} // namespace trireme
