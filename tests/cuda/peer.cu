// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// All-reduce among ranks of one GPU, and of as many GPUs as there are: every operation and type, against sums made by
// hand.
#include <trireme/cuda.hpp>

#include <kernels/cuda/on_gpu.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

using namespace trireme;

namespace cuda_test {

/// Sums of these are exact in every order, also in bf16.
template<class T>
T number_of(int rank, std::size_t i) {
    return static_cast<T>(static_cast<float>((rank + 1) * (static_cast<int>(i % 7) - 3)));
}

template<class T>
struct ranks {
    explicit ranks(peer_group<gpu> const& group, std::size_t elements) {
        for (int r = 0; r < group.size(); ++r) {
            streams.push_back(std::make_unique<gpu::stream>(group.device_of(r)));
            handles.push_back(streams.back().get());
            memory.emplace_back(group.device_of(r), elements * sizeof(T), "numbers");
            std::vector<T> numbers(elements);
            for (std::size_t i = 0; i < elements; ++i) numbers[i] = number_of<T>(r, i);
            streams.back()->copy(memory.back().data(), numbers.data(), elements * sizeof(T));
            on_gpu::finish(*streams.back());
        }
    }
    T* data(int r) const { return static_cast<T*>(memory[static_cast<std::size_t>(r)].data()); }

    std::vector<std::unique_ptr<gpu::stream>> streams;
    std::vector<gpu::stream*> handles;
    std::vector<gpu::memory> memory;
};

/// True if all ranks have the result of `Op` over all ranks.
template<class T, stream_op Op>
bool all_have_the_result(ranks<T>& all, std::size_t elements) {
    int const n = static_cast<int>(all.handles.size());
    for (int r = 0; r < n; ++r) {
        std::vector<T> values(elements);
        auto& queue = *all.handles[static_cast<std::size_t>(r)];
        queue.copy(values.data(), all.data(r), elements * sizeof(T));
        on_gpu::finish(queue);
        for (std::size_t i = 0; i < elements; ++i) {
            float sum = 0, largest = -1e9f, smallest = 1e9f;
            for (int q = 0; q < n; ++q) {
                auto const x = static_cast<float>(number_of<T>(q, i));
                sum += x;
                largest = std::max(largest, x);
                smallest = std::min(smallest, x);
            }
            if (static_cast<float>(values[i]) != (Op == stream_op::sum   ? sum
                                                  : Op == stream_op::max ? largest
                                                                         : smallest))
                return false;
        }
    }
    return true;
}

template<class T, stream_op Op = stream_op::sum>
void reduces(strategy_choice const& strategy, int n, std::size_t elements) {
    CAPTURE(n);
    CAPTURE(elements);
    peer_group<gpu> const group(n, true);
    ranks<T> all(group, elements);
    std::vector<stream_buffers<T>> buffers;
    for (int r = 0; r < n; ++r) buffers.push_back({all.data(r), all.data(r)});
    auto const s = strategy.all_reduce(n, {}, elements * sizeof(T));
    peer_collective<gpu, T, Op> sum(group, s, {elements, sizeof(T), s.chunks}, buffers);
    sum.enqueue(all.handles);
    CHECK(all_have_the_result<T, Op>(all, elements));
}

template<class T>
void reduces_in_a_tree(int n, std::size_t elements) {
    CAPTURE(n);
    peer_group<gpu> const group(n, true);
    ranks<T> all(group, elements);
    std::vector<T*> slots;
    for (int r = 0; r < n; ++r) slots.push_back(all.data(r));
    peer_collective<gpu, T> sum(group, static_cast<std::size_t>(n), elements, slots);
    sum.enqueue(all.handles);
    CHECK(all_have_the_result<T, stream_op::sum>(all, elements));
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("cuda/peer") {

    TEST_CASE("every strategy adds up") {
        for (auto const& strategy : {strategy_choice(direct{}), strategy_choice(ring{}), strategy_choice(chain{}),
                                     strategy_choice(recursive_halving_doubling{})})
            for (int n : {1, 2, 3, 5})
                for (std::size_t elements : {1, 1000, 100'003}) reduces<float>(strategy, n, elements);
    }

    TEST_CASE("every type and operation") {
        reduces<double>(ring{}, 4, 5000);
        reduces<bf16>(ring{}, 4, 5001);
        reduces<float, stream_op::max>(direct{}, 3, 5000);
        reduces<float, stream_op::min>(direct{}, 3, 5000);
    }

    TEST_CASE("a fixed tree adds up") {
        for (int n : {1, 2, 3, 8}) {
            reduces_in_a_tree<float>(n, 4099);
            reduces_in_a_tree<double>(n, 4099);
        }
    }

    TEST_CASE("a collective in a graph may be done again and again") {
        constexpr std::size_t elements = 10'000;
        peer_group<gpu> const group(2, true);
        ranks<float> all(group, elements);
        auto const s = strategy_choice(direct{}).all_reduce(2, {}, elements * sizeof(float));
        peer_collective<gpu, float> sum(group, s, {elements, sizeof(float), s.chunks},
                                        {{all.data(0), all.data(0)}, {all.data(1), all.data(1)}});
        gpu::event fork(group.device_of(0)), join(group.device_of(1));
        auto& first = *all.handles[0];
        first.begin_capture();
        first.record(fork);
        all.handles[1]->wait(fork);
        sum.enqueue(all.handles);
        all.handles[1]->record(join);
        first.wait(join);
        auto graph = first.end_capture();
        for (int i = 0; i < 3; ++i) first.launch(graph);
        std::vector<float> values(elements);
        first.copy(values.data(), all.data(1), elements * sizeof(float));
        on_gpu::finish(first);
        bool right = true;
        for (std::size_t i = 0; i < elements; ++i) // (1 + 2) x, then twice as much with every further one
            right = right && values[i] == 12.0f * number_of<float>(0, i);
        CHECK(right);
    }
}
