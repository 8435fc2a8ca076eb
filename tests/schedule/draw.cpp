// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/draw.hpp>

#include <trireme/schedule/collective/binomial_tree.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include "mutants.hpp"

#include <string>

namespace schedule_draw_test {
namespace {

using namespace trireme;
using test_support::count_of;

/// A schedule of 2 ranks, one step each, from a function.
constexpr schedule of_two(collective_step (*step)(int, int, int)) { return {"of two", 2, 2, 1, step}; }

} // namespace

TEST_SUITE("schedule/draw") {
    TEST_CASE(
        "a box per addition and copy, a line per source and destination, a tick per wait; one of each is the key") {
        auto const by_ring = schedule_svg(ring::all_reduce(4), "ring");
        CHECK(count_of(by_ring, "class=\"adds\"") == 4 * 3 + 1);
        CHECK(count_of(by_ring, "class=\"copies\"") == 4 * 3 + 1);
        CHECK(count_of(by_ring, "class=\"read\"") == 4 * 6 + 1);
        CHECK(count_of(by_ring, "class=\"wait\"") == 4 + 1);
        CHECK(count_of(by_ring, "class=\"write\"") == 0);
        CHECK(count_of(by_ring, "class=\"wrong\"") == 0);

        auto const directly = schedule_svg(direct::all_reduce(4), "direct");
        CHECK(count_of(directly, "class=\"adds\"") == 4 + 1);
        CHECK(count_of(directly, "class=\"read\"") == 4 * 3 + 1);
        CHECK(count_of(directly, "class=\"write\"") == 4 * 3 + 1);

        auto const barrier = schedule_svg(dissemination::barrier(8), "barrier");
        CHECK(count_of(barrier, ">wait<") == 8 * 3);
        CHECK(count_of(barrier, "class=\"wait\"") == 0);
    }

    TEST_CASE("what stands in a box") {
        CHECK(detail::box_label({step_kind::copy, 3}, 8) == "3");
        CHECK(detail::box_label({step_kind::copy, {2, 3}}, 8) == "2-4");
        CHECK(detail::box_label({step_kind::copy, {6, 2}}, 8) == "6-7");
        CHECK(detail::box_label({step_kind::copy, {6, 3}}, 8) == "6-7,0");
        CHECK(detail::box_label({step_kind::copy, {7, 3}}, 8) == "7,0-1");
        CHECK(detail::box_label({step_kind::reduce, {5, 8}}, 8) == "all");
        CHECK(detail::box_label({step_kind::copy, 3, {}, 0, {}, 1}, 8) == "1>3");
        CHECK(count_of(schedule_svg(direct::all_to_all(3), "a<b> & c"), "a&lt;b&gt; &amp; c") == 1);
    }

    TEST_CASE("every schedule can be drawn") {
        for (int n = 1; n <= 9; ++n) {
            CHECK(count_of(schedule_svg(ring::all_reduce(n), ""), "</svg>") == 1);
            CHECK(count_of(schedule_svg(recursive_halving_doubling::all_reduce(n), ""), "</svg>") == 1);
            for (int root = 0; root < n; ++root)
                CHECK(count_of(schedule_svg(binomial_tree::gather(n, root), ""), "class=\"copies\"") ==
                      (n > 1 ? n : 0));
        }
    }

    TEST_CASE("every broken schedule can be drawn, with its fault") {
        for (auto const& s : {ring::all_reduce(3), direct::all_reduce(3), recursive_halving_doubling::all_reduce(3)})
            mutants::each(oracle::table(s), [&](oracle::table const& broken, mutants::mutation, int, int) {
                auto const found = verify(collective::all_reduce, broken);
                auto const picture = schedule_svg(broken, s.name, found);
                if (count_of(picture, "not proved") != (found.ok() ? 0 : 1) || count_of(picture, "</svg>") != 1)
                    FAIL_CHECK(picture);
            });
    }

    TEST_CASE("a fault is named, and its step is red") {
        auto const endless = of_two([](int, int rank, int) -> collective_step {
            return {step_kind::copy, 0, one_rank(1 - rank), 1}; // both wait for the other one's only step
        });
        auto const found = verify(collective::all_reduce, endless);
        REQUIRE(found.fault == schedule_fault::deadlock);
        auto const picture = schedule_svg(endless, "endless", found);
        CHECK(count_of(picture, "not proved: it deadlocks") == 1);
        CHECK(count_of(picture, "<rect class=\"wrong\"") == 1 + 1);
        CHECK(count_of(picture, "<line class=\"wrong\"") == 1);
        CHECK(count_of(picture, "class=\"copies\"") == 1 + 1); // the other rank is stuck, and not drawn

        auto const nowhere =
            of_two([](int, int, int) -> collective_step { return {step_kind::copy, 0, {5, 1, 1, 9}, 7}; });
        CHECK(count_of(schedule_svg(nowhere, "", verify(collective::all_reduce, nowhere)), "not proved: it names") ==
              1);
        auto const lazy = of_two([](int, int, int) -> collective_step { return {}; });
        CHECK(count_of(schedule_svg(lazy, "", verify(collective::all_reduce, lazy)), "not proved: it ends without") ==
              1);
    }
}

} // namespace schedule_draw_test
