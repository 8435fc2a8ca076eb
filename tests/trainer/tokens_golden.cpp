// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/readers.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/golden_losses.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace trainer_tokens_golden_test {
using namespace trireme;
namespace golden = trireme_golden;

namespace {

constexpr std::size_t tokens_of_window = 16, all_tokens = 64;
template<bool Tied>
using net = gpt<gpt_sizes{
    .layers = 2, .width = 32, .heads = 4, .context = tokens_of_window, .vocabulary = all_tokens, .tied = Tied}>;

/// A trainer of any number of devices, and of stages.
template<class Dtype, bool Tied = false>
using any_layout = trainer<net<Tied>, cross_entropy, adamw, on<mesh<host, dp<dynamic>, pp<dynamic>>>, precision<Dtype>,
                           without_decay<biases, norms>>;

/// A trainer with the options of the golden run has its losses. `tolerance` is tighter than what is promised (1e-4):
/// losses are at most 6e-16 away in double precision, and 2e-7 in single.
template<class Trainer>
void check_losses(double tolerance, typename Trainer::run_options const& run, char const* losses = "trained.loss_f64") {
    golden::file const file("tokens");
    auto const option = [&](char const* name) {
        return static_cast<float>(file.number(std::string("trained.") + name));
    };
    auto const integer = [&](char const* name) {
        return static_cast<std::size_t>(file.integers(std::string("trained.") + name).front());
    };
    auto const torch = file.numbers(losses);
    auto const batch = integer("batch"), windows = integer("windows");
    Trainer t({.learning_rate = option("learning_rate"),
               .beta1 = option("beta1"),
               .beta2 = option("beta2"),
               .epsilon = option("epsilon"),
               .weight_decay = option("weight_decay"),
               .batch = batch},
              run);
    auto const tokens = golden::tokens<int>(750, windows * tokens_of_window + 1, all_tokens);
    REQUIRE(torch.size() == 20);
    golden::has_losses(t, torch, tolerance, [&](std::size_t k) {
        auto const first = k * batch % windows;
        return token_windows(
            std::span<int const>(tokens).subspan(first * tokens_of_window, batch * tokens_of_window + 1),
            tokens_of_window, all_tokens);
    });
}

} // namespace

TEST_SUITE("trainer/tokens_golden") {
    TEST_CASE_TEMPLATE("the first 20 losses of a transformer equal PyTorch's", TestType, f64, f32) {
        double const tolerance = std::is_same_v<TestType, f64> ? 1e-10 : 1e-5;
        using t = any_layout<TestType>;
        SUBCASE("on one device") { check_losses<t>(tolerance, {.devices = 1}); }
        SUBCASE("on two devices") { check_losses<t>(tolerance, {.devices = 2}); }
        SUBCASE("in two stages, with four micro-batches") {
            check_losses<t>(tolerance, {.devices = 1, .stages = 2, .micro_batches = 4, .schedule = one_f_one_b{}});
        }
        SUBCASE("whose end is tied to its embedding, on two devices, and with the two rows in two stages") {
            using tied = any_layout<TestType, true>;
            check_losses<tied>(tolerance, {.devices = 2}, "trained.tied_loss_f64");
            check_losses<tied>(tolerance, {.devices = 1, .stages = 2, .micro_batches = 4, .schedule = one_f_one_b{}},
                               "trained.tied_loss_f64");
        }
    }
}

} // namespace trainer_tokens_golden_test
