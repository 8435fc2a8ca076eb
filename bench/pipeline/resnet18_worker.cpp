// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../../examples/resnet18.hpp"
#include "worker.hpp"

int main(int argc, char** argv) {
    return bench::pipeline_worker<resnet18<trireme::batch_norm<trireme::per_shard>>>(bench::made_up_images(2048))
        .main(argc, argv);
}
