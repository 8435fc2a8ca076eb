// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/accelerator.hpp>
#include <trireme/device/cuda/errors.hpp>
#include <trireme/device/cuda/launch.hpp>
#include <trireme/device/cuda/warp.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace trireme::cuda_runtime {

/// An event of one device: streams of that device record it, streams of any device wait for it.
class event {
public:
    explicit event(int device) : device_(device) {
        on_device const here(device, "an event");
        check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags", device,
              "an event");
    }
    event(event&& other) noexcept : event_(std::exchange(other.event_, nullptr)), device_(other.device_) {}
    event& operator=(event&& other) noexcept {
        std::swap(event_, other.event_);
        std::swap(device_, other.device_);
        return *this;
    }
    ~event() {
        if (event_ != nullptr) ignore(cudaEventDestroy(event_));
    }

    int device() const noexcept { return device_; }
    cudaEvent_t handle() const noexcept { return event_; }

    /// True if the stream has done all work that it had when the event was recorded, or if the event never was
    /// recorded. Throws what has gone wrong on the device.
    bool reached() const {
        auto const status = cudaEventQuery(event_);
        if (status == cudaErrorNotReady) {
            forget_last_error();
            return false;
        }
        check(status, "cudaEventQuery", device_, "work that was handed over before");
        return true;
    }

private:
    cudaEvent_t event_ = nullptr;
    int device_;
};

/// Work that streams have noted down, ready to be launched as one.
class graph {
public:
    graph() = default;
    graph(graph&& other) noexcept
        : executable_(std::exchange(other.executable_, nullptr)), nodes_(std::exchange(other.nodes_, 0)) {}
    graph& operator=(graph&& other) noexcept {
        std::swap(executable_, other.executable_);
        std::swap(nodes_, other.nodes_);
        return *this;
    }
    ~graph() {
        if (executable_ != nullptr) ignore(cudaGraphExecDestroy(executable_));
    }

    std::size_t nodes() const noexcept { return nodes_; }

private:
    friend class stream;
    cudaGraphExec_t executable_ = nullptr;
    std::size_t nodes_ = 0;
};

/// A stream of a GPU that waits for no other stream unless it is told to. Used by one thread at a time, whatever that
/// thread's current device is.
class stream {
public:
    using event = cuda_runtime::event;
    using graph = cuda_runtime::graph;
    using warp = cuda_runtime::warp;

    explicit stream(int device) : device_(device) {
        on_device const here(device, "a stream");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device,
              "a stream");
    }
    stream(stream&& other) noexcept
        : stream_(std::exchange(other.stream_, nullptr)), device_(other.device_),
          noting_(std::exchange(other.noting_, false)) {}
    stream& operator=(stream&& other) noexcept {
        std::swap(stream_, other.stream_);
        std::swap(device_, other.device_);
        std::swap(noting_, other.noting_);
        return *this;
    }
    ~stream() {
        abandon_capture();
        if (stream_ != nullptr) ignore(cudaStreamDestroy(stream_));
    }

    int device() const noexcept { return device_; }
    cudaStream_t handle() const noexcept { return stream_; }

    void copy(void* to, void const* from, std::size_t bytes) {
        if (bytes == 0) return;
        on_device const here(device_, "a copy");
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync", device_, "a copy");
    }
    void zero(void* to, std::size_t bytes) {
        if (bytes == 0) return;
        on_device const here(device_, "zeros");
        check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync", device_, "zeros");
    }
    template<block_program P>
    void launch(P const& program, std::uint32_t blocks) {
        static_assert(P::threads <= most_threads_of_block && sizeof(typename P::shared) <= most_shared_bytes);
        static_assert(sizeof(P) <= most_argument_bytes, "a block program is an argument of its kernel: keep it small");
        if (blocks == 0) throw std::logic_error("a program was launched with no block");
        on_device const here(device_, "a block program");
        void* arguments[] = {const_cast<void*>(static_cast<void const*>(&program))};
        check(cudaLaunchKernel(run_blocks<P>, dim3(blocks), dim3(P::threads), arguments, 0, stream_),
              "cudaLaunchKernel", device_, "a block program");
    }

    void record(event& e) {
        on_device const here(device_, "an event");
        check(cudaEventRecord(e.handle(), stream_), "cudaEventRecord", device_, "an event");
    }
    void wait(event const& e) {
        on_device const here(device_, "an event");
        check(cudaStreamWaitEvent(stream_, e.handle(), 0), "cudaStreamWaitEvent", device_, "an event");
    }

    void begin_capture() {
        on_device const here(device_, "a capture");
        // thread-local: what other threads allocate meanwhile is none of this capture's business
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", device_,
              "a capture");
        noting_ = true;
    }
    graph end_capture() {
        on_device const here(device_, "a capture");
        noting_ = false; // a capture that fails has ended
        captured noted;
        check(cudaStreamEndCapture(stream_, &noted.graph), "cudaStreamEndCapture", device_, "a capture");
        graph g;
        check(cudaGraphGetNodes(noted.graph, nullptr, &g.nodes_), "cudaGraphGetNodes", device_, "a capture");
        if (g.nodes_ == 0) return g;
        check(cudaGraphInstantiate(&g.executable_, noted.graph, 0), "cudaGraphInstantiate", device_, "a capture");
        // now, or the first launch would do it
        check(cudaGraphUpload(g.executable_, stream_), "cudaGraphUpload", device_, "a capture");
        return g;
    }
    /// Ends a capture whose work is not wanted, because something has thrown in its middle. Nothing happens without
    /// one.
    void abandon_capture() noexcept {
        if (!std::exchange(noting_, false)) return;
        on_device const here(device_, std::nothrow);
        captured noted;
        ignore(cudaStreamEndCapture(stream_, &noted.graph));
    }

    void launch(graph& g) {
        if (g.executable_ == nullptr) return;
        on_device const here(device_, "a graph");
        check(cudaGraphLaunch(g.executable_, stream_), "cudaGraphLaunch", device_, "a graph");
    }

private:
    static constexpr std::size_t most_argument_bytes = 4096;

    struct captured {
        cudaGraph_t graph = nullptr;
        captured() = default;
        captured(captured const&) = delete;
        captured& operator=(captured const&) = delete;
        ~captured() {
            if (graph != nullptr) ignore(cudaGraphDestroy(graph));
        }
    };

    cudaStream_t stream_ = nullptr;
    int device_;
    bool noting_ = false;
};

} // namespace trireme::cuda_runtime
