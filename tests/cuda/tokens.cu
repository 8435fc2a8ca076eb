// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A decoder of tokens on GPUs, beside the host's training.

#include <cuda/patient.hpp>
#include <support/decoders.hpp>

#include <trireme/cuda.hpp>

#include <doctest/doctest.h>

#include <cstddef>

using namespace test_decoders;

namespace cuda_tokens_test {
namespace {

template<class Network, class... Policies>
auto on_gpus(bool eager) {
    using t = learner<Network, on<mesh<gpu, dp<2>>>, Policies...>;
    t trainer({.learning_rate = 1e-2f, .batch = 6},
              cuda_test::patient(typename t::run_options{.share_devices = true, .eager = eager}));
    return trained(trainer);
}

template<class Network, class... Policies>
void learns_as_the_host(double apart) {
    learner<Network, on<mesh<host, dp<2>>>> on_host{{.learning_rate = 1e-2f, .batch = 6}};
    auto const wanted = trained(on_host), as_graph = on_gpus<Network, Policies...>(false);
    for (std::size_t i = 0; i + 1 < wanted.first.size(); ++i)
        CHECK(as_graph.first[i] == doctest::Approx(wanted.first[i]).epsilon(apart));
    CHECK(on_gpus<Network, Policies...>(true) == as_graph);
}

} // namespace

TEST_SUITE("cuda/tokens in training") {
    TEST_CASE("a decoder learns as on the host, by libraries and in bf16, with the same bits each time") {
        learns_as_the_host<decoder, kernels<cuda_library_kernels>>(1e-4);
        learns_as_the_host<tied_decoder, precision<bf16>>(2e-2);
    }
    TEST_CASE("so do dropped weights, other norms and linear layers without a bias, by block programs") {
        learns_as_the_host<with_options, kernels<cuda_block_kernels>>(1e-4);
    }
}

} // namespace cuda_tokens_test
