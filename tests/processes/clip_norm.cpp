// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients that are clipped over processes are those that are clipped over threads.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/clipping.hpp>
#include <support/forked.hpp>
#include <support/in_ranks.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

namespace processes_clip_norm_test {
namespace {

using namespace trireme;
using namespace test_clipping;
using processes::meeting_place;
using namespace std::chrono_literals;

using over_threads = clipped<host, test_networks::small>;
using over_processes = clipped<host, test_networks::small, transport<shared_windows>>;

template<class Trainer>
std::uint64_t digest_of_training(Trainer& t) {
    auto const all = trained(t);
    return digest_of(std::as_bytes(std::span(all)));
}

} // namespace

TEST_SUITE("processes/clip_norm") {
    TEST_CASE("replicas and stages that are processes have the norms and the bits of one device") {
        watchdog const guard("clipping over processes");
        over_threads one({.learning_rate = 0.5f, .max_norm = 0.02f, .batch = 24, .seed = 5, .logical_shards = 6},
                         {.devices = 1, .stages = 1});
        auto const wanted = digest_of_training(one);
        for (auto const& [devices, stages] : {std::pair{3, 1}, {1, 3}, {2, 2}})
            test_ranks::come_to<over_processes>(
                wanted, {.learning_rate = 0.5f, .max_norm = 0.02f, .batch = 24, .seed = 5, .logical_shards = 6},
                {.devices = devices, .stages = stages}, [](auto& t) { return digest_of_training(t); });
    }

    TEST_CASE("processes with different largest norms are refused, and told both") {
        watchdog const guard("processes that differ in the largest norm");
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            over_processes t({.max_norm = rank == 0 ? 1.0f : 2.0f, .batch = 24},
                             {.devices = 2, .stages = 1, .deadline = 30s, .processes = seat{place, rank}});
        });
        for (auto const& o : all.wait(60s)) {
            CAPTURE(o.said);
            CHECK(o.said.find("max_norm 1") != std::string::npos);
            CHECK(o.said.find("max_norm 2") != std::string::npos);
        }
    }
}

} // namespace processes_clip_norm_test
