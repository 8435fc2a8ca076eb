// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trainers whose devices are processes train as trainers whose devices are threads.

#include <trireme/processes.hpp>
#include <trireme/weights.hpp>

#include <data/files.hpp>
#include <data/safetensors_files.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <networks.hpp>
#include <processes/forked.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace trireme;
using namespace test_networks;
using processes::meeting_place;
using namespace std::chrono_literals;

using over_threads = any_layout<lenet, sgd_momentum>;
using over_processes = any_layout<lenet, sgd_momentum, transport<shared_windows>>;
using once_over_threads = trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                                  reproducible<fixed_tree, dynamic>, hold_weights<once>>;
using once_over_processes = trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                                    reproducible<fixed_tree, dynamic>, hold_weights<once>, transport<shared_windows>>;

/// What a run has come to, in bits.
struct result {
    std::uint64_t hash = fnv1a({});
    traffic wire, planned;
    void mix(void const* data, std::size_t bytes) { hash = fnv1a({static_cast<std::byte const*>(data), bytes}, hash); }
};

template<class Trainer>
result train(typename Trainer::options const& o) {
    auto const images = made_up(200), test = made_up(50, 9);
    Trainer t(o);
    result r;
    std::size_t first = 0;
    std::uint64_t steps = 0;
    for (std::size_t const n :
         {std::size_t{64}, std::size_t{37}, std::size_t{8}, std::size_t{3}}) { // one with less samples than shards
        auto const loss = t.step(images.take(first, n)).loss;
        r.mix(&loss, sizeof loss);
        first += n;
        ++steps;
    }
    for (auto const& e : t.fit({images, test}, {.epochs = 2})) {
        r.mix(&e.loss, sizeof e.loss);
        r.mix(&e.test.loss, sizeof e.test.loss);
        r.mix(&e.test.accuracy, sizeof e.test.accuracy);
        steps += (images.size() + o.batch.samples - 1) / o.batch.samples;
    }
    r.wire = t.wire(t.rank());
    r.planned = t.plan().wire(t.rank());
    r.planned.bytes *= steps;
    r.planned.messages *= steps;
    auto const w = weights(t, t.rank());
    r.mix(w.data(), w.size() * sizeof w[0]);
    return r;
}

template<class Threads, class Processes>
void compare(int ranks, std::size_t shards, auto strategy) {
    CAPTURE(ranks);
    CAPTURE(shards);
    typename Threads::options o{
        .learning_rate = 0.05f, .batch = 64, .seed = 3, .devices = ranks, .logical_shards = shards};
    typename Processes::options p{
        .learning_rate = 0.05f, .batch = 64, .seed = 3, .devices = ranks, .logical_shards = shards};
    if constexpr (Threads::policies::strategy_is_chosen) {
        o.strategy = strategy;
        p.strategy = strategy;
    }
    auto const want = train<Threads>(o);
    auto const place = meeting_place::create(ranks);
    shared_value<std::array<result, 8>> found;
    forked_ranks all(ranks, [&](int rank) {
        p.processes = seat{place, rank};
        (*found)[static_cast<std::size_t>(rank)] = train<Processes>(p);
    });
    for (auto const& outcome : all.wait(100s)) {
        CAPTURE(outcome.said);
        CHECK(outcome.code == 0);
    }
    for (int r = 0; r < ranks; ++r) {
        auto const& f = (*found)[static_cast<std::size_t>(r)];
        CHECK(f.hash == want.hash);
        CHECK(f.wire.bytes == f.planned.bytes);
        CHECK(f.wire.messages == f.planned.messages);
    }
}

/// Saved by a trainer over threads, loaded by one over processes, and saved by one of these.
template<class Threads, class Processes>
void weights_come_back() {
    constexpr int ranks = 3;
    auto const images = made_up(64);
    files::folder const folder;
    auto const before = folder.path("before.safetensors"), after = folder.path("after.safetensors");
    Threads t({.learning_rate = 0.05f, .batch = 64, .seed = 5, .devices = ranks});
    t.step(images);
    save_weights(t, before);
    auto const wanted = weights(t);
    auto const place = meeting_place::create(ranks);
    forked_ranks all(ranks, [&](int rank) {
        Processes p({.batch = 64, .seed = 9, .devices = ranks, .processes = seat{place, rank}});
        load_weights(p, before);
        if (!same_bits(weights(p, rank), wanted)) throw std::runtime_error("other weights have arrived");
        if (rank == 1) save_weights(p, after);
        p.step(images);
        if (same_bits(weights(p, rank), wanted)) throw std::runtime_error("the step has changed nothing");
    });
    for (auto const& outcome : all.wait(60s)) {
        CAPTURE(outcome.said);
        CHECK(outcome.code == 0);
    }
    CHECK(safetensors_files::content_of(before) == safetensors_files::content_of(after));
}

} // namespace

TEST_SUITE("processes/trainer") {
    TEST_CASE("LeNet on 1 to 4 processes gives the bits of threads: losses, test, weights; the plan's bytes move") {
        watchdog const guard("bits", 300);
        for (int const ranks : {1, 2, 3, 4}) compare<over_threads, over_processes>(ranks, 8, direct{});
        compare<over_threads, over_processes>(3, 0, ring{});
        compare<over_threads, over_processes>(4, 0, double_binary_tree{});
    }

    TEST_CASE("weights that are held once are held once for all processes") {
        watchdog const guard("held once");
        for (int const ranks : {1, 3}) compare<once_over_threads, once_over_processes>(ranks, 8, direct{});
    }

    TEST_CASE("weights from a file reach every process") {
        watchdog const guard("weights");
        weights_come_back<over_threads, over_processes>();
        weights_come_back<once_over_threads, once_over_processes>();
    }

    TEST_CASE("a trainer without a seat, or with one among others, is refused") {
        try {
            over_processes t({.devices = 2});
            FAIL("no seat");
        } catch (usage_error const& e) {
            CHECK(std::string(e.what()).find("option `processes`") != std::string::npos);
        }
        try {
            over_processes t({.devices = 2, .processes = seat{meeting_place::create(3), 0}});
            FAIL("too many processes");
        } catch (launch_error const& e) {
            CHECK(std::string(e.what()).find("2 devices") != std::string::npos);
            CHECK(std::string(e.what()).find("3 processes") != std::string::npos);
        }
    }

    TEST_CASE("a program that forks its own ranks") {
        auto const images = made_up(64);
        using net = small;
        int const test = getpid();
        // [forked]
        auto const place = processes::meeting_place::create(2);
        int const rank = fork() == 0 ? 1 : 0;
        trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, transport<shared_windows>> t(
            {.batch = 64, .processes = seat{place, rank}});
        // [/forked]
        auto const loss = t.step(images).loss;
        if (getpid() != test) _exit(loss > 0 ? 0 : 1);
        int status = -1;
        wait(&status);
        CHECK(status == 0);
        CHECK(loss > 0);
    }

    TEST_CASE("only the first rank observes") {
        auto const place = meeting_place::create(2);
        auto const images = made_up(64);
        shared_value<std::array<int, 2>> observed;
        forked_ranks all(2, [&](int rank) {
            over_processes t({.batch = 32, .devices = 2, .processes = seat{place, rank}});
            CHECK(t.rank() == rank);
            for (auto const& e : t.fit({images, {}}, {.epochs = 1},
                                       [&](progress_report const&) { ++(*observed)[static_cast<std::size_t>(rank)]; }))
                (void)e;
        });
        for (auto const& o : all.wait(60s)) CHECK(o.code == 0);
        CHECK((*observed)[0] == 2);
        CHECK((*observed)[1] == 0);
    }
}
