// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/csv.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/schedules/breadth_first.hpp>
#include <trireme/schedule/pipeline/schedules/interleaved.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h1.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_v.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <trireme/core/philox.hpp>

#include <doctest/doctest.h>

#include <schedule/naive_steps.hpp>
#include <schedule/own_schedules.hpp>
#include <support/numbers.hpp>
#include <support/step_numbers.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace schedule_pipeline_test {
using namespace trireme;
using namespace own_schedules;
using namespace naive_steps;

namespace {

template<class S, int P, int M, int R = 1, int Slices = 1>
constexpr bool proved = verify(static_step<S, P, M, R, Slices>::program).ok();

static_assert(proved<one_f_one_b, 1, 1> && proved<one_f_one_b, 4, 16> && proved<gpipe, 3, 5, 2, 3>);
static_assert(proved<eager_weights, 4, 8> && proved<folded, 3, 4, 2> && proved<interleaved<3>, 4, 8, 2, 2>);
static_assert(verify(static_step<one_f_one_b, 3, 12, 2, 1, 3>::program).ok());
static_assert(verify(static_step<gpipe, 2, 8, 1, 1, 2>::program).ok());
// of each pass every stage keeps the micro-batches of one pass, and waits as in a step with so many
static_assert(static_step<gpipe, 2, 8>::program.frames[0] == 8);
static_assert(static_step<gpipe, 2, 8, 1, 1, 2>::program.frames[0] == 4);
static_assert(bubble_fraction(static_step<gpipe, 3, 12, 1, 1, 3>::program) ==
              bubble_fraction(static_step<gpipe, 3, 4>::program));
static_assert(verify(static_step<too_early, 2, 2>::program).fault == program_fault::order);
static_assert(verify(static_step<backwards_in_turn, 2, 3>::program).fault == program_fault::sum_order);
static_assert(verify(static_step<forgets_one, 2, 3>::program).fault == program_fault::mismatch);

/// A program whose tasks can be changed.
struct open_program {
    step_program shape;
    std::vector<std::vector<step_task>> lists;
    std::vector<std::size_t> tails;

    explicit open_program(step_program const& p) : shape(p) {
        for (int r = 0; r < p.shape.roles; ++r) {
            auto const list = p.list(r);
            lists.emplace_back(list.begin(), list.end());
            tails.push_back(p.tail[r]);
        }
    }
    step_program closed(std::vector<step_task>& storage) const {
        auto p = shape;
        storage.clear();
        for (std::size_t r = 0; r < lists.size(); ++r) {
            storage.insert(storage.end(), lists[r].begin(), lists[r].end());
            p.begin[r + 1] = static_cast<std::uint32_t>(storage.size());
            p.tail[r] = static_cast<std::uint32_t>(tails[r]);
        }
        p.all = storage;
        return p;
    }
};

template<class S>
step_program built(step_shape const& shape, std::vector<step_task>& room) {
    room.resize(step_capacity(S{}, shape));
    return build_step(S{}, shape, room);
}

/// The evaluation that goes with such a step.
template<class S>
step_program evaluation(step_shape const& shape, std::vector<step_task>& room) {
    std::vector<step_task> of_step;
    auto const step = built<S>(shape, of_step);
    room.resize(step_capacity(S{}, {shape.roles, 2}));
    return build_evaluation(S{}, step, room);
}

// ---- mutations ----

struct counts {
    std::size_t refused = 0, same = 0, wrong = 0;
};

program_verdict verdict(step_program const& p, lowering const& by, bool evaluates) {
    return evaluates ? verify_evaluation(p, by) : verify(p, by);
}

void judge(open_program const& mutant, open_program const& original, lowering const& by, bool evaluates, counts& c) {
    if (mutant.lists == original.lists) return;
    std::vector<step_task> storage;
    auto const p = mutant.closed(storage);
    if (!verdict(p, by, evaluates).ok())
        ++c.refused;
    else if (computes(p, by, evaluates))
        ++c.same;
    else
        ++c.wrong;
}

/// All single mutations: a task that is dropped, doubled, moved ahead, or has another number in one place.
counts mutations(step_program const& p, lowering const& by, bool evaluates) {
    open_program const original(p);
    counts c;
    auto const with = [&](auto const& change) {
        auto mutant = original;
        change(mutant);
        judge(mutant, original, by, evaluates, c);
    };
    auto const other = [](std::uint16_t& n, int count) {
        n = static_cast<std::uint16_t>((n + 1) % std::max(count, 1));
    };
    for (std::size_t r = 0; r < original.lists.size(); ++r)
        for (std::size_t i = 0; i < original.lists[r].size(); ++i) {
            auto const before_tail = i < original.tails[r];
            auto const place = static_cast<std::ptrdiff_t>(i);
            with([&](open_program& m) {
                m.lists[r].erase(m.lists[r].begin() + place);
                m.tails[r] -= before_tail;
            });
            with([&](open_program& m) {
                m.lists[r].insert(m.lists[r].begin() + place, m.lists[r][i]);
                m.tails[r] += before_tail;
            });
            for (std::size_t back = 1; back <= 3 && back <= i; ++back)
                with([&](open_program& m) {
                    std::rotate(m.lists[r].begin() + place - static_cast<std::ptrdiff_t>(back),
                                m.lists[r].begin() + place, m.lists[r].begin() + place + 1);
                });
            auto const changed = [&](auto const& change) { with([&](open_program& m) { change(m.lists[r][i]); }); };
            auto const& is = original.lists[r][i];
            if (is.computes()) {
                changed([&](step_task& t) { other(t.micro_batch, p.shape.micro_batches); });
                changed([&](step_task& t) { other(t.frame, p.frames[r]); });
                changed([&](step_task& t) { t.chunk = static_cast<std::uint8_t>((t.chunk + 1) % p.chunks); });
                changed([&](step_task& t) { t.scales = !t.scales; });
                if (gives_input(is.kind)) changed([&](step_task& t) { other(t.slot, p.slots[r]); });
            } else if (is.kind != task_kind::move) {
                changed([&](step_task& t) { ++t.end; });
                changed([&](step_task& t) { ++t.first; });
                if (is.first > 0) changed([&](step_task& t) { --t.first; });
                if (is.kind == task_kind::collective) changed([&](step_task& t) { t.updates = !t.updates; });
            }
            for (auto const kind :
                 {task_kind::forward, task_kind::backward, task_kind::backward_input, task_kind::backward_weights,
                  task_kind::train, task_kind::evaluate, task_kind::collective, task_kind::add_tied, task_kind::measure,
                  task_kind::update, task_kind::copy_tied})
                if (is.kind != task_kind::move) changed([&](step_task& t) { t.kind = kind; });
            for (int k = 0; k < original.lists[r][i].transfers; ++k) {
                auto const moved = [&](auto const& change) { changed([&](step_task& t) { change(t.moves[k], t); }); };
                moved([&](stage_transfer& m, step_task&) { other(m.micro_batch, p.shape.micro_batches); });
                moved([&](stage_transfer& m, step_task&) { other(m.boundary, p.stage_count() - 1); });
                moved([&](stage_transfer& m, step_task&) {
                    other(m.place, m.sends && m.gradient ? p.slots[r] : p.frames[r]);
                });
                moved([&](stage_transfer& m, step_task&) { m.gradient = !m.gradient; });
                moved([&](stage_transfer& m, step_task&) { m.sends = !m.sends; });
                moved([&](stage_transfer& m, step_task&) {
                    m.role = static_cast<std::uint8_t>((m.role + 1) % p.shape.roles);
                });
                moved([&](stage_transfer& m, step_task& t) { // left out
                    m = t.moves[t.transfers - 1];
                    --t.transfers;
                });
                if (k > 0) moved([&](stage_transfer& m, step_task& t) { std::swap(m, t.moves[k - 1]); });
            }
        }
    return c;
}

template<class S>
void every_mutation_is_refused_or_the_same(step_shape const& shape, lowering const& by, counts& all,
                                           bool evaluates = false) {
    CAPTURE(std::string(S::name));
    CAPTURE(shape.roles);
    CAPTURE(shape.micro_batches);
    CAPTURE(std::string(by.name));
    CAPTURE(evaluates);
    std::vector<step_task> room;
    auto const p = evaluates ? evaluation<S>(shape, room) : built<S>(shape, room);
    REQUIRE(verdict(p, by, evaluates).ok());
    CHECK(computes(p, by, evaluates));
    auto const c = mutations(p, by, evaluates);
    CHECK(c.wrong == 0);
    CHECK(c.refused > c.same);
    all.refused += c.refused;
    all.same += c.same;
    all.wrong += c.wrong;
}

} // namespace

TEST_SUITE("schedule/pipeline") {
    TEST_CASE_TEMPLATE("a schedule is a training step on any number of roles and micro-batches", S, gpipe, one_f_one_b,
                       eager_weights, late_weights, folded) {
        for (int roles = 1; roles <= 6; ++roles)
            for (int m = 1; m <= 9; ++m)
                for (int replicas : {1, 3}) {
                    CAPTURE(roles);
                    CAPTURE(m);
                    std::vector<step_task> room;
                    auto const p = built<S>({roles, m, replicas, 2, replicas == 3 && m % 2 == 0}, room);
                    for (auto const& by : {by_counters, by_messages}) {
                        auto const v = verify(p, by);
                        CAPTURE(std::string(describe(v.fault)));
                        CAPTURE(v.role);
                        CAPTURE(v.task);
                        CHECK(v.ok());
                        CHECK(computes(p, by));
                    }
                    std::vector<step_task> room_for_evaluation;
                    auto const e = evaluation<S>({roles, m, replicas, 2}, room_for_evaluation);
                    CHECK(e.shape.micro_batches == (roles * S::chunks == 1 ? 1 : 2));
                    for (int r = 0; r < roles; ++r) CHECK(e.frames[r] <= p.frames[r]);
                    for (auto const& by : {by_counters, by_messages}) {
                        CHECK(verify_evaluation(e, by).ok());
                        CHECK(!verify(e, by).ok());
                        CHECK(!verify_evaluation(p, by).ok());
                        CHECK(computes(e, by, true));
                    }
                }
    }

    TEST_CASE("how moves are carried out is part of the proof") {
        std::vector<step_task> room;
        auto const p = built<interleaved<2>>({4, 8, 1, 1}, room);
        CHECK(verify(p, by_counters).ok());
        CHECK(verify(p, by_rendezvous).fault == program_fault::deadlock);
        auto const straight = built<one_f_one_b>({4, 8, 1, 1}, room);
        CHECK(verify(straight, by_rendezvous).ok());
    }

    TEST_CASE("wrong schedules are refused where they go wrong") {
        std::vector<step_task> room;
        auto const early = verify(built<too_early>({3, 2, 1, 1}, room));
        CHECK(early.fault == program_fault::order);
        auto const waiting = verify(built<impatient>({3, 4, 1, 1}, room));
        CHECK(waiting.fault == program_fault::deadlock);
        CHECK(waiting.role == 0);
        CHECK(verify(built<backwards_in_turn>({1, 3, 1, 1}, room)).fault == program_fault::sum_order);
        CHECK(verify(built<forgets_one>({1, 3, 1, 1}, room)).fault == program_fault::incomplete);
    }

    TEST_CASE("schedules that name what does not exist are refused, and built without touching it") {
        auto const fault_of = [](schedule_choice const& s, int roles, int micro_batches) {
            step_shape const shape{roles, micro_batches};
            std::vector<step_task> room(step_capacity(s, shape));
            return verify(build_step(s, shape, room));
        };
        auto const expect = [&](schedule_choice const& s, program_fault fault, int role) {
            CAPTURE(s.name);
            auto const v = fault_of(s, 3, 4);
            CHECK(v.fault == fault);
            CHECK(v.role == role);
        };
        expect(from_one{}, program_fault::out_of_range, 2);
        expect(one_stage_more{}, program_fault::out_of_range, 0);
        expect(stages_from<1>{}, program_fault::out_of_range, 2);
        expect(stages_from<-1>{}, program_fault::out_of_range, 0);
        expect(stages_from<0, 0>{}, program_fault::out_of_range, 1);
        expect(one_stage_twice{}, program_fault::out_of_range, 0);
        expect(only_forward{}, program_fault::twice, 0);
        CHECK(fault_of(stages_from<0>{}, 3, 4).ok());
        static_assert(verify(static_step<from_one, 2, 3>::program).fault == program_fault::out_of_range);
        static_assert(verify(static_step<stages_from<5>, 2, 3>::program).fault == program_fault::out_of_range);
    }
    TEST_CASE("values that arrive in a frame that is in use are refused there") {
        std::vector<step_task> room, storage;
        open_program p(built<gpipe>({2, 2, 1, 1}, room));
        auto& list = p.lists[1]; // receive 0, forward 0, receive 1, forward 1, ...
        REQUIRE((list[2].kind == task_kind::move && list[2].moves[0].place == 1));
        list[2].moves[0].place = 0;
        auto const v = verify(p.closed(storage));
        CHECK(v.fault == program_fault::overwritten);
        CHECK((v.role == 1 && v.task == 2));
    }

    TEST_CASE("one device trains micro-batch by micro-batch; replicas add slice by slice, the last one first") {
        std::vector<step_task> room;
        auto const p = built<one_f_one_b>({1, 3, 2, 2}, room);
        auto const list = p.list(0);
        REQUIRE(list.size() == 6);
        for (std::size_t m = 0; m < 3; ++m)
            CHECK((list[m].kind == task_kind::train && list[m].micro_batch == m && list[m].scales));
        CHECK((list[3].kind == task_kind::collective && list[3].first == 1 && list[4].first == 0));
        CHECK((list[5].kind == task_kind::update && list[5].first == 0 && list[5].end == 2));
        CHECK(p.tail[0] == 3);
        CHECK(p.frames[0] == 1);
        CHECK(p.slots[0] == 0);
    }

    TEST_CASE("norms are measured when all slices have been added, and before any is updated") {
        std::vector<step_task> room;
        auto const p = built<gpipe>({2, 2, 2, 2, false, true}, room);
        CHECK(verify(p).ok());
        for (int role = 0; role < 2; ++role) {
            auto const list = p.list(role);
            CHECK((list[list.size() - 3].kind == task_kind::collective &&
                   list[list.size() - 1].kind == task_kind::update));
            auto const& t = list[list.size() - 2];
            CHECK((t.kind == task_kind::measure && t.first == 0 && t.end == 2));
        }
        open_program without(p);
        without.lists[1].erase(without.lists[1].end() - 2);
        std::vector<step_task> storage;
        auto const v = verify(without.closed(storage)); // role 1 goes on to its update
        CHECK(v.fault == program_fault::incomplete);
        CHECK(v.role == 1);
    }

    TEST_CASE("tied gradients are added before a norm is measured; what was updated is copied where stages are apart") {
        std::vector<step_task> room;
        auto const kinds = [&](step_shape const& shape) {
            auto const p = built<gpipe>(shape, room);
            CHECK(verify(p).ok());
            std::vector<task_kind> tail;
            for (auto const& t : p.list(0).subspan(p.tail[0])) tail.push_back(t.kind);
            return tail;
        };
        using list = std::vector<task_kind>;
        CHECK(kinds({1, 2, 1, 1, false, false, 1, true}) == list{task_kind::add_tied, task_kind::update});
        CHECK(kinds({2, 2, 2, 1, false, true, 1, true}) == list{task_kind::collective, task_kind::add_tied,
                                                                task_kind::measure, task_kind::update,
                                                                task_kind::copy_tied});
        auto const p = built<gpipe>({2, 2, 1, 1, false, true, 1, true}, room);
        std::vector<step_task> storage;
        for (std::size_t behind = 1; behind <= 4; ++behind) { // without copy_tied, update, measure, add_tied
            CAPTURE(behind);
            open_program without(p);
            without.lists[1].erase(without.lists[1].end() - static_cast<std::ptrdiff_t>(behind));
            CHECK_FALSE(verify(without.closed(storage)).ok());
        }
    }

    TEST_CASE("a program prints as a table") {
        std::vector<step_task> room;
        CHECK(table_of(built<one_f_one_b>({1, 1, 1, 2, false, true}, room)) ==
              "role 0: 1 frame\n"
              "  0   train             micro-batch 0, stage 0, frame 0\n"
              "  1   measure           slices 0 to 1\n"
              "  2   update            slices 0 to 1\n");
        CHECK(table_of(built<one_f_one_b>({1, 2, 2, 1}, room)) ==
              "role 0: 1 frame\n"
              "  0   train             micro-batch 0, stage 0, frame 0\n"
              "  1   train             micro-batch 1, stage 0, frame 0\n"
              "  2   collective        slice 0\n"
              "  3   update            slice 0\n");
        CHECK(
            table_of(built<one_f_one_b>({2, 1, 2, 2, true}, room)) ==
            "role 0: 1 frame\n"
            "  0   forward           micro-batch 0, stage 0, frame 0\n"
            "  1   move              sends values of micro-batch 0 to role 1, receives gradients of micro-batch 0 from "
            "role 1\n"
            "  2   backward          micro-batch 0, stage 0, frame 0\n"
            "  3   collective        slice 1, updated on the way\n"
            "  4   collective        slice 0, updated on the way\n"
            "role 1: 1 frame\n"
            "  0   move              receives values of micro-batch 0 from role 0\n"
            "  1   forward           micro-batch 0, stage 1, frame 0\n"
            "  2   backward          micro-batch 0, stage 1, frame 0\n"
            "  3   move              sends gradients of micro-batch 0 to role 0\n"
            "  4   collective        slice 1, updated on the way\n"
            "  5   collective        slice 0, updated on the way\n");
    }

    TEST_CASE("frames and time are those of the papers") {
        std::vector<step_task> room;
        for (int p = 1; p <= 8; ++p)
            for (int m : {1, 2, 7, 16}) {
                CAPTURE(p);
                CAPTURE(m);
                auto const one = built<one_f_one_b>({p, m, 1, 1}, room);
                for (int r = 0; r < p; ++r) CHECK(one.frames[r] == std::min(m, p - r));
                CHECK(step_span(one) == 3.0 * (m + p - 1));
                CHECK(bubble_fraction(one) == doctest::Approx(static_cast<double>(p - 1) / (m + p - 1)));
                auto const all = built<gpipe>({p, m, 1, 1}, room);
                for (int r = 0; r < p; ++r) CHECK(all.frames[r] == m);
                CHECK(step_span(all) == 3.0 * (m + p - 1));
            }
        auto const round = built<interleaved<3>>({4, 16, 1, 1}, room);
        CHECK(step_span(round) == 9.0 * 16 + 3.0 * 3); // each stage is a third as long
    }

    TEST_CASE("every single mutation is refused, or computes the same bits in any order") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        counts all;
        for (auto const& by : {by_counters, by_messages}) {
            every_mutation_is_refused_or_the_same<one_f_one_b>({1, 3, 2, 2}, by, all);
            every_mutation_is_refused_or_the_same<one_f_one_b>({3, 4, 2, 1}, by, all);
            every_mutation_is_refused_or_the_same<gpipe>({2, 3, 1, 2}, by, all);
            every_mutation_is_refused_or_the_same<gpipe>({2, 4, 1, 1, false, false, 2}, by, all);
            every_mutation_is_refused_or_the_same<gpipe>({2, 2, 2, 1, true}, by, all);
            every_mutation_is_refused_or_the_same<one_f_one_b>({1, 2, 2, 2, false, true}, by, all);
            every_mutation_is_refused_or_the_same<one_f_one_b>({3, 3, 2, 2, false, true}, by, all);
            every_mutation_is_refused_or_the_same<folded>({2, 2, 1, 2, false, true}, by, all);
            every_mutation_is_refused_or_the_same<one_f_one_b>({2, 2, 2, 2, false, true, 1, true}, by, all);
            every_mutation_is_refused_or_the_same<folded>({2, 2, 1, 1, false, false, 1, true}, by, all);
            every_mutation_is_refused_or_the_same<one_f_one_b>({1, 2, 2, 2, false, true, 1, true}, by, all);
            every_mutation_is_refused_or_the_same<folded>({1, 2, 1, 1, false, false, 1, true}, by, all);
            every_mutation_is_refused_or_the_same<eager_weights>({3, 3, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<late_weights>({2, 3, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<folded>({2, 2, 2, 1}, by, all);
            every_mutation_is_refused_or_the_same<interleaved<2>>({2, 4, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<interleaved<2>>({2, 3, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<breadth_first<2>>({2, 3, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<zero_bubble_h1>({3, 4, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<zero_bubble_v>({2, 2, 1, 1}, by, all);
            every_mutation_is_refused_or_the_same<one_f_one_b>({3, 4, 1, 1}, by, all, true);
            every_mutation_is_refused_or_the_same<folded>({2, 2, 1, 1}, by, all, true);
        }
        every_mutation_is_refused_or_the_same<zero_bubble_v>({2, 4, 2, 1}, by_counters, all);
        MESSAGE("mutations: " << all.refused << " refused, " << all.same << " the same step, " << all.wrong
                              << " wrong");
        CHECK(all.refused > 1000);
    }

    TEST_CASE("files whose cells change places are refused, or compute the same bits in any order") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        std::mt19937_64 random(numbers::seed());
        auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        int refused = 0, proved_ones = 0;
        for (schedule_choice const& s : {schedule_choice(one_f_one_b{}), schedule_choice(interleaved<2>{}),
                                         schedule_choice(zero_bubble_h1{}), schedule_choice(zero_bubble_v{})})
            for (int i = 0; i < 600; ++i) {
                std::vector<step_task> room(step_capacity(s, {3, 3}));
                auto const cells = i % 2 == 0 ? schedule_cells::compute : schedule_cells::compute_and_moves;
                std::istringstream text(schedule_csv(build_step(s, {3, 3}, room), cells));
                std::string changed, line, cell;
                auto const role = below(3);
                for (std::size_t r = 0; std::getline(text, line); ++r) {
                    std::vector<std::string> list;
                    for (std::istringstream rest(line); std::getline(rest, cell, ',');) list.push_back(cell);
                    auto const at = below(list.size() - 1), to = i % 4 < 2 ? at + 1 : below(list.size());
                    if (r == role && i % 16 < 12) std::swap(list[at], list[to]);
                    if (r == role && i % 16 == 12) list[at] = list[to];
                    if (r == role && i % 16 == 13) list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
                    for (auto const& c : list) changed += c + ',';
                    changed += '\n';
                }
                CAPTURE(changed);
                auto const orders = parse_schedule_csv(changed, s.name);
                std::vector<step_task> place(step_capacity(orders, orders.shape()));
                auto const p = build_step(orders, orders.shape(), place);
                for (auto const& by : {by_counters, by_messages}) {
                    bool const ok = verify(p, by).ok();
                    ++(ok ? proved_ones : refused);
                    for (std::uint64_t seed = 0; seed < 3 && ok; ++seed)
                        CHECK(executed(p, by, random(), false) == expected(p, false));
                }
            }
        MESSAGE("files: " << refused << " refused, " << proved_ones << " proved");
        CHECK(refused > 500);
        CHECK(proved_ones > 500);
    }
}

} // namespace schedule_pipeline_test
