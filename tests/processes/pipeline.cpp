// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pipelines whose stages are processes train as pipelines whose stages are threads.

#include <trireme/processes.hpp>
#include <trireme/schedules.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/files.hpp>
#include <support/forked.hpp>
#include <support/in_ranks.hpp>
#include <support/networks.hpp>
#include <support/regression.hpp>
#include <support/traces.hpp>
#include <support/wires.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>

namespace processes_pipeline_test {
namespace {

using namespace trireme;
using namespace test_networks;
using processes::meeting_place;
using namespace std::chrono_literals;

/// A rank that a test has chosen ends itself.
int killed_rank = -1;
struct killing_faults {
    static void at(fault_point p, int rank, std::uint64_t step) {
        if (p == fault_point::backward && rank == killed_rank && step == 2) raise(SIGKILL);
    }
};

template<class... Policies>
using any_pipeline = any_stages<host, every_layer, cross_entropy, sgd_momentum, Policies...>;
using over_threads = any_pipeline<>;
using over_processes = any_pipeline<transport<shared_windows>>;

/// A digest of all bits that a training leaves: three steps, and an epoch of three.
constexpr std::uint64_t steps_of_training = 6;
template<class Trainer>
std::uint64_t digest_of_training(Trainer& t) {
    std::vector<double> told;
    for (std::size_t const n : {48u, 31u, 5u}) told.push_back(t.step(made_up(n, n)).loss);
    auto const e = t.evaluate(made_up(77, 9));
    told.insert(told.end(), {e.loss, e.accuracy});
    for (auto const& epoch : t.fit({made_up(100), made_up(53, 9)}, {.epochs = 1}))
        told.insert(told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
    auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
    if (parameters.size() != every_layer::parameters) throw std::runtime_error("not all parameters are there");
    return digest_of(std::as_bytes(std::span(told)),
                     digest_of(std::as_bytes(std::span(parameters)), digest_of(std::as_bytes(std::span(buffers)))));
}

} // namespace

TEST_SUITE("processes/pipeline") {
    TEST_CASE(
        "stages that are processes have the bits of threads, the trace of each is its program, and all gather all") {
        watchdog const guard("pipelines of processes");
        over_threads::options const training{.learning_rate = 0.05f, .batch = 48, .seed = 3, .logical_shards = 6};
        over_threads one(training, {.devices = 1, .stages = 1});
        auto const wanted = digest_of_training(one);
        struct in_processes {
            int devices, stages;
            schedule_choice schedule;
        };
        for (auto const& layout : {in_processes{1, 2, gpipe{}},
                                   {2, 2, gpipe{}},
                                   {1, 3, gpipe{}},
                                   {3, 1, gpipe{}},
                                   {2, 2, zero_bubble_h2{}},
                                   {1, 3, interleaved<2>{}},
                                   {2, 2, interleaved<2>{}},
                                   {1, 3, zero_bubble_v{}},
                                   {2, 2, zero_bubble_v{}}}) {
            CAPTURE(std::string(layout.schedule.name));
            test_ranks::come_to<over_processes>(
                wanted, {.learning_rate = 0.05f, .batch = 48, .seed = 3, .logical_shards = 6},
                {.devices = layout.devices, .stages = layout.stages, .schedule = layout.schedule, .trace = true},
                [](over_processes& t) {
                    auto const found = digest_of_training(t);
                    if (test_traces::trace_is_program(t, 1, steps_of_training) == 0)
                        throw std::runtime_error("no evaluation is in the trace");
                    if (!test_wires::reads_as_planned(t, made_up(48), t.rank(), 1))
                        throw std::runtime_error("it has read what the plan does not say");
                    return found;
                });
        }
    }

    TEST_CASE("a first stage needs no targets, a last one no inputs, and ranks of a stage need the same part") {
        watchdog const guard("parts of samples");
        using test_regression::made_up_table;
        using over_these = any_stages<host, test_regression::curve, test_regression::squared_error, sgd>;
        using over_others =
            any_stages<host, test_regression::curve, test_regression::squared_error, sgd, transport<shared_windows>>;
        over_these one({.batch = 48, .seed = 3, .logical_shards = 6});
        double const wanted = (one.step(made_up_table<float>(48)), one.step(made_up_table<float>(48)).loss);

        /// The ranks of a stage read this part of a table.
        struct part {
            made_up_table<float> const& all;
            bool has_inputs, has_targets;
            std::size_t size() const { return all.size(); }
            sample_rows inputs() const { return has_inputs ? all.samples().inputs() : sample_rows{}; }
            sample_rows targets() const { return has_targets ? all.samples().targets() : sample_rows{}; }
        };
        for (auto const& layout : {std::pair{1, 2}, {2, 2}, {1, 3}}) {
            int const devices = layout.first, stages = layout.second, ranks = devices * stages;
            CAPTURE(devices);
            CAPTURE(stages);
            auto const place = meeting_place::create(ranks);
            shared_value<std::array<double, 8>> found;
            forked_ranks all(ranks, [&](int rank) {
                over_others t({.batch = 48, .seed = 3, .logical_shards = 6},
                              {.devices = devices, .stages = stages, .deadline = 60s, .processes = seat{place, rank}});
                made_up_table<float> const table(48), other(48, 2);
                bool const first = rank % stages == 0, last = rank % stages == stages - 1;
                t.step(part{table, first, last});
                try { // a stage's own rank cannot do without, and finds out alone
                    if (rank == 0) t.step(part{table, false, last});
                } catch (usage_error const&) {}
                (*found)[static_cast<std::size_t>(rank)] = t.step(part{table, first, last}).loss;
                if (devices == 1) return;
                try {
                    t.step(part{rank == ranks - 1 ? other : table, first, last});
                } catch (mismatch_error const&) {
                    (*found)[static_cast<std::size_t>(rank)] += 1000;
                } catch (device_error const&) { // whom the others have told
                    (*found)[static_cast<std::size_t>(rank)] += 1000;
                }
            });
            all_end_well(all, 100s);
            for (int r = 0; r < ranks; ++r)
                CHECK((*found)[static_cast<std::size_t>(r)] == wanted + (devices == 1 ? 0 : 1000));
        }
    }

    TEST_CASE("weights go through files from one number of stages to another") {
        watchdog const guard("weights of processes");
        files::folder const folder;
        auto const before = folder.path("before"), after = folder.path("after");
        over_threads t({.batch = 24, .seed = 5}, {.devices = 1, .stages = 3});
        t.step(made_up(24));
        save_weights(t, before);
        test_ranks::in_ranks<over_processes>(
            {.batch = 24, .seed = 9}, {.devices = 2, .stages = 2, .schedule = zero_bubble_v{}}, [&](over_processes& p) {
                load_weights(p, before);
                save_weights(p, after); // rank 0 writes
                p.step(made_up(24));
                std::size_t pieces = 0;
                p.for_each_piece(p.rank(), [&](auto const&) { ++pieces; });
                if (pieces == 0 || pieces >= tensors_of<every_layer>().size())
                    throw std::runtime_error("this is no stage");
            });
        CHECK(files::content_of(before) == files::content_of(after));
    }

    TEST_CASE("a stage whose process dies is named by all others, with the step") {
        watchdog const guard("a stage dies");
        using faulty = any_pipeline<transport<shared_windows>, with_faults<killing_faults>>;
        for (int const lost : {0, 1, 3}) {
            CAPTURE(lost);
            killed_rank = lost;
            auto const place = meeting_place::create(4);
            forked_ranks all(4, [&](int rank) {
                faulty t({.batch = 24}, {.devices = 2, .stages = 2, .deadline = 60s, .processes = seat{place, rank}});
                try {
                    for (int step = 0; step < 2; ++step) t.step(made_up(24)); // who is late hears of it in the first
                } catch (peer_lost_error const& e) {
                    bool const says = std::string(e.what()).find("in training step 2") != std::string::npos;
                    if (e.device() != lost || !says) throw;
                    return;
                }
                throw std::runtime_error("nobody is missed");
            });
            all_end_well(all, 30s, lost);
        }
        killed_rank = -1;
    }
}

} // namespace processes_pipeline_test
