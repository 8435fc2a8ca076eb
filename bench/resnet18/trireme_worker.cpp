// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

int main(int argc, char** argv) { return resnet18_bench::run<resnet18_bench::trainer_with<>>(argc, argv, ""); }
