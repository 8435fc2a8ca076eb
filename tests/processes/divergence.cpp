// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A loss that is not finite is thrown in all processes, at one step.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <processes/forked.hpp>
#include <support/diverging.hpp>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace processes_divergence_test {
using namespace trireme;
using namespace test_diverging;
using namespace std::chrono_literals;
using processes::meeting_place;

TEST_SUITE("processes/divergence") {
    TEST_CASE("all processes keep the weights of the step before, and go on") {
        watchdog const guard("a loss that is not finite");
        for (auto const& [devices, stages] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
            int const replicas = devices, parts = stages, ranks = devices * stages;
            CAPTURE(ranks);
            auto const place = meeting_place::create(ranks);
            forked_ranks all(ranks, [&](int rank) {
                any_trainer<transport<shared_windows>> t(
                    {.learning_rate = 0.01f, .batch = 24, .logical_shards = 6},
                    {.devices = replicas, .stages = parts, .deadline = 60s, .processes = seat{place, rank}});
                table const good(24);
                t.step(good);
                auto const weights = t.gather_parameters();
                for (std::size_t const at : {0u, 23u})
                    if (divergence_of([&] { t.step(table(24, at, std::numeric_limits<float>::quiet_NaN())); }) !=
                        intact)
                        throw std::runtime_error("nobody has noticed");
                if (!same_bits(t.gather_parameters(), weights)) throw std::runtime_error("the weights have changed");
                if (!std::isfinite(t.step(good).loss)) throw std::runtime_error("it does not go on");
            });
            for (auto const& o : all.wait(100s)) {
                CAPTURE(o.said);
                CHECK(o.code == 0);
            }
        }
    }

    TEST_CASE("an epoch ends in all of them where gradients travel in parts; a gradient alone ends none") {
        watchdog const guard("a loss that is not finite, in parts");
        auto const place = meeting_place::create(3);
        forked_ranks all(3, [&](int rank) {
            trainer<table_network, pitfalls, adam, on<mesh<host, dp<3>>>, transport<shared_windows>,
                    reduce_by<ring, bucket<1_KiB>>>
                t({.learning_rate = 0.01f, .batch = 24}, {.deadline = 60s, .processes = seat{place, rank}});
            table const bad(240, 100, std::numeric_limits<float>::quiet_NaN()), good(24), steep(24, 20, 99);
            training_set const data{bad.samples(), good.samples()};
            if (divergence_of([&] { t.train(data, {.epochs = 1}); }) != intact) throw std::runtime_error("not noticed");
            if (!std::isfinite(t.step(good).loss)) throw std::runtime_error("the weights have changed");
            if (!std::isfinite(t.step(steep).loss)) throw std::runtime_error("a finite loss is none");
            if (std::isfinite(t.gather_parameters().front())) throw std::runtime_error("a step was left out");
            if (divergence_of([&] { t.step(good); }) != intact) throw std::runtime_error("the weights do not tell");
        });
        for (auto const& o : all.wait(100s)) {
            CAPTURE(o.said);
            CHECK(o.code == 0);
        }
    }
}

} // namespace processes_divergence_test
