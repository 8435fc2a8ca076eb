// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's training step on a GPU, as a worker of bench/harness.py: trireme_worker BATCH WAY
//
// WAY is one of: fit, epochs as a user trains; fit-eager, the same without a graph; fit-blocks and fit-libraries, the
// same by other kernels; step, one call of `step` per batch, which waits for the loss.

#include "../lenet/network.hpp"
#include "worker.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace {

using namespace trireme;
using gpu_bench::answer_images;

template<class Kernels>
using trainer_by = data_parallel_trainer<bench::lenet, cross_entropy, sgd, on<mesh<gpu, dp<1>>>, kernels<Kernels>>;

constexpr std::size_t images = 61440;

} // namespace

int main(int argc, char** argv) try {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    std::string_view const way = argc > 2 ? argv[2] : "";
    if (batch > 0 && images % batch == 0) {
        if (way == "fit") return answer_images<trainer_by<cuda_kernels>>(batch, images);
        if (way == "fit-eager") return answer_images<trainer_by<cuda_kernels>>(batch, images, true);
        if (way == "step") return answer_images<trainer_by<cuda_kernels>>(batch, images, false, true);
        if (way == "fit-blocks") return answer_images<trainer_by<cuda_block_kernels>>(batch, images);
        if (way == "fit-libraries") return answer_images<trainer_by<cuda_library_kernels>>(batch, images);
    }
    std::fprintf(stderr,
                 "usage: trireme_worker BATCH WAY; BATCH divides %zu, WAY is fit, fit-eager, fit-blocks, "
                 "fit-libraries or step\n",
                 images);
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "trireme_worker: %s\n", e.what());
    return 1;
}
