// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/changing.hpp>

namespace rehearsed_augmented_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_changing;

TEST_SUITE("rehearsed/augmented") {
    TEST_CASE("accelerators see the images of the host's steps, bytes and numbers") {
        on_stage const how(timing::shuffled, 2);
        see_the_same_changes<rehearsal, std::uint8_t>();
        see_the_same_changes<rehearsal, float>();
    }
}

} // namespace rehearsed_augmented_test
