// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Gradients that travel as bf16 between processes: the bits of threads.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/in_ranks.hpp>
#include <support/networks.hpp>
#include <support/tied_networks.hpp>
#include <support/training.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace processes_compressed_test {
namespace {
using namespace trireme;
using namespace test_networks;
using processes::meeting_place;
using namespace std::chrono_literals;

template<class... Policies>
using narrow =
    trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<3>>>, reduce_by<compressed<bf16, ring>>, Policies...>;
template<class... Policies>
using staged = trainer<test_tying::first_and_last, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<2>>>,
                       pipeline<one_f_one_b, 4>, clip_norm, reduce_by<compressed<bf16, ring>>, Policies...>;
std::vector<std::size_t> const sizes = {24, 13, 5};
std::uint64_t digest_of(outcome<float> const& o) {
    return trireme::digest_of(std::as_bytes(std::span(o.numbers)),
                              trireme::digest_of(std::as_bytes(std::span(o.told))));
}
} // namespace

TEST_SUITE("processes/compressed") {
    TEST_CASE("processes that compress gradients have the bits of threads, and send what the plan says") {
        watchdog const guard("compressed gradients in processes");
        auto const wanted = digest_of(trained<narrow<>>({{.batch = 24}, {}}, sizes));
        auto const place = meeting_place::create(3);
        shared_value<std::array<std::uint64_t, 3>> found;
        forked_ranks all(3, [&](int rank) {
            (*found)[static_cast<std::size_t>(rank)] = digest_of(trained<narrow<transport<shared_windows>>>(
                {{.batch = 24}, {.deadline = 60s, .processes = seat{place, rank}}}, sizes));
        });
        all_end_well(all, 100s);
        for (auto const digest : *found) CHECK(digest == wanted);
    }

    TEST_CASE("stages that are processes compress their gradients as threads do") {
        watchdog const guard("compressed gradients of stages in processes");
        auto const digest_of_training = [](auto& t) {
            for (int i = 0; i < 3; ++i) t.step(made_up(24));
            auto const weights = t.gather_parameters();
            return trireme::digest_of(std::as_bytes(std::span(weights)));
        };
        staged<> threads({.learning_rate = 0.05f, .batch = 24, .seed = 3});
        auto const wanted = digest_of_training(threads);
        test_ranks::come_to<staged<transport<shared_windows>>>(wanted, {.learning_rate = 0.05f, .batch = 24, .seed = 3},
                                                               {}, digest_of_training);
    }
}
} // namespace processes_compressed_test
