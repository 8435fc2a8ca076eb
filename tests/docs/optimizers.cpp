// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide's chapters on optimizers and clipping, as guide.cpp has that of the others.

#include <doctest/doctest.h>
#include <support/networks.hpp>
#include <trireme/trireme.hpp>

#include <cmath>

using namespace trireme;

namespace {
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, flatten, linear<10>>;

// [accumulated]
using with_norms = network<input<1, 28, 28>, conv2d<6, kernel<5>>, batch_norm<per_shard>, relu, flatten, linear<10>>;
using at_once = trainer<with_norms, cross_entropy, sgd_momentum, on<mesh<host, dp<2>>>>;
using in_parts = trainer<with_norms, cross_entropy, sgd_momentum, on<mesh<host, dp<2>>>, accumulate<4>>;

static_assert(3 * in_parts::plan({256}).memory().activations < at_once::plan({256}).memory().activations);
// [/accumulated]

// [recomputed]
using norm_block = residual<
    sequential<conv2d<6, kernel<3>, padding<1>>, batch_norm<>, relu, conv2d<6, kernel<3>, padding<1>>, batch_norm<>>>;
using deep = network<input<1, 28, 28>, conv2d<6, kernel<5>>, repeat<8, norm_block, relu>, flatten, linear<10>>;
using kept = trainer<deep, cross_entropy, sgd_momentum>;
using again = trainer<deep, cross_entropy, sgd_momentum, recompute<norm_block>>;

static_assert(2 * again::plan({256}).memory().activations < kept::plan({256}).memory().activations);
static_assert(again::plan({256}).flops(0).again < kept::plan({256}).flops(0).forward);
// [/recomputed]
} // namespace

TEST_SUITE("docs/optimizers") {
    TEST_CASE("optimizers") {
        auto const images = test_networks::made_up(64);
        // [rates]
        trainer<net, cross_entropy, adamw, on<mesh<host, dp<2>>>> t{
            {.learning_rate = 0.002f, .rate = cosine_rate{.steps = 1'000, .warm_up = 20}, .batch = 64}};
        t.step(images); // at a twentieth of learning_rate
        // [/rates]
        CHECK(t.current_options().learning_rate == 0.002f);
    }

    TEST_CASE("weight decay for some parameters") {
        auto const images = test_networks::made_up(64);
        // [undecayed]
        using regularised = trainer<net, cross_entropy, adamw, on<mesh<host, dp<2>>>, without_decay<biases, norms>>;
        regularised t{{.learning_rate = 0.002f, .weight_decay = 0.05f, .batch = 64}};

        static_assert(regularised::plan({64}).layout.updates.size() == 4); // weight, bias, weight, bias
        // [/undecayed]
        CHECK(std::isfinite(t.step(images).loss));
    }

    TEST_CASE("clipping the gradient") {
        auto const images = test_networks::made_up(64);
        // [clipped]
        using clipping =
            trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>>>, reproducible<fixed_tree, 8>, clip_norm>;
        clipping t{{.learning_rate = 0.5f, .max_norm = 0.25f, .batch = 64}};

        auto const first = t.step(images); // .gradient_norm: before it was clipped
        // [/clipped]
        CHECK(first.gradient_norm > 0.25);
        auto const list = t.program(0).list(0);
        CHECK(list[list.size() - 2].kind == task_kind::measure);
    }
}
