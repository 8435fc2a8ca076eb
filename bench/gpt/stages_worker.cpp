// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../pipeline/worker.hpp"
#include "worker.hpp"

int main(int argc, char** argv) {
    using gpt = gpt_bench::width128;
    bench::pipeline_worker<gpt::network, trireme::adamw, bench::made_up_text> worker(gpt::text(),
                                                                                     gpt_bench::learning_rate);
    return worker.main(argc, argv);
}
