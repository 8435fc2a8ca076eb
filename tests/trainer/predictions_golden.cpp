// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <support/predicting.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainer_predictions_golden_test {
using namespace trireme;
using namespace test_predicting;
using test_networks::conv3;
using test_networks::halving;
using test_networks::plain;
using test_support::apart;

namespace {

using lenet = test_networks::lenet_of<hyperbolic_tangent, max_pool2d<2>>;
using norm = batch_norm<per_shard>;
using small_residual =
    network<input<1, 8, 8>, conv3<4>, norm, relu, plain<norm, 4>, halving<norm, 8>, flatten, linear<10>>;

/// A network's weights and samples, made from hash numbers, and PyTorch's predictions for these.
template<class Network>
class torch_predictions {
    using in = typename Network::input_extents;
    trireme_golden::file const file{"predictions"};

public:
    explicit torch_predictions(std::string const& network)
        : y(file.numbers(network + ".y")), probabilities(file.numbers(network + ".probabilities")),
          classes(file.integers(network + ".classes")),
          x(trireme_golden::tensor<double>(static_cast<std::uint64_t>(file.integers(network + ".input_number").front()),
                                           classes.size() * in::size, file.number(network + ".input_bound"))) {}

    /// Loads the weights into a trainer or a model, and compares the outputs, classes and probabilities.
    template<class Trainer>
    void are_those_of(Trainer&& t) const {
        t.load_parameters(trireme_golden::parameters<Network, double>());
        t.load_buffers(trireme_golden::buffers<Network, double>());
        auto const said = t.predict(samples_in_memory(x, in::shape));
        REQUIRE(said.values().size() == y.size());
        CHECK(apart(values_of(said), y) < 1e-12);
        CHECK(apart(said.probabilities(), probabilities) < 1e-12);
        auto const chosen = said.all_classes();
        CHECK(std::vector<std::int64_t>(chosen.begin(), chosen.end()) == classes);
    }

private:
    std::vector<double> const y, probabilities;
    std::vector<std::int64_t> const classes;
    std::vector<double> const x;
};

/// Of a model, and of trainers on devices, in stages and both: with batches that the samples do not fill.
template<class Network>
void are_torchs(std::string const& name) {
    watchdog const guard("predictions of whole networks");
    CAPTURE(name);
    torch_predictions<Network> const wanted(name);
    wanted.are_those_of(model<Network, precision<f64>>({.batch = 5}));
    for (auto const& layout : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
        int const replicas = layout.first, stages = layout.second;
        CAPTURE(replicas);
        CAPTURE(stages);
        wanted.are_those_of(any_trainer<host, Network, precision<f64>>(
            {.batch = 16}, {.devices = replicas, .stages = stages, .micro_batches = 4, .schedule = zero_bubble_h1{}}));
    }
}

} // namespace

TEST_SUITE("trainer/predictions_golden") {
    TEST_CASE("values, classes and probabilities of whole networks equal PyTorch's") {
        are_torchs<lenet>("lenet");
        are_torchs<small_residual>("residual");
    }
}

} // namespace trainer_predictions_golden_test
