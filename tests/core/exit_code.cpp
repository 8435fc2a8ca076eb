// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/exit_code.hpp>

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>

namespace core_exit_code_test {
namespace {

using namespace trireme;

} // namespace

TEST_SUITE("core/exit_code") {
    TEST_CASE("an exit code says who can mend what is wrong") {
        CHECK(exit_code::of(usage_error("--batch 0")) == exit_code::usage);
        CHECK(exit_code::of(data_error("images.idx", "is empty")) == exit_code::usage);
        CHECK(exit_code::of(launch_error("two programs")) == exit_code::launch);
        CHECK(exit_code::of(deadline_error(1, "late")) == exit_code::failure);
        CHECK(exit_code::of(peer_lost_error(1, 2, "gone")) == exit_code::failure);
        CHECK(exit_code::of(divergence_error(3, 0, true)) == exit_code::failure);
        CHECK(exit_code::of(std::bad_alloc()) == exit_code::failure);
    }
}

} // namespace core_exit_code_test
