// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All-reduce of floats among processes, rank 0 of which is a worker of bench/harness.py: mpirun -n RANKS mpi_worker
// BYTES [direct|ring|hierarchical windows|messages]. By MPI itself, or by one of our strategies over it.

#include "../mpi_ranks.hpp"
#include "steps.hpp"

#include <trireme/mpi.hpp>

#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace trireme;

/// Rank 0 returns the stays of all ranks, the others none.
template<class AllReduce>
std::vector<bench::stay> run(bench::mpi_ranks const& ranks, std::span<float> buffer, std::size_t steps,
                             AllReduce&& all_reduce) {
    std::vector<bench::stay> stays(steps), all(ranks.own == 0 ? steps * static_cast<std::size_t>(ranks.count) : 0);
    bench::run_steps(ranks.own, ranks.count, buffer, stays, all_reduce);
    auto const count = static_cast<int>(steps * sizeof(bench::stay));
    MPI_Gather(stays.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, 0, MPI_COMM_WORLD);
    return all;
}

/// Answers the harness on rank 0; the others do as that does.
template<class AllReduce>
void work(bench::mpi_ranks& ranks, std::string const& name, std::span<float> buffer, AllReduce&& all_reduce) {
    if (ranks.own == 0) {
        bench::answer(name, ranks.count,
                      [&](std::size_t steps) { return run(ranks, buffer, ranks.agree(steps), all_reduce); });
        ranks.agree(0);
    } else {
        while (auto const steps = ranks.agree(0)) run(ranks, buffer, steps, all_reduce);
    }
}

template<class Strategy>
void work_by(bench::mpi_ranks& ranks, std::size_t bytes, mpi_windows windows) {
    mpi_group group({MPI_COMM_WORLD, windows});
    auto& comm = group.own();
    std::span const buffer(static_cast<float*>(comm.allocate(bytes).data), bytes / sizeof(float));
    work(ranks, "Trireme over " + mpi_runtime::library(), buffer, [&] { all_reduce<Strategy>(comm, buffer); });
}

} // namespace

int main(int argc, char** argv) try {
    bench::mpi_ranks ranks(argc, argv);
    std::size_t const bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    std::string_view const name = argc > 2 ? argv[2] : "";
    auto const windows = argc > 3 && std::string_view(argv[3]) == "windows" ? mpi_windows::required : mpi_windows::off;
    if (name == "direct")
        work_by<direct>(ranks, bytes, windows);
    else if (name == "ring")
        work_by<ring>(ranks, bytes, windows);
    else if (name == "hierarchical")
        work_by<hierarchical<direct, ring>>(ranks, bytes, windows);
    else {
        host_memory const memory(bytes);
        std::span const buffer(static_cast<float*>(memory.data()), bytes / sizeof(float));
        work(ranks, mpi_runtime::library(), buffer, [&] {
            MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        });
    }
} catch (std::exception const& e) {
    std::fprintf(stderr, "mpi_worker: %s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
