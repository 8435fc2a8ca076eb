// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// LeNet for processes that MPI joins: the same program, in every process of the job. Rank 0 speaks, and writes the log.

#include <trireme/mpi.hpp>

#include "lenet.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

mpi_job job_of(lenet_flags const& flags) {
    mpi_job job;
    job.windows = flags.windows == "off"        ? mpi_windows::off
                  : flags.windows == "required" ? mpi_windows::required
                                                : mpi_windows::automatic;
    job.ranks_per_machine = flags.ranks_per_machine;
    return job;
}

using lenet_over_mpi = lenet_trainer<mesh<host, dp<dynamic>>, transport<mpi>>;
using lenet_in_stages = lenet_trainer<mesh<host, dp<dynamic>, pp<dynamic>>, transport<mpi>>;
/// Found by run_options_for.
void choose_processes(auto& run_options, lenet_flags const& flags) { run_options.processes = job_of(flags); }

int run_lenet_over_mpi(lenet_flags const& given) {
    auto flags = given;
    auto const by = launch::discover();
    std::chrono::duration<double> const limit(flags.deadline);
    if (flags.devices == 0) flags.devices = std::max(1, mpi_group(job_of(flags), 0, limit).size() / flags.stages);
    {
        mpi_group const group(job_of(flags), flags.devices * flags.stages, limit);
        if (group.rank() != 0) {
            if (std::freopen("/dev/null", "w", stdout) == nullptr) return exit_code::failure;
            flags.log.clear();
            if (!flags.trace.empty()) flags.trace += '.' + std::to_string(group.rank());
        }
        std::printf("launch            %s\n", by.source.c_str());
        std::printf("processes         %s\n", group.describe().c_str());
        if (group.size() == 1) std::printf("                  for more: mpirun -n 2 PROGRAM --transport mpi\n");
    }
    bool const whole = flags.stages == 1 && flags.micro_batches == 0;
    return whole ? run_lenet<lenet_over_mpi>(flags) : run_lenet<lenet_in_stages>(flags);
}
