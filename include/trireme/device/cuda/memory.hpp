// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/device/cuda/errors.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace trireme::cuda_runtime {

/// Zeroed memory of a GPU. Never managed memory: pages that move by themselves would move in the middle of a step.
class memory {
public:
    memory() = default;
    /// `bytes` may be 0; `what` is what they are for. Throws usage_error if the GPU has not so much left.
    memory(int device, std::size_t bytes, char const* what) : device_(device), bytes_(bytes) {
        if (bytes == 0) return;
        on_device const here(device, what);
        auto const status = cudaMalloc(&data_, bytes);
        if (status == cudaErrorMemoryAllocation) refuse(what);
        check(status, "cudaMalloc", device, what);
        try {
            zero(what);
        } catch (...) {
            release();
            throw;
        }
    }
    memory(memory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), device_(other.device_), bytes_(std::exchange(other.bytes_, 0)) {}
    memory& operator=(memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(device_, other.device_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~memory() { release(); }

    void* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    int device() const noexcept { return device_; }

private:
    TRIREME_COLD [[noreturn]] void refuse(char const* what) const {
        forget_last_error();
        std::size_t free = 0, total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", device_, what);
        throw usage_error("gpu " + std::to_string(device_) + " has no memory for the " + what + ": " +
                          std::to_string(bytes_) + " bytes were asked for, " + std::to_string(free) + " of " +
                          std::to_string(total) + " are free; use a smaller batch, or more devices");
    }

    /// On a stream of its own, so that it waits for nothing but itself.
    void zero(char const* what) {
        cudaStream_t own = nullptr;
        check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device_, what);
        auto status = cudaMemsetAsync(data_, 0, bytes_, own);
        if (status == cudaSuccess) status = cudaStreamSynchronize(own);
        ignore(cudaStreamDestroy(own));
        check(status, "cudaMemsetAsync", device_, what);
    }

    void release() noexcept {
        if (data_ != nullptr) ignore(cudaFree(data_));
        data_ = nullptr;
    }

    void* data_ = nullptr;
    int device_ = 0;
    std::size_t bytes_ = 0;
};

/// Zeroed memory of the host that every GPU can copy to and from while the host goes on.
class pinned_memory {
public:
    pinned_memory() = default;
    explicit pinned_memory(std::size_t bytes) : bytes_(bytes) {
        if (bytes == 0) return;
        auto const status = cudaHostAlloc(&data_, bytes, cudaHostAllocPortable);
        if (status == cudaErrorMemoryAllocation) {
            forget_last_error();
            throw usage_error("the host has no memory that GPUs can copy from: " + std::to_string(bytes) +
                              " bytes were asked for; use a smaller batch, or raise the limit of locked memory");
        }
        int device = 0;
        ignore(cudaGetDevice(&device));
        check(status, "cudaHostAlloc", device, "memory of the host");
        std::memset(data_, 0, bytes);
    }
    pinned_memory(pinned_memory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    pinned_memory& operator=(pinned_memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~pinned_memory() {
        if (data_ != nullptr) ignore(cudaFreeHost(data_));
    }

    void* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

} // namespace trireme::cuda_runtime
