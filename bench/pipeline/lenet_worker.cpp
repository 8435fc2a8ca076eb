// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lenet/worker.hpp"
#include "worker.hpp"

int main(int argc, char** argv) {
    return bench::pipeline_worker<bench::lenet>(bench::made_up_images(8192)).main(argc, argv);
}
