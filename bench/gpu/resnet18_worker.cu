// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ResNet-18's training on a GPU, as a worker of bench/harness.py: resnet18_worker BATCH f32|bf16|bf16-first

#include "../../examples/resnet18.hpp"
#include "worker.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace {

using namespace trireme;
using gpu_bench::answer_images;

template<class Dtype, class... Policies>
using trainer_in =
    trainer<resnet18<batch_norm<per_shard>>, cross_entropy, sgd, on<mesh<gpu, dp<1>>>, precision<Dtype>, Policies...>;
using channels_last_trainer = trainer_in<bf16, kernels<channels_last<cuda_kernels>>>;

constexpr std::size_t images = 16384;

} // namespace

int main(int argc, char** argv) try {
    std::size_t const batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    std::string_view const precision = argc > 2 ? argv[2] : "";
    if (batch > 0 && images % batch == 0) {
        if (precision == "f32") return answer_images<trainer_in<f32>>(batch, images);
        if (precision == "bf16") return answer_images<channels_last_trainer>(batch, images);
        if (precision == "bf16-first") return answer_images<trainer_in<bf16>>(batch, images);
    }
    std::fprintf(stderr, "usage: resnet18_worker BATCH f32|bf16|bf16-first; BATCH divides %zu\n", images);
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "resnet18_worker: %s\n", e.what());
    return 1;
}
