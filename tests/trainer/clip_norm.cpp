// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/reference.hpp>

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/clipping.hpp>
#include <support/messages.hpp>

#include <cmath>
#include <vector>

namespace trainer_clip_norm_test {
using namespace trireme;
using namespace test_clipping;
using test_networks::small;

namespace {

/// Several pieces in one layer, and rows without parameters between others.
using wide = network<input<1, 28, 28>, avg_pool2d<2>, flatten, linear<100>, relu, linear<10>>;

} // namespace

TEST_SUITE("trainer/clip_norm") {
    TEST_CASE("a step is shortened to the largest norm") {
        is_shortened<host, small>(1e-12);
        is_shortened<host, wide, kernels<reference>>(1e-12);
    }

    TEST_CASE("norms, losses and weights have one device's bits on any number of replicas and stages") {
        static_assert(gradient_pieces<wide>({0, wide::depth}).size() == 3);
        has_one_devices_bits<host, small>();
        has_one_devices_bits<host, wide>();
    }

    TEST_CASE("pieces are those of the whole network, whatever the rows") {
        for (std::size_t cut = 0; cut <= wide::depth; ++cut) {
            auto const before = gradient_pieces<wide>({0, cut}), behind = gradient_pieces<wide>({cut, wide::depth});
            CHECK(before.begin == 0);
            CHECK(before.end == behind.begin);
            CHECK(behind.end == 3);
            std::size_t next = wide::row(cut).first_parameter;
            for_each_gradient_piece<wide>({cut, wide::depth}, [&](std::size_t, std::size_t first, std::size_t n) {
                CHECK(first == next);
                CHECK(n <= most_of_gradient_piece);
                next += n;
            });
            CHECK(next == wide::parameters);
        }
    }

    TEST_CASE("the sums are in the plan; a step allocates nothing") {
        using trainer_t = clipped<host, wide>;
        trainer_t::options const o{.max_norm = 0.01f, .batch = 24};
        trainer_t::run_options const r{.devices = 2, .stages = 2};
        allocation_hook::aligned_to_line = 0;
        trainer_t t(o, r);
        auto const plan = t.plan();
        for (int rank = 0; rank < t.devices(); ++rank) // and whether losses are finite
            CHECK(plan.map(plan.layout, 24, rank).squares.total() == 3 * sizeof(double) + cache_line);
        CHECK(allocation_hook::aligned_to_line == test_support::arenas_of(plan));
        auto const images = made_up(24);
        t.step(images);
        auto const before = allocation_hook::allocations.load();
        for (int k = 0; k < 3; ++k) t.step(images);
        CHECK(allocation_hook::allocations == before);
    }

    TEST_CASE("a norm that is no number makes weights that are none: nothing is clipped in silence") {
        CHECK(std::isnan(clipping_factor(std::nan(""), 1)));
        CHECK(clipping_factor(INFINITY, 1) == 0);
        CHECK(clipping_factor(0, 1) == 1);
        CHECK(clipping_factor(2, INFINITY) == 1);
        CHECK(clipping_factor(INFINITY, INFINITY) == 1); // measured, and nothing is scaled
        CHECK(clipping_factor(std::nan(""), INFINITY) == 1);
    }

    TEST_CASE("a largest norm that is none is refused") {
        using trainer_t = clipped<host, small>;
        for (float const wrong : {0.0f, -1.0f, NAN})
            CHECK_THROWS_WITH_AS((trainer_t{{.max_norm = wrong, .batch = 24}}),
                                 doctest::Contains("it must be above 0, or infinity"), usage_error);
    }

    TEST_CASE("the program measures between adding and updating, and the trace has it") {
        using trainer_t = clipped<host, small>;
        trainer_t t({.max_norm = 0.01f, .batch = 24}, {.devices = 2, .stages = 2, .trace = true});
        t.step(made_up(24));
        std::size_t measured = 0;
        for (auto const& task : t.traced()) measured += task.kind == task_kind::measure;
        CHECK(measured == 4);
        auto const list = t.program(0).list(1);
        CHECK(list[list.size() - 2].kind == task_kind::measure);
    }
}

} // namespace trainer_clip_norm_test
