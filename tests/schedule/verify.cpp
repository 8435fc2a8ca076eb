// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/verify.hpp>

#include <trireme/schedule/collective/strategy.hpp>

#include "mutants.hpp"
#include "oracle.hpp"

#include <support/seed.hpp>
#include <support/strategies.hpp>

#include <doctest/doctest.h>

#include <array>
#include <ostream>
#include <string>
#include <utility>

// The strategies that are proved: those of every test, and two more whose inner or outer level is direct.
#define PROVED_STRATEGIES                                                                                              \
    EVERY_STRATEGY, trireme::hierarchical<trireme::ring, trireme::hierarchical<trireme::direct, trireme::direct>>,     \
        trireme::hierarchical<trireme::binomial_tree, trireme::direct>

namespace schedule_verify_test {
namespace {

using namespace trireme;
using namespace oracle;

using namespace test_strategies;

using maker = schedule (*)(int ranks, int root);

/// Calls f(goal, make) for every collective that a strategy makes. What f does is compiled once, not per schedule.
template<class Strategy>
void for_each_collective(void (*f)(collective goal, maker make)) {
    [&]<int... Goal>(std::integer_sequence<int, Goal...>) {
        (
            [&] {
                constexpr auto goal = static_cast<collective>(Goal);
                if constexpr (makes<Strategy, goal>)
                    f(goal, [](int ranks, int root) { return schedule_of<Strategy, goal>(ranks, root); });
            }(),
            ...);
    }(std::make_integer_sequence<int, collectives>{});
}

collective_step idle() { return {}; }
collective_step wait_for(rank_list sources, int after) { return {step_kind::wait, 0, sources, after}; }
collective_step copy(int chunk, int source, int after) { return {step_kind::copy, chunk, one_rank(source), after}; }
collective_step reduce(int chunk, rank_list sources, int after) { return {step_kind::reduce, chunk, sources, after}; }
collective_step reduce(int chunk, int source, int after) { return reduce(chunk, one_rank(source), after); }

/// The smallest all-reduce: rank 0 adds what rank 1 has, rank 1 copies it, rank 0 waits until it has.
table pair() { return {2, 1, {{reduce(0, 1, 0), idle(), wait_for(one_rank(1), 2)}, {idle(), copy(0, 0, 1), idle()}}}; }

bool is(verdict v, schedule_fault fault, int rank, int step, int chunk) {
    return v.fault == fault && v.rank == rank && v.step == step && v.chunk == chunk;
}

/// A fault is found where it is, and is one: a run of the schedule gives a wrong result.
void check_fault(table const& s, schedule_fault fault, int rank, int step, int chunk) {
    auto const v = verify(s.goal, s);
    INFO(std::string(describe(v.fault)));
    CAPTURE(v.rank);
    CAPTURE(v.step);
    CAPTURE(v.chunk);
    CHECK(is(v, fault, rank, step, chunk));
    CHECK(!(pulls_right(s, 1, 20) && messages_right(s)));
}

struct tally {
    int mutants = 0;
    int refused = 0;
    int equivalent = 0;
    int run = 0;          ///< of the refused: given to the oracle
    int not_runnable = 0; ///< of those: would read outside all buffers, or their own
    int broken_by_oracle = 0;
    int broken_by_messages = 0;
    int wrongly_accepted = 0;

    friend std::ostream& operator<<(std::ostream& out, tally const& t) {
        return out << t.mutants << " mutants: " << t.refused << " refused (" << t.run
                   << " of them tried: " << t.not_runnable << " cannot be run, " << t.broken_by_oracle
                   << " broken by an interleaving, " << t.broken_by_messages << " more as messages, "
                   << t.run - t.not_runnable - t.broken_by_oracle - t.broken_by_messages << " right all the same), "
                   << t.equivalent << " accepted and found equivalent, " << t.wrongly_accepted << " wrongly accepted";
    }
    tally& operator+=(tally const& t) {
        mutants += t.mutants;
        refused += t.refused;
        run += t.run;
        not_runnable += t.not_runnable;
        equivalent += t.equivalent;
        broken_by_oracle += t.broken_by_oracle;
        broken_by_messages += t.broken_by_messages;
        wrongly_accepted += t.wrongly_accepted;
        return *this;
    }
};

constexpr std::size_t faults = static_cast<std::size_t>(schedule_fault::elsewhere) + 1;

/// Judges every mutant of `s`. The oracle sees each accepted one, and each `every`-th of the refused.
void judge(table const& s, std::array<tally, mutants::names.size()>& of, std::array<int, faults>& innocent, int every,
           int random_runs) {
    int number = 0;
    mutants::each(s, [&](table const& mutant, mutants::mutation what, int rank, int step) {
        auto& count = of[static_cast<std::size_t>(what)];
        ++count.mutants;
        auto const v = verify(mutant.goal, mutant);
        if (v.ok()) {
            bool const equivalent = pulls_right(mutant, test_seed(), random_runs) && messages_right(mutant);
            ++(equivalent ? count.equivalent : count.wrongly_accepted);
            if (!equivalent)
                FAIL_CHECK("accepted, but wrong: " << std::string(mutants::names[static_cast<std::size_t>(what)])
                                                   << " at rank " << rank << ", step " << step << " of " << s.ranks
                                                   << " ranks");
            return;
        }
        ++count.refused;
        if (number++ % every != 0) return;
        ++count.run;
        if (!runs(mutant))
            ++count.not_runnable;
        else if (!pulls_right(mutant, test_seed(), random_runs))
            ++count.broken_by_oracle;
        else if (!messages_right(mutant))
            ++count.broken_by_messages;
        else
            ++innocent[static_cast<std::size_t>(v.fault)];
    });
}

void judge_all(collective goal, maker make, std::vector<int> const& ranks, int every, int random_runs) {
    std::array<tally, mutants::names.size()> of = {};
    std::array<int, faults> innocent = {};
    for (int const n : ranks) judge(table(make(n, has_root(goal) ? n / 2 : 0), goal), of, innocent, every, random_runs);
    tally all;
    for (auto const& t : of) all += t;
    std::string by_kind;
    for (std::size_t i = 0; i < of.size(); ++i)
        by_kind += std::string("\n    ") + mutants::names[i] + ": " + std::to_string(of[i].mutants) + ", " +
                   std::to_string(of[i].refused) + " refused, " + std::to_string(of[i].equivalent) + " equivalent";
    std::string by_fault;
    for (std::size_t i = 0; i < faults; ++i)
        if (innocent[i] != 0)
            by_fault += "\n    refused all the same: " + std::to_string(innocent[i]) + " that \"" +
                        describe(static_cast<schedule_fault>(i)) + '"';
    MESSAGE(std::string(make(2, 0).name) << ", " << std::string(name_of(goal)) << ", up to " << ranks.back()
                                         << " ranks, " << all << by_kind << by_fault);
    CHECK(all.wrongly_accepted == 0);
    CHECK(all.refused + all.equivalent == all.mutants);
    CHECK(all.refused > 0);
}

void check_by_oracle(collective goal, maker make) {
    for (int n = 1; n <= 8; ++n)
        for (int root = 0; root < (has_root(goal) ? n : 1); ++root) {
            CAPTURE(std::string(name_of(goal)));
            CAPTURE(n);
            CAPTURE(root);
            table const s(make(n, root), goal);
            CHECK(verify(goal, s).ok());
            CHECK(pulls_right(s, test_seed(), 100));
            CHECK(messages_right(s));
        }
}

void check_proof(collective goal, maker make, int ranks) {
    CAPTURE(std::string(name_of(goal)));
    CAPTURE(ranks);
    CHECK(verify(goal, make(ranks, 0)).ok());
}

} // namespace

TEST_SUITE("schedule/verify") {
    TEST_CASE("schedules are proved, and a table proves what its function proves") {
        CHECK(verify(collective::all_reduce, pair()).ok());
        CHECK(pulls_right(pair(), test_seed(), 200));
        CHECK(messages_right(pair()));
    }

    TEST_CASE_TEMPLATE("the oracle finds every built-in schedule right", S, PROVED_STRATEGIES) {
        for_each_collective<S>(&check_by_oracle);
    }

    TEST_CASE_TEMPLATE("built-in schedules are proved for 100 and 128 ranks", S, PROVED_STRATEGIES) {
        for (auto const f : {+[](collective goal, maker make) { check_proof(goal, make, 100); },
                             +[](collective goal, maker make) { check_proof(goal, make, 128); }})
            for_each_collective<S>(f);
    }

    TEST_CASE_TEMPLATE("every mutant is refused, or right all the same", S, PROVED_STRATEGIES) {
        // of the refused every 50th is run, for information; nightly runs them all
        for_each_collective<S>([](collective goal, maker make) {
            auto const groups = make(4, 0).groups.count != 0; // whose mutants of fewer ranks have nothing to nest
            judge_all(goal, make, groups ? std::vector{4} : std::vector{2, 3, 4}, 50, 2);
        });
    }

    TEST_CASE("negative control: mutants known to be wrong are made, refused and broken by the oracle") {
        int seen = 0;
        auto const four = table(ring::all_reduce(4));
        mutants::each(four, [&](table const& m, mutants::mutation what, int rank, int step) {
            bool const no_last_wait = what == mutants::mutation::drop && rank == 2 && step == 6;
            bool const added_twice = what == mutants::mutation::other_kind && rank == 1 && step == 3;
            if (!no_last_wait && !added_twice) return;
            ++seen;
            CHECK(!verify(collective::all_reduce, m).ok());
            CHECK(!pulls_right(m, test_seed(), 0));
        });
        CHECK(seen == 2);
        table torn = pair(); // rank 0 leaves while rank 1 may be between two halves of its copy
        torn.at(0, 2) = idle();
        pulling machine(torn);
        CHECK(ends_when_held(machine, 2, {0, 3, 0}));
        CHECK(machine.outcome().right); // rank 0 happened to leave late
        CHECK(ends_when_held(machine, 2, {1, 1, 1}));
        CHECK(!machine.outcome().right);
    }
}

TEST_SUITE("schedule/verify: each fault is named with its rank, step and chunk") {
    TEST_CASE("out of range") {
        using enum schedule_fault;
        table s = pair();
        SUBCASE("a rank reads itself") {
            s.at(1, 1) = copy(0, 1, 1);
            check_fault(s, out_of_range, 1, 1, 0);
        }
        SUBCASE("a chunk beyond the last") {
            s.at(1, 1) = copy(1, 0, 1);
            check_fault(s, out_of_range, 1, 1, 1);
        }
        SUBCASE("a negative chunk") {
            s.at(0, 0) = reduce(-1, 1, 0);
            check_fault(s, out_of_range, 0, 0, -1);
        }
        SUBCASE("a negative rank") {
            s.at(0, 0) = reduce(0, -1, 0);
            check_fault(s, out_of_range, 0, 0, 0);
        }
        SUBCASE("a negative count of steps") {
            s.at(0, 2) = wait_for(one_rank(1), -1);
            check_fault(s, out_of_range, 0, 2, 0);
        }
        SUBCASE("a copy from two ranks") {
            s.at(1, 1) = {step_kind::copy, 0, {0, 2, 2}, 1};
            check_fault(s, out_of_range, 1, 1, 0);
        }
        SUBCASE("a reduction of nothing") {
            s.at(0, 0) = reduce(0, rank_list{1, 0, 1}, 0);
            check_fault(s, out_of_range, 0, 0, 0);
        }
        SUBCASE("more sources than there are others") {
            s.at(0, 0) = reduce(0, rank_list{1, 2, 2}, 0);
            check_fault(s, out_of_range, 0, 0, 0);
        }
        SUBCASE("a rank behind the last: all_reduce would look for its arena") {
            s.at(1, 1) = copy(0, 2, 1);
            CHECK(is(verify(collective::all_reduce, s), out_of_range, 1, 1, 0));
        }
        SUBCASE("a stride that overflows") {
            table three = {3, 1, {{reduce(0, rank_list{1, 2, 2147483647}, 0)}, {}, {}}};
            CHECK(is(verify(collective::all_reduce, three), out_of_range, 0, 0, 0));
        }
    }

    TEST_CASE("deadlock: the earliest stuck step is named") {
        table s = pair();
        SUBCASE("waiting for a step that does not exist") {
            s.at(1, 1).after = 4;
            check_fault(s, schedule_fault::deadlock, 1, 1, 0);
        }
        SUBCASE("waiting for each other") {
            s.at(1, 1).after = 2;
            s.at(0, 1) = wait_for(one_rank(1), 2);
            check_fault(s, schedule_fault::deadlock, 0, 1, 0);
        }
        SUBCASE("a cycle of three ranks") {
            table const cycle = {3, 3, {{reduce(2, 1, 1)}, {reduce(0, 2, 1)}, {reduce(1, 0, 1)}}};
            check_fault(cycle, schedule_fault::deadlock, 0, 0, 2);
        }
    }

    TEST_CASE("added twice") {
        table s = pair();
        SUBCASE("the same source again") {
            s.at(0, 1) = reduce(0, 1, 0);
            check_fault(s, schedule_fault::added_twice, 0, 1, 0);
        }
        SUBCASE("a copy that should not be a sum") {
            s.at(1, 1) = reduce(0, 0, 1);
            check_fault(s, schedule_fault::added_twice, 1, 1, 0);
        }
        SUBCASE("one source twice in one list") {
            table const three = {3, 1, {{reduce(0, rank_list{1, 2, 0}, 0)}, {}, {}}};
            check_fault(three, schedule_fault::added_twice, 0, 0, 0);
        }
    }

    TEST_CASE("missing: the first rank whose chunk is incomplete is named") {
        table s = pair();
        SUBCASE("no reduction") {
            s.at(0, 0) = idle();
            check_fault(s, schedule_fault::missing, 0, 3, 0);
        }
        SUBCASE("no copy") {
            s.at(1, 1) = idle();
            check_fault(s, schedule_fault::missing, 1, 3, 0);
        }
        SUBCASE("no steps at all") { check_fault({2, 1, {{}, {}}}, schedule_fault::missing, 0, 0, 0); }
        SUBCASE("one of many chunks") {
            table ring4(ring::all_reduce(4));
            ring4.at(3, 5) = wait_for(one_rank(2), 5); // instead of its last copy, of chunk 0
            REQUIRE(ring::all_reduce(4).at(3, 5).chunk.first == 0);
            check_fault(ring4, schedule_fault::missing, 3, 7, 0);
        }
        SUBCASE("a schedule without chunks adds nothing") {
            CHECK(!verify(collective::all_reduce, table(4, 0, {{}, {}, {}, {}})).ok());
        }
    }

    TEST_CASE("missing: a contribution of any rank, beyond the first 64, too") {
        auto s = direct::reduce_scatter(70);
        s.step = [](int n, int rank, int i) {
            auto step = direct::reduce_scatter(n).at(rank, i);
            if (rank == 0 && i == 0) --step.sources.count; // leaves out rank 69
            return step;
        };
        CHECK(is(verify(collective::reduce_scatter, s), schedule_fault::missing, 0, 2, 0));
    }

    TEST_CASE("ranks differ: every sum complete, but added in two orders") {
        // rank 1 takes over 0 + 1; rank 0 adds 2, then 3; rank 2 adds 2 + 3, which rank 1 adds to its own
        table const s = {
            4,
            1,
            {{reduce(0, 1, 0), wait_for(one_rank(1), 1), reduce(0, rank_list{2, 2, 1}, 0), wait_for({1, 3, 1}, 4)},
             {copy(0, 0, 1), reduce(0, 2, 2), idle(), idle()},
             {wait_for(one_rank(0), 3), reduce(0, 3, 0), wait_for(one_rank(1), 2), copy(0, 0, 3)},
             {wait_for(one_rank(0), 3), wait_for(one_rank(2), 2), copy(0, 0, 3), idle()}}};
        check_fault(s, schedule_fault::ranks_differ, 1, 4, 0);
    }

    TEST_CASE("overwritten: the reader is named") {
        table s = pair();
        SUBCASE("the owner leaves before the chunk is read") {
            s.at(0, 2) = idle();
            check_fault(s, schedule_fault::overwritten, 1, 1, 0);
        }
        SUBCASE("the owner waits for the wrong step") {
            s.at(0, 2).after = 1;
            check_fault(s, schedule_fault::overwritten, 1, 1, 0);
        }
        SUBCASE("the owner overwrites what is being added") {
            // rank 1 copies a chunk while rank 2 may still add the old one
            table const three = {3,
                                 1,
                                 {{reduce(0, 1, 0), idle(), wait_for({1, 2, 1}, 4), idle()},
                                  {idle(), idle(), copy(0, 2, 2), idle()},
                                  {reduce(0, 0, 1), idle(), wait_for(one_rank(1), 4), idle()}}};
            CHECK(!verify(collective::all_reduce, three).ok());
            auto with_copy = three;
            with_copy.at(0, 2) = copy(0, 2, 2); // rank 0, too; who reads it? rank 2 has, before its step 2
            with_copy.at(0, 3) = idle();
            with_copy.at(2, 2) = wait_for({0, 2, 1}, 3);
            CHECK(verify(collective::all_reduce, with_copy).ok());
            with_copy.at(1, 2).after = 0; // reads while rank 2 adds into it
            check_fault(with_copy, schedule_fault::missing, 1, 4, 0);
        }
        SUBCASE("of several reads in danger the first is named") {
            table ring4(ring::all_reduce(4));
            ring4.at(2, 6) = idle();
            check_fault(ring4, schedule_fault::overwritten, 3, 3, 2);
        }
    }

    TEST_CASE("out of order: a queue of messages would hand over another chunk first") {
        table s = {2,
                   2,
                   {{reduce(0, 1, 0), reduce(1, 1, 0), wait_for(one_rank(1), 4), idle()},
                    {idle(), idle(), copy(1, 0, 2), copy(0, 0, 1)}}};
        CHECK(is(verify(collective::all_reduce, s), schedule_fault::out_of_order, 1, 3, 0));
        CHECK(pulls_right(s, test_seed(), 100)); // whoever pulls does not mind
        CHECK(!messages_right(s));
        std::swap(s.at(1, 2), s.at(1, 3));
        CHECK(verify(collective::all_reduce, s).ok());
        CHECK(messages_right(s));
    }

    TEST_CASE("every fault has a sentence of its own") {
        std::array<std::string, faults> all;
        for (std::size_t i = 0; i < faults; ++i) {
            all[i] = describe(static_cast<schedule_fault>(i));
            CHECK(!all[i].empty());
            for (std::size_t j = 0; j < i; ++j) CHECK(all[i] != all[j]);
        }
    }
}

TEST_SUITE("schedule/verify: reduce-scatter") {
    TEST_CASE("what is wrong is named with its rank, step and chunk") {
        using enum schedule_fault;
        table s(direct::reduce_scatter(4));
        REQUIRE(verify(collective::reduce_scatter, s).ok());
        SUBCASE("a rank leaves before its chunks are read") {
            s.at(2, 1) = idle();
            CHECK(is(verify(collective::reduce_scatter, s), overwritten, 0, 0, 0));
        }
        SUBCASE("a rank waits for the others to come, not to read") {
            s.at(0, 1).after = 0;
            CHECK(is(verify(collective::reduce_scatter, s), overwritten, 1, 0, 1));
        }
        SUBCASE("a rank waits for all others but one") {
            s.at(3, 1) = wait_for({0, 2, 1}, 1);
            CHECK(is(verify(collective::reduce_scatter, s), overwritten, 2, 0, 2));
        }
        SUBCASE("a source is left out") {
            s.at(1, 0) = reduce(1, rank_list{2, 2, 1}, 0);
            CHECK(is(verify(collective::reduce_scatter, s), missing, 1, 2, 1));
        }
        SUBCASE("a chunk is added on another rank") {
            std::swap(s.at(0, 0).chunk, s.at(1, 0).chunk);
            CHECK(is(verify(collective::reduce_scatter, s), missing, 0, 2, 0));
        }
        SUBCASE("a source is added twice") {
            s.at(3, 0) = reduce(3, rank_list{0, 3, 0}, 0);
            CHECK(is(verify(collective::reduce_scatter, s), added_twice, 3, 0, 3));
        }
        SUBCASE("a rank waits for a step that never comes") {
            s.at(1, 1).after = 3;
            CHECK(is(verify(collective::reduce_scatter, s), deadlock, 1, 1, 0));
        }
        SUBCASE("a rank reads itself") {
            s.at(1, 0) = reduce(1, rank_list{1, 3, 1}, 0);
            CHECK(is(verify(collective::reduce_scatter, s), out_of_range, 1, 0, 1));
        }
        SUBCASE("more chunks than ranks") {
            s.chunks = 5;
            CHECK(is(verify(collective::reduce_scatter, s), out_of_range, 0, 0, 0));
        }
        SUBCASE("fewer chunks than ranks") {
            CHECK(verify(collective::all_reduce, pair()).ok());
            CHECK(is(verify(collective::reduce_scatter, pair()), out_of_range, 0, 0, 0));
        }
    }

    TEST_CASE("what the other ranks hold of a chunk does not matter") {
        // each rank but 0 adds its own chunk; chunk 0 ends complete everywhere, added in two orders
        auto const all = [](int rank) { return all_others(rank, 4); };
        table const s = {4,
                         4,
                         {{idle(), reduce(0, 1, 1), wait_for(one_rank(1), 2), reduce(0, rank_list{2, 2, 1}, 1),
                           wait_for({1, 3, 1}, 5), wait_for(all(0), 5)},
                          {reduce(1, all(1), 0), copy(0, 0, 2), reduce(0, 2, 3), idle(), idle(), wait_for(all(1), 5)},
                          {reduce(2, all(2), 0), wait_for(one_rank(0), 4), reduce(0, 3, 1), wait_for(one_rank(1), 3),
                           copy(0, 0, 4), wait_for(all(2), 5)},
                          {reduce(3, all(3), 0), wait_for(one_rank(0), 4), wait_for(one_rank(2), 3), copy(0, 0, 4),
                           idle(), wait_for(all(3), 5)}}};
        CHECK(is(verify(collective::all_reduce, s), schedule_fault::ranks_differ, 1, 6, 0));
        CHECK(verify(collective::reduce_scatter, s).ok());
    }

    TEST_CASE("a single rank") {
        CHECK(verify(collective::reduce_scatter, table(1, 1, {{}})).ok());
        CHECK(!verify(collective::reduce_scatter, table(1, 1, {{reduce(0, 0, 0)}})).ok());
        CHECK(!verify(collective::reduce_scatter, table(0, 0, {})).ok());
    }
}

TEST_SUITE("schedule/verify: what a strategy of one's own may return") {
    TEST_CASE("a single rank must not read, itself least of all") {
        CHECK(verify(collective::all_reduce, table(1, 1, {{}})).ok());
        CHECK(verify(collective::all_reduce, table(1, 1, {{idle()}})).ok());
        CHECK(!verify(collective::all_reduce, table(1, 1, {{reduce(0, 0, 0)}})).ok()); // would double everything
        CHECK(!verify(collective::all_reduce, table(0, 1, {})).ok());
    }
}

TEST_SUITE("nightly/schedule/verify") {
    TEST_CASE_TEMPLATE("built-in schedules are proved for 1000 ranks", S, PROVED_STRATEGIES) {
        for_each_collective<S>([](collective goal, maker make) { check_proof(goal, make, 1000); });
    }

    TEST_CASE_TEMPLATE("the oracle runs every mutant, the refused ones, too", S, PROVED_STRATEGIES) {
        for_each_collective<S>(
            [](collective goal, maker make) { judge_all(goal, make, {2, 3, 4, 5, 6, 7, 8}, 1, 20); });
    }
}

} // namespace schedule_verify_test
