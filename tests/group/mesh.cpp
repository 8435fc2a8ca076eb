// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/mesh.hpp>

#include <trireme/device/host/device.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/threads/communicator.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace group_mesh_test {
namespace {

using namespace trireme;

static_assert(mesh<host>::data_extent == 1);
static_assert(mesh<host, dp<2>>::data_extent == 2 && mesh<host, dp<2>>::valid);
static_assert(mesh<host, dp<dynamic>>::valid);
static_assert(std::is_same_v<mesh<host, dp<2>>::device, host>);
static_assert(mesh<host, dp<2>, pp<3>>::value.size() == 6 && mesh<host, dp<2>, pp<3>>::pipeline_extent == 3);
static_assert(mesh<host, pp<3>>::data_extent == 1 && mesh<host, dp<2>>::pipeline_extent == 1);

/// An axis of a user's own.
template<int N>
struct islands {
    static constexpr char const* name = "islands";
    static constexpr int extent = N;
};
static_assert(mesh<host, islands<2>, dp<2>, pp<3>>::value.size() == 12);

// Threads can read each other's arenas; what cannot is no pull_communicator.
struct mute {
    int rank() const;
    int size() const;
    arena allocate(std::size_t);
    traffic pulled() const;
};
static_assert(pull_communicator<threads::communicator>);
static_assert(communicator<mute> && !pull_communicator<mute>);

} // namespace

TEST_SUITE("group/mesh") {
    TEST_CASE("a mesh is a value, too: coordinates, and groups along sets of axes") {
        constexpr mesh_value m{{"dp", 2}, {"pp", 3}, {"tp", 2}};
        static_assert(m.size() == 12 && m.find("tp") == 2 && m.find("sp") == -1 && m.extent("sp") == 1);
        int const dp_axis = 0, pp_axis = 1, tp_axis = 2;
        for (int rank = 0; rank < m.size(); ++rank) {
            int const d = rank / 6, p = rank / 2 % 3, t = rank % 2; // neighbours along the last axis are neighbours
            CHECK((m.at(rank, dp_axis) == d && m.at(rank, pp_axis) == p && m.at(rank, tp_axis) == t));
            for (std::uint8_t bits = 0; bits < 8; ++bits) {
                axis_set along;
                along.bits = bits;
                CHECK(m.member(rank, along, m.place(rank, along)) == rank);
                std::vector<int> expected;
                for (int other = 0; other < m.size(); ++other) {
                    bool same = true;
                    for (int a = 0; a < m.count; ++a) same = same && (along.has(a) || m.at(other, a) == m.at(rank, a));
                    if (same) expected.push_back(other);
                }
                CHECK(mesh_group{along}.members(m, rank) == expected);
            }
        }
        CHECK(mesh_group{{pp_axis}, 0b101}.members(m, 0) == std::vector<int>{0, 4});
        CHECK(mesh_group{{pp_axis}, 0b101}.members(m, 2).empty());
        CHECK(mesh_group{{dp_axis, pp_axis}, 0b010}.members(m, 3) == std::vector<int>{3, 9});
        constexpr mesh_value eight{{"a", 2}, {"b", 1}, {"c", 2}, {"d", 1}, {"e", 3}, {"f", 1}, {"g", 1}, {"h", 2}};
        static_assert(eight.size() == 24 && eight.at(23, 7) == 1 && eight.size({0, 4}) == 6);
        CHECK_THROWS_AS(
            (mesh_value{{"a", 2}, {"b", 1}, {"c", 2}, {"d", 1}, {"e", 3}, {"f", 1}, {"g", 1}, {"h", 2}, {}}),
            usage_error);
    }

    TEST_CASE("a mesh is a type") { CHECK(std::is_empty_v<mesh<host, dp<2>>>); }
}

} // namespace group_mesh_test
