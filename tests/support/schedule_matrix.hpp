// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/built_in_schedules.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/weighing.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Combinations of a mesh, a schedule, micro-batches, accumulation, recomputation and a transport: a choice that meets
// every pair of their values, the rules that refuse a combination, and the numbers of one device.
namespace test_schedule_matrix {
using namespace trireme;
using test_support::built_in_schedule;
using test_support::built_in_schedules;

struct mesh_shape {
    int devices = 1, stages = 1;
};
inline constexpr mesh_shape meshes[] = {{1, 2}, {1, 3}, {1, 4}, {2, 2}, {2, 3}, {4, 2}, {1, 8}};

/// The ranks are threads that share memory, processes that share windows, or rehearsed streams.
enum class carrier { threads, windows, streams };

enum axis { by_mesh, by_schedule, by_micro_batches, by_accumulation, by_recomputation, by_carrier, axes };
using positions = std::array<int, axes>; ///< a position on each axis, or a number of them
inline constexpr positions all_positions = {
    static_cast<int>(std::size(meshes)), static_cast<int>(std::size(built_in_schedules)), 16, 2, 2, 3};

/// A combination has one value of each axis.
struct combination {
    positions at = {};

    mesh_shape const& mesh() const { return meshes[at[by_mesh]]; }
    built_in_schedule const& schedule() const { return built_in_schedules[at[by_schedule]]; }
    int micro_batches() const { return at[by_micro_batches] + 1; }
    int passes() const { return at[by_accumulation] + 1; } ///< 2 with accumulate<2>
    bool recomputes() const { return at[by_recomputation] == 1; }
    carrier over() const { return static_cast<carrier>(at[by_carrier]); }
    std::string name() const {
        return std::string(schedule().schedule.name) + " on " + std::to_string(mesh().devices) + " x " +
               std::to_string(mesh().stages) + " with " + std::to_string(micro_batches()) + " micro-batches" +
               (passes() == 1 ? "" : ", accumulate<2>") + (recomputes() ? ", recompute<all>" : "");
    }
};

// ---- rules ----

/// A rule refuses a combination; with `none` it trains.
enum class rule { none, passes, segments, micro_batches };

/// The rule for a combination is the first that refuses it. `segments`: the most stages of the network. `fewest`: the
/// micro-batches of the replica that has fewest.
inline rule rule_for(combination const& c, std::size_t segments, int fewest) {
    auto const& [schedule, least] = c.schedule();
    if (fewest % c.passes() != 0) return rule::passes;
    if (static_cast<std::size_t>(c.mesh().stages * schedule.chunks) > segments) return rule::segments;
    return fewest / c.passes() < least * c.mesh().stages ? rule::micro_batches : rule::none;
}
inline rule rule_for(combination const& c, std::size_t segments) { return rule_for(c, segments, c.micro_batches()); }

inline std::string name_of(rule r) {
    return r == rule::passes     ? "micro-batches that are no multiple of the passes of accumulate"
           : r == rule::segments ? "more stages than segments of the network"
                                 : "dual_pipe_v: too few micro-batches";
}

// ---- combinations ----

/// The product has all combinations of the first `sizes` positions of each axis.
inline std::vector<combination> product_of(positions const& sizes) {
    std::vector<combination> all(1);
    for (std::size_t a = 0; a < axes; ++a) {
        std::vector<combination> longer;
        for (auto const& c : all)
            for (int i = 0; i < sizes[a]; ++i) {
                longer.push_back(c);
                longer.back().at[a] = i;
            }
        all = std::move(longer);
    }
    return all;
}

/// The set holds pairs of positions on two axes.
class pair_set {
public:
    /// The function f gets a reference to `is_in` of each pair of a combination.
    template<class F>
    void for_each_of(combination const& c, F const& f) {
        for (std::size_t a = 0; a < axes; ++a)
            for (std::size_t b = a + 1; b < axes; ++b) f(is_in_[number(a, c.at[a])][number(b, c.at[b])]);
    }

private:
    static constexpr std::size_t most = 16;
    static std::size_t number(std::size_t axis, int position) {
        return axis * most + static_cast<std::size_t>(position);
    }
    std::array<std::array<bool, axes * most>, axes * most> is_in_{};
};

/// The chosen combinations meet every pair of positions on two axes: in a combination that trains, unless all with that
/// pair are refused. A greedy search chooses them: each meets as many new pairs as any combination that is left.
inline std::vector<combination> meeting_all_pairs(std::size_t segments, positions const& sizes = all_positions) {
    auto const all = product_of(sizes);
    pair_set trains, met;
    for (auto const& c : all)
        if (rule_for(c, segments) == rule::none) trains.for_each_of(c, [](bool& is_in) { is_in = true; });
    auto const for_each_met_by = [&](combination const& c, auto const& f) {
        std::array<bool, axes * axes> counts = {};
        std::size_t n = 0;
        bool const refused = rule_for(c, segments) != rule::none;
        trains.for_each_of(c, [&](bool const& is_in) { counts[n++] = is_in != refused; });
        n = 0;
        met.for_each_of(c, [&](bool& is_in) {
            if (counts[n++]) f(is_in);
        });
    };
    std::vector<combination> chosen;
    for (int most = axes * (axes - 1) / 2; most > 0; --most) // numbers of new pairs only fall
        for (auto const& c : all) {
            int added = 0;
            for_each_met_by(c, [&](bool const& is_in) { added += is_in ? 0 : 1; });
            if (added < most) continue;
            for_each_met_by(c, [](bool& is_in) { is_in = true; });
            chosen.push_back(c);
        }
    return chosen;
}

/// The result has the combinations of one carrier among `some`.
inline std::vector<combination> over(carrier by, std::vector<combination> some) {
    std::erase_if(some, [&](combination const& c) { return c.over() != by; });
    return some;
}

/// The result has all combinations of one carrier.
inline std::vector<combination> all_over(carrier by) { return over(by, product_of(all_positions)); }

// ---- trainings ----

/// The gradients of micro-batches are added as they come; or in a tree, where all replicas have as many of them, or one
/// has fewer.
enum class sums { as_they_come, in_a_tree, in_an_uneven_tree };

inline constexpr std::size_t most_samples = 20; ///< of a step

/// A training follows a combination, and adds gradients in one way.
struct training {
    combination of;
    sums how = sums::as_they_come;

    int fewest() const { return of.micro_batches() - (how == sums::in_an_uneven_tree ? 1 : 0); }
    rule refused_by(std::size_t segments) const { return rule_for(of, segments, fewest()); }
    std::size_t shards() const {
        return static_cast<std::size_t>(of.mesh().devices * of.micro_batches() - of.micro_batches() + fewest());
    }
    /// The message with which a rule refuses the training contains these words.
    std::string words_of(rule by, std::size_t segments) const {
        auto const stages = std::to_string(of.mesh().stages), passes = std::to_string(of.passes());
        auto const& schedule = of.schedule().schedule;
        if (by == rule::passes)
            return "micro_batches = " + std::to_string(fewest()) + " with accumulate<" + passes +
                   ">: the schedule runs " + passes + " times, each over as many micro-batches; " +
                   (same_bits() ? "set logical_shards to " +
                                      std::to_string(
                                          round_up(shards(), static_cast<std::size_t>(of.passes() * of.mesh().devices)))
                                : "take " + std::to_string(fewest() + 1));
        if (by == rule::segments)
            return "stages = " + stages +
                   (schedule.chunks == 1
                        ? std::string()
                        : ", each in " + std::to_string(schedule.chunks) + " by the schedule " + schedule.name) +
                   ": this network can be cut at " + std::to_string(segments - 1) + " places, into at most " +
                   std::to_string(segments) + " stages";
        return "dual_pipe_v on " + stages + " stages";
    }
    bool same_bits() const { return how != sums::as_they_come; }

    template<class Trainer>
    typename Trainer::options options() const {
        return {.learning_rate = 0.1f, .batch = most_samples, .seed = 3, .logical_shards = same_bits() ? shards() : 0};
    }
    template<class Trainer>
    typename Trainer::run_options run_options() const {
        return {.devices = of.mesh().devices,
                .stages = of.mesh().stages,
                .micro_batches = how == sums::in_an_uneven_tree ? 0 : static_cast<std::size_t>(of.micro_batches()),
                .schedule = of.schedule().schedule};
    }
    /// The numbers that a training has left agree with those of one device: in all bits, or within 1e-9.
    bool agrees(std::vector<double> const& left, std::vector<double> const& wanted) const {
        return same_bits() ? test_support::same_bits(left, wanted) : test_support::apart(left, wanted) < 1e-9;
    }
};

/// A combination has two or three trainings.
inline std::vector<training> trainings_of(combination const& c) {
    std::vector<training> all = {{c, sums::as_they_come}, {c, sums::in_a_tree}};
    if (c.mesh().devices > 1 && c.micro_batches() > 1 && c.passes() == 1) all.push_back({c, sums::in_an_uneven_tree});
    return all;
}

/// A training leaves these numbers: losses of ten steps, some with fewer samples than micro-batches; of an epoch with a
/// short last batch, and of its test; parameters and buffers. data(n, tested): samples to train with and to test with.
template<class Trainer, class Data>
std::vector<double> trained(Trainer& t, Data const& data) {
    std::vector<double> told;
    for (std::size_t const n : {20u, 3u, 16u, 7u, 1u, 20u, 12u, 2u, 5u, 20u})
        told.push_back(t.step(data(n, 1).train).loss);
    for (auto const& epoch : t.fit(data(33, 14), {.epochs = 1}))
        told.insert(told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
    for (auto const& some : {t.gather_parameters(), t.gather_buffers()})
        told.insert(told.end(), some.begin(), some.end());
    return told;
}

/// One device trains as each training does, without stages, accumulation or recomputation, and keeps the numbers.
template<class Trainer, class Data>
class one_device {
public:
    explicit one_device(Data const& data) : data_(data) {}

    Data const& data() const { return data_; }
    std::vector<double> const& trained_as(training const& t) {
        auto& numbers = known_[{t.shards(), t.same_bits()}];
        if (numbers.empty()) {
            Trainer one(t.options<Trainer>(),
                        {.devices = 1, .stages = 1, .micro_batches = t.same_bits() ? 0 : t.shards()});
            numbers = trained(one, data_);
            for (double const x : numbers) REQUIRE(std::isfinite(x));
        }
        return numbers;
    }

private:
    Data const& data_;
    std::map<std::pair<std::size_t, bool>, std::vector<double>> known_; ///< by shards, and whether bits are compared
};

/// The counts are of trainings that ran, and of those that each rule refused.
class counts {
public:
    void add(rule r) {
        if (r == rule::none)
            ++ran_;
        else
            ++refused_[name_of(r)];
    }
    int ran() const { return ran_; }
    int refused() const {
        int all = 0;
        for (auto const& [name, times] : refused_) all += times;
        return all;
    }
    void print(std::string const& what) const {
        std::string by;
        for (auto const& [name, times] : refused_) by += "\n" + std::to_string(times) + " times: " + name;
        MESSAGE(what, ": ", ran_, " trainings ran, ", refused(), " were refused", by);
    }

private:
    int ran_ = 0;
    std::map<std::string, int> refused_;
};

// ---- the network of ten layers ----

/// Ten layers that hold parameters, which can be cut everywhere.
using ten = network<input<6>, linear<9>, repeat<8, hyperbolic_tangent, linear<9>>, sigmoid, linear<5>>;
inline constexpr std::size_t segments_of_ten = 10;

template<class Device, class Network, class Loss, class... Policies>
using staged = test_networks::any_stages<Device, Network, Loss, sgd_momentum, precision<f64>, Policies...>;
template<class Device, class... Policies>
using staged_ten = staged<Device, ten, test_weighing::weighing, Policies...>;

/// Two tables hold samples to train with and to test with. A table that is moved keeps its memory.
struct tables {
    test_weighing::labelled_table of_train, of_test;
    samples_in_memory train = of_train.samples(), test = of_test.samples();
};
inline constexpr auto table = [](std::size_t n, std::size_t tested) {
    return tables{test_weighing::labelled_table(n), test_weighing::labelled_table(tested, 2)};
};
using table_maker = decltype(table);

/// The function f gets a pack of the trainer of ten layers that a combination asks for.
template<class Device, class... Policies, class F>
void with_trainer_of(combination const& c, F const& f) {
    if (c.passes() == 1 && !c.recomputes()) f(pack<staged_ten<Device, Policies...>>{});
    if (c.passes() == 1 && c.recomputes()) f(pack<staged_ten<Device, recompute<all>, Policies...>>{});
    if (c.passes() == 2 && !c.recomputes()) f(pack<staged_ten<Device, accumulate<2>, Policies...>>{});
    if (c.passes() == 2 && c.recomputes()) f(pack<staged_ten<Device, accumulate<2>, recompute<all>, Policies...>>{});
}

} // namespace test_schedule_matrix
