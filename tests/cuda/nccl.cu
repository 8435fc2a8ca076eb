// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training in double whose gradients NCCL adds. A GPU is one rank of NCCL's, so there are as many as GPUs.
#include <trireme/nccl.hpp>

#include <cuda/patient.hpp>
#include <support/networks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

using namespace trireme;
using namespace test_networks;

namespace cuda_test {

template<class Way>
using trainer_by = trainer<softmax_regression, cross_entropy, sgd, on<mesh<gpu, dp<dynamic>>>,
                           reduce_by<chosen_at_run_time>, precision<f64>, transport<Way>>;

template<class Way>
auto trained(int devices) {
    using run_options = typename trainer_by<Way>::run_options;
    trainer_by<Way> t({.learning_rate = 0.05f, .batch = 64},
                      patient(run_options{.devices = devices, .strategy = ring{}}));
    for (auto const& epoch : t.fit({made_up(150), {}}, {.epochs = 2})) CHECK(std::isfinite(epoch.loss));
    return weights(t);
}

using three_layers = network<input<1, 28, 28>, flatten, linear<16>, relu, linear<16>, relu, linear<10>>;
template<class Way>
using stages_by = trainer<three_layers, cross_entropy, sgd, on<mesh<gpu, dp<dynamic>, pp<dynamic>>>,
                          reproducible<fixed_tree, 8>, precision<f64>, transport<Way>>;
using pipelined_on_gpus = stages_by<nccl>;

template<class Way>
auto trained_in_stages(int replicas, int stages) {
    using run_options = typename stages_by<Way>::run_options;
    stages_by<Way> t({.learning_rate = 0.05f, .batch = 64},
                     patient(run_options{.devices = replicas, .stages = stages}));
    for (int k = 0; k < 4; ++k) CHECK(std::isfinite(t.step(made_up(64, k)).loss));
    return weights(t);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("cuda/nccl") {
    TEST_CASE("NCCL and peers train alike") {
        for (int devices = 1; devices <= std::min(gpu::count(), 4); ++devices) {
            auto const by_nccl = trained<nccl>(devices), by_peers = trained<peer>(devices);
            REQUIRE(by_nccl.size() == by_peers.size());
            double difference = 0;
            for (std::size_t i = 0; i < by_nccl.size(); ++i)
                difference = std::max(difference, std::abs(by_nccl[i] - by_peers[i]));
            CHECK(difference < 1e-12);
        }
    }

    TEST_CASE("replicas of two stages have the bits that they have over peer access") {
        // [stages_over_nccl]
        pipelined_on_gpus::run_options const r{
            .devices = 2, .stages = 8, .processes = process_of{0, 2, "/shared/run-18"}};
        // [/stages_over_nccl]
        // [a_stage_per_process]
        pipelined_on_gpus::run_options const one_of_eight{
            .stages = 8, .processes = process_of{.index = 3, .count = 8, .id_file = "/shared/run-19"}};
        // [/a_stage_per_process]
        for (auto const& run : {r, one_of_eight}) // so few rows have no eight stages
            CHECK_THROWS_AS((pipelined_on_gpus{{.batch = 64}, run}), usage_error);
        for (int replicas = 1; 2 * replicas <= std::min(gpu::count(), 8); replicas *= 2)
            CHECK(trained_in_stages<nccl>(replicas, 2) == trained_in_stages<peer>(replicas, 2));
    }
}
