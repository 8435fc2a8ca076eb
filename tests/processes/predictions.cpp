// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every process of a trainer gets all predictions.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <processes/forked.hpp>
#include <support/predicting.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

namespace processes_predictions_test {
using namespace trireme;
using namespace test_predicting;
using namespace std::chrono_literals;
using processes::meeting_place;

TEST_SUITE("processes/predictions") {
    TEST_CASE("outputs have one device's bits in all processes, of models, too") {
        watchdog const guard("predictions of processes");
        using test_networks::every_layer;
        auto const trained = made_up(48), asked = made_up(77, 4);
        any_trainer<host, every_layer> one({.batch = 48, .logical_shards = 6});
        one.step(trained);
        auto const said = one.predict(asked);
        auto const wanted = digest_of(std::as_bytes(said.values()));
        any_model<host, every_layer> one_model({.batch = 48, .logical_shards = 6});
        one_model.load_parameters(one.gather_parameters());
        one_model.load_buffers(one.gather_buffers());
        auto const told = one_model.predict(asked); // the trainer's within rounding: see predicting.hpp
        auto const wanted_of_model = digest_of(std::as_bytes(told.values()));
        for (auto const& [devices, stages] : {std::pair{1, 2}, {2, 2}, {3, 1}}) {
            int const replicas = devices, parts = stages, ranks = devices * stages;
            CAPTURE(ranks);
            auto const place = meeting_place::create(ranks), other = meeting_place::create(ranks);
            shared_value<std::array<std::uint64_t, 16>> found;
            forked_ranks all(ranks, [&](int rank) {
                any_trainer<host, every_layer, transport<shared_windows>> t(
                    {.batch = 48, .logical_shards = 6},
                    {.devices = replicas, .stages = parts, .deadline = 60s, .processes = seat{place, rank}});
                t.step(trained);
                auto const here = t.predict(asked);
                auto const at = 2 * static_cast<std::size_t>(rank);
                (*found)[at] = digest_of(std::as_bytes(here.values()));
                any_model<host, every_layer, transport<shared_windows>> m(
                    {.batch = 48, .logical_shards = 6},
                    {.devices = replicas, .stages = parts, .deadline = 60s, .processes = seat{other, rank}});
                auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
                m.load_parameters(parameters);
                m.load_buffers(buffers);
                auto const alone = m.predict(asked);
                (*found)[at + 1] = digest_of(std::as_bytes(alone.values()));
            });
            for (auto const& o : all.wait(100s)) {
                CAPTURE(o.said);
                CHECK(o.code == 0);
            }
            for (int r = 0; r < 2 * ranks; ++r)
                CHECK((*found)[static_cast<std::size_t>(r)] == (r % 2 == 0 ? wanted : wanted_of_model));
        }
    }
}

} // namespace processes_predictions_test
