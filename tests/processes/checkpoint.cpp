// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings whose devices are processes go on from a checkpoint, and fail to, all together.

#include <trireme/checkpoints.hpp>
#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/going_on.hpp>
#include <support/in_ranks.hpp>
#include <support/networks.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace processes_checkpoint_test {
using namespace trireme;
using namespace test_going_on;
using namespace std::chrono_literals;
using processes::meeting_place;

namespace {

using in_threads = any_trainer<host, adamw, clip_norm>;
using in_processes = any_trainer<host, adamw, clip_norm, transport<shared_windows>>;
template<class Place>
using held = test_networks::any_replicas<host, test_networks::small, cross_entropy, adam, hold_weights<Place>,
                                         transport<shared_windows>>;

template<class Trainer>
std::uint64_t digest_of_all(history<typename Trainer::value_type> const& h) {
    return digest_of(std::as_bytes(std::span(h.numbers)), digest_of(std::as_bytes(std::span(h.told))));
}

} // namespace

TEST_SUITE("processes/checkpoint") {
    TEST_CASE("a training goes on with the same bits, from processes to threads and back") {
        watchdog const guard("checkpoints of processes");
        auto const wanted = uninterrupted<in_threads>();
        files::folder const folder;
        for (auto const& [from, to] : {std::pair{place{2, 2}, place{3, 1}}, {place{3, 1}, place{1, 2}}}) {
            in_processes::options const training{.learning_rate = 0.01f, .batch = 40, .seed = 3, .logical_shards = 8};
            test_ranks::in_ranks<in_processes>(training, {.devices = from.devices, .stages = from.stages},
                                               [&](in_processes& t) {
                                                   train_on(t);
                                                   t.set_learning_rate(0.02f);
                                                   save_checkpoint(t, folder.path(), {{"word", "kept"}});
                                               });
            CHECK(go_on_from<in_threads>(folder.path(), {2, 1}) == wanted);
            begin_in<in_threads>(folder.path(), {1, 2});
            test_ranks::come_to<in_processes>(digest_of_all<in_processes>(wanted), training,
                                              {.devices = to.devices, .stages = to.stages}, [&](in_processes& t) {
                                                  load_checkpoint(t, folder.path());
                                                  return digest_of_all<in_processes>(train_on(t));
                                              });
        }
    }

    TEST_CASE("with one copy of the weights each process has a part of what the optimizer keeps, and all is saved") {
        watchdog const guard("checkpoints of one copy");
        files::folder const folder;
        held<once>::options const training{.batch = 40, .logical_shards = 6};
        auto const train = [](held<once>& t) {
            for (int i = 0; i < 3; ++i) t.step(made_up(40, 1 + t.steps()));
            auto const weights = t.gather_parameters();
            return digest_of(std::as_bytes(std::span(weights)));
        };
        shared_value<std::uint64_t> wanted; // of rank 0
        test_ranks::in_ranks<held<once>>(training, {.devices = 3}, [&](held<once>& t) {
            train(t);
            save_checkpoint(t, folder.path());
            auto const digest = train(t);
            if (t.rank() == 0) *wanted = digest;
        });
        CHECK(*wanted != 0);
        test_ranks::come_to<held<once>>(*wanted, training, {.devices = 2}, [&](held<once>& t) {
            load_checkpoint(t, folder.path());
            return train(t);
        });
    }

    TEST_CASE("a rank is killed: fewer ranks go on from the last checkpoint, with the bits of a run without it") {
        watchdog const guard("a restart from a checkpoint");
        constexpr std::uint64_t steps = 12;
        auto const options = held<per_device>::options{.batch = 40, .logical_shards = 6};
        std::string saved;
        struct death {
            std::uint64_t step = 0;
            bool before_save = false;
        };
        auto const trained = [&](auto& t, death const& dies = {}) { // up to the last step, saved after each
            while (t.steps() < steps) {
                if (t.steps() + 1 == dies.step && !dies.before_save) std::raise(SIGKILL);
                t.step(made_up(40, 1 + t.steps()));
                if (t.steps() == dies.step) std::raise(SIGKILL);
                save_checkpoint(t, saved);
            }
            auto const weights = t.gather_parameters();
            return digest_of(std::as_bytes(std::span(weights)));
        };
        files::folder const folder;
        saved = folder.path("whole");
        test_networks::any_replicas<host, test_networks::small, cross_entropy, adam> alone(
            {.batch = 40, .logical_shards = 6}, {.devices = 1});
        auto const wanted = trained(alone);
        for (std::uint64_t const step : {2u, 5u, 8u, 11u}) {
            CAPTURE(step);
            saved = folder.path("run" + std::to_string(step));
            auto const first = meeting_place::create(3);
            forked_ranks before(3, [&](int rank) {
                held<per_device> t(options, {.devices = 3, .deadline = 60s, .processes = seat{first, rank}});
                trained(t, rank == static_cast<int>(step % 3) ? death{step, step % 2 == 0} : death{});
            });
            auto const& endings = before.wait(100s);
            CHECK(endings[step % 3].signal == SIGKILL);
            for (auto const& o : endings) CHECK((o.signal == SIGKILL || o.code == 3));
            REQUIRE(has_checkpoint(saved));
            auto const last = read_checkpoint(saved).steps;
            CHECK((last == step - 1 || last == step));
            test_ranks::come_to<held<per_device>>(wanted, options, {.devices = 2}, [&](held<per_device>& t) {
                load_checkpoint(t, saved);
                return trained(t);
            });
        }
    }

    TEST_CASE(
        "a save that fails is told to all processes, and they train on; so is a checkpoint that one cannot read") {
        watchdog const guard("failing checkpoints of processes");
        files::folder const folder;
        held<per_device>::options const training{.batch = 40, .logical_shards = 6};
        test_ranks::in_ranks<held<per_device>>(training, {.devices = 2}, [&](held<per_device>& t) {
            int const rank = t.rank();
            auto const fails = [&](auto const& f, std::string const& part) {
                try {
                    f();
                } catch (data_error const& e) {
                    if (rank == 0 && std::string(e.what()).find(part) != std::string::npos) return;
                    throw;
                } catch (device_error const& e) {
                    if (rank == 1 && std::string(e.what()).find(part) != std::string::npos) return;
                    throw;
                }
                throw std::runtime_error("nothing was thrown: " + part);
            };
            t.step(made_up(40));
            fails([&] { save_checkpoint(t, folder.path("no/such")); }, "cannot be opened");
            t.step(made_up(40));
            save_checkpoint(t, folder.path("run"));
            fails([&] { load_checkpoint(t, rank == 0 ? folder.path("none") : folder.path("run")); },
                  "no checkpoint in this folder");
            t.step(made_up(40));
            if (t.steps() != 3) throw std::runtime_error("a checkpoint was taken");
            load_checkpoint(t, folder.path("run"));
            if (t.steps() != 2) throw std::runtime_error("a checkpoint was not taken");
            auto const state = t.snapshot();
            try {
                t.restore([&](auto& s) {
                    s = state;
                    s.optimizer[1][7] += static_cast<float>(rank);
                });
                throw std::runtime_error("ranks go on from different moments");
            } catch (mismatch_error const&) {}
            t.step(made_up(40));
        });
    }
}

} // namespace processes_checkpoint_test
