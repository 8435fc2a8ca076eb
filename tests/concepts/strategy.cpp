// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Strategies and schedules of collectives that model docs/concepts/strategy.md and nothing more: proved, and run.

#include <trireme/schedule/draw.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace strategy_concept_test {
using namespace trireme;

// [strategy_archetype]
struct relay { // rank 0 adds all numbers, in the order of the ranks, and the others copy the sum
    static constexpr char const* name = "relay";

    static constexpr schedule all_reduce(int ranks) { return {name, ranks, 1, ranks > 1 ? 3 : 0, &step}; }

    relay() = default; // options and layouts make objects, none is copied
    relay(relay const&) = delete;
    relay& operator=(relay const&) = delete;

private:
    static constexpr collective_step step(int ranks, int rank, int s) {
        if (rank == 0 && s == 0) return {step_kind::reduce, 0, all_others(0, ranks), 0};
        if (rank != 0 && s == 1) return {step_kind::copy, 0, one_rank(0), 1};
        if (rank == 0 && s == 2) return {step_kind::wait, 0, all_others(0, ranks), 2}; // until the others have it
        return {};
    }
};
static_assert(reduction_strategy<relay>);
static_assert(proves<relay, collective::all_reduce, 4>);
// [/strategy_archetype]

// A member of another kind under the name takes a requirement away.
struct without_name : relay {
    struct name;
};
struct without_all_reduce : relay {
    struct all_reduce;
};
struct that_makes_a_table : relay {
    static constexpr int all_reduce(int ranks) { return ranks; }
};
struct not_made_of_nothing : relay {
    explicit not_made_of_nothing(int) {}
};
static_assert(!reduction_strategy<without_name> && !reduction_strategy<without_all_reduce>);
static_assert(!reduction_strategy<that_makes_a_table> && !reduction_strategy<not_made_of_nothing>);
static_assert(reduction_strategy<direct> && reduction_strategy<ring> && reduction_strategy<double_binary_tree>);
static_assert(reduction_strategy<hierarchical<direct, ring>> && reduction_strategy<best_of<direct, ring>>);

// [schedule_archetype]
struct table_of_two { // two ranks add each other's half of the buffer, and copy it
    int ranks = 2;
    int chunks = 2;
    int steps = 3;

    table_of_two() = default;
    table_of_two(table_of_two const&) = delete;

    constexpr collective_step at(int rank, int step) const {
        if (step == 0) return {step_kind::reduce, rank, one_rank(1 - rank), 0};
        if (step == 1) return {step_kind::copy, 1 - rank, one_rank(1 - rank), 1};
        return {step_kind::wait, 0, one_rank(1 - rank), 2};
    }
};
static_assert(collective_schedule<table_of_two>);
static_assert(verify(collective::all_reduce, table_of_two{}).ok());
// [/schedule_archetype]

struct without_ranks : table_of_two {
    void ranks();
};
struct without_chunks : table_of_two {
    void chunks();
};
struct without_steps : table_of_two {
    void steps();
};
struct without_at : table_of_two {
    void at();
};
struct that_changes : table_of_two {
    collective_step at(int, int) { return {}; }
};
struct with_long_ranks : table_of_two {
    long ranks = 2;
};
static_assert(!collective_schedule<without_ranks> && !collective_schedule<without_chunks>);
static_assert(!collective_schedule<without_steps> && !collective_schedule<without_at>);
static_assert(!collective_schedule<that_changes> && !collective_schedule<with_long_ranks>);
static_assert(collective_schedule<schedule>);

using net = network<input<3>, linear<2>>;
template<class... Policies>
std::vector<float> trained() {
    std::vector<float> numbers;
    std::vector<int> classes;
    for (int i = 0; i < 24; ++i) {
        for (int k = 0; k < 3; ++k) numbers.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
        classes.push_back(i % 2);
    }
    samples_in_memory const samples(numbers, make_shape(3), classes, 2);
    trainer<net, cross_entropy, sgd, on<mesh<host, dp<3>>>, Policies...> t{{.batch = 24, .seed = 4}};
    for (int i = 0; i < 5; ++i) t.step(samples);
    return t.gather_parameters();
}
} // namespace strategy_concept_test

TEST_SUITE("concepts/strategy") {
    using namespace strategy_concept_test;

    TEST_CASE("the archetype of a strategy reduces, in a group and in a trainer") {
        threads::group devices(3);
        std::vector<std::vector<float>> of(3, std::vector<float>{1, 2, 3, 4, 5});
        devices.run([&](threads::communicator& me) {
            auto& mine = of[static_cast<std::size_t>(me.rank())];
            for (auto& x : mine) x *= static_cast<float>(me.rank() + 1);
            all_reduce<relay>(me, std::span(mine));
        });
        for (auto const& sum : of) CHECK(sum == std::vector<float>{6, 12, 18, 24, 30});

        auto const expected = trained<reduce_by<direct>>(), by_relay = trained<reduce_by<relay>>(),
                   by_tensor = trained<reduce_by<direct, for_tensors<of_at_least<1>, relay>>>();
        REQUIRE(by_relay.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            CHECK(by_relay[i] == doctest::Approx(expected[i]).epsilon(1e-4));
            CHECK(by_tensor[i] == by_relay[i]);
        }
        CHECK(strategy_choice(relay{}).all_reduce(4, {}, 0).steps == 3);
    }

    TEST_CASE("the archetype of a schedule is priced and drawn") {
        table_of_two const s;
        CHECK(traffic_of(s, 0, 10, 4).messages == 2);
        CHECK(traffic_of(s, 0, 10, 4).bytes == 40);
        CHECK(seconds_of(s, {10, 4, s.chunks}, typical_threads::description) > 0);
        CHECK(schedule_svg(s, "two").find("two") != std::string::npos);
    }
}
