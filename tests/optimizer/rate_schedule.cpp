// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden.hpp>
#include <trireme/optimizer/rate_schedule.hpp>

#include <cmath>
#include <cstddef>
#include <string>

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

    TEST_CASE("schedules without a rate are refused, with what is wrong") {
        auto const refuses = [](rate_schedule const& r, char const* what) {
            CHECK_THROWS_WITH_AS(detail::check_rate_schedule(r), doctest::Contains(what), usage_error);
        };
        refuses(step_rate{.every = 0}, "at least 1");
        refuses(step_rate{.every = 1, .by = -1}, "not negative");
        refuses(step_rate{.every = 1, .by = std::nan("")}, "finite");
        refuses(cosine_rate{.steps = 5, .warm_up = 5}, "needs more steps than its warm-up of 5, and has 5");
        refuses(one_cycle_rate{.steps = 3}, "more than one step each way");
        refuses(one_cycle_rate{.steps = 30, .rising = 1}, "between 0 and 1");
        CHECK_NOTHROW(detail::check_rate_schedule(one_cycle_rate{.steps = 30}));
        CHECK_NOTHROW(detail::check_rate_schedule({}));
    }
}

} // namespace optimizer_rate_schedule_test
