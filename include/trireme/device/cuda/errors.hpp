// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cuda_runtime_api.h>

#include <new>
#include <stdexcept>
#include <string>

namespace trireme {

/// A call that a GPU, its driver or one of its libraries has refused or failed: which call, on which GPU, and for what.
/// Work fails some time after it was handed over, so the call that tells is not always the one that is at fault.
class accelerator_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace trireme

namespace trireme::cuda_runtime {

// A call's purpose is a text, or an object that can be asked for one: texts are made only when they are needed.

inline std::string text_of(char const* operation) { return operation; }
template<class Operation>
std::string text_of(Operation const& operation) {
    return operation.text();
}

TRIREME_COLD inline std::string failure(char const* call, int device, std::string const& operation, char const* name,
                                        char const* text) {
    return std::string(call) + " on gpu " + std::to_string(device) + " for " + operation + ": " + name + " (" + text +
           ")";
}

/// CUDA keeps the last error that a call has returned; libraries that ask for it later would take it for theirs.
inline void forget_last_error() noexcept { static_cast<void>(cudaGetLastError()); }

template<class Operation>
TRIREME_COLD [[noreturn]] void fail(cudaError_t status, char const* call, int device, Operation const& operation) {
    forget_last_error();
    throw accelerator_error(
        failure(call, device, text_of(operation), cudaGetErrorName(status), cudaGetErrorString(status)));
}

/// Throws accelerator_error unless a call of the CUDA runtime has succeeded.
template<class Operation>
void check(cudaError_t status, char const* call, int device, Operation const& operation) {
    if (status != cudaSuccess) fail(status, call, device, operation);
}

/// Ignores a status, for destructors: when a program ends, the driver may be gone before them.
inline void ignore(cudaError_t status) noexcept {
    if (status != cudaSuccess) forget_last_error();
}

/// Makes a device the current one of this thread, for as long as the guard lives.
class on_device {
public:
    template<class Operation>
    on_device(int device, Operation const& operation) {
        check(cudaGetDevice(&before_), "cudaGetDevice", device, operation);
        if (before_ == device) return;
        check(cudaSetDevice(device), "cudaSetDevice", device, operation);
        changed_ = true;
    }
    on_device(int device, std::nothrow_t) noexcept {
        changed_ = cudaGetDevice(&before_) == cudaSuccess && before_ != device && cudaSetDevice(device) == cudaSuccess;
    }
    on_device(on_device const&) = delete;
    on_device& operator=(on_device const&) = delete;
    ~on_device() {
        if (changed_) ignore(cudaSetDevice(before_));
    }

private:
    int before_ = 0;
    bool changed_ = false;
};

} // namespace trireme::cuda_runtime
