// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All-reduce of floats among processes, rank 0 of which is a worker of bench/harness.py: mpirun -n RANKS mpi_worker
// BYTES [direct|ring|hierarchical windows|messages]. By MPI itself, or by one of our strategies over it. MPI's own
// waits spin; while rank 0 waits for a line the others sleep until it sends them a signal.

#include "steps.hpp"

#include <trireme/mpi.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace trireme;

int own_rank, ranks;

/// Rank 0 returns the stays of all ranks, the others none.
template<class AllReduce>
std::vector<bench::stay> run(std::span<float> buffer, std::size_t steps, AllReduce&& all_reduce) {
    std::vector<bench::stay> stays(steps), all(own_rank == 0 ? steps * static_cast<std::size_t>(ranks) : 0);
    bench::run_steps(own_rank, ranks, buffer, stays, all_reduce);
    auto const count = static_cast<int>(steps * sizeof(bench::stay));
    MPI_Gather(stays.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, 0, MPI_COMM_WORLD);
    return all;
}

/// Every rank learns what rank 0 has, those that sleep too.
std::size_t agree(std::size_t steps, std::vector<int> const& processes, sigset_t const& call) {
    int signal = 0;
    if (own_rank != 0) sigwait(&call, &signal);
    for (std::size_t r = 1; own_rank == 0 && r < processes.size(); ++r) kill(processes[r], SIGUSR1);
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
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::size_t const bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    std::vector<int> processes(static_cast<std::size_t>(ranks));
    int const own = getpid();
    MPI_Allgather(&own, 1, MPI_INT, processes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    auto const work = [&](std::string const& name, std::span<float> buffer, auto&& all_reduce) {
        if (own_rank == 0) {
            bench::answer(name, ranks,
                          [&](std::size_t steps) { return run(buffer, agree(steps, processes, call), all_reduce); });
            agree(0, processes, call);
        } else {
            while (auto const steps = agree(0, processes, call)) run(buffer, steps, all_reduce);
        }
    };
    if (argc <= 2) {
        host_memory const memory(bytes);
        std::span const buffer(static_cast<float*>(memory.data()), bytes / sizeof(float));
        work(mpi_runtime::library(), buffer, [&] {
            MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        });
    } else {
        bool const windows = argc > 3 && std::string_view(argv[3]) == "windows";
        mpi_group group({MPI_COMM_WORLD, windows ? mpi_windows::required : mpi_windows::off});
        auto& comm = group.own();
        std::span const buffer(static_cast<float*>(comm.allocate(bytes).data), bytes / sizeof(float));
        auto const by = [&](auto strategy) {
            work("Trireme over " + mpi_runtime::library(), buffer,
                 [&] { all_reduce<decltype(strategy)>(comm, buffer); });
        };
        std::string_view const name = argv[2];
        if (name == "direct")
            by(direct{});
        else if (name == "ring")
            by(ring{});
        else if (name == "hierarchical")
            by(hierarchical<direct, ring>{});
        else
            throw usage_error("no strategy " + std::string(name));
    }
    MPI_Finalize();
} catch (std::exception const& e) {
    std::fprintf(stderr, "mpi_worker: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
