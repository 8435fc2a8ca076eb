// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/transport/mpi/group.hpp>
#include <trireme/group/transport/processes/group.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace trireme {

/// A group of the processes of an MPI job that are all on one machine and read one another's memory: its communicator
/// is that of shared windows, which has parts and channels. MPI brings the processes together and notices with them
/// when one is lost.
class mpi_machine_group {
public:
    using communicator = processes::communicator;

    /// As mpi_group's; throws launch_error, too, if the processes are on several machines, or windows are off.
    TRIREME_COLD explicit mpi_machine_group(mpi_job const& job = {}, int devices = 0,
                                            std::chrono::duration<double> limit = std::chrono::seconds(30),
                                            std::string_view agreed = {})
        : group_(std::make_unique<mpi_group>(job, devices, limit, agreed)) {
        if (group_->shares_memory()) return;
        auto const what = group_->describe();
        group_.reset(); // all ranks leave it together
        throw launch_error("the stages of a pipeline read one another's memory, and these processes cannot: " + what +
                           ". Start all of them on one machine, with windows, or use one stage");
    }

    int rank() const noexcept { return group_->rank(); }
    int size() const noexcept { return group_->size(); }
    communicator& own() noexcept { return *group_->own().near(); }
    bool failed() const noexcept { return group_->failed(); }
    levels const& near() const noexcept { return group_->near(); }

    template<class F>
    void run(F&& f) {
        group_->run([&f](mpi_communicator& c) { f(*c.near()); });
    }

private:
    std::unique_ptr<mpi_group> group_;
};

} // namespace trireme
