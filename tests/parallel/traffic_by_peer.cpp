// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The traffic of a plan by pairs of devices and by the axes of the mesh.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>
#include <support/wires.hpp>

#include <bit>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace parallel_traffic_by_peer_test {
using namespace trireme;
using test_wires::add_up;
using test_wires::same;

namespace {

using dense = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<24>, repeat<7, relu, linear<24>>, linear<10>>;
using anywhere = on<mesh<host, dp<dynamic>, pp<dynamic>>>;
template<class Network, class... Policies>
using spread = trainer<Network, cross_entropy, sgd_momentum, anywhere, Policies...>;
using anyhow = spread<dense, reduce_by<chosen_at_run_time>, reproducible<fixed_tree, dynamic>>;

template<class Trainer>
training_plan plan_of(typename Trainer::run_options const& where, std::size_t shards = 0, std::size_t batch = 64) {
    typename Trainer::options o{.batch = batch};
    if constexpr (std::is_same_v<Trainer, anyhow>) o.logical_shards = shards;
    return Trainer::plan(batch, Trainer::layout_of(o, where));
}

/// The plan adds up, and its devices move what it says.
template<class Trainer>
void check(typename Trainer::run_options const& where, std::size_t shards = 0, std::size_t batch = 64) {
    auto const plan = plan_of<Trainer>(where, shards, batch);
    CAPTURE(plan.layout.replicas);
    CAPTURE(plan.layout.stages);
    CAPTURE(plan.layout.schedule.name);
    CAPTURE(plan.layout.strategy.name);
    CAPTURE(shards);
    CHECK(add_up(plan));
    CHECK((plan.wire_along("dp").bytes != 0) == (plan.layout.replicas > 1));
    CHECK((plan.wire_along("pp").bytes != 0) == (plan.layout.stages > 1));
    typename Trainer::options o{.batch = batch};
    if constexpr (std::is_same_v<Trainer, anyhow>) o.logical_shards = shards;
    Trainer t(o, where);
    for (int k = 0; k < 2; ++k) t.step(test_networks::made_up(batch));
    for (int rank = 0; rank < plan.devices(); ++rank) {
        traffic twice;
        for (int k = 0; k < 2; ++k)
            for (int peer = 0; peer < plan.devices(); ++peer) twice += plan.wire(rank, peer);
        CHECK(same(t.wire(rank), twice));
    }
}

struct extents {
    int devices, stages;
};
constexpr extents meshes[] = {{1, 1}, {2, 1}, {5, 1}, {1, 2}, {1, 4}, {2, 2}, {3, 2}, {2, 4}};

bool refused(training_plan const& plan, int rank, int peer) {
    try {
        (void)plan.wire(rank, peer);
    } catch (usage_error const&) {
        return true;
    }
    return false;
}

} // namespace

TEST_SUITE("parallel/traffic_by_peer") {
    TEST_CASE("pairs add up to devices, and axes to all, whatever the layout; and so much is moved") {
        for (auto const& m : meshes) {
            check<anyhow>({.devices = m.devices, .stages = m.stages}, 7);
            for (strategy_choice const& s :
                 {strategy_choice(direct{}), strategy_choice(ring{}), strategy_choice(double_binary_tree{})})
                check<anyhow>({.devices = m.devices, .stages = m.stages, .micro_batches = 4, .strategy = s});
            check<spread<dense, hold_weights<once>>>({.devices = m.devices, .stages = m.stages, .micro_batches = 4});
            check<spread<dense, clip_norm>>({.devices = m.devices, .stages = m.stages, .micro_batches = 4});
            check<spread<dense, reduce_by<ring, bucket<4_KiB>>>>(
                {.devices = m.devices, .stages = m.stages, .micro_batches = 4});
        }
        for (schedule_choice const& s : {schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{}),
                                         schedule_choice(gpipe{}), schedule_choice(zero_bubble_h1{})})
            for (extents const& m : {extents{1, 2}, {1, 4}, {2, 2}})
                check<anyhow>({.devices = m.devices, .stages = m.stages, .micro_batches = 8, .schedule = s}, 0, 37);
    }

    TEST_CASE("a plan whose devices have traffic with themselves does not add up") {
        auto plan = plan_of<anyhow>({.devices = 2, .stages = 2, .micro_batches = 4});
        REQUIRE(add_up(plan));
        plan.moves = [](parallel_layout const& l, std::size_t, int rank, detail::traffic_by_peer& sum) {
            sum.add_roles(one_rank(l.role_of(rank)), {1, 8});
        };
        CHECK_FALSE(add_up(plan));
        plan.moves = [](parallel_layout const& l, std::size_t, int rank, detail::traffic_by_peer& sum) {
            sum.add_roles(one_rank(1 - l.role_of(rank)), {1, 8});
        };
        CHECK(add_up(plan));
    }

    TEST_CASE("strategies say who reads from whom: neighbours in a ring, partners of a cube, everybody") {
        auto const with = [](strategy_choice const& s, int rank, int peer) {
            return plan_of<anyhow>({.devices = 8, .strategy = s}).wire(rank, peer).bytes;
        };
        for (int rank = 0; rank < 8; ++rank)
            for (int peer = 0; peer < 8; ++peer) {
                CAPTURE(rank);
                CAPTURE(peer);
                CHECK((with(ring{}, rank, peer) != 0) == (peer == (rank + 7) % 8));
                CHECK((with(recursive_halving_doubling{}, rank, peer) != 0) ==
                      (std::popcount(static_cast<unsigned>(rank ^ peer)) == 1));
                CHECK((with(direct{}, rank, peer) != 0) == (rank != peer));
            }
    }

    TEST_CASE("stages of a step read what its program moves, from the device that has it") {
        for (schedule_choice const& s :
             {schedule_choice(one_f_one_b{}), schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})}) {
            auto const plan = plan_of<anyhow>({.devices = 2, .stages = 4, .micro_batches = 8, .schedule = s});
            auto const& l = plan.layout;
            for (int rank = 0; rank < plan.devices(); ++rank) {
                std::vector<traffic> read(4);
                with_step(l, rank, [&](step_program const& p) {
                    for (auto const& t : p.list(l.role_of(rank)))
                        for (int k = 0; k < t.transfers; ++k) {
                            auto const& m = t.moves[k];
                            auto const bytes = plan.crossing(l, plan.batch.samples, m.boundary);
                            if (!m.sends) read[m.role] += {1, m.gradient ? bytes.gradients : bytes.values};
                        }
                    return 0;
                });
                for (int role = 0; role < 4; ++role) {
                    if (role == l.role_of(rank)) continue;
                    CAPTURE(s.name);
                    CAPTURE(rank);
                    CAPTURE(role);
                    // and whether losses are finite: a number that each role reads from the one whose chunk it is
                    auto const all = plan.wire(rank, rank - l.role_of(rank) + role);
                    CHECK(all.bytes - read[static_cast<std::size_t>(role)].bytes <= 2 * sizeof(double));
                    CHECK(all.messages > read[static_cast<std::size_t>(role)].messages);
                    CHECK(plan.wire(rank, (rank + 4) % 8 - l.role_of(rank) + role).messages == 0); // another replica's
                }
                // gradients: those of its own stages, in the other replica
                traffic added;
                for (int chunk = 0; chunk < l.chunks(); ++chunk)
                    added += traffic_of(direct::all_reduce(2), l.replica_of(rank),
                                        plan.numbers(l, l.stage_of(rank, chunk)).elements, sizeof(float));
                CHECK(same(plan.wire(rank, (rank + 4) % 8), added));
            }
        }
    }

    TEST_CASE("a norm of all gradients goes along the stages, sums of layers along the replicas") {
        anyhow::run_options const where{.devices = 2, .stages = 2, .micro_batches = 4};
        auto const usual = plan_of<spread<dense>>({.devices = 2, .stages = 2, .micro_batches = 4}),
                   clips = plan_of<spread<dense, clip_norm>>({.devices = 2, .stages = 2, .micro_batches = 4});
        CHECK(clips.wire_along("pp").bytes > usual.wire_along("pp").bytes);
        CHECK(same(clips.wire_along("dp"), usual.wire_along("dp")));
        auto const later = plan_of<anyhow>(where, 0, 128); // twice the samples, and as many gradients
        CHECK(same(later.wire_along("dp"), usual.wire_along("dp")));
        CHECK(later.wire_along("pp").bytes > usual.wire_along("pp").bytes);

        using normed = trainer<test_networks::every_sum, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>>;
        auto const sums = normed::plan(64, normed::layout_of({.batch = 64}, {.devices = 3}));
        CHECK(add_up(sums));
        CHECK(sums.wire_along("pp").bytes == 0);
        bytes_t gradients = 0;
        for (int rank = 0; rank < 3; ++rank)
            gradients += sums.layout.traffic_of_rank(rank, sums.numbers(sums.layout, 0), sizeof(float)).bytes;
        CHECK(sums.wire_along("dp").bytes > gradients);
    }

    TEST_CASE("a constant expression, in a pipeline, too") {
        using t = trainer<dense, cross_entropy, sgd, on<mesh<host, dp<2>, pp<2>>>, pipeline<interleaved<2>, 4>>;
        constexpr auto plan = t::plan(batch{64});
        static_assert(plan.wire_along("dp").bytes + plan.wire_along("pp").bytes == plan.wire_bytes_per_step());
        static_assert(plan.wire(0, 1).bytes > 0 && plan.wire(0, 2).bytes > 0);
        static_assert(plan.wire(0, 3).messages == 0 && plan.wire(0, 0).messages == 0);
        CHECK(add_up(plan));
    }

    TEST_CASE("other devices and axes than there are, are refused") {
        auto const plan = plan_of<anyhow>({.devices = 2, .stages = 2, .micro_batches = 4});
        CHECK_FALSE(refused(plan, 3, 0));
        CHECK((refused(plan, 4, 0) && refused(plan, -1, 0) && refused(plan, 0, 4) && refused(plan, 0, -1)));
        CHECK_THROWS_AS((void)plan.wire_along("tp"), usage_error);
        CHECK_THROWS_AS((void)plan.wire_along(""), usage_error);
    }
}

} // namespace parallel_traffic_by_peer_test
