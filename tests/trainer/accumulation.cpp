// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/accumulation.hpp>
#include <support/networks.hpp>

namespace trainer_accumulation_test {
using namespace trireme;
using namespace test_accumulation;
using test_networks::made_up;
using test_networks::same_bits;
using test_networks::small;

TEST_SUITE("trainer/accumulation") {
    TEST_CASE("parts of a batch add up to the whole") {
        for (int const devices : {1, 2, 3}) parts_add_up_to_the_whole<host, small>(devices);
    }

    TEST_CASE("a part has the statistics, the random numbers and the memory of a device's share") {
        a_part_is_a_devices_share<host>();
    }

    TEST_CASE("granules of one part after the other are those of the whole, and so are the bits") {
        using whole_t = trainer<small, cross_entropy, sgd, on<mesh<host, dp<1>>>>;
        using parts_t = trainer<small, cross_entropy, sgd, on<mesh<host, dp<1>>>, accumulate<4>>;
        whole_t whole({.batch = 64});
        parts_t parts({.batch = 64});
        for (int k = 0; k < 3; ++k) whole.step(made_up(64)), parts.step(made_up(64));
        CHECK(same_bits(whole.gather_parameters(), parts.gather_parameters()));
        CHECK(parts.program(0).shape.micro_batches == 4);
    }

    TEST_CASE("a pipeline runs its schedule as often, with one device's bits") {
        passes_have_one_devices_bits<host, test_pipelines::dense>(1, 2);
        passes_have_one_devices_bits<host, test_networks::every_layer>(2, 2);
    }

    TEST_CASE("weights that are held once are updated when all parts are there") {
        using apart_t = trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<3>>>, accumulate<2>>;
        using once_t =
            trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<3>>>, accumulate<2>, hold_weights<once>>;
        apart_t apart({.batch = 48});
        once_t together({.batch = 48});
        for (std::size_t const n : {48u, 29u}) apart.step(made_up(n)), together.step(made_up(n));
        CHECK(same_bits(apart.gather_parameters(), together.gather_parameters()));
    }

    TEST_CASE("one stage takes all shards in one pass, whatever their number") {
        using t = trainer<small, cross_entropy, sgd, on<mesh<host, dp<1>, pp<dynamic>>>, accumulate<3>,
                          reproducible<fixed_tree, 8>>;
        CHECK_NOTHROW(t::check({.batch = 32}, {.stages = 1}));
        CHECK_THROWS_AS(t::check({.batch = 32}, {.stages = 2}), usage_error);
    }

    TEST_CASE("micro-batches that the passes do not divide are refused, with what would fit") {
        using t = trainer<small, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>, accumulate<3>>;
        CHECK(t::layout_of({}, {.devices = 1, .stages = 2}).micro_batches == 24);
        CHECK_THROWS_WITH_AS(t::check({}, {.devices = 1, .stages = 2, .micro_batches = 8}),
                             "micro_batches = 8 with accumulate<3>: the schedule runs 3 times, each over as many "
                             "micro-batches; take 9",
                             usage_error);
        CHECK_NOTHROW(t::check({}, {.devices = 1, .stages = 2, .micro_batches = 9}));
        using repeats = trainer<small, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>, accumulate<3>,
                                reproducible<fixed_tree, dynamic>>;
        CHECK_THROWS_WITH_AS(repeats::check({.batch = 8192, .logical_shards = 4096}, {.devices = 2, .stages = 2}),
                             doctest::Contains("set logical_shards to 4092"), usage_error);
        for (std::size_t const shards : {7u, 8u, 10u}) // replicas have 3 and 4, 4 each, or 5 each
            CHECK_THROWS_WITH_AS(repeats::check({.batch = 32, .logical_shards = shards}, {.devices = 2, .stages = 2}),
                                 doctest::Contains("with accumulate<3>: the schedule runs 3 times, each over as many "
                                                   "micro-batches; set logical_shards to 12"),
                                 usage_error);
        CHECK_NOTHROW(repeats::check({.batch = 32, .logical_shards = 12}, {.devices = 2, .stages = 2}));
        using norms = trainer<with_norms, cross_entropy, sgd, accumulate<8>>;
        using one_value =
            trainer<network<input<4>, linear<3>, batch_norm<per_shard>, linear<2>>, cross_entropy, sgd, accumulate<8>>;
        CHECK_NOTHROW(norms::check({.batch = 8}));
        CHECK_THROWS_WITH(one_value::check({.batch = 8}),
                          doctest::Contains("batch = 8 on 8 micro-batches leaves 1 for micro-batch 0"));
    }
}

} // namespace trainer_accumulation_test
