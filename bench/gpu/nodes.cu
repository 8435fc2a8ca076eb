// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the time of LeNet's step on a GPU goes, and what a graph's nodes cost beside what they do.
//
// nodes BATCH ROUNDS prints, tab by tab,
//   node NAME MICROSECONDS             each node of the step's graph: one of a chain of a hundred of them
//   round NODES GRAPH SUM EMPTY        microseconds: the graph, replayed; the sum over its nodes; a chain of as many
//                                      empty kernels. (GRAPH - (SUM - EMPTY)) / NODES is what a node costs by itself;
//                                      it is less where nodes run beside one another.

#include "../lenet/network.hpp"
#include "timing.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace trireme;

using bench::lenet;
using lenet_trainer = data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<gpu, dp<1>>>>;
using options = lenet_trainer::options;
using model_type = composition<lenet, cross_entropy, sgd, cuda_kernels, float>;

constexpr int chain_length = 100;

__global__ void nothing() {}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
    std::size_t count = 0;
    bench::check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    bench::check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
    return nodes;
}

/// A node of a graph a hundred times, one after the other.
cudaGraph_t chain_of(cudaGraph_t graph, cudaGraphNode_t node) {
    cudaGraph_t alone = nullptr, chain = nullptr;
    bench::check(cudaGraphClone(&alone, graph), "cudaGraphClone");
    cudaGraphNode_t kept = nullptr;
    bench::check(cudaGraphNodeFindInClone(&kept, node, alone), "cudaGraphNodeFindInClone");
    for (auto const n : nodes_of(alone))
        if (n != kept) bench::check(cudaGraphDestroyNode(n), "cudaGraphDestroyNode");
    bench::check(cudaGraphCreate(&chain, 0), "cudaGraphCreate");
    cudaGraphNode_t last = nullptr;
    for (int i = 0; i < chain_length; ++i) {
        cudaGraphNode_t next = nullptr;
        bench::check(cudaGraphAddChildGraphNode(&next, chain, &last, i == 0 ? 0 : 1, alone),
                     "cudaGraphAddChildGraphNode");
        last = next;
    }
    bench::check(cudaGraphDestroy(alone), "cudaGraphDestroy");
    return chain;
}

/// The block program of a kernel, or what kind of node it is.
std::string name_of(cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    bench::check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeMemset) return "zeros";
    if (type == cudaGraphNodeTypeMemcpy) return "copy";
    if (type != cudaGraphNodeTypeKernel) return "other";
    cudaKernelNodeParams kernel{};
    char const* mangled = nullptr;
    if (cudaGraphKernelNodeGetParams(node, &kernel) != cudaSuccess ||
        cudaFuncGetName(&mangled, kernel.func) != cudaSuccess) {
        cuda_runtime::forget_last_error();
        return "kernel of a library";
    }
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> const plain(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                       &std::free);
    std::string name = status == 0 ? plain.get() : mangled;
    for (std::string const word :
         {"void ", "trireme::", "cuda_runtime::", "blocks::", "run_blocks<", "index_program<", "elementwise_program<"})
        for (std::size_t at = 0; (at = name.find(word)) != std::string::npos;) name.erase(at, word.size());
    return name.substr(0, 60);
}

void measure(std::size_t batch, int rounds) {
    random_stream const random(0, random_purpose::user);
    std::vector<std::uint8_t> pixels(batch * 28 * 28), labels(batch);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < batch; ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    labelled_images const images(pixels, labels, 28, 28, 10);
    std::vector<std::uint32_t> indices(batch);
    std::iota(indices.begin(), indices.end(), 0u);

    // one rank, as accelerator_run drives it
    options const o{.learning_rate = 0.1f, .batch = batch};
    stream_executor<float, gpu, peer_transport<gpu, float>> e(
        lenet_trainer::layout_of(o), stream_model_of<model_type, gpu, options>, batch, lenet_trainer::run_options{});
    e.prepare();
    auto& r = *e.ranks[0];
    stream_rank_of<model_type, gpu, options>::write_settings(o, r.settings(0));
    r.set_samples(0, 0, images, indices, 1.0f / static_cast<float>(batch));
    for (auto const& stage : r.own()) stage.initialise<lenet, xavier_uniform>(r.mirror.weights(stage), 1);
    r.enqueue_load(false);
    r.enqueue_samples(0, 1);
    auto const step = [&] { e.enqueue_step(0); };
    step();
    r.compute.record(r.used[0]);
    if (!await(r.used[0], deadline::in(std::chrono::seconds(60)))) throw std::runtime_error("a step takes a minute");

    bench::runnable const graph(bench::noted(r.compute, step));
    cudaGraph_t const parts = bench::noted(r.compute, step); // the same, to be taken to pieces
    auto const nodes = nodes_of(parts);
    bench::runnable const empty(bench::noted(r.compute, [&] {
        for (std::size_t i = 0; i < nodes.size(); ++i) nothing<<<1, 1, 0, r.compute.handle()>>>();
    }));
    bench::stopwatch watch(r.compute.handle());
    for (int round = 0; round < rounds; ++round) {
        double sum = 0;
        for (auto const node : nodes) {
            bench::runnable const chain(chain_of(parts, node));
            double const each = watch.of(chain, 1) / chain_length;
            sum += each;
            if (round == 0) std::printf("node\t%s\t%.5g\n", name_of(node).c_str(), each);
        }
        std::printf("round\t%zu\t%.6g\t%.6g\t%.6g\n", nodes.size(), watch.of(graph), sum, watch.of(empty));
        std::fflush(stdout);
    }
    static_cast<void>(cudaGraphDestroy(parts));
}

} // namespace

int main(int argc, char** argv) try {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    int const rounds = argc > 2 ? std::atoi(argv[2]) : 0;
    if (batch == 0 || rounds < 1) {
        std::fprintf(stderr, "usage: nodes BATCH ROUNDS\n");
        return 2;
    }
    gpu::count();
    measure(batch, rounds);
    return 0;
} catch (std::exception const& e) {
    std::fprintf(stderr, "nodes: %s\n", e.what());
    return 1;
}
