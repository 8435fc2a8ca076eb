// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

// The GPT of width 128 on windows of few bytes: the program WORKER TOKENS BATCH
// DEVICES.

namespace {

template<std::size_t Tokens>
using gpt_of = gpt_bench::byte_gpt<trireme::gpt_sizes{.layers = 4, .width = 128, .heads = 4, .context = Tokens}>;

template<std::size_t... Tokens>
int run(std::size_t tokens, int argc, char** argv) {
    int result = 2;
    if (!((tokens == Tokens && (result = gpt_bench::run<gpt_of<Tokens>>(argc, argv), true)) || ...))
        std::fprintf(stderr, "usage: WORKER TOKENS BATCH DEVICES, with 1, 2, 4, 8 or 16 tokens\n");
    return result;
}

} // namespace

int main(int argc, char** argv) {
    std::size_t const tokens = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    return run<1, 2, 4, 8, 16>(tokens, argc - 1, argv + 1);
}
