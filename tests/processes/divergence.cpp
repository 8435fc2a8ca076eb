// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A loss that is not finite is thrown in all processes, at one step.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/diverging.hpp>
#include <support/in_ranks.hpp>

#include <stdexcept>
#include <utility>

namespace processes_divergence_test {
using namespace trireme;
using namespace test_diverging;

TEST_SUITE("processes/divergence") {
    TEST_CASE("all processes keep the weights of the step before, and go on") {
        watchdog const guard("a loss that is not finite");
        for (auto const& [devices, stages] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
            using over_processes = any_trainer<transport<shared_windows>>;
            test_ranks::in_ranks<over_processes>(
                {.learning_rate = 0.01f, .batch = 24, .logical_shards = 6}, {.devices = devices, .stages = stages},
                [](over_processes& t) {
                    table const good(24);
                    t.step(good);
                    auto const weights = t.gather_parameters();
                    for (std::size_t const at : {0u, 23u})
                        if (divergence_of([&] { t.step(table(24, at, std::numeric_limits<float>::quiet_NaN())); }) !=
                            intact)
                            throw std::runtime_error("nobody has noticed");
                    if (!same_bits(t.gather_parameters(), weights))
                        throw std::runtime_error("the weights have changed");
                    if (!std::isfinite(t.step(good).loss)) throw std::runtime_error("it does not go on");
                });
        }
    }

    TEST_CASE("an epoch ends in all of them where gradients travel in parts; a gradient alone ends none") {
        watchdog const guard("a loss that is not finite, in parts");
        using in_parts = trainer<table_network, pitfalls, adam, on<mesh<host, dp<3>>>, transport<shared_windows>,
                                 reduce_by<ring, bucket<1_KiB>>>;
        test_ranks::in_ranks<in_parts>({.learning_rate = 0.01f, .batch = 24}, {}, [](in_parts& t) {
            table const bad(240, 100, std::numeric_limits<float>::quiet_NaN()), good(24), steep(24, 20, 99);
            training_set const data{bad.samples(), good.samples()};
            if (divergence_of([&] { t.train(data, {.epochs = 1}); }) != intact) throw std::runtime_error("not noticed");
            if (!std::isfinite(t.step(good).loss)) throw std::runtime_error("the weights have changed");
            if (!std::isfinite(t.step(steep).loss)) throw std::runtime_error("a finite loss is none");
            if (std::isfinite(t.gather_parameters().front())) throw std::runtime_error("a step was left out");
            if (divergence_of([&] { t.step(good); }) != intact) throw std::runtime_error("the weights do not tell");
        });
    }
}

} // namespace processes_divergence_test
