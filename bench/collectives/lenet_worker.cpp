// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LeNet's training step on two processes, rank 0 of which is a worker of bench/harness.py: mpirun -n 2 lenet_worker
// BATCH

#include "../lenet/worker.hpp"
#include "../mpi_ranks.hpp"

#include <trireme/mpi.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

using namespace trireme;

int main(int argc, char** argv) try {
    bench::mpi_ranks ranks(argc, argv);
    auto const all = bench::made_up_images(bench::images);
    trainer<bench::lenet, cross_entropy, sgd, on<mesh<host, dp<2>>>, hold_weights<once>, transport<mpi>> trainer(
        {.learning_rate = 0.1f, .batch = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0});
    auto const train = [&](std::size_t epochs) {
        return bench::measure(trainer, all, [&](double, int done) { return done >= static_cast<int>(epochs); });
    };
    if (ranks.own == 0) {
        auto speed = train(ranks.agree(3));
        std::printf("ready Trireme over %s\n", mpi_runtime::library().c_str());
        std::fflush(stdout);
        for (double seconds = 0; std::scanf("%lf", &seconds) == 1;) {
            auto const epochs = std::max(1.0, seconds * speed / static_cast<double>(bench::images));
            speed = train(ranks.agree(static_cast<std::size_t>(epochs)));
            std::printf("%.17g\n", speed);
            std::fflush(stdout);
        }
        ranks.agree(0);
    } else {
        while (auto const epochs = ranks.agree(0)) train(epochs);
    }
} catch (std::exception const& e) {
    std::fprintf(stderr, "lenet_worker: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
