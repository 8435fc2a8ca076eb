// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

#include <trireme/onednn.hpp>

int main(int argc, char** argv) {
    using trainer = resnet18_bench::trainer_with<trireme::kernels<trireme::onednn>, trireme::precision<trireme::bf16>>;
    return resnet18_bench::run<trainer>(argc, argv, " with oneDNN in bf16");
}
