// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

namespace {

using namespace trireme;

/// Linear layers so wide that a stage's task on 64 samples takes more than a millisecond.
using dense = network<input<1, 28, 28>, flatten, linear<1024>, repeat<8, relu, linear<1024>>, relu, linear<10>>;

} // namespace

int main(int argc, char** argv) { return bench::pipeline_worker<dense>(bench::made_up_images(2048)).main(argc, argv); }
