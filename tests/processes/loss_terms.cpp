// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers that add to the loss, over processes, as over threads.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/in_ranks.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/penalties.hpp>
#include <support/weighing.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>

namespace processes_loss_terms_test {
namespace {

using namespace trireme;
using namespace test_penalties;
using test_support::refusal;
using test_support::says;

template<class Loss, class Network, class... Policies>
using any = test_networks::any_stages<host, Network, Loss, sgd, Policies...>;

std::uint64_t digest_of_training(auto& t) {
    auto const told = train(t);
    return digest_of(std::as_bytes(std::span(told)));
}

/// The inputs of a table, without targets.
struct inputs_alone {
    test_weighing::labelled_table const& all;
    std::size_t size() const { return all.size(); }
    sample_rows inputs() const { return all.samples().inputs(); }
    sample_rows targets() const { return {}; }
};

} // namespace

TEST_SUITE("processes/loss_terms") {
    TEST_CASE("all processes know the terms of all stages, and have the bits of one thread") {
        watchdog const guard("terms of the loss in processes");
        any<mean_squared_error, net> one({.learning_rate = 0.1f, .batch = 48, .seed = 5, .logical_shards = 6});
        auto const wanted = digest_of_training(one);
        for (auto const& [devices, stages] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 3}, {2, 2}})
            test_ranks::come_to<any<mean_squared_error, net, transport<shared_windows>>>(
                wanted, {.learning_rate = 0.1f, .batch = 48, .seed = 5, .logical_shards = 6},
                {.devices = devices, .stages = stages}, [](auto& t) { return digest_of_training(t); });
    }

    TEST_CASE("where targets weigh the terms of a first stage, it wants them, and says so") {
        watchdog const guard("targets of a first stage");
        using weighed = network<input<6>, linear<8>, activity_penalty<percent<10>>, linear<5>>;
        using over_processes = any<test_weighing::weighing, weighed, transport<shared_windows>>;
        test_ranks::in_ranks<over_processes>({.batch = 48}, {.stages = 2}, [](over_processes& t) {
            test_weighing::labelled_table const table(48);
            auto const said = refusal([&] { t.step(inputs_alone{table}); });
            bool const right =
                says(said, {"the samples have no targets", t.rank() == 0 ? "add to the loss" : "wants them"});
            if (!right) throw std::runtime_error(said);
        });
    }
}

} // namespace processes_loss_terms_test
