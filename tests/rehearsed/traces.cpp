// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Traces of accelerators, rehearsed on the host, with the exchanges that rows make inside of tasks.

#include <rehearsed/trainings.hpp>
#include <support/networks.hpp>
#include <support/traces.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#if __has_include(<cuda_runtime.h>) && __has_include(<nccl.h>)
#include <rehearsed/nccl_mock.hpp>
#include <rehearsed/nccl_on_stage.hpp>

#include <trireme/trainer/nccl_transport.hpp>
#endif

#include <algorithm>
#include <cstddef>

namespace rehearsed_traces_test {
using namespace trireme;
using namespace rehearsed;
using test_networks::made_up;

namespace {

using sums = network<input<1, 28, 28>, batch_norm<synchronised>, avg_pool2d<4>, conv2d<3, kernel<3>>,
                     residual<sequential<batch_norm<synchronised>, relu>>, flatten, linear<12>,
                     batch_norm<synchronised>, linear<10>>;

template<class Device, class... Policies>
void has_exchanges(bool shares_devices) {
    for (bool const eager : {false, true})
        for (int const devices : {1, 3}) {
            CAPTURE(eager);
            CAPTURE(devices);
            trainer<sums, cross_entropy, sgd, on<mesh<Device, dp<dynamic>>>, Policies...> t(
                {.batch = 24}, {.devices = devices, .trace = true, .share_devices = shares_devices, .eager = eager});
            for (std::size_t const n : {24u, 7u, 24u}) t.step(made_up(n));
            t.evaluate(made_up(40));
            CHECK(test_traces::trace_is_program(t, devices, 3) >= 1);
            auto const exchanges =
                std::ranges::count_if(t.traced(), [](timed_task const& task) { return task.exchange >= 0; });
            CHECK(exchanges == (devices == 1 ? 0 : 3 * devices * static_cast<int>(sums::exchanges.count)));
        }
}

} // namespace

TEST_SUITE("rehearsed/traces") {
    TEST_CASE("the trace of a run has the exchanges inside of tasks, as the expanded view of the program has them") {
        on_stage const as_told(timing::shuffled, 6);
        has_exchanges<rehearsal>(true);
    }

#if __has_include(<cuda_runtime.h>) && __has_include(<nccl.h>)
    TEST_CASE("so it has over NCCL") {
        nccl_on_stage const as_told(timing::shuffled, 7);
        has_exchanges<nccl_mock::rehearsal_with_nccl, transport<nccl>>(false);
    }
#else
    TEST_CASE("so it has over NCCL") { MESSAGE("left out: NCCL and CUDA have no headers here"); }
#endif
}

} // namespace rehearsed_traces_test
