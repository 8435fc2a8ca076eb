// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/mesh.hpp>

#include <trireme/device/host/device.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/threads/communicator.hpp>

#include <doctest/doctest.h>

#include <type_traits>

namespace group_mesh_test {
namespace {

using namespace trireme;

static_assert(mesh<host>::data_extent == 1);
static_assert(mesh<host, dp<2>>::data_extent == 2 && mesh<host, dp<2>>::valid);
static_assert(mesh<host, dp<dynamic>>::valid);
static_assert(std::is_same_v<mesh<host, dp<2>>::device, host>);

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
    TEST_CASE("a mesh is a type") { CHECK(std::is_empty_v<mesh<host, dp<2>>>); }
}

} // namespace group_mesh_test
