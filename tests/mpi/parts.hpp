// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/mpi.hpp>

#include <collective/matrix.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

// Groups of some of the ranks, and the calls that a group of MPI refuses.
namespace test_mpi {

using namespace trireme;
using test_collectives::require;

/// A mesh of 2 x n/2: sums along each axis.
inline void axes(mpi_job const& job) {
    mpi_group g(job);
    levels const mesh(2, g.size() / 2);
    auto const pair = g.along(mesh, 0), column = g.along(mesh, 1, mpi_windows::off);
    require(pair->size() == 2 && pair->rank() == g.rank() % 2, "another pair");
    require(column->size() == g.size() / 2 && column->rank() == g.rank() / 2, "another column");
    std::vector<int> x(10, g.rank()), y = x;
    pair->run([&](mpi_communicator& c) { all_reduce<direct>(c, x); });
    column->run([&](mpi_communicator& c) { all_reduce<ring>(c, y); });
    int want = 0;
    for (int r = g.rank() % 2; r < g.size(); r += 2) want += r;
    require(x[9] == g.rank() / 2 * 4 + 1 && y[9] == want, "wrong sums");
    require(g.split(g.rank() == 0 ? 0 : -1, 0) == nullptr || g.rank() == 0, "a group of those who want none");
    try {
        g.along(levels(3, 7), 0);
        require(false, "a mesh of another size");
    } catch (usage_error const&) {}
    if (g.rank() == 0) std::printf("fine\n");
}

/// The call has to throw usage_error with the words.
template<class Call>
void require_refused(char const* words, Call&& call) {
    std::string said = "nothing";
    try {
        call();
    } catch (usage_error const& e) {
        said = e.what();
    }
    require(said.find(words) != std::string::npos, "not refused with '" + std::string(words) + "' but: " + said);
}

/// A mesh of dp<2> and pp<2> has these ranks along dp.
inline std::vector<int> members_along_dp(int rank) {
    mesh_value const mesh{{"dp", 2}, {"pp", 2}};
    axis_set along;
    along.bits = 1;
    return mesh_group{along}.members(mesh, rank);
}

/// Four ranks make parts along dp. The group refuses calls, and goes on.
inline void refused_in_parts(mpi_job const& job) {
    mpi_group g(job, 4, std::chrono::seconds(20));
    g.run([](mpi_communicator& c) {
        auto const members = members_along_dp(c.rank());
        mpi_communicator part(c, 1, members);
        std::vector<int> ranks{c.rank()}, all(2);
        all_gather<direct>(part, ranks, all);
        require(all == members, "others are in the part");

        require_refused("a part of a group was asked for an arena", [&] { (void)part.allocate(1); });
        auto const unusable = "a part of a group is made of the whole group's ranks";
        require_refused(unusable, [&] { mpi_communicator(part, 2, {part.rank()}); });
        require_refused(unusable, [&] { mpi_communicator(c, 0, members); });
        require_refused("that no other part has taken", [&] { mpi_communicator(c, 1, members); });
        require_refused(unusable, [&] { mpi_communicator(c, max_lanes, members); });
        require_refused(unusable, [&] { mpi_communicator(c, 1, {(c.rank() + 1) % c.size()}); });
        auto const own = c.allocate(sizeof(float));
        barrier<direct>(c);
        require(c.peer<float>(own, c.rank()) == own.data, "another arena than this rank's");
        int const far = (c.rank() + 2) % c.size(); // on the other machine, where there are two
        if (c.shares_memory())
            (void)c.peer<float>(own, far);
        else
            require_refused("in a group whose ranks send messages", [&] { (void)c.peer<float>(own, far); });
        require_refused("more tags, and this MPI has", [&] { (void)c.links(std::size_t{1} << 40, 0); });
        std::vector<float> x(10, 1.0f);
        all_reduce<ring>(part, x);
        require(x[9] == 2, "the sum of a part after what was refused");
        barrier<direct>(c);
    });
    if (g.rank() == 0) std::printf("fine\n");
}

/// MPI's own all-reduce refuses a part along dp, for MPI would add the numbers of all ranks.
inline void native_in_part(mpi_job const& job) {
    mpi_group g(job, 4, std::chrono::seconds(20));
    g.run([](mpi_communicator& c) {
        mpi_communicator part(c, 1, members_along_dp(c.rank()));
        std::vector<float> x(10, 1.0f);
        all_reduce<native>(part, x);
        throw std::runtime_error("the sum of a part is " + std::to_string(x[9]));
    });
}

/// MPI's own all-reduce refuses numbers that are neither float, double nor int32_t.
inline void native_of_other_numbers(mpi_job const& job) {
    mpi_group g(job, 0, std::chrono::seconds(20));
    g.run([](mpi_communicator& c) {
        std::vector<std::int64_t> x(10, 1);
        all_reduce<native>(c, x);
    });
}

/// An exception passes a sum that has begun, and the program goes on as if there were none.
inline void goes_on_after_exception(mpi_job const& job) {
    mpi_group g(job, 0, std::chrono::seconds(20));
    g.run([](mpi_communicator& c) {
        std::vector<float> x(10);
        try {
            auto const sum = start_all_reduce<ring>(c, x);
            throw std::runtime_error("the oar is broken");
        } catch (std::runtime_error const&) {}
        barrier<direct>(c);
    });
}

} // namespace test_mpi
