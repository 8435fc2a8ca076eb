// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>
#include <support/pipelines.hpp>
#include <support/sanitizers.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

// Trainings that drop values and compute them again.
namespace test_recomputing {
using namespace trireme;
using test_networks::conv3;
using test_networks::every_layer;
using test_networks::halving;
using test_networks::plain;
using test_networks::shard_norm;
using test_pipelines::any_pipeline;
using test_pipelines::train;

/// Statistics, random numbers, views and functions inside of blocks, and at their ends.
using some_block = sequential<conv3<4>, shard_norm, relu, dropout<percent<20>>, conv3<4>, sigmoid>;
using at_its_end = residual<sequential<conv3<4>, relu, conv3<4>, shard_norm, relu>>;
using ends_in_norm = sequential<conv3<4>, conv3<4>, shard_norm>;
using to_values = sequential<max_pool2d<2>, flatten, linear<20>, hyperbolic_tangent>;
using blocks = network<input<1, 28, 28>, avg_pool2d<4>, conv3<4>, shard_norm, relu, some_block, at_its_end,
                       repeat<2, at_its_end>, ends_in_norm, to_values, repeat<3, linear<20>, sigmoid>,
                       residual<sequential<linear<20>, relu>>, linear<10>>;

using any_blocks = recompute<some_block, at_its_end, ends_in_norm, to_values, repeat<3, linear<20>, sigmoid>>;
using any_of_every_layer = recompute<plain<shard_norm, 3>, halving<shard_norm, 4>>;

/// Trainings with a policy that drops values: the bits of those without it, with as many bytes on the wire, in less
/// memory. `look(make)` calls make(), which makes the trainer and returns its plan.
template<class Device, class Network, class Recompute, class... Policies, class Look>
void has_the_bits_of_none(std::vector<schedule_choice> const& schedules, std::vector<int> const& devices,
                          std::vector<int> const& stages, Look const& look) {
    using kept_t = any_pipeline<Device, Network, Policies...>;
    using again_t = any_pipeline<Device, Network, Recompute, Policies...>;
    for (std::size_t const shards : sanitized ? std::vector{8u} : std::vector{8u, 0u})
        for (int const n : devices)
            for (int const p : stages)
                for (auto const& schedule : schedules) {
                    if (p == 1 && &schedule != &schedules.front()) continue;
                    CAPTURE(shards);
                    CAPTURE(n);
                    CAPTURE(p);
                    CAPTURE(std::string(schedule.name));
                    typename kept_t::options const o{
                        .learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = shards};
                    kept_t kept(o, {.devices = n, .stages = p, .schedule = schedule});
                    auto const wanted = train(kept);
                    look([&](auto const& taken) {
                        again_t again(o, {.devices = n, .stages = p, .schedule = schedule});
                        taken(again);
                        CHECK(train(again) == wanted);
                        auto const plan = again.plan(), usual = kept.plan();
                        bytes_t bytes = 0, usually = 0;
                        for (int rank = 0; rank < plan.devices(); ++rank) {
                            bytes += plan.memory(rank).activations;
                            usually += usual.memory(rank).activations;
                        }
                        CHECK(bytes < usually);
                        CHECK(plan.wire_bytes_per_step() == usual.wire_bytes_per_step());
                        flops_t twice = 0;
                        for (int s = 0; s < p * schedule.chunks; ++s) {
                            twice += plan.flops(s).again;
                            CHECK(plan.flops(s).again <= usual.flops(s).forward);
                        }
                        CHECK(twice > 0);
                    });
                }
}

} // namespace test_recomputing
