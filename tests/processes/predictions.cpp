// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every process of a trainer gets all predictions.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/in_ranks.hpp>
#include <support/predicting.hpp>

#include <array>
#include <chrono>
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
            int const replicas = devices, parts = stages;
            auto const place = meeting_place::create(devices * stages);
            test_ranks::come_to<any_trainer<host, every_layer, transport<shared_windows>>>(
                std::array{wanted, wanted_of_model}, {.batch = 48, .logical_shards = 6},
                {.devices = devices, .stages = stages}, [&](auto& t) {
                    t.step(trained);
                    auto const here = t.predict(asked);
                    any_model<host, every_layer, transport<shared_windows>> m(
                        {.batch = 48, .logical_shards = 6},
                        {.devices = replicas, .stages = parts, .deadline = 60s, .processes = seat{place, t.rank()}});
                    auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
                    m.load_parameters(parameters);
                    m.load_buffers(buffers);
                    auto const alone = m.predict(asked);
                    return std::array{digest_of(std::as_bytes(here.values())),
                                      digest_of(std::as_bytes(alone.values()))};
                });
        }
    }
}

} // namespace processes_predictions_test
