// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/launch.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

namespace group_launch_test {
using namespace trireme;

namespace {

/// Variables that are there for the time of a test, and no others that a launcher leaves.
class variables {
public:
    variables(std::initializer_list<std::pair<char const*, char const*>> set) {
        for (auto const* const name : known) unsetenv(name);
        for (auto const& [name, value] : set) setenv(name, value, 1);
    }
    variables(variables const&) = delete;
    variables& operator=(variables const&) = delete;
    ~variables() {
        for (auto const* const name : known) unsetenv(name);
    }

private:
    static constexpr char const* known[] = {"RANK",
                                            "WORLD_SIZE",
                                            "LOCAL_RANK",
                                            "LOCAL_WORLD_SIZE",
                                            "OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE",
                                            "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                                            "PMI_RANK",
                                            "PMI_SIZE",
                                            "MPI_LOCALRANKID",
                                            "MPI_LOCALNRANKS",
                                            "SLURM_PROCID",
                                            "SLURM_NTASKS",
                                            "SLURM_LOCALID",
                                            "SLURM_TASKS_PER_NODE",
                                            "SLURM_STEP_ID",
                                            "SLURM_JOB_NAME"};
};

void expect(launch const& l, int rank, int size, int local_rank, int local_size, char const* launcher) {
    CHECK(l.rank == rank);
    CHECK(l.size == size);
    CHECK(l.local_rank == local_rank);
    CHECK(l.local_size == local_size);
    CHECK(std::string(l.launcher) == launcher);
}

} // namespace

TEST_SUITE("group/launch") {
    TEST_CASE("nothing is one process") {
        variables const none{};
        auto const l = launch::discover();
        expect(l, 0, 1, 0, 1, "none");
        CHECK(!l.launched());
    }

    TEST_CASE("each launcher is known by its variables") {
        {
            variables const v{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
            auto const l = launch::discover();
            expect(l, 5, 8, 1, 4, "torchrun");
            CHECK(l.source == "RANK = 5, WORLD_SIZE = 8 of torchrun");
            CHECK(l.launched());
        }
        {
            variables const v{{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "3"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
            expect(launch::discover(), 2, 3, 2, 3, "mpirun of Open MPI");
        }
        {
            variables const v{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
            expect(launch::discover(), 1, 2, 0, 0, "mpiexec of MPICH or Intel MPI");
        }
        {
            variables const v{{"SLURM_PROCID", "3"},
                              {"SLURM_NTASKS", "4"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_TASKS_PER_NODE", "2(x2)"},
                              {"SLURM_STEP_ID", "0"}};
            expect(launch::discover(), 3, 4, 1, 2, "srun of SLURM");
        }
        for (auto const* const uneven : {"4,3", "2(x3),1", "1,4(x2)"}) { // which of them this machine is, nobody says
            CAPTURE(uneven);
            variables const v{{"SLURM_PROCID", "5"},
                              {"SLURM_NTASKS", "7"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_TASKS_PER_NODE", uneven},
                              {"SLURM_STEP_ID", "0"}};
            expect(launch::discover(), 5, 7, 1, 0, "srun of SLURM");
        }
    }

    TEST_CASE("a shell in an allocation is no task of it") {
        {
            variables const script{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
            CHECK(!launch::discover().launched());
        }
        {
            for (auto const* const job : {"bash", "interactive"}) {
                variables const shell{
                    {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NAME", job}};
                CHECK(!launch::discover().launched());
            }
        }
    }

    TEST_CASE("the first that is complete counts") {
        variables const v{{"RANK", "1"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
        expect(launch::discover(), 2, 4, 0, 0, "mpirun of Open MPI");
    }

    TEST_CASE("flags count before it; numbers that cannot be are refused with their names") {
        expect(launch::from_flags(1, 2, 1), 1, 2, 1, 0, "flags");
        CHECK_THROWS_AS(launch::from_flags(2, 2), launch_error);
        for (auto const* const wrong : {"x", "", "1x", "4", "-1", "99999999999"}) {
            CAPTURE(wrong);
            variables const v{{"RANK", wrong}, {"WORLD_SIZE", "4"}};
            try {
                (void)launch::discover();
                FAIL("taken");
            } catch (launch_error const& e) {
                CHECK(std::string(e.what()).find("RANK") != std::string::npos);
            }
        }
    }
}

} // namespace group_launch_test
