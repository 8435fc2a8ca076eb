// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/csv.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/schedules/breadth_first.hpp>
#include <trireme/schedule/pipeline/schedules/gpipe.hpp>
#include <trireme/schedule/pipeline/schedules/interleaved.hpp>
#include <trireme/schedule/pipeline/schedules/one_f_one_b.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h1.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_v.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <doctest/doctest.h>

#include <schedule/naive_steps.hpp>
#include <support/built_step.hpp>
#include <support/numbers.hpp>
#include <support/own_schedules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace schedule_pipeline_test {
using namespace trireme;
using namespace own_schedules;
using namespace naive_steps;
using test_support::built_evaluation;
using test_support::built_step;

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

} // namespace

TEST_SUITE("schedule/pipeline") {
    TEST_CASE_TEMPLATE("a schedule is a training step on any number of roles and micro-batches", S, gpipe, one_f_one_b,
                       eager_weights, late_weights, folded) {
        for (int roles = 1; roles <= 6; ++roles)
            for (int m = 1; m <= 9; ++m)
                for (int replicas : {1, 3}) {
                    CAPTURE(roles);
                    CAPTURE(m);
                    built_step const step(S{}, {roles, m, replicas, 2, replicas == 3 && m % 2 == 0});
                    auto const& p = step.program;
                    for (auto const& by : {by_counters, by_messages}) {
                        auto const v = verify(p, by);
                        CAPTURE(std::string(describe(v.fault)));
                        CAPTURE(v.role);
                        CAPTURE(v.task);
                        CHECK(v.ok());
                        CHECK(computes(p, by));
                    }
                    built_evaluation const evaluation(S{}, built_step(S{}, {roles, m, replicas, 2}).program);
                    auto const& e = evaluation.program;
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
        built_step const in_turns(interleaved<2>{}, {4, 8}), straight(one_f_one_b{}, {4, 8});
        CHECK(verify(in_turns.program, by_counters).ok());
        CHECK(verify(in_turns.program, by_rendezvous).fault == program_fault::deadlock);
        CHECK(verify(straight.program, by_rendezvous).ok());
    }

    TEST_CASE("wrong schedules are refused where they go wrong") {
        auto const verdict = [](schedule_choice const& s, int roles, int micro_batches) {
            return verify(built_step(s, {roles, micro_batches}).program);
        };
        CHECK(verdict(too_early{}, 3, 2).fault == program_fault::order);
        auto const waiting = verdict(impatient{}, 3, 4);
        CHECK(waiting.fault == program_fault::deadlock);
        CHECK(waiting.role == 0);
        CHECK(verdict(backwards_in_turn{}, 1, 3).fault == program_fault::sum_order);
        CHECK(verdict(forgets_one{}, 1, 3).fault == program_fault::incomplete);
    }

    TEST_CASE("schedules that name what does not exist are refused, and built without touching it") {
        auto const expect = [](schedule_choice const& s, program_fault fault, int role) {
            CAPTURE(s.name);
            auto const v = verify(built_step(s, {3, 4}).program);
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
        CHECK(verify(built_step(stages_from<0>{}, {3, 4}).program).ok());
        static_assert(verify(static_step<from_one, 2, 3>::program).fault == program_fault::out_of_range);
        static_assert(verify(static_step<stages_from<5>, 2, 3>::program).fault == program_fault::out_of_range);
    }
    TEST_CASE("values that arrive in a frame that is in use are refused there") {
        std::vector<step_task> storage;
        open_program p(built_step(gpipe{}, {2, 2}).program);
        auto& list = p.lists[1]; // receive 0, forward 0, receive 1, forward 1, ...
        REQUIRE((list[2].kind == task_kind::move && list[2].moves[0].place == 1));
        list[2].moves[0].place = 0;
        auto const v = verify(p.closed(storage));
        CHECK(v.fault == program_fault::overwritten);
        CHECK((v.role == 1 && v.task == 2));
    }

    TEST_CASE("a role has 65535 frames; a step that needs more is refused where it takes the next one") {
        built_step const most(gpipe{}, {1, max_places});
        CHECK(most.program.frames[0] == max_places);
        CHECK(verify(most.program).ok());
        auto const v = verify(built_step(gpipe{}, {1, max_places + 1}).program);
        CHECK(v.fault == program_fault::overwritten);
        CHECK(v.task == max_places);
        CHECK(verify(built_step(breadth_first<2>{}, {1, max_places / 2}).program).ok());
        CHECK(verify(built_step(breadth_first<2>{}, {1, max_places / 2 + 2}).program).fault ==
              program_fault::overwritten);
    }

    TEST_CASE("one device trains micro-batch by micro-batch; replicas add slice by slice, the last one first") {
        built_step const step(one_f_one_b{}, {1, 3, 2, 2});
        auto const& p = step.program;
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
        built_step const step(gpipe{}, {2, 2, 2, 2, false, true});
        auto const& p = step.program;
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
        auto const kinds = [](step_shape const& shape) {
            built_step const step(gpipe{}, shape);
            auto const& p = step.program;
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
        built_step const step(gpipe{}, {2, 2, 1, 1, false, true, 1, true});
        std::vector<step_task> storage;
        for (std::size_t behind = 1; behind <= 4; ++behind) { // without copy_tied, update, measure, add_tied
            CAPTURE(behind);
            open_program without(step.program);
            without.lists[1].erase(without.lists[1].end() - static_cast<std::ptrdiff_t>(behind));
            CHECK_FALSE(verify(without.closed(storage)).ok());
        }
    }

    TEST_CASE("a program prints as a table") {
        CHECK(table_of(built_step(one_f_one_b{}, {1, 1, 1, 2, false, true}).program) ==
              "role 0: 1 frame\n"
              "  0   train             micro-batch 0, stage 0, frame 0\n"
              "  1   measure           slices 0 to 1\n"
              "  2   update            slices 0 to 1\n");
        CHECK(table_of(built_step(one_f_one_b{}, {1, 2, 2, 1}).program) ==
              "role 0: 1 frame\n"
              "  0   train             micro-batch 0, stage 0, frame 0\n"
              "  1   train             micro-batch 1, stage 0, frame 0\n"
              "  2   collective        slice 0\n"
              "  3   update            slice 0\n");
        CHECK(
            table_of(built_step(one_f_one_b{}, {2, 1, 2, 2, true}).program) ==
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
        for (int p = 1; p <= 8; ++p)
            for (int m : {1, 2, 7, 16}) {
                CAPTURE(p);
                CAPTURE(m);
                built_step const straight(one_f_one_b{}, {p, m}), at_once(gpipe{}, {p, m});
                auto const &one = straight.program, &all = at_once.program;
                for (int r = 0; r < p; ++r) CHECK(one.frames[r] == std::min(m, p - r));
                CHECK(step_span(one) == 3.0 * (m + p - 1));
                CHECK(bubble_fraction(one) == doctest::Approx(static_cast<double>(p - 1) / (m + p - 1)));
                for (int r = 0; r < p; ++r) CHECK(all.frames[r] == m);
                CHECK(step_span(all) == 3.0 * (m + p - 1));
            }
        CHECK(step_span(built_step(interleaved<3>{}, {4, 16}).program) ==
              9.0 * 16 + 3.0 * 3); // each stage is a third as long
    }

    TEST_CASE("files whose cells change places are refused, or compute the same bits in any order") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        std::mt19937_64 random(numbers::seed());
        auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
        int refused = 0, proved_ones = 0;
        for (schedule_choice const& s : {schedule_choice(one_f_one_b{}), schedule_choice(interleaved<2>{}),
                                         schedule_choice(zero_bubble_h1{}), schedule_choice(zero_bubble_v{})})
            for (int i = 0; i < 600; ++i) {
                auto const cells = i % 2 == 0 ? schedule_cells::compute : schedule_cells::compute_and_moves;
                std::istringstream text(schedule_csv(built_step(s, {3, 3}).program, cells));
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
                built_step const step(orders);
                auto const& p = step.program;
                for (auto const& by : {by_counters, by_messages}) {
                    bool const ok = verify(p, by).ok();
                    ++(ok ? proved_ones : refused);
                    if (ok) CHECK(computes(p, by, false, random()));
                }
            }
        MESSAGE("files: " << refused << " refused, " << proved_ones << " proved");
        CHECK(refused > 500);
        CHECK(proved_ones > 500);
    }
}

} // namespace schedule_pipeline_test
