// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A loss that is not finite is thrown in all processes, at one step.

#include <trireme/checkpoints.hpp>
#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/diverging.hpp>
#include <support/in_ranks.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

    TEST_CASE("each process has the reason itself where it takes the trainer away in all of them") {
        watchdog const guard("a loss that is not finite takes trainers away");
        using pair = any_trainer<transport<shared_windows>>;
        std::vector<processes::meeting_place> places; // one for each trainer: who leaves first changes
        for (int i = 0; i < 100; ++i) places.push_back(processes::meeting_place::create(2));
        table const bad(24, 23, std::numeric_limits<float>::quiet_NaN());
        forked_ranks all(2, [&](int rank) {
            for (std::size_t i = 0; i < places.size(); ++i) {
                bool const steps = i % 2 == 0; // the others read weights
                std::string said;
                try {
                    pair t({.learning_rate = 0.01f, .batch = 24},
                           {.devices = 2, .deadline = std::chrono::seconds(60), .processes = seat{places[i], rank}});
                    if (steps) t.step(bad);
                    load_weights(t, "/no/such/file");
                } catch (std::exception const& e) {
                    said = e.what();
                }
                CAPTURE(said);
                CHECK(said.find(steps ? "the loss of training step 1 is nan" : "No such file") != said.npos);
            }
        });
        all_end_well(all, std::chrono::seconds(100));
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
