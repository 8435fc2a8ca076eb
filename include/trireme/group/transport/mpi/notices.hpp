// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/left_behind.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/transport/call_words.hpp>
#include <trireme/group/transport/mpi/errors.hpp>
#include <trireme/group/transport/mpi/handle.hpp>
#include <trireme/group/transport/mpi/session.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// The notices of one rank in a group of MPI: what it has called, and why it stops. They have a communicator of their
/// own, beside the messages of collectives, on which the ranks meet, too, while the group comes to be.
class mpi_notices {
public:
    /// A notice that a rank sends to another beside the data: the call that the rank is in, and the reason if it stops.
    struct notice {
        int rank = 0;
        int awaited = -1;         ///< the rank it waits for
        int lane = 0;             ///< the part of the group whose call is told, 0 for all of it
        std::uint32_t number = 0; ///< of the call
        int stops = 0;
        std::uint64_t step = 0;       ///< of the training
        std::uint64_t generation = 0; ///< of the group
        call_words words;
        stop_reason why;
    };
    static_assert(std::is_trivially_copyable_v<notice>);

    mpi_notices(mpi_handle control, std::chrono::duration<double> limit) : limit_(limit), control_(std::move(control)) {
        MPI_Comm_rank(control_.get(), &rank_);
        MPI_Comm_size(control_.get(), &size_);
        heard_.resize(static_cast<std::size_t>(size_));
        telling_.assign(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
        told_.assign(static_cast<std::size_t>(size_), 0);
        listen();
    }
    mpi_notices(mpi_notices const&) = delete;
    mpi_notices& operator=(mpi_notices const&) = delete;

    ~mpi_notices() {
        if (!process_.is_this()) return;
        int over = 0;
        MPI_Finalized(&over);
        if (over != 0) return;
        mpi_runtime::watchdog::guard const guard(std::chrono::seconds(30), "MPI_Wait");
        if (listening_ != MPI_REQUEST_NULL) { // cancelling ends a receive without any other rank
            MPI_Cancel(&listening_);
            MPI_Wait(&listening_, MPI_STATUS_IGNORE);
        }
        int told = 0;
        MPI_Testall(size_, telling_.data(), &told, MPI_STATUSES_IGNORE);
        if (told == 0) leave_behind(std::move(outgoing_)); // nobody has taken them yet
    }

    /// Meets all other ranks while a group comes to be: `end` is that of all such meetings. Throws deadline_error that
    /// names who is missing; `next` is what all would do then.
    TRIREME_COLD void meet(deadline const& end, char const* next) {
        MPI_Request all_here = MPI_REQUEST_NULL;
        mpi_runtime::check(MPI_Ibarrier(control_.get(), &all_here), "MPI_Ibarrier", rank_, "a group begins");
        for (int turn = 0;; ++turn) {
            int over = 0, called = 0;
            mpi_runtime::check(MPI_Test(&all_here, &over, MPI_STATUS_IGNORE), "MPI_Test", rank_, "a group begins");
            if (over != 0) return;
            // the first whose time is up asks all others who is here
            MPI_Iprobe(MPI_ANY_SOURCE, roll_call, control_.get(), &called, MPI_STATUS_IGNORE);
            if (called != 0 || end.passed()) call_roll(next);
            if (turn < 1000)
                std::this_thread::yield();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }

    /// Takes all notices that others have sent, so that nothing is under way when MPI ends: all ranks call it, after
    /// the last collective. False if not all do within `most`, or one stops the group: it is to be given up.
    template<class Stops>
    TRIREME_COLD bool close(std::chrono::duration<double> most, Stops&& stops) noexcept {
        mpi_runtime::watchdog::guard const guard(std::chrono::seconds(30), "MPI_Ireduce_scatter_block");
        auto const end = deadline::in(std::min(limit_, most));
        struct counts {
            std::vector<int> told;
            int expected = 0;
        };
        std::unique_ptr<counts> of;
        try {
            of = std::make_unique<counts>();
            of->told = told_;
            MPI_Request request = MPI_REQUEST_NULL;
            mpi_runtime::check(MPI_Ireduce_scatter_block(of->told.data(), &of->expected, 1, MPI_INT, MPI_SUM,
                                                         control_.get(), &request),
                               "MPI_Ireduce_scatter_block", rank_, "a group ends");
            for (int known = 0, told = 0; known == 0 || told == 0 || heard_notices_ < of->expected;) {
                if (known == 0)
                    mpi_runtime::check(MPI_Test(&request, &known, MPI_STATUS_IGNORE), "MPI_Test", rank_,
                                       "a group ends");
                if (told == 0)
                    mpi_runtime::check(MPI_Testall(size_, telling_.data(), &told, MPI_STATUSES_IGNORE), "MPI_Testall",
                                       rank_, "a group ends");
                hear(stops);
                if (end.passed()) throw group_stopped();
                std::this_thread::yield();
            }
        } catch (...) {
            leave_behind(std::move(of)); // MPI may still read and write there
            return false;
        }
        return true;
    }

    /// Leaves the communicator to the end of the process, for not all ranks may come to free it.
    void give_up() noexcept { control_.give_up(); }

    /// A number that all ranks of this group have in common, and those of another have not: notices of a group that is
    /// no more are known by it.
    std::uint64_t generation = 0;

    /// The last notices, by rank; number 0 of one that has said nothing.
    std::vector<notice> const& heard() const noexcept { return heard_; }

    /// Takes the notices that have come; `stops(why)` is told of a rank that stops the group, and may throw.
    template<class Stops>
    void hear(Stops&& stops) {
        for (;;) {
            int come = 0;
            mpi_runtime::check(MPI_Test(&listening_, &come, MPI_STATUS_IGNORE), "MPI_Test", rank_,
                               "notices of other ranks");
            if (come == 0) return;
            auto const n = incoming_;
            listen();
            if (n.generation != generation) continue; // of a group before this one
            ++heard_notices_;
            if (n.rank >= 0 && n.rank < size_) heard_[static_cast<std::size_t>(n.rank)] = n;
            if (n.stops != 0) stops(n.why);
        }
    }

    /// Tells all other ranks, without waiting. What a rank has not taken of an earlier round is not told again.
    void tell(notice const& n) {
        int over = 0;
        mpi_runtime::check(MPI_Testall(size_, telling_.data(), &over, MPI_STATUSES_IGNORE), "MPI_Testall", rank_,
                           "notices to other ranks");
        if (over == 0) return;
        *outgoing_ = n;
        for (int r = 0; r < size_; ++r) told_[static_cast<std::size_t>(r)] += r != rank_;
        for (int r = 0; r < size_; ++r)
            if (r != rank_)
                mpi_runtime::check(MPI_Isend(outgoing_.get(), sizeof(notice), MPI_BYTE, r, 0, control_.get(),
                                             &telling_[static_cast<std::size_t>(r)]),
                                   "MPI_Isend", rank_, "notices to other ranks");
    }

    /// The last notice of this rank, to those for which `reaches(rank)`; `await(requests)` gives it a short while.
    template<class Reaches, class Await>
    TRIREME_COLD void tell_last(notice const& last, Reaches&& reaches, Await&& await) {
        auto n = std::make_unique<notice>(last);
        std::vector<MPI_Request> told;
        for (int r = 0; r < size_; ++r)
            if (r != rank_ && reaches(r))
                MPI_Isend(n.get(), sizeof *n, MPI_BYTE, r, 0, control_.get(), &told.emplace_back(MPI_REQUEST_NULL));
        await(told);
        leave_behind(std::move(n)); // for who has not taken it
    }

private:
    static constexpr int roll_call = 1; ///< the tag of a message without contents: "I am here, and another is not"

    /// Ends a meeting that has taken too long.
    [[noreturn]] TRIREME_COLD void call_roll(char const* next) {
        std::vector<bool> here(static_cast<std::size_t>(size_));
        here[static_cast<std::size_t>(rank_)] = true;
        for (int r = 0; r < size_; ++r) {
            MPI_Request told = MPI_REQUEST_NULL;
            if (r != rank_ && MPI_Isend(nullptr, 0, MPI_BYTE, r, roll_call, control_.get(), &told) == MPI_SUCCESS)
                MPI_Request_free(&told);
        }
        int missing = size_ - 1;
        for (auto const end = deadline::in(short_withdrawal(limit_)); missing > 0 && !end.passed();) {
            int come = 0;
            MPI_Status from;
            MPI_Iprobe(MPI_ANY_SOURCE, roll_call, control_.get(), &come, &from);
            if (come == 0) continue;
            MPI_Recv(nullptr, 0, MPI_BYTE, from.MPI_SOURCE, roll_call, control_.get(), MPI_STATUS_IGNORE);
            missing -= !here[static_cast<std::size_t>(from.MPI_SOURCE)];
            here[static_cast<std::size_t>(from.MPI_SOURCE)] = true;
        }
        if (missing == 0)
            throw deadline_error(rank_, "rank " + std::to_string(rank_) +
                                            " came too late to a group that the others have given up meanwhile, "
                                            "longer than the deadline of " +
                                            seconds_text(limit_) + " s" + if_only_slow);
        std::string names;
        int first = -1;
        for (int r = 0; r < size_; ++r) {
            if (here[static_cast<std::size_t>(r)]) continue;
            if (first < 0) first = r;
            names += ' ' + std::to_string(r);
        }
        throw deadline_error(first, "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                                        " waited for the others to make a group, before " + next +
                                        ", for the deadline of " + seconds_text(limit_) + " s; absent:" + names +
                                        "; look at what these processes say, or raise the option `deadline`");
    }

    void listen() {
        mpi_runtime::check(
            MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, 0, control_.get(), &listening_),
            "MPI_Irecv", rank_, "notices of other ranks");
    }

    std::chrono::duration<double> limit_;
    mpi_handle control_;
    int rank_ = 0;
    int size_ = 1;
    notice incoming_;
    std::unique_ptr<notice> outgoing_ = std::make_unique<notice>();
    MPI_Request listening_ = MPI_REQUEST_NULL;
    std::vector<MPI_Request> telling_;
    std::vector<int> told_; ///< notices, by rank
    int heard_notices_ = 0;
    std::vector<notice> heard_; ///< the last of each rank
    own_process process_;
};

} // namespace trireme
