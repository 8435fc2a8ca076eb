// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/accumulation.hpp>

namespace rehearsed_accumulation_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_accumulation;

TEST_SUITE("rehearsed/accumulation") {
    TEST_CASE("parts of a batch add up to the whole, however late or shuffled work is done") {
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            for (int const devices : {1, 2}) parts_add_up_to_the_whole<rehearsal, tiny>(devices);
        }
    }

    TEST_CASE("a part has the statistics, the random numbers and the memory of a device's share") {
        on_stage const as_usual;
        a_part_is_a_devices_share<rehearsal>();
    }

    TEST_CASE("a pipeline runs its schedule as often, with one device's bits") {
        on_stage const how(timing::shuffled, 5);
        passes_have_one_devices_bits<rehearsal, tiny>(1, 2);
    }
}

} // namespace rehearsed_accumulation_test
