// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../../examples/resnet18.hpp"

#include <doctest/doctest.h>

namespace trainer_resnet18_test {
using namespace trireme;

TEST_SUITE("trainer/resnet18") {
    TEST_CASE("the network is that of the book") {
        using net = resnet18<batch_norm<per_shard>>;
        static_assert(net::parameters == 11'175'818); // as PyTorch counts those of the book's module
        static_assert(net::buffers == 2 * (64 * 5 + 128 * 4 + 256 * 4 + 512 * 4));
        static_assert(net::output_extents::shape == make_shape(10));
        // memory and traffic are constants
        using fixed = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>>;
        static_assert(fixed::plan(batch{256}).wire_bytes_per_step() >= 2 * 4 * net::parameters);
        static_assert(fixed::plan(batch{256}).bytes_per_device() < 1_GiB);
        CHECK(network_table<net>().find("11,175,818") != std::string::npos);
    }
}

} // namespace trainer_resnet18_test
