// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The guide's mapping of a GPT-2 file, on one that transformers have saved, and what they say with it.

#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/files.hpp>
#include <support/golden.hpp>
#include <support/networks.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace docs_gpt2_test {
using namespace trireme;

namespace {

// [gpt2]
file_tensor in_gpt2(named_tensor const& t) { // "3.1.0.weight" is in block 1: blocks are behind tokens and positions
    static std::map<std::string, std::string> const names{{"0.0", "ln_1"},        {"0.1", "attn.c_attn"},
                                                          {"0.3", "attn.c_proj"}, {"1.0", "ln_2"},
                                                          {"1.1", "mlp.c_fc"},    {"1.3", "mlp.c_proj"}};
    auto const first = t.name.find('.'), last = t.name.rfind('.');
    auto const unit = std::stoi(t.name);
    auto const what = t.name.substr(last);
    if (first == last) return {(unit == 0 ? "wte" : unit == 1 ? "wpe" : "ln_f") + what};
    auto const name = names.at(t.name.substr(first + 1, last - first - 1));
    return {"h." + std::to_string(unit - 2) + '.' + name + what, name.find("c_") != name.npos && what == ".weight"};
}
// [/gpt2]

template<std::size_t Width>
using gpt2_of = gpt<gpt_sizes{.layers = 2, .width = Width, .heads = 2, .context = 8, .vocabulary = 17, .tied = true}>;

} // namespace

TEST_CASE("a GPT-2 file") {
    trireme_golden::file const says("gpt2_says");
    auto const path = trireme_golden::file("gpt2").path();
    std::vector<std::uint8_t> tokens;
    for (double const token : says.numbers("tokens")) tokens.push_back(static_cast<std::uint8_t>(token));
    // [load_gpt2]
    model<gpt2_of<16>> gpt2; // .layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257
    load_weights(gpt2, path, in_gpt2);
    auto const scores = gpt2.predict(samples_in_memory(tokens, make_shape(8))).values();
    // [/load_gpt2]
    CHECK(test_support::apart(scores, says.numbers("logits")) < 2e-5);

    auto const before = gpt2.gather_parameters();
    CHECK_THROWS_WITH_AS(load_weights(gpt2, path, [](named_tensor const& t) { return file_tensor{t.name}; }),
                         doctest::Contains("there is no tensor '0.weight'"), data_error);
    CHECK_THROWS_WITH_AS(load_weights(gpt2, path,
                                      [](named_tensor const& t) {
                                          auto from = in_gpt2(t);
                                          from.transposed = true;
                                          return from;
                                      }),
                         doctest::Contains("wanted is"), data_error);
    CHECK_THROWS_WITH_AS(load_weights(gpt2, path,
                                      [](named_tensor const& t) {
                                          auto from = in_gpt2(t);
                                          from.transposed = from.transposed || t.shape.rank == 1;
                                          return from;
                                      }),
                         doctest::Contains("it is no matrix"), usage_error);
    CHECK(test_networks::same_bits(gpt2.gather_parameters(), before));
    model<gpt2_of<32>> wider;
    CHECK_THROWS_WITH_AS(load_weights(wider, path, in_gpt2), doctest::Contains("[17, 16]"), data_error);
}

TEST_CASE("weights of a GPT come from PyTorch and go back bit for bit") {
    trireme_golden::file const says("gpt2_says");
    std::vector<std::uint8_t> tokens;
    for (double const token : says.numbers("tokens")) tokens.push_back(static_cast<std::uint8_t>(token));
    model<gpt<gpt_sizes{.layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 17}>> m;
    auto const path = trireme_golden::file("gpt_state").path();
    load_weights(m, path);
    auto const scores = m.predict(samples_in_memory(tokens, make_shape(8))).values();
    CHECK(test_support::apart(scores, says.numbers("logits_of_sequential")) < 2e-5);
    files::folder const folder;
    save_weights(m, folder.path("again"));
    auto const content = [](std::string const& name) {
        std::ifstream in(name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    CHECK(content(folder.path("again")) == content(path));
}

} // namespace docs_gpt2_test
