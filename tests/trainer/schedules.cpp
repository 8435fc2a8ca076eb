// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every schedule that comes with Trireme, on many meshes and numbers of micro-batches: it trains as one device does, or
// is refused by a rule that is known. Ranks are threads; processes/schedules.cpp and rehearsed/schedules.cpp have the
// others.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/own_schedules.hpp>
#include <support/sanitizers.hpp>
#include <support/schedule_matrix.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trainer_schedules_test {
using namespace trireme;
using namespace test_schedule_matrix;
using test_networks::every_layer;
using test_networks::made_up;
using test_support::has;
using test_support::refusal;

namespace {

template<class... Policies>
using of_every_layer = staged<host, every_layer, cross_entropy, Policies...>;
using of_ten = staged_ten<host>;
using of_ten_in_parts = staged_ten<host, accumulate<2>>;
constexpr auto segments_of_every_layer = segments_of<every_layer>.count;

constexpr auto images = [](std::size_t n, std::size_t tested) { return dataset{made_up(n), made_up(tested, 9)}; };

/// A trainer has the numbers of one device in all trainings of a combination, or is refused.
template<class Trainer, class One>
void train(combination const& c, std::size_t segments, One& one, counts& seen) {
    CAPTURE(c.name());
    for (auto const& t : trainings_of(c)) {
        CAPTURE(static_cast<int>(t.how));
        auto const o = t.options<Trainer>();
        auto const r = t.run_options<Trainer>();
        auto const by = t.refused_by(segments);
        seen.add(by);
        if (by == rule::none) {
            Trainer many(o, r);
            CHECK(t.agrees(trained(many, one.data()), one.trained_as(t)));
        } else {
            auto const said = refusal([&] { Trainer made(o, r); });
            CHECK(has(said, t.words_of(by, segments)));
            CHECK(refusal([&] { Trainer::check(o, r); }) == said);
        }
    }
}

/// Ten layers are trained in one of every `nth` of some combinations.
void train_ten(char const* what, std::vector<combination> const& some, std::size_t nth = 1) {
    one_device<of_ten, table_maker> one(table);
    counts seen;
    for (std::size_t i = 0; i < some.size(); i += nth)
        with_trainer_of<host>(
            some[i], [&]<class Trainer>(pack<Trainer>) { train<Trainer>(some[i], segments_of_ten, one, seen); });
    seen.print(what);
    CHECK(seen.ran() > 0);
    CHECK(seen.refused() > 0);
}

/// Layers of every kind are trained in one of every `nth` of some combinations.
void train_every_layer(char const* what, std::vector<combination> const& some, std::size_t nth = 1) {
    one_device<of_every_layer<>, decltype(images)> one(images);
    counts seen;
    for (std::size_t i = 0; i < some.size(); i += nth)
        if (some[i].recomputes())
            train<of_every_layer<recompute<all>>>(some[i], segments_of_every_layer, one, seen);
        else
            train<of_every_layer<>>(some[i], segments_of_every_layer, one, seen);
    seen.print(what);
    CHECK(seen.ran() > 0);
    CHECK(seen.refused() > 0);
}

} // namespace

TEST_SUITE("trainer/schedules") {
    TEST_CASE("combinations that are chosen meet all pairs, in trainings wherever one with that pair trains") {
        for (auto const segments : {segments_of_ten, segments_of_every_layer}) {
            auto const every = product_of(all_positions), chosen = meeting_all_pairs(segments);
            CHECK(every.size() == std::size_t{7 * 12 * 16 * 2 * 2 * 3});
            CHECK(chosen.size() < every.size() / 50);
            for (auto const by : {carrier::threads, carrier::windows, carrier::streams})
                CHECK(over(by, chosen).size() >= 16);
            for (std::size_t a = 0; a < axes; ++a)
                for (std::size_t b = 0; b < a; ++b)
                    for (int i = 0; i < all_positions[a]; ++i)
                        for (int j = 0; j < all_positions[b]; ++j) {
                            CAPTURE(a);
                            CAPTURE(b);
                            CAPTURE(i);
                            CAPTURE(j);
                            auto const has_both = [&](combination const& c) { return c.at[a] == i && c.at[b] == j; };
                            auto const trains_with_both = [&](combination const& c) {
                                return has_both(c) && rule_for(c, segments) == rule::none;
                            };
                            CHECK(std::ranges::any_of(chosen, has_both));
                            CHECK(std::ranges::any_of(chosen, trains_with_both) ==
                                  std::ranges::any_of(every, trains_with_both));
                        }
        }
    }

    TEST_CASE("every schedule trains ten layers as one device does, or is refused") {
        watchdog const guard("schedules of ten layers", 300);
        train_ten("ten layers, on threads", over(carrier::threads, meeting_all_pairs(segments_of_ten)),
                  sanitized ? 7 : 1);
        train_ten("ten layers, on threads, some of all combinations", all_over(carrier::threads), sanitized ? 127 : 11);
    }

    TEST_CASE("and layers of every kind, which need a whole micro-batch, draw, or keep statistics") {
        watchdog const guard("schedules of every layer");
        train_every_layer("every layer", meeting_all_pairs(segments_of_every_layer, {7, 12, 16, 1, 2, 1}),
                          sanitized ? 13 : 2);
    }

    TEST_CASE("what makes no step is refused before anything is made") {
        of_ten::options const in_a_tree{.batch = 20, .logical_shards = 4}; // whose order of gradients matters
        of_ten::run_options const wrong{.devices = 1, .stages = 2, .schedule = own_schedules::last_first{}};
        CHECK_THROWS_AS(of_ten::check(in_a_tree, wrong), usage_error);
        CHECK_THROWS_AS(of_ten(in_a_tree, wrong), usage_error);
        // one replica has two micro-batches, the other three, and both run their schedule twice
        of_ten_in_parts::options const uneven{.batch = 20, .logical_shards = 5};
        CHECK_THROWS_AS(of_ten_in_parts::check(uneven, {.devices = 2, .stages = 2}), usage_error);
        CHECK_THROWS_AS(of_ten_in_parts(uneven, {.devices = 2, .stages = 2}), usage_error);
    }
}

TEST_SUITE("nightly/trainer/schedules") {
    TEST_CASE("ten layers on threads under all combinations") {
        watchdog const guard("nightly schedules of ten layers", 3000);
        train_ten("ten layers, on threads, all combinations", all_over(carrier::threads));
    }

    TEST_CASE("layers of every kind on all meshes with all numbers of micro-batches") {
        watchdog const guard("nightly schedules of every layer", 3000);
        train_every_layer("every layer, all combinations", product_of({7, 12, 16, 1, 2, 1}));
    }
}

} // namespace trainer_schedules_test
