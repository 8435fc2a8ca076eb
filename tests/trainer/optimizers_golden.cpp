// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/golden.hpp>
#include <support/hash.hpp>

#include <trireme/data/samples_in_memory.hpp>
#include <trireme/trireme.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainer_optimizers_golden_test {
using namespace trireme;
using test_support::apart;

namespace {

using net = network<input<6>, linear<8>, hyperbolic_tangent, linear<5>>;
template<class Optimizer>
using any = trainer<net, cross_entropy, Optimizer, on<mesh<host, dp<dynamic>, pp<dynamic>>>, precision<f64>, clip_norm>;

/// Losses, norms and weights are PyTorch's on one device, two replicas and two stages; `o` has the options that the
/// file's metadata name for this kind.
template<class Optimizer>
void is_pytorchs(std::string const& kind, typename any<Optimizer>::options o) {
    CAPTURE(kind);
    trireme_golden::file const file("trainings");
    auto const sizes = file.integers("batch_sizes");
    auto const wide = file.integers("labels");
    auto const inputs = trireme_golden::tensor<float>(460, 6 * wide.size(), 4.0);
    std::vector<int> const labels(wide.begin(), wide.end());
    o.learning_rate = 0.0625f;
    o.rate = cosine_rate{.steps = 6, .warm_up = 2, .least = 0.125};
    std::vector<double> rates;
    for (std::uint64_t step = 0; step < sizes.size(); ++step)
        rates.push_back(static_cast<float>(0.0625 * o.rate.value.factor(step)));
    CHECK(rates == file.numbers("rates"));
    o.max_norm = 1;
    o.weight_decay = 0.125f;
    o.batch = 12;
    for (auto const& layout : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
        int const devices = layout.first, stages = layout.second;
        CAPTURE(devices);
        CAPTURE(stages);
        any<Optimizer> t(o, {.devices = devices, .stages = stages});
        t.load_parameters(trireme_golden::parameters<net, double>());
        std::vector<double> losses, norms;
        std::size_t first = 0;
        for (auto const size : sizes) {
            auto const n = static_cast<std::size_t>(size);
            auto const step = t.step(samples_in_memory(std::span(inputs).subspan(6 * first, 6 * n), make_shape(6),
                                                       std::span(labels).subspan(first, n), 5));
            losses.push_back(step.loss);
            norms.push_back(step.gradient_norm);
            first += n;
        }
        CHECK(apart(losses, file.numbers(kind + ".losses")) < 1e-10);
        CHECK(apart(norms, file.numbers(kind + ".norms")) < 1e-10);
        CHECK(apart(t.gather_parameters(), file.numbers(kind + ".weights")) < 1e-10);
    }
}

} // namespace

TEST_SUITE("trainer/optimizers_golden") {
    TEST_CASE("trainings with clipped gradients and a rate that rises and falls are PyTorch's, by every optimizer") {
        float const epsilon = 1.0f / 1024;
        is_pytorchs<adam>("adam", {.beta1 = 0.75f, .beta2 = 0.875f, .epsilon = epsilon});
        is_pytorchs<adamw>("adamw", {.beta1 = 0.75f, .beta2 = 0.875f, .epsilon = epsilon});
        is_pytorchs<rmsprop>("rmsprop", {.smoothing = 0.75f, .epsilon = epsilon});
        is_pytorchs<rmsprop_momentum>("rmsprop_momentum", {.smoothing = 0.75f, .epsilon = epsilon, .momentum = 0.5f});
        is_pytorchs<adagrad>("adagrad", {.rate_decay = 0.5f, .initial_accumulator = 0.25f, .epsilon = epsilon});
    }
}

} // namespace trainer_optimizers_golden_test
