// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trainers whose devices are processes train as trainers whose devices are threads.

#include <trireme/kernels/reference.hpp>
#include <trireme/processes.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/files.hpp>
#include <support/floats.hpp>
#include <support/forked.hpp>
#include <support/in_ranks.hpp>
#include <support/networks.hpp>
#include <support/require.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace processes_trainer_test {
namespace {

using namespace trireme;
using namespace test_networks;
using processes::meeting_place;
using test_support::require;
using namespace std::chrono_literals;

using over_threads = any_layout<lenet, sgd_momentum>;
using over_processes = any_layout<lenet, sgd_momentum, transport<shared_windows>>;
using once_over_threads = any_replicas<host, small, cross_entropy, sgd_momentum, hold_weights<once>>;
using once_over_processes =
    any_replicas<host, small, cross_entropy, sgd_momentum, hold_weights<once>, transport<shared_windows>>;
using staged_over_processes =
    trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<1>, pp<dynamic>>>, transport<shared_windows>>;

/// A run has come to this result, in bits.
struct result {
    std::uint64_t hash = digest_of({});
    void mix(void const* data, std::size_t bytes) {
        hash = digest_of({static_cast<std::byte const*>(data), bytes}, hash);
    }
};

/// Saved by a trainer over threads, loaded by one over processes, and saved by one of these.
template<class Threads, class Processes>
void weights_come_back() {
    constexpr int ranks = 3;
    auto const images = made_up(64);
    files::folder const folder;
    auto const before = folder.path("before.safetensors"), after = folder.path("after.safetensors");
    Threads t({.learning_rate = 0.05f, .batch = 64, .seed = 5}, {.devices = ranks});
    t.step(images);
    save_weights(t, before);
    auto const wanted = weights(t);
    test_ranks::in_ranks<Processes>({.batch = 64, .seed = 9}, {.devices = ranks}, [&](Processes& p) {
        load_weights(p, before);
        require(same_bits(weights(p, p.rank()), wanted), "other weights have arrived");
        save_weights(p, after); // rank 0 writes
        p.step(images);
        require(!same_bits(weights(p, p.rank()), wanted), "the step has changed nothing");
    });
    CHECK(files::content_of(before) == files::content_of(after));
}

/// All ranks of a trainer must say that they differ, in both parts, within a deadline; `f(both of the trainer's
/// options, rank)`.
template<class Error>
void refused(std::string const& one, std::string const& other, std::function<void(settings<over_processes>, int)> f) {
    CAPTURE(one);
    CAPTURE(other);
    auto const place = meeting_place::create(3);
    forked_ranks all(3, [&](int rank) {
        try {
            f({{.batch = 64, .seed = 5}, {.devices = 3, .deadline = 20s, .processes = seat{place, rank}}}, rank);
        } catch (Error const& e) {
            std::string const said = e.what();
            if (said.find(one) == std::string::npos || said.find(other) == std::string::npos) throw;
            return;
        }
        throw std::runtime_error("ranks that differ were not refused");
    });
    all_end_well(all, 20s);
}

/// Ranks whose files are not all whole, or not all of one content: none takes anything, and all go on.
template<class Processes>
void weights_are_refused_by_all() {
    constexpr int ranks = 3;
    auto const images = made_up(64);
    files::folder const folder;
    auto const right = folder.path("right"), other = folder.path("other"), cut = folder.path("cut");
    {
        auto const place = meeting_place::create(1);
        Processes p({.batch = 64, .seed = 5}, {.devices = 1, .processes = seat{place, 0}});
        save_weights(p, right);
        p.step(images);
        save_weights(p, other);
    }
    auto content = files::content_of(right);
    content.resize(content.size() / 2);
    folder.write("cut", content);
    test_ranks::in_ranks<Processes>({.batch = 64, .seed = 9}, {.devices = ranks}, [&](Processes& p) {
        int const rank = p.rank();
        auto const before = weights(p, rank);
        auto const refused = [&](int odd_rank, std::string const& odd_file) {
            try {
                load_weights(p, rank == odd_rank ? odd_file : right);
                throw std::runtime_error("nothing was thrown");
            } catch (data_error const& e) {
                require(rank == odd_rank && e.path() == odd_file, "an error in the file of another rank");
            } catch (device_error const& e) {
                require(e.device() == odd_rank && rank != odd_rank, "the wrong rank is named");
                require(std::string(e.what()).find(odd_file) != std::string::npos, "the file is not named");
            } catch (mismatch_error const& e) {
                require(odd_file == other, "what cannot be read is no mismatch");
                require(std::string(e.what()).find("rank " + std::to_string(odd_rank == 0 ? 1 : odd_rank)) !=
                            std::string::npos,
                        "the ranks that differ are not named");
            }
            require(same_bits(weights(p, rank), before), "a refused file has changed the weights");
        };
        for (int const odd_rank : {1, 0, 2}) {
            refused(odd_rank, cut);
            refused(odd_rank, folder.path("none"));
            refused(odd_rank, other);
        }
        load_weights(p, right); // the trainer is as it was
        require(!same_bits(weights(p, rank), before), "nothing was loaded");
        require(p.wire(rank).bytes == 0, "what is no step's is counted as a step's traffic");
        p.step(images);
    });
}

/// The description of a trainer, without the trainer.
template<class Network, class Loss = cross_entropy, class Optimizer = sgd, class Initialiser = xavier_uniform,
         class Kernels = portable, class T = float>
std::string described(parallel_layout const& l = {.replicas = 2}, float rate = 0.1f, std::size_t batch = 64,
                      std::uint64_t seed = 0) {
    typename trainer<Network, Loss, Optimizer, on<mesh<host, dp<dynamic>>>>::options o{
        .learning_rate = rate, .batch = batch, .seed = seed};
    return agreement<composition<Network, Loss, Optimizer, Kernels, T>, Initialiser>(o, l);
}

} // namespace

TEST_SUITE("processes/trainer") {
    TEST_CASE("everything that decides the weights is in what ranks agree on; nothing else is") {
        using a = network<input<1, 28, 28>, conv2d<3, kernel<3>>, relu, avg_pool2d<2>, flatten, linear<10>>;
        using other_function =
            network<input<1, 28, 28>, conv2d<3, kernel<3>>, sigmoid, avg_pool2d<2>, flatten, linear<10>>;
        using other_pooling = network<input<1, 28, 28>, conv2d<3, kernel<3>>, relu, max_pool2d<2>, flatten, linear<10>>;
        using other_order = network<input<1, 28, 28>, conv2d<3, kernel<3>>, avg_pool2d<2>, relu, flatten, linear<10>>;
        using with_dropout = network<input<1, 28, 28>, conv2d<3, kernel<3>>, relu, avg_pool2d<2>, flatten,
                                     dropout<percent<50>>, linear<10>>;
        parallel_layout const replicated{.replicas = 2};
        parallel_layout const staged{.replicas = 2, .stages = 2, .micro_batches = 4, .cut = &cut_before<2>::rows<a>};
        auto const with = [](parallel_layout l, auto change) {
            change(l);
            return described<a>(l);
        };
        std::string const texts[] = {described<a>(),
                                     described<other_function>(),
                                     described<other_pooling>(),
                                     described<other_order>(),
                                     described<with_dropout>(),
                                     described<a, cross_entropy_with<ignoring<255>>>(),
                                     described<a, cross_entropy, sgd_momentum>(),
                                     described<a, cross_entropy, sgd_nesterov>(),
                                     described<a, cross_entropy, sgd, he_normal>(),
                                     described<a, cross_entropy, sgd, xavier_uniform, reference>(),
                                     described<a, cross_entropy, sgd, xavier_uniform, portable, double>(),
                                     described<a>(replicated, std::nextafter(0.1f, 1.0f)),
                                     described<a>(replicated, 0.1f, 65),
                                     described<a>(replicated, 0.1f, 64, 1),
                                     with(replicated, [](auto& l) { l.replicas = 3; }),
                                     with(replicated, [](auto& l) { l.logical_shards = 8; }),
                                     with(replicated, [](auto& l) { l.strategy = ring{}; }),
                                     with(replicated, [](auto& l) { l.strategy = compressed<bf16, ring>{}; }),
                                     with(replicated, [](auto& l) { l.micro_batches = 4; }),
                                     with(replicated, [](auto& l) { l.shared_weights = true; }),
                                     described<a>(staged),
                                     with(staged, [](auto& l) { l.micro_batches = 2; }),
                                     with(staged, [](auto& l) { l.passes = 2; }),
                                     with(staged, [](auto& l) { l.schedule = gpipe{}; }),
                                     with(staged, [](auto& l) { l.cut = &cut_before<3>::rows<a>; }),
                                     with(staged, [](auto& l) { l.shared_weights = true; })};
        for (auto const& one : texts)
            for (auto const& other : texts) CHECK((one == other) == (&one == &other));
        // a layer of one's own may have one name and two meanings
        CHECK(texts[0].find(std::to_string(a::parameters) + " parameters") != std::string::npos);
        CHECK(texts[0].find(std::to_string(a::training_flops) + " FLOPs") != std::string::npos);
    }

    TEST_CASE("ranks with other options are refused when they begin, and told both") {
        watchdog const guard("options");
        auto const with = [](auto change) {
            return [change](settings<over_processes> s, int rank) {
                if (rank == 1) change(s.training);
                over_processes const t(s.training, s.run);
            };
        };
        refused<launch_error>("seed 5", "seed 6", with([](auto& o) { o.seed = 6; }));
        refused<launch_error>("learning_rate 0.1", "learning_rate 0.2", with([](auto& o) { o.learning_rate = 0.2f; }));
        refused<launch_error>("rate constant", "rate cosine_rate of 9 steps",
                              with([](auto& o) { o.rate = cosine_rate{.steps = 9}; }));
        refused<launch_error>("rate step_rate of 3 steps", "rate step_rate of 4 steps", [](auto s, int rank) {
            s.training.rate = step_rate{.every = rank == 1 ? 4u : 3u};
            over_processes const t(s.training, s.run);
        });
        refused<launch_error>("weight_decay 0", "weight_decay 0.5", with([](auto& o) { o.weight_decay = 0.5f; }));
        refused<launch_error>("momentum 0.9", "momentum 0.8", with([](auto& o) { o.momentum = 0.8f; }));
        refused<launch_error>("batch 64", "batch 63", with([](auto& o) { o.batch = 63; }));
        refused<launch_error>("3 micro-batches", "6 micro-batches", [](auto s, int rank) {
            staged_over_processes const t({.batch = 64}, {.stages = 3,
                                                          .micro_batches = rank == 1 ? 6u : 3u,
                                                          .deadline = s.run.deadline,
                                                          .processes = s.run.processes});
        });
    }

    TEST_CASE("ranks with other samples are told so in the same step") {
        watchdog const guard("samples");
        auto const set = made_up(128), other = made_up(128, 8);
        auto const on = [](auto use) {
            return [use](settings<over_processes> const& s, int rank) {
                over_processes t(s.training, s.run);
                use(t, rank);
            };
        };
        refused<mismatch_error>("64 samples", "63 samples",
                                on([&](auto& t, int rank) { t.step(set.take(0, rank == 2 ? 63 : 64)); }));
        refused<mismatch_error>("64 samples", "digest",
                                on([&](auto& t, int rank) { t.step((rank == 0 ? other : set).take(0, 64)); }));
        std::vector<std::uint8_t> const pixels(set.pixels().begin(), set.pixels().end()), names(128, 3);
        labelled_images const renamed(pixels, names, 28, 28, 10); // the same pixels
        refused<mismatch_error>("64 samples", "digest",
                                on([&](auto& t, int rank) { t.step((rank == 0 ? renamed : set).take(0, 64)); }));
        refused<mismatch_error>("128 samples", "digest", on([&](auto& t, int rank) {
                                    for (auto const& e : t.fit({rank == 0 ? other : set, {}}, {.epochs = 1})) (void)e;
                                }));
        refused<mismatch_error>("128 samples", "127 samples", on([&](auto& t, int rank) {
                                    for (auto const& e : t.fit({rank == 0 ? set.take(1, 127) : set, {}}, {.epochs = 1}))
                                        (void)e;
                                }));
        refused<mismatch_error>("128 samples", "digest",
                                on([&](auto& t, int rank) { t.evaluate(rank == 1 ? other : set); }));
        refused<mismatch_error>("learning rate 0.1", "learning rate 0.5", on([&](auto& t, int rank) {
                                    t.step(set.take(0, 64));
                                    if (rank == 1) t.set_learning_rate(0.5f);
                                    t.step(set.take(0, 64));
                                }));
        refused<mismatch_error>("values", "digest", on([&](auto& t, int rank) {
                                    auto w = weights(t, rank);
                                    if (rank == 1) w[17] += 1;
                                    t.load_parameters(w);
                                }));
    }

    TEST_CASE("equal samples in other storage, and other deadlines, are agreed in") {
        watchdog const guard("agree");
        auto const set = made_up(128);
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            over_processes t({.batch = 64},
                             {.devices = 2, .deadline = rank == 0 ? 20s : 19s, .processes = seat{place, rank}});
            t.step(rank == 0 ? set.take(64, 64) : made_up(128).take(64, 64));
            for (auto const& e : t.fit({rank == 0 ? set : made_up(128), set}, {.epochs = 2})) (void)e;
        });
        all_end_well(all, 60s);
    }

    TEST_CASE("weights from a file reach every process") {
        watchdog const guard("weights");
        weights_come_back<over_threads, over_processes>();
        weights_come_back<once_over_threads, once_over_processes>();
    }

    TEST_CASE("files that one rank cannot read, or that hold something else there, are refused by all ranks") {
        watchdog const guard("refused weights");
        weights_are_refused_by_all<over_processes>();
        weights_are_refused_by_all<once_over_processes>();
    }

    TEST_CASE("bits do not depend on the floating-point environment of one rank") {
        watchdog const guard("floats");
        auto const images = made_up(64);
        once_over_processes::options const training{
            .learning_rate = 0.05f, .batch = 64, .seed = 9, .logical_shards = 8};
        auto const digest_of_training = [&](once_over_processes& p, other_floats const* of_last_rank) {
            p.load_parameters(denormal_weights(small::parameters));
            std::optional<in_other_floats> other;
            if (of_last_rank != nullptr && p.rank() == p.devices() - 1) other.emplace(*of_last_rank);
            result r;
            for (int i = 0; i < 2; ++i) {
                auto const loss = p.step(images).loss;
                r.mix(&loss, sizeof loss);
            }
            auto const test = p.evaluate(images);
            require(!other || other->holds(), "the rank's own environment is gone");
            other.reset();
            auto const w = weights(p, p.rank());
            r.mix(w.data(), w.size() * sizeof w[0]);
            r.mix(&test.loss, sizeof test.loss);
            return r.hash;
        };
        shared_value<std::uint64_t> wanted;
        test_ranks::in_ranks<once_over_processes>(
            training, {.devices = 1}, [&](once_over_processes& p) { *wanted = digest_of_training(p, nullptr); });
        for (auto const which : all_other_floats())
            for (int const ranks : {1, 2}) {
                CAPTURE(static_cast<int>(which));
                test_ranks::come_to<once_over_processes>(
                    *wanted, training, {.devices = ranks},
                    [&](once_over_processes& p) { return digest_of_training(p, &which); });
            }
    }

    TEST_CASE("a trainer without a seat, or with one among others, is refused") {
        try {
            over_processes t({}, {.devices = 2});
            FAIL("no seat");
        } catch (usage_error const& e) {
            CHECK(std::string(e.what()).find("option `processes`") != std::string::npos);
        }
        try {
            over_processes t({}, {.devices = 2, .processes = seat{meeting_place::create(3), 0}});
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
            {.batch = 64}, {.processes = seat{place, rank}});
        // [/forked]
        auto const loss = t.step(images).loss;
        if (getpid() != test) _exit(loss > 0 ? 0 : 1);
        int status = -1;
        wait(&status);
        CHECK(status == 0);
        CHECK(loss > 0);
    }

    TEST_CASE("only the first rank observes") {
        auto const images = made_up(64);
        shared_value<std::array<int, 2>> observed;
        test_ranks::in_ranks<over_processes>({.batch = 32}, {.devices = 2}, [&](over_processes& t) {
            auto& seen = (*observed)[static_cast<std::size_t>(t.rank())];
            for (auto const& e : t.fit({images, {}}, {.epochs = 1}, [&](progress_report const&) { ++seen; })) (void)e;
        });
        CHECK((*observed)[0] == 2);
        CHECK((*observed)[1] == 0);
    }

    TEST_CASE("all ranks end a fit in one epoch, with the best weights; the first alone observes epochs") {
        watchdog const guard("patience");
        auto const images = made_up(96), test = made_up(40, 11);
        auto const trained = [&](auto& t, auto observe) {
            // the rate is far too high: the test gains nothing for long
            return t
                .train({images, test},
                       {.epochs = 30, .patience = 2, .keep_best = true, .best_by = test_figure::accuracy}, observe)
                .epoch;
        };
        once_over_threads alone({.learning_rate = 0.5f, .batch = 32, .seed = 5, .logical_shards = 4}, {.devices = 1});
        int seen = 0;
        auto const best = trained(alone, [&](epoch_report const&) { ++seen; });
        REQUIRE(seen < 30);
        auto const wanted = weights(alone);
        for (int const ranks : {2, 3}) {
            CAPTURE(ranks);
            shared_value<std::array<int, 3>> observed;
            test_ranks::in_ranks<once_over_processes>(
                {.learning_rate = 0.5f, .batch = 32, .seed = 5, .logical_shards = 4}, {.devices = ranks},
                [&](once_over_processes& p) {
                    auto& told = (*observed)[static_cast<std::size_t>(p.rank())];
                    require(trained(p, [&](epoch_report const&) { ++told; }) == best, "another epoch was the best");
                    require(same_bits(weights(p), wanted), "other weights were put back");
                });
            CHECK((*observed)[0] == seen);
            CHECK((*observed)[1] == 0);
        }
    }

    TEST_CASE("what an observer of epochs throws on the first rank ends that rank, and the others learn of it") {
        watchdog const guard("observer of epochs");
        auto const place = meeting_place::create(2);
        auto const images = made_up(64);
        forked_ranks all(2, [&](int rank) {
            over_processes t({.batch = 32}, {.devices = 2, .deadline = 20s, .processes = seat{place, rank}});
            t.train({images, {}}, {.epochs = 3}, [](epoch_report const&) { throw std::runtime_error("seen enough"); });
        });
        auto const found = all.wait(10s);
        CHECK(found[0].said == "seen enough");
        for (auto const& o : found) {
            CAPTURE(o.said);
            CHECK(o.code == 3);
        }
        CHECK(found[1].said.find("device 0: an exception outside of its group took it away") == 0);
    }

    TEST_CASE("an observer that throws is an error of its rank on all ranks") {
        watchdog const guard("observer");
        auto const place = meeting_place::create(2);
        auto const images = made_up(64);
        forked_ranks all(2, [&](int rank) {
            over_processes t({.batch = 32}, {.devices = 2, .deadline = 20s, .processes = seat{place, rank}});
            auto epochs = t.fit({images, {}}, {.epochs = 1},
                                [](progress_report const&) { throw std::runtime_error("seen enough"); });
            epochs.begin();
        });
        for (auto const& o : all.wait(10s)) {
            CHECK(o.code == 3);
            CHECK(o.said == "device 0: seen enough");
        }
    }
}

} // namespace processes_trainer_test
