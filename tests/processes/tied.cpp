// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows with one row's parameters in stages that are processes: the bits of threads, and no hang where a rank dies.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/in_ranks.hpp>
#include <support/tying.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include <signal.h>

namespace processes_tied_test {
namespace {

using namespace trireme;
using namespace test_tying;
using processes::meeting_place;
using namespace std::chrono_literals;

/// A rank that a test has chosen ends itself when it has its gradients, and others want those of its tied row.
int killed_rank = -1;
struct killing_faults {
    static void at(fault_point p, int rank, std::uint64_t step) {
        if (p == fault_point::reduce && rank == killed_rank && step == 2) raise(SIGKILL);
    }
};

template<class Trainer>
std::uint64_t digest_of_training(Trainer& t) {
    auto const r = train(t);
    return digest_of(std::as_bytes(std::span(r.told)), digest_of(std::as_bytes(std::span(r.numbers))));
}

} // namespace

TEST_SUITE("processes/tied") {
    TEST_CASE("tied rows of stages that are processes have the bits of threads") {
        watchdog const guard("tied rows of processes");
        using over_processes = any_tied<host, several, transport<shared_windows>>;
        any_tied<host, several> one({.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8});
        auto const wanted = digest_of_training(one);
        struct in_processes {
            int devices, stages;
            schedule_choice schedule;
        };
        for (auto const& layout : {in_processes{1, 2, one_f_one_b{}}, {2, 2, gpipe{}}, {1, 3, interleaved<2>{}}}) {
            CAPTURE(std::string(layout.schedule.name));
            test_ranks::come_to<over_processes>(
                wanted, {.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8},
                {.devices = layout.devices, .stages = layout.stages, .schedule = layout.schedule},
                [](over_processes& t) {
                    auto const found = digest_of_training(t);
                    if (!test_wires::reads_as_planned(t, made_up(50), t.rank(), 1))
                        throw std::runtime_error("it has read what the plan does not say");
                    return found;
                });
        }
    }

    TEST_CASE("a rank that dies before its tied gradient has been taken is named by the others") {
        watchdog const guard("tied rows of a rank that dies");
        using faulty = any_tied<host, first_and_last, transport<shared_windows>, with_faults<killing_faults>>;
        auto const place = meeting_place::create(3);
        killed_rank = 2;
        forked_ranks all(3, [&](int rank) {
            faulty t({.batch = 50, .seed = 3, .logical_shards = 8},
                     {.stages = 3, .deadline = 60s, .processes = seat{place, rank}});
            try {
                for (int i = 0; i < 2; ++i) t.step(made_up(50));
            } catch (peer_lost_error const& e) {
                if (e.device() != 2) throw;
                return;
            }
            throw std::runtime_error("nobody is missed");
        });
        all_end_well(all, 30s, killed_rank);
        killed_rank = -1;
    }
}

} // namespace processes_tied_test
