// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses in which samples count differently, over processes, as over threads.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/allocation_hook.hpp>
#include <support/in_ranks.hpp>
#include <support/networks.hpp>
#include <support/weighing.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace processes_weighted_losses_test {
namespace {

using namespace trireme;
using namespace test_weighing;

template<class Loss, class... Policies>
using any = test_networks::any_stages<host, net, Loss, sgd, Policies...>;
using over_threads = any<weighing>;
using over_processes = any<weighing, transport<shared_windows>>;

std::uint64_t digest_of_training(auto& t) {
    auto const told = train(t, false); // observers are called on rank 0 alone
    return digest_of(std::as_bytes(std::span(told)));
}

/// The ranks of a stage read this part of a table.
struct part {
    labelled_table const& all;
    bool has_inputs, has_targets;
    std::size_t size() const { return all.size(); }
    sample_rows inputs() const { return has_inputs ? all.samples().inputs() : sample_rows{}; }
    sample_rows targets() const { return has_targets ? all.samples().targets() : sample_rows{}; }
};

/// Losses of steps and of tests, one of them of samples of which none counts, and of an epoch.
template<class Trainer>
std::array<double, 12> told_by(Trainer& t, bool first, bool last) {
    labelled_table const all(48), few(31, 2), many(130, 5);
    auto const none = labelled_table(20, 6).leave_out_all();
    std::array<double, 12> told = {};
    std::size_t next = 0;
    for (auto const* batch : {&all, &none, &few}) {
        part const samples{*batch, first, last};
        told[next++] = t.step(samples).loss;
        auto const e = t.evaluate(samples);
        told[next++] = e.loss;
        told[next++] = e.accuracy;
    }
    part const samples{many, first, last};
    struct {
        part train, test;
    } const data{samples, samples};
    auto const epoch = t.train(data, {.epochs = 1});
    told[next++] = epoch.loss;
    told[next++] = epoch.test.loss;
    told[next++] = epoch.test.accuracy;
    return told;
}

} // namespace

TEST_SUITE("processes/weighted_losses") {
    TEST_CASE("processes have the bits of one thread, whatever the layout") {
        watchdog const guard("weighted losses in processes");
        over_threads one({.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6});
        auto const wanted = digest_of_training(one);
        for (auto const& [devices, stages] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {2, 2}, {1, 3}})
            test_ranks::come_to<over_processes>(
                wanted, {.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6},
                {.devices = devices, .stages = stages}, [](auto& t) { return digest_of_training(t); });
    }

    TEST_CASE("all ranks know the losses where first stages have inputs alone and last ones targets alone") {
        watchdog const guard("parts of labelled samples");
        over_threads one({.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6});
        auto const wanted = told_by(one, true, true);
        CHECK(wanted[0] > 0);
        CHECK((wanted[3] == 0 && wanted[4] == 0 && wanted[5] == 0));
        for (auto const& layout : {std::pair{1, 2}, {2, 2}, {1, 3}}) {
            int const stages = layout.second;
            test_ranks::come_to<over_processes>(
                wanted, {.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6},
                {.devices = layout.first, .stages = stages},
                [&](auto& t) { return told_by(t, t.rank() % stages == 0, t.rank() % stages == stages - 1); });
        }
    }

    TEST_CASE("a plan has room for the weight of a batch, and none where all samples count alike") {
        watchdog const guard("the memory of weighted losses");
        using unweighted = any<cross_entropy, transport<shared_windows>>;
        auto const scores = []<class T>(std::type_identity<T>, std::size_t shards) {
            typename T::options const o{.batch = 48, .logical_shards = shards};
            auto const plan = T::plan(48, T::layout_of(o, {.devices = 2, .stages = 2}));
            return plan.map(plan.layout, 48, 3).scores.bytes;
        };
        for (std::size_t const shards : {2u, 4u, 6u}) { // losses, right answers; the weight, and how many count
            CHECK(scores(std::type_identity<unweighted>{}, shards) == 16 * shards);
            CHECK(scores(std::type_identity<over_processes>{}, shards) == 16 * shards + 16);
        }
        test_ranks::in_ranks<over_processes>({.batch = 48, .logical_shards = 4}, {.devices = 2}, [](over_processes& t) {
            labelled_table const table(48);
            sample_set const samples = table;
            t.step(samples);
            t.evaluate(samples);
            auto const before = allocation_hook::allocations.load();
            for (int k = 0; k < 3; ++k) t.step(samples);
            if (allocation_hook::allocations != before) throw std::runtime_error("a step allocates");
            if (t.wire(t.rank()).bytes != 4 * t.plan().wire(t.rank()).bytes)
                throw std::runtime_error("other bytes have moved than the plan says");
        });
    }
}

} // namespace processes_weighted_losses_test
