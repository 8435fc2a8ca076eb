// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// transport<nccl> over several processes, rehearsed on the host: they are forked, and meet through a file; what NCCL
// would carry goes through memory that they share. See nccl.cpp.

#include <doctest/doctest.h>
#include <support/left_out.hpp>

#if __has_include(<cuda_runtime.h>) && __has_include(<nccl.h>)

#include <rehearsed/nccl_mock.hpp>
#include <rehearsed/nccl_on_stage.hpp>
#include <rehearsed/nccl_post.hpp>
#include <rehearsed/trainings.hpp>
#include <support/failed_checks.hpp>
#include <support/files.hpp>
#include <support/going_on.hpp>
#include <support/messages.hpp>
#include <support/pipelines.hpp>

#include <trireme/rehearsal.hpp>
#include <trireme/trainer/nccl_transport.hpp>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace rehearsed_nccl_processes_test {
using namespace trireme;
using nccl_mock::letter_kind;
using nccl_mock::rehearsal_with_nccl;
using rehearsal_runtime::timing;
using rehearsed::nccl_on_stage;

namespace {

/// Ends the process at the beginning of a step, without a word.
struct process_end {
    static inline std::uint64_t step = 0; ///< 0: it does not end
    static void at(fault_point, int, std::uint64_t now) {
        if (now == step) ::_exit(1);
    }
};
template<class Way>
using in_stages = rehearsed::in_stages<Way, with_faults<process_end>>;

/// Runs f(process, file) in so many processes at once, and returns what each gives: text. An assertion that fails in
/// one of them fails here.
template<class F>
std::vector<std::string> in_processes(int count, F const& f) {
    files::folder const meeting;
    nccl_mock::post_office post;
    nccl_mock::route const result{letter_kind::message, -1, 0, 0};
    std::vector<pid_t> processes;
    for (int k = 0; k < count; ++k) {
        auto const pid = ::fork();
        REQUIRE(pid >= 0);
        if (pid != 0) {
            processes.push_back(pid);
            continue;
        }
        nccl_mock::library::here().post = &post;
        test_failed_checks::forget();
        std::string text;
        try {
            text = f(k, meeting.path("id"));
        } catch (std::exception const& e) {
            text = std::string("thrown: ") + e.what();
        } catch (...) { // a REQUIRE that fails throws no std::exception
            text = "thrown: no std::exception";
        }
        if (auto const& failed = test_failed_checks::first(); !failed.empty()) text = "failed: " + failed;
        post.send({result.kind, result.world, k, 0}, text.data(), text.size());
        ::_exit(0);
    }
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    for (auto const process : processes) // all of them, for letters are found in the order in which they were begun
        while (::waitpid(process, nullptr, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() > limit) ::kill(process, SIGKILL);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    std::vector<std::string> all;
    for (int k = 0; k < count; ++k) {
        nccl_mock::route const from{result.kind, result.world, k, 0};
        all.emplace_back("it ended without a word");
        if (!post.is_there(from)) continue;
        auto const letter = post.take(from);
        all.back().assign(reinterpret_cast<char const*>(letter.data()), letter.size());
        CHECK_MESSAGE(!all.back().starts_with("failed: "), all.back());
    }
    return all;
}

/// Numbers, to the bit.
std::string bytes_of(std::vector<std::span<double const>> const& all) {
    std::string bytes;
    for (auto const& some : all) bytes.append(reinterpret_cast<char const*>(some.data()), some.size_bytes());
    return bytes;
}

struct composition {
    int replicas, stages, processes;
    std::size_t logical_shards;
    strategy_choice strategy;
    schedule_choice schedule = {};
};

template<class Way>
in_stages<Way> trainer_of(composition const& c, process_of const& process, double deadline = 60) {
    typename in_stages<Way>::run_options run;
    run.devices = c.replicas;
    run.stages = c.stages;
    run.schedule = c.schedule;
    run.strategy = c.strategy;
    run.deadline = std::chrono::duration<double>(deadline);
    run.processes = process;
    return in_stages<Way>({.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = c.logical_shards}, run);
}
/// Losses, scores and weights, and outputs of the trained network.
template<class Way>
std::string trained(composition const& c, process_of const& process) {
    auto const before = std::to_array(rehearsal_runtime::budget.taken);
    auto t = trainer_of<Way>(c, process);
    auto const ranks = static_cast<std::size_t>(t.devices() / process.count);
    for (std::size_t i = 0; i < ranks; ++i) {
        auto const rank = static_cast<std::size_t>(t.rank()) + i;
        if (rehearsal_runtime::budget.taken[rank] - before[rank] != t.plan().memory(static_cast<int>(rank)).total())
            return "memory that was not planned";
    }
    auto const result = test_pipelines::train(t);
    auto const predicted = t.predict(test_networks::made_up(67, 4)).values();
    return bytes_of({result.told, result.numbers, std::vector<double>(predicted.begin(), predicted.end())});
}

/// Samples, of which a first stage has the inputs, and a last one the targets.
struct part_of {
    sample_set all;
    bool first;
    std::size_t size() const { return all.size(); }
    sample_rows inputs() const { return first ? all.inputs() : sample_rows{}; }
    sample_rows targets() const { return first ? sample_rows{} : all.targets(); }
};

/// Adam, the norm of all gradients, tied rows: by NCCL, and on devices of one process.
using by_nccl = test_going_on::any_trainer<rehearsal_with_nccl, adamw, clip_norm, transport<nccl>>;
using in_one = test_going_on::any_trainer<rehearsal, adamw, clip_norm>;

/// Two replicas of two stages in two or four processes.
by_nccl two_by_two(process_of const& process) {
    return by_nccl({.learning_rate = 0.01f, .batch = 40, .seed = 3, .logical_shards = 8},
                   {.devices = 2, .stages = 2, .processes = process});
}
template<class T>
std::string bytes_of(test_going_on::history<T> const& h) {
    return bytes_of({h.told, std::vector<double>(h.numbers.begin(), h.numbers.end())});
}

} // namespace

TEST_SUITE("rehearsed/nccl_processes") {
    TEST_CASE("each of several processes learns, and is told, what one process over peer access is") {
        for (auto const& c : {composition{2, 1, 2, 0, ring{}},
                              {4, 1, 2, 8, direct{}},
                              {3, 1, 3, 0, double_binary_tree{}},
                              {2, 2, 2, 0, direct{}},
                              {4, 2, 2, 8, direct{}, zero_bubble_v{}},
                              {2, 3, 2, 0, ring{}, zero_bubble_h1{}},
                              {1, 2, 2, 8, direct{}, one_f_one_b{}}, // and processes with a part of a replica
                              {1, 3, 3, 0, direct{}, zero_bubble_h1{}},
                              {1, 4, 2, 8, direct{}, zero_bubble_v{}},
                              {2, 2, 4, 0, ring{}, interleaved<2>{}},
                              {2, 4, 4, 8, direct{}, gpipe{}}}) {
            CAPTURE(c.replicas);
            CAPTURE(c.stages);
            CAPTURE(c.processes);
            CAPTURE(c.logical_shards);
            auto const wanted = [&] {
                nccl_on_stage const as_usual;
                return trained<peer>(c, {});
            }();
            nccl_on_stage const as_told(timing::shuffled, 3);
            auto const results = in_processes(c.processes, [&](int k, std::string const& file) {
                return trained<nccl>(c, {.index = k, .count = c.processes, .id_file = file});
            });
            for (auto const& result : results) {
                CHECK(result.size() == wanted.size());
                CHECK(result == wanted);
            }
        }
    }

    TEST_CASE(
        "a training that processes save goes on in another number of them, and on one device, with the same bits") {
        nccl_on_stage const as_told(timing::shuffled, 5);
        files::folder const folder;
        auto const wanted = bytes_of(test_going_on::uninterrupted<in_one>({2, 2}));
        for (int const processes : {2, 4}) {
            CAPTURE(processes);
            for (auto const &result : in_processes(processes, [&](int k, std::string const& file) {
                     auto t = two_by_two({k, processes, file});
                     test_going_on::train_on(t);
                     t.set_learning_rate(0.02f);
                     save_checkpoint(t, folder.path(), {{"word", "kept"}});
                     return std::string("saved");
                 }))
                CHECK(result == "saved");
            for (auto const &result : in_processes(6 - processes, [&](int k, std::string const& file) {
                     auto t = two_by_two({k, 6 - processes, file});
                     load_checkpoint(t, folder.path());
                     return bytes_of(test_going_on::train_on(t));
                 }))
                CHECK((result == wanted));
            CHECK((bytes_of(test_going_on::go_on_from<in_one>(folder.path(), {1, 1})) == wanted));
        }
    }

    TEST_CASE("processes that are started differently are told so, and nobody trains") {
        nccl_on_stage const as_usual;
        auto const results = in_processes(2, [&](int k, std::string const& file) {
            return trained<nccl>({4, 2, 2, 0, ring{}}, {.index = k, .count = k == 0 ? 2 : 4, .id_file = file});
        });
        for (auto const& result : results) {
            CAPTURE(result);
            CHECK(test_support::says(result, {"thrown: ", "2", "4", "process"}));
        }
    }

    TEST_CASE("processes that were given different options are told the first that differs, and nobody trains") {
        nccl_on_stage const as_usual;
        using trainer_t = in_stages<nccl>;
        struct {
            void (*change)(trainer_t::options&, trainer_t::run_options&);
            char const *of_one, *of_other;
        } const cases[] = {{[](auto& o, auto&) { o.batch.samples = 60; }, "batch 50", "batch 60"},
                           {[](auto& o, auto&) { o.seed = 4; }, "seed 3", "seed 4"},
                           {[](auto&, auto& run) { run.schedule = gpipe{}; }, "one_f_one_b", "gpipe"},
                           {[](auto&, auto& run) { run.strategy = direct{}; }, "ring", "direct"}};
        for (auto const& c : cases) {
            CAPTURE(c.of_other);
            auto const results = in_processes(4, [&](int k, std::string const& file) {
                trainer_t::options o{.learning_rate = 0.05f, .batch = 50, .seed = 3};
                trainer_t::run_options run;
                run.devices = run.stages = 2;
                run.strategy = ring{};
                run.deadline = std::chrono::seconds(10);
                run.processes = process_of{.index = k, .count = 4, .id_file = file};
                if (k == 1) c.change(o, run);
                trainer_t const t(o, run);
                return std::string("it was made");
            });
            for (auto const& said : results)
                CHECK(test_support::says(said, {"thrown: the processes of this job are not of one program: ",
                                                "process 1", c.of_one, c.of_other}));
        }
    }

    TEST_CASE("processes that do not begin the same work are told so before it") {
        nccl_on_stage const as_usual;
        using trainer_t = in_stages<nccl>;
        auto const usual = test_networks::made_up(150), other = test_networks::made_up(150, 8);
        struct {
            void (*use)(trainer_t&, labelled_images const&, labelled_images const&, bool);
            char const *usually, *differs;
        } const cases[] = {
            {[](auto& t, auto& a, auto& b, bool odd) { t.step((odd ? b : a).take(0, 50)); },
             "a step on 50 samples with", "a step on 50 samples with"},
            {[](auto& t, auto& a, auto&, bool odd) { t.step(a.take(0, odd ? 49 : 50)); }, "a step on 50 ",
             "a step on 49 "},
            {[](auto& t, auto& a, auto&, bool odd) { t.evaluate(a.take(0, odd ? 150 : 100)); }, // other messages, too
             "an evaluation on 100", "an evaluation on 150"},
            {[](auto& t, auto& a, auto& b, bool odd) { t.train({odd ? b : a, a}, {.epochs = 1}); }, "an epoch on 150 ",
             "an epoch on 150 "},
            {[](auto& t, auto& a, auto&, bool odd) {
                 if (odd) t.evaluate(a);
                 t.step(a.take(0, 50));
             },
             "a step on 50 ", "an evaluation on 150 "},
            {[](auto& t, auto& a, auto&, bool odd) {
                 if (odd) t.set_learning_rate(0.25f);
                 t.step(a.take(0, 50));
             },
             "learning rate 0.05", "learning rate 0.25"}};
        for (int const processes : {2, 4}) // each has a replica, or half of one
            for (auto const& c : cases) {
                auto const results = in_processes(processes, [&](int k, std::string const& file) {
                    auto t = trainer_of<nccl>({2, 2, processes, 0, ring{}}, {k, processes, file});
                    t.step(usual.take(0, 50));
                    std::string said;
                    try {
                        c.use(t, usual, other, k == 1);
                    } catch (mismatch_error const& e) {
                        said = e.what();
                    }
                    return said;
                });
                for (auto const& said : results)
                    CHECK(
                        test_support::says(said, {"the processes do not begin the same work: process ",
                                                  "process 1 begins ", c.usually, c.differs, ", after 1 steps and "}));
            }
    }

    TEST_CASE("a process may be without the samples that its stages do not read, and all are told of others' there") {
        nccl_on_stage const as_usual;
        auto const all = test_networks::made_up(50), others = test_networks::made_up(50, 8);
        auto const trained_on = [&](auto& t, auto const& samples) {
            std::vector<double> told{t.step(samples).loss, t.evaluate(samples).loss};
            auto const weights = t.gather_parameters();
            told.insert(told.end(), weights.begin(), weights.end());
            return bytes_of({told});
        };
        composition const c{2, 2, 4, 8, direct{}};
        auto const wanted = [&] {
            auto t = trainer_of<peer>(c, {});
            return trained_on(t, all);
        }();
        for (int const odd : {-1, 2, 3}) { // of the second replica, in the first stage or in the last
            CAPTURE(odd);
            auto const results = in_processes(4, [&](int k, std::string const& file) {
                auto t = trainer_of<nccl>(c, {.index = k, .count = 4, .id_file = file});
                return trained_on(t, part_of{k == odd ? others : all, k % 2 == 0});
            });
            for (auto const& said : results)
                if (odd < 0)
                    CHECK((said == wanted));
                else
                    CHECK(test_support::says(said, {"thrown: the processes do not begin the same work: process ",
                                                    ("process " + std::to_string(odd) + " begins a step").c_str()}));
        }
        for (auto const &said : in_processes(2, [&](int k, std::string const& file) {
                 auto t = trainer_of<nccl>({1, 2, 2, 0, direct{}}, {k, 2, file});
                 return test_support::text_of_error<usage_error>([&] { t.step(part_of{all, k != 0}); });
             }))
            CHECK(test_support::says(said, {"the samples have no ", "source whose "}));
    }

    TEST_CASE("a file that one process cannot read, or that holds something else there, is refused by all, and a save "
              "that fails is told to all") {
        nccl_on_stage const as_usual;
        files::folder const folder;
        auto const right = folder.path("right"), other = folder.path("other"), none = folder.path("none");
        {
            auto t = trainer_of<peer>({1, 2, 1, 0, direct{}}, {});
            save_weights(t, right);
            t.step(test_networks::made_up(50));
            save_weights(t, other);
        }
        folder.write("file", {0});
        for (int const odd : {0, 1}) {
            CAPTURE(odd);
            auto const results = in_processes(2, [&](int k, std::string const& file) {
                auto t = trainer_of<nccl>({1, 2, 2, 0, direct{}}, {k, 2, file});
                t.step(test_networks::made_up(50));
                auto const before = t.gather_parameters();
                auto const error_of = [&](auto const& f) -> std::string {
                    try {
                        f();
                    } catch (data_error const& e) {
                        return std::string("data: ") + e.what();
                    } catch (mismatch_error const& e) {
                        return std::string("mismatch: ") + e.what();
                    } catch (device_error const& e) {
                        return std::string("device: ") + e.what();
                    }
                    return "nothing was thrown";
                };
                std::string said;
                for (auto const& odd_file : {none, other})
                    said += error_of([&] { load_weights(t, k == odd ? odd_file : right); }) + "\n";
                said += error_of([&] { save_checkpoint(t, folder.path("file")); }) + "\n";
                said += t.gather_parameters() == before ? "as before\n" : "changed\n";
                load_weights(t, right); // training goes on
                said += t.gather_parameters() != before ? "loaded\n" : "not loaded\n";
                t.step(test_networks::made_up(50));
                return said;
            });
            for (int k = 0; k < 2; ++k) {
                auto const& said = results[static_cast<std::size_t>(k)];
                CAPTURE(said);
                CHECK(
                    test_support::says(said, {k == odd ? "data: " : "device: ", none.c_str(),
                                              "\nmismatch: the weights that process 1 has read",
                                              k == 0 ? "\ndata: " : "\ndevice: device 0: ", "\nas before\nloaded\n"}));
                CHECK_FALSE(test_support::has(said, "nothing was thrown"));
            }
        }
    }

    TEST_CASE("a process that has not loaded what the others have is found") {
        nccl_on_stage const as_usual;
        files::folder const folder;
        in_processes(2, [&](int k, std::string const& file) {
            auto t = two_by_two({k, 2, file});
            test_going_on::train_on(t);
            save_checkpoint(t, folder.path());
            return std::string("saved");
        });
        for (auto const &said : in_processes(2, [&](int k, std::string const& file) {
                 auto t = two_by_two({k, 2, file});
                 if (k == 0) load_checkpoint(t, folder.path());
                 t.step(test_networks::made_up(40));
                 return std::string("it went on");
             }))
            CHECK(test_support::says(said, {"thrown: the processes do not begin the same work: ",
                                            "process 0 begins a load or a save, after 0 steps",
                                            "process 1 begins a step on 40 samples"}));
    }

    TEST_CASE("observers, of steps and of epochs, are called in the process of rank 0 alone") {
        nccl_on_stage const as_usual;
        auto const set = test_networks::made_up(150);
        auto const results = in_processes(3, [&](int k, std::string const& file) {
            auto t = trainer_of<nccl>({3, 1, 3, 0, ring{}}, {.index = k, .count = 3, .id_file = file});
            int steps = 0, epochs = 0;
            t.train({set, set}, {.epochs = 2},
                    observers([&](progress_report const&) { ++steps; }, [&](epoch_report const&) { ++epochs; }));
            return std::to_string(steps) + " steps, " + std::to_string(epochs) + " epochs";
        });
        for (std::size_t k = 0; k < 3; ++k) {
            CAPTURE(k);
            CHECK(results[k] == (k == 0 ? "6 steps, 2 epochs" : "0 steps, 0 epochs"));
        }
    }

    TEST_CASE("a process that ends leaves the others no longer waiting than their deadline, and a hint") {
        nccl_on_stage const as_usual;
        for (bool const in_an_epoch : {false, true}) {
            CAPTURE(in_an_epoch);
            auto const results = in_processes(4, [&](int k, std::string const& file) {
                auto t = trainer_of<nccl>({2, 2, 4, 0, ring{}}, {.index = k, .count = 4, .id_file = file}, 5);
                auto const set = test_networks::made_up(150);
                t.step(set.take(0, 50));
                if (k == 3 && !in_an_epoch) ::_exit(1);
                if (k == 3) process_end::step = 3; // the epoch's second
                t.train({set, set}, {.epochs = 1});
                return std::string("it went on");
            });
            for (std::size_t k = 0; k < 3; ++k) {
                CAPTURE(results[k]);
                auto const device = "thrown: device " + std::to_string(k);
                auto const what = in_an_epoch ? "deadline of 5 s: a step, training step "
                                              : "deadline of 5 s: comparing what the processes begin, training step 1";
                CHECK(test_support::says(results[k],
                                         {device.c_str(), what, "another process: look whether these still run"}));
            }
            CHECK(results[3] == "it ended without a word");
        }
    }
}

} // namespace rehearsed_nccl_processes_test

#else

TEST_SUITE("rehearsed/nccl_processes") {
    TEST_CASE("NCCL and CUDA have headers") { test_support::left_out(true, "NCCL and CUDA have no headers here"); }
}

#endif
