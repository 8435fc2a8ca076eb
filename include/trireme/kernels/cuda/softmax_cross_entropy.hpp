// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/cuda/errors.hpp>
#include <trireme/device/cuda/queue.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/blocks/softmax_cross_entropy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/cuda/policy.hpp>

#include <cub/block/block_reduce.cuh> // all of CUB would take seconds to compile

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

// Sums and maxima over a whole block, by CUB: its threads hand them over within their warps, from register to register,
// where a block program has to go through shared memory and wait at barriers. For a fixed number of threads CUB adds in
// a fixed order, so the same numbers give the same bits.
namespace trireme::cuda_runtime {

/// Fewest classes for which a block per sample is worth it. Fewer are too little work for it: a block program has a
/// thread or a warp per sample there. An estimate, not measured yet.
inline constexpr std::size_t fewest_classes_of_cub = 128;
template<std::size_t Classes>
inline constexpr bool softmax_for_library = Classes >= fewest_classes_of_cub;

/// Whole warps; several classes for each thread as soon as there are enough.
template<std::size_t Classes>
inline constexpr unsigned softmax_threads = Classes <= 64     ? 32
                                            : Classes <= 512  ? 128
                                            : Classes <= 8192 ? 256
                                                              : 1024;

/// The larger of two logits, as block programs choose it. Any order of comparisons has the same end.
struct larger_candidate {
    template<class A>
    __device__ blocks::candidate<A> operator()(blocks::candidate<A> a, blocks::candidate<A> const& b) const {
        a.meet(b.value, b.place);
        return a;
    }
};

struct both_added {
    __device__ sample_score operator()(sample_score const& a, sample_score const& b) const {
        return {a.loss + b.loss, a.correct + b.correct};
    }
};

/// One value per sample, but for logits and dlogits: `Classes`, as values lie in memory.
template<class A, class T>
struct softmax_arrays {
    A const* logits;
    int const* labels;
    T const* weight;
    A* dlogits;
    T* loss;
    int* correct;
};

/// Losses, and with `Gradient` dlogits, else whether the first largest logit is the label's; a block per sample.
template<std::uint32_t Classes, bool Gradient, class A, class T>
__global__ void __launch_bounds__(softmax_threads<Classes>) softmax_of_samples(softmax_arrays<A, T> const at) {
    using number = accumulate_t<T>;
    constexpr unsigned threads = softmax_threads<Classes>;
    using best_of_block = cub::BlockReduce<blocks::candidate<number>, threads>;
    using sum_of_block = cub::BlockReduce<number, threads>;
    __shared__ typename best_of_block::TempStorage best_storage;
    __shared__ typename sum_of_block::TempStorage sum_storage;
    __shared__ number whole_largest, whole_sum; // CUB tells its first thread only

    std::size_t const sample = blockIdx.x;
    unsigned const thread = threadIdx.x;
    A const* const x = at.logits + sample * Classes;
    std::uint32_t const own = thread < Classes ? thread : 0; // to meet a logit twice changes nothing
    blocks::candidate<number> best{static_cast<number>(x[own]), own};
    for (std::uint32_t c = thread + threads; c < Classes; c += threads) best.meet(static_cast<number>(x[c]), c);
    best = best_of_block(best_storage).Reduce(best, larger_candidate{});
    if (thread == 0) whole_largest = best.value;
    __syncthreads();
    number const largest = whole_largest;

    number sum = 0;
    for (std::uint32_t c = thread; c < Classes; c += threads) sum += std::exp(static_cast<number>(x[c]) - largest);
    sum = sum_of_block(sum_storage).Sum(sum);
    auto const label = static_cast<std::uint32_t>(at.labels[sample]);
    if (thread == 0) {
        at.loss[sample] = static_cast<T>(std::log(sum) - (static_cast<number>(x[label]) - largest));
        if constexpr (!Gradient) at.correct[sample] = best.place == label ? 1 : 0;
    }
    if constexpr (Gradient) {
        if (thread == 0) whole_sum = sum;
        __syncthreads();
        sum = whole_sum;
        auto const scale = static_cast<number>(at.weight[sample]);
        A* const dx = at.dlogits + sample * Classes;
        for (std::uint32_t c = thread; c < Classes; c += threads) {
            number const softmax = std::exp(static_cast<number>(x[c]) - largest) / sum;
            dx[c] = static_cast<A>(scale * (softmax - (c == label ? number(1) : number(0))));
        }
    }
}

inline constexpr unsigned score_threads = 512;

/// As blocks::score_sum.
template<class T>
struct score_arrays {
    T const* loss;
    int const* correct;
    std::uint32_t const* count;
    sample_score* sum;
};

/// Adds the scores of the first *count samples to *sum, by one block: every thread adds every 512th.
template<class T>
__global__ void __launch_bounds__(score_threads) sum_of_scores(score_arrays<T> const at) {
    using sum_of_block = cub::BlockReduce<sample_score, score_threads>;
    __shared__ typename sum_of_block::TempStorage storage;
    sample_score part{0, 0};
    std::uint32_t const n = *at.count;
    for (std::uint32_t i = threadIdx.x; i < n; i += score_threads) {
        part.loss += static_cast<double>(static_cast<accumulate_t<T>>(at.loss[i]));
        if (at.correct != nullptr) part.correct += static_cast<std::uint64_t>(at.correct[i]);
    }
    part = sum_of_block(storage).Reduce(part, both_added{});
    if (threadIdx.x == 0) *at.sum = both_added{}(*at.sum, part);
}

/// Hands a kernel to a stream that is no block program.
template<class Arrays>
void launch_kernel(stream& queue, void (*kernel)(Arrays), std::size_t blocks, unsigned threads, Arrays arrays,
                   char const* what) {
    on_device const here(queue.device(), what);
    void* arguments[] = {&arrays};
    check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads), arguments, 0, queue.handle()),
          "cudaLaunchKernel", queue.device(), what);
}

} // namespace trireme::cuda_runtime

namespace trireme {

// The meaning is that of the block programs; see kernels/blocks/softmax_cross_entropy.hpp and
// kernels/blocks/samples.hpp.

template<std::size_t Classes, std::size_t Lanes, bool Everywhere, class A, class T>
void softmax_cross_entropy(kernels_with_libraries<Everywhere> const& k, A const* logits, int const* labels,
                           T const* weight, A* dlogits, T* loss) {
    if constexpr (Everywhere || cuda_runtime::softmax_for_library<Classes>) {
        if (k.samples() != 0)
            cuda_runtime::launch_kernel(
                k.queue(), &cuda_runtime::softmax_of_samples<Classes, true, A, T>, k.samples(),
                cuda_runtime::softmax_threads<Classes>,
                cuda_runtime::softmax_arrays<A, T>{logits, labels, weight, dlogits, loss, nullptr},
                "softmax_cross_entropy");
    } else {
        softmax_cross_entropy<Classes, Lanes>(k.blocks(), logits, labels, weight, dlogits, loss);
    }
}

template<std::size_t Classes, std::size_t Lanes, bool Everywhere, class A, class T>
void softmax_cross_entropy_loss(kernels_with_libraries<Everywhere> const& k, A const* logits, int const* labels,
                                T* loss, int* correct) {
    if constexpr (Everywhere || cuda_runtime::softmax_for_library<Classes>) {
        if (k.samples() != 0)
            cuda_runtime::launch_kernel(
                k.queue(), &cuda_runtime::softmax_of_samples<Classes, false, A, T>, k.samples(),
                cuda_runtime::softmax_threads<Classes>,
                cuda_runtime::softmax_arrays<A, T>{logits, labels, nullptr, nullptr, loss, correct},
                "softmax_cross_entropy_loss");
    } else {
        softmax_cross_entropy_loss<Classes, Lanes>(k.blocks(), logits, labels, loss, correct);
    }
}

template<bool Everywhere, class T>
void add_scores(kernels_with_libraries<Everywhere> const& k, T const* loss, int const* correct,
                std::uint32_t const* count, sample_score* sum) {
    cuda_runtime::launch_kernel(k.queue(), &cuda_runtime::sum_of_scores<T>, 1, cuda_runtime::score_threads,
                                cuda_runtime::score_arrays<T>{loss, correct, count, sum}, "add_scores");
}

} // namespace trireme
