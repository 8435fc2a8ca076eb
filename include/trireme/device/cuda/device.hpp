// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/cuda/errors.hpp>
#include <trireme/device/cuda/memory.hpp>
#include <trireme/device/cuda/nvtx.hpp>
#include <trireme/device/cuda/queue.hpp>
#include <trireme/kernels/cuda.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace trireme {

/// A GPU of NVIDIA's: `mesh<gpu, dp<2>>` are two of them. Needs nvcc, and cuBLASLt and cuDNN to link with.
struct gpu {
    static constexpr char const* name = "gpu";
    using memory = cuda_runtime::memory;
    using pinned_memory = cuda_runtime::pinned_memory;
    using stream = cuda_runtime::stream;
    using event = cuda_runtime::event;
    using graph = cuda_runtime::graph;
    using libraries = cuda_runtime::libraries;
    using kernels = cuda_kernels;
    using range = cuda_runtime::range_scope;
    static constexpr std::size_t workspace_bytes =
        cuda_runtime::workspace_of_cublaslt; ///< per stream with kernels, of policies that do not say how much

    /// At least 1; throws usage_error if there is no GPU, or no driver for it.
    static int count() {
        int devices = 0;
        auto const status = cudaGetDeviceCount(&devices);
        if (status == cudaSuccess && devices > 0) return devices;
        cuda_runtime::forget_last_error();
        auto const why = status == cudaSuccess ? cudaErrorNoDevice : status;
        throw usage_error(std::string("no GPU can be used: cudaGetDeviceCount says ") + cudaGetErrorName(why) + " (" +
                          cudaGetErrorString(why) + "); install a driver for CUDA " + version_of(CUDART_VERSION) +
                          " or newer, look at CUDA_VISIBLE_DEVICES, or train on mesh<host, ...>");
    }

    /// Makes it the calling thread's device. Else what asks CUDA for nothing in particular would wake GPU 0.
    static void use(int device) {
        cuda_runtime::check(cudaSetDevice(device), "cudaSetDevice", device, "the thread that drives it");
    }

    /// True if kernels and copies of one GPU reach the memory of another directly.
    static bool reaches(int device, int other) {
        if (device == other) return true;
        int can = 0;
        cuda_runtime::check(cudaDeviceCanAccessPeer(&can, device, other), "cudaDeviceCanAccessPeer", device,
                            "the memory of another");
        return can != 0;
    }

    /// Lets two GPUs that reach each other do so. May be called again.
    static void enable_peers(int a, int b) {
        if (a == b) return;
        enable_peer(a, b);
        enable_peer(b, a);
    }

    /// For people: "NVIDIA H200, 132 multiprocessors, 139 GiB, compute capability 9.0".
    static std::string describe(int device) {
        cudaDeviceProp its{};
        cuda_runtime::check(cudaGetDeviceProperties(&its, device), "cudaGetDeviceProperties", device,
                            "its description");
        return std::string(its.name) + ", " + std::to_string(its.multiProcessorCount) + " multiprocessors, " +
               std::to_string(its.totalGlobalMem / 1_GiB) + " GiB, compute capability " + std::to_string(its.major) +
               "." + std::to_string(its.minor);
    }

private:
    static std::string version_of(int number) {
        return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
    }

    static void enable_peer(int device, int other) {
        cuda_runtime::on_device const here(device, "the memory of another");
        auto const status = cudaDeviceEnablePeerAccess(other, 0);
        if (status == cudaErrorPeerAccessAlreadyEnabled)
            cuda_runtime::forget_last_error();
        else
            cuda_runtime::check(status, "cudaDeviceEnablePeerAccess", device, "the memory of another");
    }
};
static_assert(accelerator<gpu>);

} // namespace trireme
