// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/mpi.hpp>

#include <csignal>
#include <cstddef>
#include <vector>

#include <unistd.h>

namespace bench {

/// The ranks of a worker that is started by mpirun. Rank 0 talks with the harness; MPI's own waits spin, so the others
/// sleep meanwhile until it sends them a signal.
class mpi_ranks {
public:
    mpi_ranks(int& argc, char**& argv) {
        sigemptyset(&call_);
        sigaddset(&call_, SIGUSR1);
        sigprocmask(SIG_BLOCK, &call_, nullptr); // before MPI starts threads of its own
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &own);
        MPI_Comm_size(MPI_COMM_WORLD, &count);
        processes_.resize(static_cast<std::size_t>(count));
        int const process = getpid();
        MPI_Allgather(&process, 1, MPI_INT, processes_.data(), 1, MPI_INT, MPI_COMM_WORLD);
    }
    mpi_ranks(mpi_ranks const&) = delete;
    mpi_ranks& operator=(mpi_ranks const&) = delete;
    ~mpi_ranks() { MPI_Finalize(); }

    /// Every rank learns what rank 0 has, those that sleep too; 0 means the end.
    std::size_t agree(std::size_t number) {
        int signal = 0;
        if (own != 0) sigwait(&call_, &signal);
        for (std::size_t r = 1; own == 0 && r < processes_.size(); ++r) kill(processes_[r], SIGUSR1);
        MPI_Bcast(&number, sizeof number, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD); // before another signal: two at once would be one
        return number;
    }

    int own = 0;
    int count = 1;

private:
    sigset_t call_;
    std::vector<int> processes_;
};

} // namespace bench
