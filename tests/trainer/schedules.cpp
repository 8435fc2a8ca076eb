// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every schedule that comes with Trireme, on many meshes and numbers of micro-batches: it trains as one device does, or
// is refused by a rule that is known.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <schedule/own_schedules.hpp>
#include <support/compare.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>
#include <support/weighing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainer_schedules_test {
using namespace trireme;
using test_networks::every_layer;
using test_networks::made_up;
using test_support::has;
using test_support::refusal;
using test_weighing::labelled_table;
using test_weighing::weighing;

namespace {

/// Ten layers that hold parameters, which can be cut everywhere.
using ten = network<input<6>, linear<9>, repeat<8, hyperbolic_tangent, linear<9>>, sigmoid, linear<5>>;

template<class Network, class Loss, class... Policies>
using staged = trainer<Network, Loss, sgd_momentum, on<mesh<host, dp<dynamic>, pp<dynamic>>>,
                       reproducible<fixed_tree, dynamic>, precision<f64>, Policies...>;
using of_ten = staged<ten, weighing>;
using of_ten_in_parts = staged<ten, weighing, accumulate<2>>;
using of_every_layer = staged<every_layer, cross_entropy>;
using of_ten_again = staged<ten, weighing, recompute<all>>;
using of_ten_again_in_parts = staged<ten, weighing, accumulate<2>, recompute<all>>;
using of_every_layer_again = staged<every_layer, cross_entropy, recompute<all>>;

/// All schedules. `least`: the micro-batches per role that one needs.
struct named {
    schedule_choice schedule;
    int least = 0;
};
named const schedules[] = {{gpipe{}},
                           {one_f_one_b{}},
                           {interleaved<2>{}},
                           {interleaved<3>{}},
                           {breadth_first<2>{}},
                           {zero_bubble_h1{}},
                           {zero_bubble_h2{}},
                           {zero_bubble_auto<2, 3, 1, 1, 4>{}},
                           {zero_bubble_v{}},
                           {v_half{}},
                           {v_min{}},
                           {dual_pipe_v{}, 2}};
constexpr int kinds = static_cast<int>(std::size(schedules));

struct mesh_shape {
    int devices = 1, stages = 1;
};
constexpr mesh_shape meshes[] = {{1, 2}, {1, 3}, {1, 4}, {2, 2}, {2, 3}};
constexpr int numbers_of_micro_batches[] = {1, 2, 3, 5, 8, 16};

/// Samples to train with and to test with. What is moved keeps its memory.
struct tables {
    labelled_table of_train, of_test;
    samples_in_memory train = of_train.samples(), test = of_test.samples();
};
constexpr auto table = [](std::size_t n, std::size_t tested) {
    return tables{labelled_table(n), labelled_table(tested, 2)};
};
constexpr auto images = [](std::size_t n, std::size_t tested) { return dataset{made_up(n), made_up(tested, 9)}; };

constexpr std::size_t most_samples = 20; ///< of a step

/// What is left of a step, one on fewer samples than most numbers of micro-batches, and an epoch with a short last
/// batch and a test.
template<class Trainer, class Data>
std::vector<double> trained(Trainer& t, Data const& data) {
    std::vector<double> told = {t.step(data(most_samples, 1).train).loss, t.step(data(3, 1).train).loss};
    for (auto const& epoch : t.fit(data(33, 14), {.epochs = 1}))
        told.insert(told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
    for (auto const& some : {t.gather_parameters(), t.gather_buffers()})
        told.insert(told.end(), some.begin(), some.end());
    return told;
}

/// How many layouts ran, and how many were refused by which rule.
struct outcome {
    int ran = 0;
    std::map<std::string, int> refused;
};

/// The rule by which a layout is to be refused: a part of its sentence; empty if it is to run.
struct expected_refusal {
    std::size_t segments = 0; ///< places at which the network can be cut, and one
    int passes = 1;

    std::string operator()(named const& of, mesh_shape const& mesh, int micro_batches) const {
        auto const stages = std::to_string(mesh.stages), parts = std::to_string(passes);
        std::string const name = of.schedule.name;
        if (passes > 1 && micro_batches % passes != 0)
            return "micro_batches = " + std::to_string(micro_batches) + " with accumulate<" + parts +
                   ">: the schedule runs " + parts + " times, each over as many micro-batches; take " +
                   std::to_string(micro_batches + 1);
        if (static_cast<std::size_t>(mesh.stages * of.schedule.chunks) > segments)
            return "stages = " + stages +
                   (of.schedule.chunks == 1
                        ? std::string()
                        : ", each in " + std::to_string(of.schedule.chunks) + " by the schedule " + name) +
                   ": this network can be cut at " + std::to_string(segments - 1) + " places, into at most " +
                   std::to_string(segments) + " stages";
        return "";
    }
};

/// Ways of adding the gradients of micro-batches: as they come; in a tree, all replicas with as many of them, or one
/// with fewer.
enum class sums { as_they_come, in_a_tree, in_an_uneven_tree };

/// Trains with one schedule on one mesh, and compares with one device.
template<class Trainer, class Data>
class trainings {
public:
    trainings(Data const& data, expected_refusal const& rule) : data_(data), rule_(rule) {}

    void run(named const& of, mesh_shape const& mesh, int micro_batches, sums how) {
        bool const uneven = how == sums::in_an_uneven_tree;
        if (uneven && (mesh.devices == 1 || micro_batches == 1 || rule_.passes > 1)) return;
        auto const fewest = (micro_batches - (uneven ? 1 : 0)) / rule_.passes;
        if (fewest < of.least * mesh.stages) return; // parallel/step has these
        CAPTURE(std::string(of.schedule.name));
        CAPTURE(mesh.devices);
        CAPTURE(mesh.stages);
        CAPTURE(micro_batches);
        CAPTURE(static_cast<int>(how));
        auto const shards = static_cast<std::size_t>(mesh.devices * micro_batches - (uneven ? 1 : 0));
        auto const o = options_of(shards, how);
        typename Trainer::run_options const r{.devices = mesh.devices,
                                              .stages = mesh.stages,
                                              .micro_batches = uneven ? 0 : static_cast<std::size_t>(micro_batches),
                                              .schedule = of.schedule};
        auto const rule = rule_(of, mesh, micro_batches);
        if (!rule.empty()) {
            auto const said = refusal([&] { Trainer made(o, r); });
            CHECK(has(said, rule));
            CHECK(refusal([&] { Trainer::check(o, r); }) == said);
            ++seen.refused[said.substr(said.find(": ") + 2)];
            return;
        }
        Trainer t(o, r);
        auto const left = trained(t, data_), &wanted = of_one_device(shards, how);
        ++seen.ran;
        if (how == sums::as_they_come)
            CHECK(test_support::apart(left, wanted) < 1e-9);
        else
            CHECK(left == wanted);
    }

    outcome seen;

private:
    static typename Trainer::options options_of(std::size_t shards, sums how) {
        return {.learning_rate = 0.1f,
                .batch = most_samples,
                .seed = 3,
                .logical_shards = how == sums::as_they_come ? 0 : shards};
    }
    std::vector<double> const& of_one_device(std::size_t shards, sums how) {
        auto& known = one_[{shards, how == sums::as_they_come}];
        if (known.empty()) {
            Trainer t(options_of(shards, how),
                      {.devices = 1, .stages = 1, .micro_batches = how == sums::as_they_come ? shards : 0});
            known = trained(t, data_);
        }
        return known;
    }

    Data const& data_;
    expected_refusal rule_;
    std::map<std::pair<std::size_t, bool>, std::vector<double>>
        one_; ///< by shards, and whether they are none of a tree
};

/// All of them; or about one in `thin`, so that each pair of a schedule and a mesh, and of a schedule and a number of
/// micro-batches, is met.
template<class Trainer, class Data>
void train_all(char const* what, Data const& data, expected_refusal const& rule, int thin) {
    trainings<Trainer, Data> all(data, rule);
    for (int s = 0; s < kinds; ++s)
        for (int m = 0; m < static_cast<int>(std::size(meshes)); ++m)
            for (int k = 0; k < static_cast<int>(std::size(numbers_of_micro_batches)); ++k)
                for (int const how : {0, 1, 2})
                    if ((s + m + k + how * (thin / 2)) % thin == 0)
                        all.run(schedules[s], meshes[m], numbers_of_micro_batches[k], static_cast<sums>(how));
    int refused = 0;
    std::string by;
    for (auto const& [words, times] : all.seen.refused)
        refused += times, by += "\n" + std::to_string(times) + " times: " + words;
    MESSAGE(std::string(what), ": ", all.seen.ran, " layouts ran, ", refused, " were refused", by);
    CHECK(all.seen.ran > 0);
    CHECK((refused > 0) == (rule.segments < 12 || rule.passes > 1)); // 12: the most stages of a layout
}

} // namespace

TEST_SUITE("trainer/schedules") {
    TEST_CASE("every schedule trains ten layers as one device does, or is refused") {
        watchdog const guard("schedules of ten layers");
        train_all<of_ten>("ten layers", table, {.segments = 10}, sanitized ? 9 : 1);
    }

    TEST_CASE("so it does where it runs twice in a step") {
        watchdog const guard("schedules that run twice");
        train_all<of_ten_in_parts>("ten layers, accumulate<2>", table, {.segments = 10, .passes = 2},
                                   sanitized ? 9 : 1);
    }

    TEST_CASE("and where what is between the ends of stages is computed again") {
        watchdog const guard("schedules that recompute");
        train_all<of_ten_again>("ten layers, recompute<all>", table, {.segments = 10}, sanitized ? 9 : 5);
        train_all<of_ten_again_in_parts>("ten layers, accumulate<2>, recompute<all>", table,
                                         {.segments = 10, .passes = 2}, sanitized ? 9 : 5);
        train_all<of_every_layer_again>("every layer, recompute<all>", images,
                                        {.segments = segments_of<every_layer>.count}, sanitized ? 13 : 7);
    }

    TEST_CASE("and layers of every kind, which need a whole micro-batch, draw, or keep statistics") {
        watchdog const guard("schedules of every layer");
        train_all<of_every_layer>("every layer", images, {.segments = segments_of<every_layer>.count},
                                  sanitized ? 11 : 5);
    }

    TEST_CASE("what makes no step is refused before anything is made") {
        of_ten::run_options const wrong{
            .devices = 1, .stages = 2, .micro_batches = 4, .schedule = own_schedules::last_first{}};
        CHECK_THROWS_AS(of_ten::check({.batch = 20}, wrong), usage_error);
        CHECK_THROWS_AS(of_ten({.batch = 20}, wrong), usage_error);
        // one replica has two micro-batches, the other three, and both run their schedule twice
        of_ten_in_parts::options const uneven{.batch = 20, .logical_shards = 5};
        CHECK_THROWS_AS(of_ten_in_parts::check(uneven, {.devices = 2, .stages = 2}), usage_error);
        CHECK_THROWS_AS(of_ten_in_parts(uneven, {.devices = 2, .stages = 2}), usage_error);
    }
}

TEST_SUITE("nightly/trainer/schedules") {
    TEST_CASE("layers of every kind on all meshes with all numbers of micro-batches") {
        watchdog const guard("nightly schedules", 3000);
        train_all<of_every_layer>("every layer", images, {.segments = segments_of<every_layer>.count}, 1);
    }
}

} // namespace trainer_schedules_test
