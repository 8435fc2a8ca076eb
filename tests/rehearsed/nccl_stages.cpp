// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Pipelines over transport<nccl>, and groups along axes of a mesh, rehearsed on the host: see nccl.cpp.

#include <doctest/doctest.h>

#if __has_include(<cuda_runtime.h>) && __has_include(<nccl.h>)

#include <rehearsed/nccl_mock.hpp>
#include <rehearsed/nccl_on_stage.hpp>
#include <rehearsed/trainings.hpp>
#include <support/messages.hpp>
#include <support/pipelines.hpp>

#include <trireme/rehearsal.hpp>
#include <trireme/trainer/nccl_transport.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace rehearsed_nccl_stages_test {
using namespace trireme;
using nccl_mock::rehearsal_with_nccl;
using rehearsal_runtime::timing;
using rehearsed::in_stages;
using rehearsed::index;
using rehearsed::nccl_on_stage;
using test_support::text_of_error;

namespace {

template<class Way>
auto trained_in_stages(std::size_t logical_shards, typename in_stages<Way>::run_options const& run) {
    rehearsed::memory_taken const taken;
    in_stages<Way> t({.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = logical_shards}, run);
    taken.is_planned(t);
    auto const result = test_pipelines::train(t);
    for (int rank = 0; rank < t.devices(); ++rank) {
        auto const steps = test_pipelines::steps_of_training;
        auto const planned = t.plan().wire(rank), moved = t.wire(rank);
        CHECK(moved.messages == steps * planned.messages);
        CHECK(moved.bytes == steps * planned.bytes);
    }
    return result;
}

} // namespace

TEST_SUITE("rehearsed/nccl_stages") {
    TEST_CASE("a training in stages has the bits that it has over peer access, and moves what the plan says") {
        struct layout {
            int replicas, stages;
            schedule_choice schedule;
            strategy_choice strategy;
        };
        for (auto const& l : {layout{2, 2, zero_bubble_h1{}, ring{}},
                              {1, 3, one_f_one_b{}, direct{}},
                              {4, 2, zero_bubble_v{}, ring{}},
                              {2, 3, gpipe{}, double_binary_tree{}},
                              {2, 2, interleaved<2>{}, direct{}}})
            for (std::size_t const logical_shards : {0u, 8u}) {
                CAPTURE(l.replicas);
                CAPTURE(l.stages);
                CAPTURE(l.schedule.name);
                CAPTURE(logical_shards);
                nccl_on_stage const as_told(logical_shards == 0 ? timing::late : timing::shuffled, 17);
                auto const run = [&](auto options) {
                    options.devices = l.replicas;
                    options.stages = l.stages;
                    options.schedule = l.schedule;
                    if (logical_shards == 0) options.strategy = l.strategy;
                    return options;
                };
                CHECK(trained_in_stages<nccl>(logical_shards, run(in_stages<nccl>::run_options{})) ==
                      trained_in_stages<peer>(logical_shards, run(in_stages<peer>::run_options{})));
            }
    }

    TEST_CASE("ranks along an axis are groups of their own, whose errors name ranks by their numbers among all") {
        nccl_on_stage const as_usual;
        mesh_value const mesh{{"dp", 2}, {"pp", 3}};
        nccl_group<rehearsal_with_nccl> all({0, 1, 6, "", std::chrono::seconds(60)}, false);
        std::vector<nccl_mock::stream> streams;
        for (int r = 0; r < 6; ++r) streams.emplace_back(r);
        auto const sums = [&](nccl_group<rehearsal_with_nccl>& of, std::vector<float> numbers) {
            std::vector<nccl_call> calls;
            for (int i = 0; i < of.local_ranks(); ++i)
                calls.push_back({nccl_call::kind::all_reduce, i, 0, ncclFloat32, &numbers[index(i)], 1,
                                 streams[index(of.device_of(i))].handle()});
            of.run(calls, {"all_reduce", "native", 3, sizeof(float)}, true);
            for (auto& s : streams) {
                rehearsal::event done(s.device());
                s.record(done);
                REQUIRE(await(done, deadline::in(std::chrono::seconds(60))));
            }
            return numbers;
        };
        {
            auto const replicas = all.along(mesh, {mesh.find("dp")}), pipelines = all.along(mesh, {mesh.find("pp")});
            REQUIRE(replicas.size() == 3);
            REQUIRE(pipelines.size() == 2);
            CHECK(replicas[1]->size() == 2);
            CHECK(replicas[1]->device_of(0) == 1);
            CHECK(replicas[1]->device_of(1) == 4);
            CHECK(sums(*replicas[1], {1, 10}) == std::vector<float>{11, 11});
            CHECK(sums(*pipelines[1], {1, 10, 100}) == std::vector<float>{111, 111, 111});
            CHECK(sums(all, {1, 1, 1, 1, 1, 1}) == std::vector<float>(6, 6));
            nccl_mock::library::here().failing_rank = 1;
            auto const text = text_of_error<accelerator_error>([&] { replicas[2]->check(); });
            CHECK(text.find("NCCL on rank 5 for nothing yet: ncclRemoteError") == 0);
            CHECK(text_of_error<accelerator_error>([&] {
                      pipelines[1]->check();
                  }).find("NCCL on rank 4 for all_reduce 3 (native, 4 bytes)") == 0);
            nccl_mock::library::here().failing_rank = -1;
            CHECK(text_of_error<accelerator_error>([&] {
                      sums(*pipelines[1], {1, 1, 1});
                  }).find("rank 3: the group of 3 ranks has been given up") == 0);
            CHECK(sums(*pipelines[0], {1, 10, 100}) == std::vector<float>{111, 111, 111}); // the others go on
        }
        CHECK(sums(all, {1, 1, 1, 1, 1, 1}) == std::vector<float>(6, 6));
    }

    TEST_CASE("processes have whole replicas, or equal parts of one, or a trainer is not made") {
        nccl_on_stage const as_usual;
        auto const refusal = [](int replicas, int stages, int processes) {
            return text_of_error<usage_error>([&] {
                in_stages<nccl> t({.batch = 8}, {.devices = replicas,
                                                 .stages = stages,
                                                 .processes = process_of{.count = processes, .id_file = "never made"}});
            });
        };
        CHECK(refusal(3, 2, 2) ==
              "3 replicas of 2 stages over 2 processes: a process has whole replicas, or replicas have whole "
              "processes; start another number of them (1, 3, 6), or choose other `devices` and `stages`");
        CHECK(refusal(2, 3, 3).find("2 replicas of 3 stages over 3 processes: ") == 0);
        CHECK(refusal(1, 3, 2).find("3 devices over 2 processes: every process drives as many") == 0);
    }
}

} // namespace rehearsed_nccl_stages_test

#else

TEST_SUITE("rehearsed/nccl_stages") {
    TEST_CASE("NCCL and CUDA have headers") { MESSAGE("left out: NCCL and CUDA have no headers here"); }
}

#endif
