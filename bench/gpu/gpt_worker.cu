// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPT's training on a GPU, as a worker of bench/harness.py: gpt_worker NETWORK BATCH f32|bf16
//
// NETWORK is width256, a network of bytes with 6 layers and windows of 256, or gpt2, which has the sizes of GPT-2 with
// 124 million parameters: windows of 1024 tokens of 50,304.

#include "worker.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

namespace {

using namespace trireme;
using gpu_bench::answer;

template<gpt_sizes Sizes, std::size_t Windows>
struct text_for {
    using network = gpt<Sizes>;
    static constexpr std::size_t windows = Windows;

    static auto text() { return bench::made_up_tokens<std::uint16_t>(windows, Sizes.context, Sizes.vocabulary); }
};
using width256 = text_for<gpt_sizes{.layers = 6, .width = 256, .heads = 8, .context = 256}, 4096>;
using gpt2 =
    text_for<gpt_sizes{.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50304, .tied = true},
             128>;

template<class Text, class Dtype>
int train(std::size_t batch) {
    using trainer_type = trainer<typename Text::network, cross_entropy, adamw, on<mesh<gpu, dp<1>>>, precision<Dtype>>;
    auto const text = Text::text();
    return answer<trainer_type>({.learning_rate = 1e-3f, .weight_decay = 0.01f, .batch = batch},
                                text.take(0, text.size()));
}

template<class Text>
std::pair<bool, int> train(std::size_t batch, std::string_view precision) {
    if (batch == 0 || Text::windows % batch != 0) return {false, 2};
    if (precision == "f32") return {true, train<Text, f32>(batch)};
    if (precision == "bf16") return {true, train<Text, bf16>(batch)};
    return {false, 2};
}

} // namespace

int main(int argc, char** argv) try {
    std::string_view const network = argc > 1 ? argv[1] : "";
    std::size_t const batch = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
    std::string_view const precision = argc > 3 ? argv[3] : "";
    auto const [known, code] = network == "width256" ? train<width256>(batch, precision)
                               : network == "gpt2"   ? train<gpt2>(batch, precision)
                                                     : std::pair(false, 2);
    if (known) return code;
    std::fprintf(stderr, "usage: gpt_worker width256|gpt2 BATCH f32|bf16; BATCH divides %zu or %zu\n",
                 width256::windows, gpt2::windows);
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "gpt_worker: %s\n", e.what());
    return 1;
}
