// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden.hpp>
#include <trireme/optimizer/rate_schedule.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

namespace optimizer_rate_schedule_test {
using namespace trireme;

TEST_SUITE("optimizer/rate_schedule") {
    TEST_CASE("rates are PyTorch's, step by step") {
        trireme_golden::file const file("rates");
        auto const follow = [&](std::string const& name, rate_schedule const& r) {
            CAPTURE(name);
            auto const wanted = file.numbers(name);
            REQUIRE(wanted.size() >= 11);
            for (std::size_t step = 0; step < wanted.size(); ++step)
                CHECK(r.factor(step) == doctest::Approx(wanted[step]).epsilon(1e-12));
        };
        follow("step", step_rate{.every = 3, .by = 0.5});
        follow("cosine", cosine_rate{.steps = 10, .least = 0.1});
        follow("one_cycle", one_cycle_rate{.steps = 12});
    }

    TEST_CASE("a warm-up rises to the first rate, and the rest begins then; what has ended stays") {
        rate_schedule const r = cosine_rate{.steps = 14, .warm_up = 4, .least = 0.1};
        rate_schedule const without = cosine_rate{.steps = 10, .least = 0.1};
        CHECK(r.factor(0) == 0.25);
        CHECK(r.factor(3) == 1);
        for (std::uint64_t step = 0; step <= 10; ++step) CHECK(r.factor(4 + step) == without.factor(step));
        CHECK(r.factor(1'000'000) == 0.1);
        CHECK(rate_schedule(one_cycle_rate{.steps = 12}).factor(50) == 1.0 / 250'000);
        CHECK(rate_schedule(warm_up_rate{2}).factor(0) == 0.5);
        CHECK(rate_schedule(warm_up_rate{2}).factor(7) == 1);
        CHECK(rate_schedule(step_rate{.every = 2, .by = 0.5, .warm_up = 3}).factor(5) == 0.5);
        CHECK(rate_schedule{}.factor(3) == 1);
    }

    TEST_CASE("a rate that scales grows with the batch, and follows another schedule from step to step") {
        rate_schedule const r = linear_scaling{.from = 256, .then = cosine_rate{.steps = 10, .least = 0.1}};
        CHECK(r.factor_of_batch(256) == 1);
        CHECK(r.factor_of_batch(1024) == 4);
        CHECK(r.factor_of_batch(64) == 0.25);
        CHECK(rate_schedule{}.factor_of_batch(64) == 1);
        for (std::uint64_t step = 0; step <= 10; ++step)
            CHECK(r.factor(step) == rate_schedule(cosine_rate{.steps = 10, .least = 0.1}).factor(step));
    }

    TEST_CASE("schedules without a rate are refused, with what is wrong") {
        auto const refuses = [](rate_schedule const& r, char const* field, char const* rule) {
            CHECK_THROWS_WITH_AS(detail::check_rate_schedule(r), doctest::Contains(field), usage_error);
            CHECK_THROWS_WITH(detail::check_rate_schedule(r), doctest::Contains(rule));
        };
        refuses(step_rate{}, "rate: step_rate{.every = 0}: ", "at least 1; say after how many steps");
        for (auto const& [by, text] : {std::pair{0.0, "0"}, {-1.0, "-1"}, {HUGE_VAL, "inf"}, {std::nan(""), "nan"}})
            refuses(step_rate{.every = 1, .by = by}, (std::string("step_rate{.by = ") + text + "}").c_str(),
                    "a finite number above 0");
        refuses(cosine_rate{}, "cosine_rate{.steps = 0}", "above .warm_up = 0");
        refuses(cosine_rate{.steps = 5, .warm_up = 5}, "cosine_rate{.steps = 5}", "above .warm_up = 5");
        refuses(cosine_rate{.steps = 5, .least = -0.5}, "cosine_rate{.least = -0.5}", "not negative");
        refuses(one_cycle_rate{}, "one_cycle_rate{.steps = 0}", "more than one step each");
        refuses(one_cycle_rate{.steps = 3}, "one_cycle_rate{.steps = 3}", ".rising = 0.3 of them");
        for (double const rising : {0.0, 1.0, std::nan("")})
            refuses(one_cycle_rate{.steps = 30, .rising = rising}, "one_cycle_rate{.rising = ", "between 0 and 1");
        refuses(one_cycle_rate{.steps = 30, .first = -1}, "one_cycle_rate{.first = -1}", "not negative");
        refuses(one_cycle_rate{.steps = 30, .last = HUGE_VAL}, "one_cycle_rate{.last = inf}", "finite");
        refuses(linear_scaling{}, "rate: linear_scaling{.from = 0}: ", "for which batch learning_rate is meant");
        refuses(warm_up_rate{}, "rate: warm_up_rate{.steps = 0}: ", "at least 1; say in how many steps");
        refuses(linear_scaling{.from = 1, .then = cosine_rate{}}, "cosine_rate{.steps = 0}", "above .warm_up = 0");
        refuses(linear_scaling{.from = 1, .then = warm_up_rate{}}, "warm_up_rate{.steps = 0}", "at least 1");
        CHECK_NOTHROW(detail::check_rate_schedule(linear_scaling{.from = 1}));
        CHECK_NOTHROW(detail::check_rate_schedule(step_rate{.every = 1, .by = 2})); // PyTorch's gamma may grow, too
        CHECK_NOTHROW(detail::check_rate_schedule(one_cycle_rate{.steps = 30}));
        CHECK_NOTHROW(detail::check_rate_schedule({}));
        CHECK_NOTHROW(detail::check_rate_schedule(warm_up_rate{3}));
    }

    TEST_CASE("schedules have texts of their own, for processes to compare") {
        rate_schedule const all[] = {{},
                                     warm_up_rate{3},
                                     step_rate{.every = 3},
                                     step_rate{.every = 3, .by = 0.25},
                                     cosine_rate{.steps = 3},
                                     cosine_rate{.steps = 3, .warm_up = 1},
                                     cosine_rate{.steps = 3, .least = 0.25},
                                     one_cycle_rate{.steps = 30},
                                     one_cycle_rate{.steps = 30, .rising = 0.5},
                                     one_cycle_rate{.steps = 30, .first = 0.5},
                                     one_cycle_rate{.steps = 30, .last = 0.5},
                                     linear_scaling{.from = 256},
                                     linear_scaling{.from = 257},
                                     linear_scaling{.from = 256, .then = warm_up_rate{3}}};
        for (auto const& one : all)
            for (auto const& other : all)
                CHECK((detail::rate_text(one) == detail::rate_text(other)) == (&one == &other));
        CHECK(detail::rate_text({}) == "rate constant");
        CHECK(detail::rate_text(cosine_rate{.steps = 9, .warm_up = 2, .least = 0.125}) ==
              "rate cosine_rate of 9 steps, warm-up 2, 1 1 0.125");
    }
}

} // namespace optimizer_rate_schedule_test
