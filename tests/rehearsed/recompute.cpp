// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Values that accelerators drop and compute again, rehearsed on the host.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/recomputing.hpp>

namespace rehearsed_recompute_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_recomputing;

namespace {

/// Devices take what the plan says, to the byte.
constexpr auto as_planned = [](auto const& make) {
    make([before = memory_taken()](auto const& t) { before.is_planned(t); });
};

/// One block of several kinds of layers, and what follows.
using block = residual<sequential<conv2d<4, kernel<1>>, shard_norm, relu, conv2d<3, kernel<1>>, shard_norm>>;
using small_blocks = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<1>>, relu, repeat<4, block>, sigmoid,
                             sequential<max_pool2d<2>, flatten, dropout<percent<20>>, linear<6>, relu>, linear<10>>;

} // namespace

TEST_SUITE("rehearsed/recompute") {
    TEST_CASE("what is computed again leaves the bits as they are, however late or shuffled work is done") {
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            has_the_bits_of_none<rehearsal, small_blocks, recompute<all>>({one_f_one_b{}, zero_bubble_h1{}}, {1, 2},
                                                                          {1, 2}, as_planned);
            has_the_bits_of_none<rehearsal, small_blocks, recompute<block>>({gpipe{}}, {1, 2}, {1, 2}, as_planned);
        }
    }

    TEST_CASE("and where values lie narrow") {
        on_stage const how(timing::shuffled, 5);
        has_the_bits_of_none<rehearsal, small_blocks, recompute<all>, precision<bf16>>({one_f_one_b{}}, {1, 2}, {1, 2},
                                                                                       as_planned);
    }
}

} // namespace rehearsed_recompute_test
