// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/left_behind.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/group/transport/mpi/errors.hpp>
#include <trireme/group/transport/mpi/session.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace trireme {

/// A communicator of MPI that is freed when this object goes, which is a call that all ranks make together. After MPI
/// has been finalised, or if it has been given up, it is left.
class mpi_handle {
public:
    mpi_handle() = default;
    static mpi_handle own(MPI_Comm comm) noexcept { return mpi_handle(comm); }

    /// One of the same ranks with messages of its own. All ranks call it together; throws deadline_error if not all do
    /// until `end`.
    static mpi_handle duplicate(MPI_Comm of, deadline const& end) {
        int rank = 0;
        MPI_Comm_rank(of, &rank);
        mpi_runtime::watchdog::guard const guard(end.left() + std::chrono::seconds(1), "MPI_Comm_idup");
        struct making {
            MPI_Comm made = MPI_COMM_NULL;
            MPI_Request request = MPI_REQUEST_NULL;
        };
        auto m = std::make_unique<making>();
        mpi_runtime::check(MPI_Comm_idup(of, &m->made, &m->request), "MPI_Comm_idup", rank, "a group begins");
        for (int over = 0; over == 0;) {
            mpi_runtime::check(MPI_Test(&m->request, &over, MPI_STATUS_IGNORE), "MPI_Test", rank, "a group begins");
            if (over == 0 && end.passed()) {
                leave_behind(std::move(m)); // MPI may still write there
                throw deadline_error(-1, "rank " + std::to_string(rank) +
                                             " waited for the others to begin the group, longer than the deadline; "
                                             "which of them is missing is not known yet, since the ranks have not "
                                             "spoken: look which process does not come to make its group, or raise "
                                             "the option `deadline`");
            }
            if (over == 0) std::this_thread::yield();
        }
        mpi_runtime::check(MPI_Comm_set_errhandler(m->made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", rank,
                           "a group begins");
        return mpi_handle(m->made);
    }

    mpi_handle(mpi_handle&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
    mpi_handle& operator=(mpi_handle&& other) noexcept {
        std::swap(comm_, other.comm_);
        return *this;
    }
    ~mpi_handle() {
        if (!process_.is_this()) return;
        int over = 0;
        MPI_Finalized(&over);
        if (comm_ == MPI_COMM_NULL || comm_ == MPI_COMM_WORLD || over != 0 || given_up_) return;
        mpi_runtime::watchdog::guard const guard(std::chrono::seconds(30), "MPI_Comm_free");
        MPI_Comm_free(&comm_);
    }

    MPI_Comm get() const noexcept { return comm_; }
    /// Leaves it to the end of the process.
    void give_up() noexcept { given_up_ = true; }

private:
    explicit mpi_handle(MPI_Comm comm) noexcept : comm_(comm) {}
    MPI_Comm comm_ = MPI_COMM_NULL;
    bool given_up_ = false;
    own_process process_;
};

} // namespace trireme
