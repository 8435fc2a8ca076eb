// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings whose devices are processes go on from a checkpoint, and fail to, all together.

#include <trireme/checkpoints.hpp>
#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <processes/forked.hpp>
#include <support/going_on.hpp>

#include <array>
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
using held = trainer<test_networks::small, cross_entropy, adam, on<mesh<host, dp<dynamic>>>,
                     reproducible<fixed_tree, dynamic>, hold_weights<Place>, transport<shared_windows>>;

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
            place const first = from, second = to;
            auto const in_all = [&](place where, auto const& f) {
                auto const meeting = meeting_place::create(where.devices * where.stages);
                forked_ranks all(where.devices * where.stages, [&](int rank) {
                    in_processes t({.learning_rate = 0.01f, .batch = 40, .seed = 3, .logical_shards = 8},
                                   {.devices = where.devices,
                                    .stages = where.stages,
                                    .deadline = 60s,
                                    .processes = seat{meeting, rank}});
                    f(t, rank);
                });
                for (auto const& o : all.wait(100s)) CHECK_MESSAGE(o.code == 0, o.said);
            };
            in_all(first, [&](in_processes& t, int) {
                train_on(t);
                t.set_learning_rate(0.02f);
                save_checkpoint(t, folder.path(), {{"word", "kept"}});
            });
            CHECK(go_on_from<in_threads>(folder.path(), {2, 1}) == wanted);
            shared_value<std::array<std::uint64_t, 8>> found;
            begin_in<in_threads>(folder.path(), {1, 2});
            in_all(second, [&](in_processes& t, int rank) {
                load_checkpoint(t, folder.path());
                (*found)[static_cast<std::size_t>(rank)] = digest_of_all<in_processes>(train_on(t));
            });
            for (int rank = 0; rank < second.devices * second.stages; ++rank)
                CHECK((*found)[static_cast<std::size_t>(rank)] == digest_of_all<in_processes>(wanted));
        }
    }

    TEST_CASE("with one copy of the weights each process has a part of what the optimizer keeps, and all is saved") {
        watchdog const guard("checkpoints of one copy");
        files::folder const folder;
        auto const meeting = meeting_place::create(3), other = meeting_place::create(2);
        auto const train = [](auto& t) {
            for (int i = 0; i < 3; ++i) t.step(made_up(40, 1 + t.steps()));
        };
        shared_value<std::array<std::uint64_t, 2>> found;
        forked_ranks first(3, [&](int rank) {
            held<once> t({.batch = 40, .logical_shards = 6},
                         {.devices = 3, .deadline = 60s, .processes = seat{meeting, rank}});
            train(t);
            save_checkpoint(t, folder.path());
            train(t);
            auto const weights = t.gather_parameters();
            if (rank == 0) (*found)[0] = digest_of(std::as_bytes(std::span(weights)));
        });
        for (auto const& o : first.wait(100s)) CHECK_MESSAGE(o.code == 0, o.said);
        forked_ranks second(2, [&](int rank) {
            held<once> t({.batch = 40, .logical_shards = 6},
                         {.devices = 2, .deadline = 60s, .processes = seat{other, rank}});
            load_checkpoint(t, folder.path());
            train(t);
            auto const weights = t.gather_parameters();
            if (rank == 0) (*found)[1] = digest_of(std::as_bytes(std::span(weights)));
        });
        for (auto const& o : second.wait(100s)) CHECK_MESSAGE(o.code == 0, o.said);
        CHECK((*found)[0] == (*found)[1]);
        CHECK((*found)[0] != 0);
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
        trainer<test_networks::small, cross_entropy, adam, on<mesh<host, dp<dynamic>>>,
                reproducible<fixed_tree, dynamic>>
            alone({.batch = 40, .logical_shards = 6}, {.devices = 1});
        auto const wanted = trained(alone);
        for (std::uint64_t const step : {2u, 5u, 8u, 11u}) {
            CAPTURE(step);
            saved = folder.path("run" + std::to_string(step));
            auto const first = meeting_place::create(3), second = meeting_place::create(2);
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
            shared_value<std::array<std::uint64_t, 2>> found;
            forked_ranks after(2, [&](int rank) {
                held<per_device> t(options, {.devices = 2, .deadline = 60s, .processes = seat{second, rank}});
                load_checkpoint(t, saved);
                (*found)[static_cast<std::size_t>(rank)] = trained(t);
            });
            for (auto const& o : after.wait(100s)) CHECK_MESSAGE(o.code == 0, o.said);
            for (auto const digest : *found) CHECK(digest == wanted);
        }
    }

    TEST_CASE(
        "a save that fails is told to all processes, and they train on; so is a checkpoint that one cannot read") {
        watchdog const guard("failing checkpoints of processes");
        files::folder const folder;
        auto const meeting = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            held<per_device> t({.batch = 40, .logical_shards = 6},
                               {.devices = 2, .deadline = 60s, .processes = seat{meeting, rank}});
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
        for (auto const& o : all.wait(100s)) CHECK_MESSAGE(o.code == 0, o.said);
    }
}

} // namespace processes_checkpoint_test
