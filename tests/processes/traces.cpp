// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Traces of ranks that are processes: with the exchanges that rows make inside of tasks, and in files after errors.

#include "../../examples/trace_file.hpp"

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/files.hpp>
#include <support/forked.hpp>
#include <support/in_ranks.hpp>
#include <support/networks.hpp>
#include <support/traces.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <signal.h>

namespace processes_traces_test {
namespace {

using namespace trireme;
using namespace test_networks;
using processes::meeting_place;
using namespace std::chrono_literals;

/// A rank that a test has chosen throws, or ends itself, in step 2.
struct {
    int rank = -1;
    bool dies = false;
} plan;
struct planned_faults {
    static void at(fault_point p, int rank, std::uint64_t step) {
        if (p != fault_point::backward || rank != plan.rank || step != 2) return;
        if (plan.dies) raise(SIGKILL);
        throw std::runtime_error("the oar is broken");
    }
};
using replicated = trainer<every_sum, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, transport<shared_windows>,
                           with_faults<planned_faults>>;

} // namespace

TEST_SUITE("processes/traces") {
    TEST_CASE(
        "the trace of each process has the exchanges inside of tasks, as the expanded view of the program has them") {
        watchdog const guard("exchanges of processes");
        for (int const ranks : {2, 3}) {
            test_ranks::in_ranks<replicated>({.batch = 24}, {.devices = ranks, .trace = true}, [](replicated& t) {
                for (std::size_t const n : {24u, 7u}) t.step(made_up(n));
                t.evaluate(made_up(40));
                if (test_traces::trace_is_program(t, 1, 2) == 0)
                    throw std::runtime_error("no evaluation is in the trace");
                auto const exchanges =
                    std::ranges::count_if(t.traced(), [](timed_task const& task) { return task.exchange >= 0; });
                if (exchanges != 2 * static_cast<std::ptrdiff_t>(every_sum::exchanges.count))
                    throw std::runtime_error(std::to_string(exchanges) + " exchanges are in the trace");
            });
        }
    }

    TEST_CASE(
        "ranks leave files with the tasks that were complete when one throws, and when one dies, but for its own") {
        watchdog const guard("files of traces of processes");
        for (bool const dies : {false, true}) {
            CAPTURE(dies);
            files::folder const folder;
            auto const path = [&](int rank) { return folder.path("trace." + std::to_string(rank)); };
            plan = {1, dies};
            auto const place = meeting_place::create(3);
            forked_ranks all(3, [&](int rank) {
                result_file file("--trace", path(rank));
                replicated t({.batch = 24},
                             {.devices = 3, .deadline = 60s, .trace = true, .processes = seat{place, rank}});
                traced_into(&file, t, [&] {
                    for (int k = 0; k < 3; ++k) t.step(made_up(24));
                });
            });
            auto const ends = all.wait(100s);
            plan = {};
            for (int rank = 0; rank < 3; ++rank) {
                CAPTURE(rank);
                auto const& o = ends[static_cast<std::size_t>(rank)];
                CAPTURE(o.said);
                if (dies && rank == 1) {
                    CHECK(o.signal == SIGKILL);
                    CHECK_FALSE(std::filesystem::exists(path(rank)));
                    continue;
                }
                CHECK(o.code == 3);
                auto const text = files::text_of(path(rank));
                CHECK((text.starts_with("{\"displayTimeUnit\"") && text.ends_with("]}\n")));
                CHECK(std::ranges::count(text, '{') == std::ranges::count(text, '}'));
                if (dies) continue; // which a rank may hear of in the step before
                CHECK(text.find(R"("name": "update")") != std::string::npos);
                CHECK(text.find(R"("step": 2)") != std::string::npos);
                CHECK(text.find(R"("step": 3)") == std::string::npos);
            }
        }
    }
}

} // namespace processes_traces_test
