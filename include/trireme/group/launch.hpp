// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

namespace trireme {

/// A launch as a process knows it before it has spoken with another one: from flags, or from what
/// launchers leave in the environment.
struct launch {
    int rank = 0;                                    ///< number of the process, counted from 0
    int size = 1;                                    ///< processes of the launch
    int local_rank = 0;                              ///< number of the process among those of its machine
    int local_size = 1;                              ///< processes of its machine; 0 if nobody says
    char const* launcher = "none";                   ///< name of the launcher, "mpirun of Open MPI"
    std::string source = "no launcher: one process"; ///< the variables, or flags, that said so

    /// Reads the environment: torchrun's variables, Open MPI's, PMI's (MPICH, Intel MPI), SLURM's, in this order. A set
    /// whose rank and size are there counts; SLURM's only inside of srun, for a shell in an allocation has them, too.
    /// Throws launch_error for a value that is no number, or a rank outside of the size.
    static launch discover() {
        static constexpr struct {
            char const *launcher, *rank, *size, *local_rank, *local_size;
        } known[] = {
            {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
            {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
            {"mpiexec of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
            {"srun of SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"},
        };
        for (auto const& k : known) {
            if (std::getenv(k.rank) == nullptr || std::getenv(k.size) == nullptr) continue;
            if (std::strncmp(k.rank, "SLURM", 5) == 0 && !inside_srun()) continue;
            launch l;
            l.launcher = k.launcher;
            l.rank = number(k.rank);
            l.size = number(k.size);
            l.local_rank = std::getenv(k.local_rank) == nullptr ? 0 : number(k.local_rank);
            // "4(x2)" in SLURM: as many on each of two machines; "4,3" does not say which is this one
            auto const* const here = std::getenv(k.local_size);
            l.local_size = here == nullptr || std::strchr(here, ',') != nullptr ? 0 : number(k.local_size);
            l.source = std::string(k.rank) + " = " + std::to_string(l.rank) + ", " + k.size + " = " +
                       std::to_string(l.size) + " of " + k.launcher;
            if (l.size < 1 || l.rank < 0 || l.rank >= l.size)
                throw launch_error(l.source + ": a rank is a number from 0 to the size less 1; start the program by " +
                                   k.launcher + ", or unset these variables");
            return l;
        }
        return {};
    }

    /// For a program's own flags, which count before the environment.
    static launch from_flags(int rank, int size, int local_rank = 0) {
        launch l;
        l.launcher = "flags";
        l.rank = rank;
        l.size = size;
        l.local_rank = local_rank;
        l.local_size = 0;
        l.source = "flags: rank " + std::to_string(rank) + " of " + std::to_string(size);
        if (size < 1 || rank < 0 || rank >= size)
            throw launch_error(l.source + ": a rank is a number from 0 to the size less 1");
        return l;
    }

    bool launched() const noexcept { return std::strcmp(launcher, "none") != 0; }

private:
    /// A batch script and an interactive shell have the variables of the whole allocation, and are not tasks of it.
    static bool inside_srun() noexcept {
        auto const* const step = std::getenv("SLURM_STEP_ID");
        auto const* const job = std::getenv("SLURM_JOB_NAME");
        return step != nullptr &&
               (job == nullptr || (std::strcmp(job, "bash") != 0 && std::strcmp(job, "interactive") != 0));
    }

    static int number(char const* variable) {
        std::string_view const text = std::getenv(variable);
        int n = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
        bool const repeated = end != text.data() + text.size() && *end == '(';
        if (error != std::errc{} || (end != text.data() + text.size() && !repeated))
            throw launch_error(std::string(variable) + " = \"" + std::string(text) +
                               "\" in the environment is not a whole number: unset it, or start the program by the "
                               "launcher whose variable it is");
        return n;
    }
};

} // namespace trireme
