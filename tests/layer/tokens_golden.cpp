// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <trireme/reference.hpp>
#include <trireme/trireme.hpp>

#include "against_torch.hpp"
#include "loss_of_batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace layer_tokens_golden_test {
using namespace trireme;
namespace golden = trireme_golden;
using test_loss::weights_of_ten;
using test_torch::check_equal;

namespace {

golden::file const file("tokens");

/// The kernels that networks of tokens run with, and the naive loops, for one sample and for two at a time.
using fast = sample_by_sample<portable>;
struct two_samples : reference {
    template<class T>
    static constexpr std::size_t lanes = 2;
};

std::uint64_t case_number(std::string const& name) {
    return static_cast<std::uint64_t>(file.integers(name + ".case_number").front());
}

/// Output and gradients of a layer equal those that PyTorch's layer `name` has.
template<class Layer, class Input, class Kernels>
void check_layer(std::string const& name) {
    CAPTURE(name);
    auto const y = file.numbers(name + ".y"), dx = file.numbers(name + ".dx");
    test_torch::layer_against_torch<Layer, Input, Kernels> const ours(
        golden::tensor<double>(600 + case_number(name), dx.size(), file.number(name + ".bound")),
        golden::tensor<double>(650 + case_number(name), y.size(), 1.0));
    check_equal("output", ours.y, y);
    check_equal("gradient by the input", ours.dx, dx);
    if (!ours.dp.empty()) check_equal("gradient by the parameters", ours.dp, file.numbers(name + ".dp"));
}

template<std::size_t Tokens, std::size_t Classes, class Kernels>
void check_cross_entropy(std::string const& name) {
    CAPTURE(name);
    auto const dx = file.numbers(name + ".dx");
    auto const targets = golden::tokens<int>(700 + case_number(name), dx.size() / Classes, Classes);
    test_loss::batch<cross_entropy, extents<Tokens, Classes>, Kernels> const ours(
        golden::tensor<double>(600 + case_number(name), dx.size(), 5.0), targets);
    CHECK(ours.mean == doctest::Approx(file.number(name + ".y")).epsilon(1e-13));
    CHECK(ours.correct == static_cast<std::size_t>(file.integers(name + ".correct").front()));
    check_equal("gradient by the logits", ours.gradient, dx);
}

template<std::size_t Tokens, class Kernels, class... Options>
void check_soft_cross_entropy(std::string const& name) {
    CAPTURE(name);
    constexpr std::size_t classes = 10;
    using loss = cross_entropy_with<Options...>;
    constexpr int ignored = loss::describe(make_shape(Tokens, classes)).ignored;
    auto const dx = file.numbers(name + ".dx");
    auto targets = golden::tokens<int>(700 + case_number(name), dx.size() / classes, classes);
    for (std::size_t i = 0; ignored != no_label && i < targets.size(); i += 3) targets[i] = ignored;
    test_loss::batch<loss, extents<Tokens, classes>, Kernels> const ours(
        golden::tensor<double>(600 + case_number(name), dx.size(), 5.0), targets);
    CHECK(ours.mean == doctest::Approx(file.number(name + ".y")).epsilon(1e-13));
    check_equal("gradient by the logits", ours.gradient, dx);
}

/// A whole network, of two samples: its output, and the gradients of all parameters, of which some are added up over
/// both.
template<class Network, class Kernels>
void check_network(std::string const& name, std::size_t vocabulary) {
    CAPTURE(name);
    constexpr std::size_t samples = 2, inputs = Network::input_extents::size, outputs = Network::output_extents::size;
    using pass_type = host_pass<Network, sample_by_sample<Kernels>, double>;
    static_assert(pass_type::lanes == 1);
    auto const p = golden::parameters<Network, double>();
    auto const x = golden::tokens<double>(700 + case_number(name), samples * inputs, vocabulary);
    auto const dy = golden::tensor<double>(650 + case_number(name), samples * outputs, 1.0);
    std::vector<double> y(dy.size()), dp(p.size() + Network::tied_gradients);
    auto const places = pass_type::plan(samples);
    std::vector<double> arena(pass_type::elements(places));
    detail::model_numbers<double> numbers{p.data(), dp.data()};
    numbers.tied_lie = p.size();
    pass_type const pass(places, arena.data(), numbers, {.count = samples, .samples = samples, .batch = samples});
    pass.forward([&](std::size_t g) { std::copy_n(x.data() + g * inputs, inputs, pass.input(g)); });
    for (std::size_t g = 0; g < samples; ++g) std::copy_n(pass.output(g), outputs, y.data() + g * outputs);
    pass.backward([&](std::size_t g) { std::copy_n(dy.data() + g * outputs, outputs, pass.output_gradient(g)); });
    for (std::size_t i = 0; i < Network::tied_gradients; ++i) dp[i] += dp[p.size() + i]; // of rows tied to the first
    dp.resize(p.size());
    check_equal("output", y, file.numbers(name + ".y"));
    check_equal("gradient by the parameters", dp, file.numbers(name + ".dp"));
}

} // namespace

TEST_SUITE("layer/tokens_golden") {
    TEST_CASE_TEMPLATE("attention equals PyTorch's", TestType, fast, reference, two_samples) {
        check_layer<attention<heads<1>>, input<5, 27>, TestType>("attention_5");
        check_layer<attention<heads<2>, causal>, input<5, 36>, TestType>("attention_5_causal");
        check_layer<attention<heads<3>>, input<37, 45>, TestType>("attention_37");
        check_layer<attention<heads<3>, causal>, input<37, 45>, TestType>("attention_37_causal");
        check_layer<attention<heads<4>, causal>, input<16, 48>, TestType>("attention_16_causal");
    }

    TEST_CASE_TEMPLATE("layer_norm, rms_norm, and linear over tokens, equal PyTorch's", TestType, fast, reference,
                       two_samples) {
        check_layer<layer_norm, input<5, 9>, TestType>("layer_norm_9");
        check_layer<layer_norm, input<3, 37>, TestType>("layer_norm_37");
        check_layer<layer_norm, input<3, 8>, TestType>("layer_norm_of_little");
        check_layer<rms_norm, input<5, 9>, TestType>("rms_norm_9");
        check_layer<rms_norm, input<3, 37>, TestType>("rms_norm_of_little");
        check_layer<rms_norm_without_weight, input<3, 8>, TestType>("rms_norm_without_weight");
        check_layer<linear<5>, input<6, 7>, TestType>("linear_tokens");
        check_layer<linear<37>, input<5, 19>, TestType>("linear_more_tokens");
        check_layer<linear<5, without_bias>, input<6, 7>, TestType>("linear_without_bias");
    }

    TEST_CASE_TEMPLATE("cross-entropy over tokens equals PyTorch's", TestType, fast, reference, two_samples) {
        check_cross_entropy<5, 11, TestType>("cross_entropy_5");
        check_cross_entropy<7, 64, TestType>("cross_entropy_7");
        using weighted = class_weights<weights_of_ten>;
        using smooth = label_smoothing<percent<10>>;
        check_soft_cross_entropy<5, TestType, ignoring<-1>>("ignoring");
        check_soft_cross_entropy<4, TestType, smooth>("smooth");
        check_soft_cross_entropy<7, TestType, weighted, ignoring<-1>>("weighted_ignoring");
        check_soft_cross_entropy<6, TestType, smooth, ignoring<-1>, weighted>("all");
    }

    TEST_CASE_TEMPLATE("embedding and positions, and all of a transformer, equal PyTorch's", TestType, portable,
                       reference) {
        check_network<network<input<7>, embedding<6, 9>, learned_positions>, TestType>("embedding_positions", 6);
        check_network<gpt<gpt_sizes{.layers = 1, .width = 12, .heads = 3, .context = 7, .vocabulary = 11}>, TestType>(
            "small_gpt", 11);
        check_network<gpt<gpt_sizes{.width = 12, .heads = 3, .context = 7, .vocabulary = 11, .tied = true}>, TestType>(
            "small_tied_gpt", 11);
    }
}

} // namespace layer_tokens_golden_test
