// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// NCCL's processes find one another through MPI.
#include <trireme/mpi.hpp>
#include <trireme/nccl.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <cmath>

using namespace trireme;

namespace {

using net = network<input<1, 28, 28>, flatten, linear<10>>;
using on_gpus = trainer<net, cross_entropy, sgd, on<mesh<gpu, dp<dynamic>>>, reduce_by<direct>, transport<nccl>>;

} // namespace

TEST_SUITE("mpi/nccl") {
    TEST_CASE("a trainer of as many GPUs as there are processes") {
        // [nccl_by_mpi]
        on_gpus::run_options const by_mpi{.processes = process_by_mpi()};
        // [/nccl_by_mpi]
        auto r = by_mpi;
        r.devices = r.processes.value.count;
        on_gpus t({.batch = 64}, r);
        auto const loss = t.step(test_networks::made_up(64)).loss;
        CHECK(std::isfinite(loss));
    }
}
