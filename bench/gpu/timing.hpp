// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/cuda.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

// Times of the GPU's own clock, for the benchmarks that look at one thing alone.
namespace bench {

inline void check(cudaError_t status, char const* call) {
    trireme::cuda_runtime::check(status, call, 0, "a measurement");
}

/// A graph of CUDA's and what is made of it.
class runnable {
public:
    /// Takes the graph over.
    explicit runnable(cudaGraph_t graph) : graph_(graph) {
        check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    }
    runnable(runnable const&) = delete;
    runnable& operator=(runnable const&) = delete;
    ~runnable() {
        static_cast<void>(cudaGraphExecDestroy(executable_));
        static_cast<void>(cudaGraphDestroy(graph_));
    }
    cudaGraphExec_t executable() const noexcept { return executable_; }

private:
    cudaGraph_t graph_;
    cudaGraphExec_t executable_ = nullptr;
};

/// The graph holds what `work` hands to the stream.
template<class Work>
cudaGraph_t noted(trireme::gpu::stream& s, Work&& work) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(s.handle(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    work();
    check(cudaStreamEndCapture(s.handle(), &graph), "cudaStreamEndCapture");
    return graph;
}

/// Measures a stream's time between two of its events.
class stopwatch {
public:
    explicit stopwatch(cudaStream_t stream) : stream_(stream) {
        check(cudaEventCreate(&begin_), "cudaEventCreate");
        check(cudaEventCreate(&end_), "cudaEventCreate");
    }
    stopwatch(stopwatch const&) = delete;
    stopwatch& operator=(stopwatch const&) = delete;
    ~stopwatch() {
        static_cast<void>(cudaEventDestroy(begin_));
        static_cast<void>(cudaEventDestroy(end_));
    }

    /// Microseconds of what `work` hands over.
    template<class Work>
    double of(Work&& work) {
        check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
        work();
        check(cudaEventRecord(end_, stream_), "cudaEventRecord");
        check(cudaEventSynchronize(end_), "cudaEventSynchronize");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
        return 1e3 * static_cast<double>(milliseconds);
    }

    /// Microseconds of one launch of a graph, from launches for about `milliseconds`; launches follow one another.
    double of(runnable const& graph, double milliseconds = 3) {
        auto const launches = [&](int n) {
            return of([&] {
                for (int i = 0; i < n; ++i) check(cudaGraphLaunch(graph.executable(), stream_), "cudaGraphLaunch");
            });
        };
        launches(1);
        double const once = std::max(launches(3) / 3, 0.5);
        int const n = static_cast<int>(std::clamp(std::ceil(1e3 * milliseconds / once), 1.0, 2000.0));
        return launches(n) / n;
    }

private:
    cudaStream_t stream_;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

} // namespace bench
