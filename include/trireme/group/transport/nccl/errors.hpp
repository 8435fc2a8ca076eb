// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/cuda/errors.hpp>
#include <trireme/device/host/helper_thread.hpp>

#if !__has_include(<nccl.h>)
#error "trireme/nccl.hpp needs NCCL: install libnccl-dev, or leave it out and use transport<peer>"
#endif
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#if NCCL_VERSION_CODE < 22703
#error "trireme/group/transport/nccl needs NCCL 2.27.3 or newer: before, a group of calls ends with its thread"
#endif

namespace trireme::nccl_runtime {

inline constexpr int oldest_version = 22703; // calls that go on outlive the thread that began them

inline std::string version_text(int code) {
    return std::to_string(code / 10000) + "." + std::to_string(code % 10000 / 100) + "." + std::to_string(code % 100);
}

constexpr char const* name_of(ncclResult_t status) noexcept {
    switch (status) {
    case ncclSuccess:
        return "ncclSuccess";
    case ncclUnhandledCudaError:
        return "ncclUnhandledCudaError";
    case ncclSystemError:
        return "ncclSystemError";
    case ncclInternalError:
        return "ncclInternalError";
    case ncclInvalidArgument:
        return "ncclInvalidArgument";
    case ncclInvalidUsage:
        return "ncclInvalidUsage";
    case ncclRemoteError:
        return "ncclRemoteError";
    case ncclInProgress:
        return "ncclInProgress";
    default:
        return "an unknown status";
    }
}

/// The text of an error, for people. NCCL says more only in its log.
TRIREME_COLD inline std::string failure(char const* call, int rank, std::string const& operation, ncclResult_t status,
                                        std::string const& said) {
    std::string text = std::string(call) + " on rank " + std::to_string(rank) + " for " + operation + ": " +
                       name_of(status) + " (" + ncclGetErrorString(status) + ")";
    if (!said.empty()) text += ": " + said;
    if (said.find("Duplicate GPU") != std::string::npos)
        return text + "; NCCL takes each GPU once: give every rank a GPU of its own, or let ranks of one process share "
                      "one with transport<peer> and the option share_devices";
    if (status == ncclRemoteError || status == ncclSystemError)
        text += "; look whether the process of another rank has ended, and at the network";
    return text + "; run with NCCL_DEBUG=INFO to see what NCCL was doing";
}

/// The name that messages give to the making of a group.
struct meeting_of {
    int ranks;
    std::string text() const { return "a group of " + std::to_string(ranks) + " ranks"; }
};

/// The last thing that NCCL has complained of; may be about something else.
inline std::string last_words(ncclComm_t comm) {
    auto const* const text = ncclGetLastError(comm);
    return text == nullptr ? "" : text;
}

template<class Operation>
TRIREME_COLD [[noreturn]] void fail(ncclResult_t status, char const* call, int rank, Operation const& operation,
                                    ncclComm_t comm = nullptr) {
    cuda_runtime::forget_last_error();
    throw accelerator_error(failure(call, rank, cuda_runtime::text_of(operation), status, last_words(comm)));
}

/// Throws accelerator_error unless a call has succeeded, or goes on.
template<class Operation>
void check(ncclResult_t status, char const* call, int rank, Operation const& operation, ncclComm_t comm = nullptr) {
    if (status != ncclSuccess && status != ncclInProgress) fail(status, call, rank, operation, comm);
}

/// Throws usage_error if the library that the program has been started with is too old.
inline void require_version() {
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion", 0, "the version of NCCL");
    if (version < oldest_version)
        throw usage_error(
            "transport<nccl> needs NCCL " + version_text(oldest_version) +
            " or newer, whose calls outlive the thread that begins them, and this program was started with NCCL " +
            version_text(version) + ": install a newer libnccl2, or look at LD_LIBRARY_PATH");
}

/// Calls f on a thread of its own, and waits for it until the deadline. False: it is still at it, and is left behind,
/// so f owns all that it touches. For calls of NCCL that may not come back: some wait for peers that are no more, also
/// on communicators that are said not to block. What f throws is thrown here; launch_error if there is no thread.
template<class F>
bool finishes_within(deadline const& limit, F f) {
    struct meeting {
        std::mutex guard;
        std::condition_variable told;
        bool over = false;
        std::exception_ptr thrown;
    };
    auto const shared = std::make_shared<meeting>();
    auto call = [shared, f = std::move(f)]() mutable {
        std::exception_ptr thrown;
        try {
            f();
        } catch (...) {
            thrown = std::current_exception();
        }
        std::lock_guard const lock(shared->guard);
        shared->thrown = thrown;
        shared->over = true;
        shared->told.notify_all();
    };
    without_signals([&call] {
        start_thread("a call of NCCL", std::move(call)).detach();
        return 0;
    });
    std::unique_lock lock(shared->guard);
    if (!shared->told.wait_until(lock, limit.at(), [&] { return shared->over; })) return false;
    if (shared->thrown != nullptr) std::rethrow_exception(shared->thrown);
    return true;
}

/// The longest time that an abort takes before it is left behind: not more than the deadline, which has passed once
/// already.
inline std::chrono::duration<double> abort_span(std::chrono::duration<double> limit) {
    return std::min<std::chrono::duration<double>>(limit, std::chrono::seconds(3));
}

} // namespace trireme::nccl_runtime
