// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// oneDNN's kernels in devices that are processes.

#include <trireme/onednn.hpp>
#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <onednn/training.hpp>
#include <processes/forked.hpp>

#include <chrono>
#include <stdexcept>

namespace onednn_processes_test {
namespace {

using namespace trireme;
using namespace onednn_test;

using net =
    network<input<1, 28, 28>, conv2d<6, kernel<5>, stride<2>>, batch_norm<per_shard>, relu, flatten, linear<10>>;
template<class... Policies>
using on_devices = trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                           reproducible<fixed_tree, dynamic>, kernels<onednn>, Policies...>;

} // namespace

TEST_SUITE("onednn/processes") {
    TEST_CASE("losses and weights have the bits of threads") {
        watchdog const guard("oneDNN in processes");
        constexpr int ranks = 2;
        auto const wanted = trained<on_devices<>>({.seed = 3, .devices = ranks, .logical_shards = 4});
        auto const place = processes::meeting_place::create(ranks);
        forked_ranks all(ranks, [&](int rank) {
            auto const is = trained<on_devices<transport<shared_windows>>>(
                {.seed = 3, .devices = ranks, .logical_shards = 4, .processes = seat{place, rank}});
            if (!(is == wanted)) throw std::runtime_error("other losses or weights");
        });
        for (auto const& outcome : all.wait(std::chrono::seconds(60))) {
            CAPTURE(outcome.said);
            CHECK(outcome.code == 0);
        }
    }
}

} // namespace onednn_processes_test
