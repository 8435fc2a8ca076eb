// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <collective/matrix.hpp>

#include <trireme/group/mesh.hpp>

#include <cstdint>

// Collectives in parts of any group that shares memory.
namespace test_collectives {

/// Every collective in all groups of a mesh at once, along each set of its axes; between them the whole group.
template<class C>
void require_parts(C& comm, mesh_value const& m) {
    for (std::uint8_t bits = 1; bits <= m.every().bits; ++bits) {
        axis_set along;
        along.bits = bits;
        auto const members = mesh_group{along}.members(m, comm.rank());
        C part(comm, bits, members);
        require(part.size() == m.size(along) && part.rank() == m.place(comm.rank(), along), "another part");
        require_usual_strategies(part);
        std::vector<int> mine{comm.rank()}, all(members.size());
        all_gather<direct>(part, mine, all);
        require(all == members, "others are in the part");
        barrier<dissemination>(comm);
    }
}

/// The first and the last stage of each replica.
template<class C>
void require_masked_part(C& comm, mesh_value const& m) {
    int const pp = m.find("pp"), last = m.axes[pp].extent - 1;
    mesh_group const ends{{pp}, 1u | std::uint64_t{1} << last};
    auto const members = ends.members(m, comm.rank());
    int const stage = m.at(comm.rank(), pp);
    require(members.empty() == (stage != 0 && stage != last), "a rank in between belongs to the ends");
    if (members.empty()) return;
    C part(comm, 1, members);
    std::vector<int> stages{stage}, all(2);
    all_gather<direct>(part, stages, all);
    require(all[0] == 0 && all[1] == last, "these are no ends");
}

} // namespace test_collectives
