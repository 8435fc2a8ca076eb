// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/proof/conflicts.hpp>
#include <trireme/schedule/proof/contributions.hpp>
#include <trireme/schedule/proof/in_order.hpp>
#include <trireme/schedule/proof/races.hpp>
#include <trireme/schedule/proof/table.hpp>
#include <trireme/schedule/proof/well_formed.hpp>

#include <trireme/schedule/verify.hpp>

#include "oracle.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

// The schedules that stand at the head of each phase of the proof, and what is said of them there: each phase alone,
// and the whole proof.

namespace schedule_proof_test {
namespace {

using namespace trireme;
namespace proof = detail::proof;

constexpr collective_step idle = {};
collective_step wait_for(int rank, int after) { return {step_kind::wait, 0, one_rank(rank), after}; }
collective_step copy(int chunk, int source, int after) { return {step_kind::copy, chunk, one_rank(source), after}; }
collective_step reduce(int chunk, int source, int after) { return {step_kind::reduce, chunk, one_rank(source), after}; }

/// The smallest all-reduce, of one chunk on two ranks.
oracle::table smallest() { return {2, 1, {{reduce(0, 1, 0), idle, wait_for(1, 2)}, {idle, copy(0, 0, 1), idle}}}; }

/// Two chunks of rank 0, broadcast to rank 1.
oracle::table two_chunks() {
    oracle::table t = {2, 2, {{idle, idle, wait_for(1, 2)}, {copy(0, 0, 0), copy(1, 0, 1), idle}}};
    t.goal = collective::broadcast;
    return t;
}

/// A chunk that goes from rank 0 to rank 1, and from there to rank 2.
oracle::table handed_on() {
    oracle::table t = {
        3, 1, {{idle, idle, wait_for(2, 2)}, {copy(0, 0, 0), idle, wait_for(2, 2)}, {idle, copy(0, 1, 1), idle}}};
    t.goal = collective::broadcast;
    return t;
}

/// A schedule, and what the phases make of it on the way.
struct proved {
    explicit proved(oracle::table const& s)
        : cells(proof::count(s.ranks, s.steps)), owners(proof::count(1, s.chunks)), order(cells.size() - 1),
          t(s.goal, s, cells.data(), owners.data()) {
        proof::table::fill(s.goal, s, cells.data(), owners.data());
    }

    verdict contributions() { return proof::contributions(t, order.data()); }
    std::vector<proof::conflict> conflicts() {
        CHECK(contributions().ok());
        std::vector<proof::conflict> all(static_cast<std::size_t>(proof::conflicts(t, order.data(), nullptr)));
        proof::conflicts(t, order.data(), all.data());
        return all;
    }
    verdict races() {
        auto const all = conflicts();
        return proof::races(t, order.data(), all.data(), static_cast<int>(all.size()), 0, t.ranks);
    }

    std::vector<collective_step> cells;
    std::vector<int> owners, order;
    proof::table t;
};

bool is(verdict v, schedule_fault fault, int rank, int step, int chunk) {
    return v.fault == fault && v.rank == rank && v.step == step && v.chunk == chunk;
}

/// A phase finds this fault, and the whole proof says the same.
void check(oracle::table const& s, verdict found, schedule_fault fault, int rank, int step, int chunk) {
    CHECK(is(found, fault, rank, step, chunk));
    CHECK(is(verify(s.goal, s), fault, rank, step, chunk));
}

} // namespace

TEST_SUITE("schedule/proof") {
    using enum schedule_fault;

    TEST_CASE("the examples are proved") {
        for (auto const& s : {smallest(), two_chunks(), handed_on()}) CHECK(verify(s.goal, s).ok());
    }

    TEST_CASE("1: a step names what exists") {
        auto s = smallest();
        CHECK(proof::well_formed(proved(s).t).ok());
        s.at(1, 1) = copy(1, 0, 1);
        check(s, proof::well_formed(proved(s).t), out_of_range, 1, 1, 1);
        s.at(1, 1) = copy(0, 1, 1);
        check(s, proof::well_formed(proved(s).t), out_of_range, 1, 1, 0);
        s.at(1, 1) = copy(0, 0, 0); // too early, which is not this phase's to see
        CHECK(proof::well_formed(proved(s).t).ok());
    }

    TEST_CASE("2: each chunk ends with the contributions that it should have") {
        auto s = smallest();
        CHECK(proved(s).contributions().ok());
        s.at(1, 1) = copy(0, 0, 3);
        check(s, proved(s).contributions(), deadlock, 1, 1, 0);
        s.at(1, 1) = reduce(0, 0, 1);
        check(s, proved(s).contributions(), added_twice, 1, 1, 0);
        s.at(1, 1) = idle;
        check(s, proved(s).contributions(), missing, 1, 3, 0);
    }

    TEST_CASE("2: the order of completion is left") {
        proved p(smallest());
        CHECK(p.contributions().ok());
        CHECK(p.order == std::vector{0, 1, 3, 4, 5, 2}); // rank * 3 + step
    }

    TEST_CASE("3: messages could carry it") {
        auto s = two_chunks();
        CHECK(proof::in_order(proved(s).t).ok());
        s.at(1, 0).after = 1;
        s.at(1, 1).after = 0;
        check(s, proof::in_order(proved(s).t), out_of_order, 1, 1, 1);

        auto written = smallest(); // to rank 1, instead of read by it
        written.at(0, 0).destinations = one_rank(1);
        written.at(1, 1) = wait_for(0, 1);
        CHECK(proof::in_order(proved(written).t).ok());
        CHECK(verify(written.goal, written).ok());
        written.at(1, 1) = idle;
        check(written, proof::in_order(proved(written).t), unheard, 0, 0, 0);
        written.at(1, 1) = wait_for(0, 1);
        written.at(0, 1) = copy(0, 1, 0);
        CHECK(is(proof::in_order(proved(written).t), reused, 0, 1, 0));
    }

    TEST_CASE("4: accesses of which a rank has not heard itself are listed") {
        CHECK(proved(smallest()).conflicts().empty());
        auto const all = proved(handed_on()).conflicts();
        REQUIRE(all.size() == 1);
        auto const& c = all[0];
        CHECK((c.earlier == 1 && c.earlier_step == 0 && c.later == 0 && c.later_step == 3 && c.owner == 0));
        CHECK((c.chunk == -1 && c.read && !c.reading));
    }

    TEST_CASE("5: a rank knows of them through others") {
        auto s = handed_on();
        CHECK(proved(s).races().ok());
        s.at(0, 2).after = 1;
        check(s, proved(s).races(), overwritten, 1, 0, 0);
    }
}

} // namespace schedule_proof_test
