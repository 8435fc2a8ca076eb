// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

int main(int argc, char** argv) { return gpt_bench::run<gpt_bench::micro>(argc, argv); }
