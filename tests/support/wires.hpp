// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/parallel/plan.hpp>

#include <cstddef>
#include <vector>

namespace test_wires {
using namespace trireme;

inline bool same(traffic const& a, traffic const& b) { return a.messages == b.messages && a.bytes == b.bytes; }

/// True if a plan's traffic adds up: that with each device to what a device has, and that along both axes to what all
/// have; and if each pair of devices has it along one axis, and none has it with itself.
inline bool add_up(training_plan const& plan) {
    auto const& l = plan.layout;
    traffic all, replicas, stages;
    for (int rank = 0; rank < plan.devices(); ++rank) {
        traffic of_rank;
        for (int peer = 0; peer < plan.devices(); ++peer) {
            auto const both = plan.wire(rank, peer);
            of_rank += both;
            if (l.role_of(rank) == l.role_of(peer)) replicas += both;
            if (l.replica_of(rank) == l.replica_of(peer)) stages += both;
        }
        if (!same(of_rank, plan.wire(rank)) || !same(plan.wire(rank, rank), {})) return false;
        all += of_rank;
    }
    traffic axes = plan.wire_along("dp");
    axes += plan.wire_along("pp");
    return same(replicas, plan.wire_along("dp")) && same(stages, plan.wire_along("pp")) && same(all, axes) &&
           all.bytes == plan.wire_bytes_per_step();
}

/// A step on `full`, a whole batch, reads as much from others as the plan says: ranks of this process, from `first` on.
template<class Trainer, class Samples>
bool reads_as_planned(Trainer& t, Samples const& full, int first, int ranks) {
    std::vector<traffic> before;
    for (int rank = first; rank < first + ranks; ++rank) before.push_back(t.wire(rank));
    t.step(full);
    for (int rank = first; rank < first + ranks; ++rank)
        if (!same(t.wire(rank) - before[static_cast<std::size_t>(rank - first)], t.plan().wire(rank))) return false;
    return true;
}

} // namespace test_wires
