// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All-reduce of floats among processes by MPI, rank 0 of which is a worker of bench/harness.py: mpirun -n RANKS
// mpi_worker BYTES. MPI's own waits spin; while rank 0 waits for a line the others sleep until it sends them a signal.

#include "steps.hpp"

#include <trireme/device/host/memory.hpp>

#include <mpi.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace {

int rank, ranks;

/// Rank 0 returns the stays of all ranks, the others none.
std::vector<bench::stay> run(std::span<float> buffer, std::size_t steps) {
    std::vector<bench::stay> stays(steps), all(rank == 0 ? steps * static_cast<std::size_t>(ranks) : 0);
    bench::run_steps(rank, ranks, buffer, stays, [&] {
        MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    auto const count = static_cast<int>(steps * sizeof(bench::stay));
    MPI_Gather(stays.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, 0, MPI_COMM_WORLD);
    return all;
}

/// Every rank learns what rank 0 has, those that sleep too.
std::size_t agree(std::size_t steps, std::vector<int> const& processes, sigset_t const& call) {
    int signal = 0;
    if (rank != 0) sigwait(&call, &signal);
    for (std::size_t r = 1; rank == 0 && r < processes.size(); ++r) kill(processes[r], SIGUSR1);
    MPI_Bcast(&steps, sizeof steps, MPI_BYTE, 0, MPI_COMM_WORLD);
    return steps;
}

} // namespace

int main(int argc, char** argv) try {
    sigset_t call;
    sigemptyset(&call);
    sigaddset(&call, SIGUSR1);
    sigprocmask(SIG_BLOCK, &call, nullptr); // before MPI starts threads of its own
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::size_t const bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    trireme::host_memory const memory(bytes);
    std::span const buffer(static_cast<float*>(memory.data()), bytes / sizeof(float));
    std::vector<int> processes(static_cast<std::size_t>(ranks));
    int const own = getpid();
    MPI_Allgather(&own, 1, MPI_INT, processes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    if (rank == 0) {
        auto const name = "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + '.' + std::to_string(OMPI_MINOR_VERSION) +
                          '.' + std::to_string(OMPI_RELEASE_VERSION);
        bench::answer(name, ranks, [&](std::size_t steps) { return run(buffer, agree(steps, processes, call)); });
        agree(0, processes, call);
    } else {
        while (auto const steps = agree(0, processes, call)) run(buffer, steps);
    }
    MPI_Finalize();
} catch (std::exception const& e) {
    std::fprintf(stderr, "mpi_worker: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
