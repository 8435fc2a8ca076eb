// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strategies per tensor: which tensors travel together, what that costs, and that training is the same.
#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <array>
#include <string>

namespace parallel_tensor_rules_test {
using namespace trireme;
using test_networks::lenet;
using test_networks::made_up;

namespace {

static_assert(of_at_least<8>::takes({0, 0, {}, 8}) && !of_at_least<8>::takes({0, 0, {}, 7}));
static_assert(of_at_most<8>::takes({0, 0, {}, 8}) && !of_at_most<8>::takes({0, 0, {}, 9}));

template<int Devices, class... Reduce>
using lenet_by = trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<Devices>>>, reduce_by<Reduce...>>;

using mixed = lenet_by<4, direct, for_tensors<in_layer<0>, chain>, for_tensors<of_at_least<32_KiB>, ring>>;

struct expected_bucket {
    std::size_t begin, end;
    char const* strategy;
};

template<class Trainer, std::size_t N>
void check_buckets(expected_bucket const (&expected)[N]) {
    constexpr auto plan = Trainer::plan({64});
    REQUIRE(plan.layout.reductions() == N);
    for (std::size_t i = 0; i < N; ++i) {
        CAPTURE(i);
        auto const range = plan.layout.reduced_by(i, plan.arena_elements);
        CHECK(range.begin == expected[i].begin);
        CHECK(range.end == expected[i].end);
        CHECK(std::string(plan.layout.strategy_of(i).name) == expected[i].strategy);
    }
}

template<class Trainer>
std::vector<float> trained(test_networks::settings<Trainer> const& s = {{.batch = 32, .seed = 4}, {}}) {
    auto const images = made_up(32);
    Trainer t(s.training, s.run);
    for (int k = 0; k < 4; ++k) t.step(images);
    for (int r = 0; r < t.devices(); ++r) {
        auto const plan = t.plan();
        CHECK(t.wire(r).bytes == 4 * plan.wire(r).bytes);
        CHECK(t.wire(r).messages == 4 * plan.wire(r).messages);
        CHECK(test_networks::same_bits(test_networks::weights(t), test_networks::weights(t, r)));
    }
    return test_networks::weights(t);
}

} // namespace

TEST_SUITE("parallel/tensor_rules") {
    TEST_CASE("buckets are filled from the last layer backwards, and cut between tensors") {
        // tensors in bytes: 600, 24, 9600, 64, 192000, 480, 40320, 336, 3360, 40
        check_buckets<lenet_by<4, ring, bucket<40000>>>(
            {{0, 2572, "ring"}, {2572, 50692, "ring"}, {50692, 61712, "ring"}});
        check_buckets<lenet_by<4, ring, bucket<1_MiB>>>({{0, 61712, "ring"}});
        check_buckets<lenet_by<4, ring, bucket<3400>>>({{0, 156, "ring"}, // the last two fill it to the byte
                                                        {156, 2572, "ring"},
                                                        {2572, 50692, "ring"},
                                                        {50692, 60856, "ring"},
                                                        {60856, 61712, "ring"}});
        check_buckets<lenet_by<4, direct, for_tensors<in_layer<7>, ring>, bucket<1>>>({{0, 150, "direct"},
                                                                                       {150, 156, "direct"},
                                                                                       {156, 2556, "direct"},
                                                                                       {2556, 2572, "direct"},
                                                                                       {2572, 50572, "ring"},
                                                                                       {50572, 50692, "ring"},
                                                                                       {50692, 60772, "direct"},
                                                                                       {60772, 60856, "direct"},
                                                                                       {60856, 61696, "direct"},
                                                                                       {61696, 61712, "direct"}});
        CHECK(test_networks::same_bits(trained<lenet_by<2, direct, bucket<16_KiB>>>(), trained<lenet_by<2, direct>>()));
    }

    TEST_CASE("tensors side by side with one strategy travel together") {
        // conv 150 + 6, conv 2400 + 16, linear 48000 + 120, 10080 + 84, 840 + 10; the arena ends on a cache line
        check_buckets<mixed>({{0, 156, "chain"},
                              {156, 2572, "direct"},
                              {2572, 50572, "ring"},
                              {50572, 50692, "direct"},
                              {50692, 60772, "ring"},
                              {60772, 61712, "direct"}});
        check_buckets<lenet_by<2, ring, for_tensors<of_at_most<1_MiB>, direct>>>({{0, 61712, "direct"}});
        check_buckets<lenet_by<2, ring, for_tensors<in_layer<1>, direct>>>({{0, 61712, "ring"}}); // a sigmoid
        check_buckets<lenet_by<2, ring>>({{0, 61712, "ring"}});
    }

    TEST_CASE("the first rule that takes a tensor decides") {
        check_buckets<lenet_by<2, ring, for_tensors<in_layer<0, 3>, chain>, for_tensors<of_at_most<1_MiB>, direct>>>(
            {{0, 2572, "chain"}, {2572, 61712, "direct"}});
    }

    TEST_CASE("it trains: the wire is the plan's, all devices hold the same bits, direct buckets those of direct") {
        auto const plain = trained<lenet_by<4, direct>>();
        CHECK(test_networks::same_bits(trained<lenet_by<4, ring, for_tensors<of_at_least<0>, direct>>>(), plain));
        auto const some = trained<mixed>();
        REQUIRE(some.size() == plain.size());
        for (std::size_t i = 0; i < some.size(); ++i)
            CHECK(some[i] == doctest::Approx(plain[i]).epsilon(1e-4).scale(1.0));
    }

    TEST_CASE("with a strategy chosen at run time for the rest, and one chosen by size") {
        using open = trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>,
                             reduce_by<chosen_at_run_time, for_tensors<biases, best_of<chain, direct>>>>;
        auto const plain = trained<lenet_by<3, direct>>();
        auto const some = trained<open>({{.batch = 32, .seed = 4}, {.devices = 3, .strategy = bidirectional_ring{}}});
        for (std::size_t i = 0; i < some.size(); ++i)
            CHECK(some[i] == doctest::Approx(plain[i]).epsilon(1e-4).scale(1.0));
    }

    TEST_CASE("best_of is a strategy of a trainer, and its choice is in the plan") {
        using best = best_of<ring, direct, double_binary_tree>;
        using by_size = lenet_by<4, best>;
        constexpr auto plan = by_size::plan({64});
        constexpr auto bytes = plan.arena_elements * plan.element_bytes;
        static_assert(best::prices<collective::all_reduce>(4, bytes).name() == direct::name);
        static_assert(plan.layout.reduction(0, plan.arena_elements, 4).name == direct::name);
        CHECK(test_networks::same_bits(trained<by_size>(), trained<lenet_by<4, direct>>()));
    }
}

} // namespace parallel_tensor_rules_test
