// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/launch.hpp>
#include <trireme/group/transport/mpi/communicator.hpp>
#include <trireme/group/transport/mpi/errors.hpp>
#include <trireme/group/transport/mpi/messages.hpp>
#include <trireme/group/transport/mpi/session.hpp>
#include <trireme/group/transport/processes/group.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <sched.h>

namespace trireme {

/// The ways in which ranks of one machine reach one another: by their memory, or by messages.
enum class mpi_windows {
    automatic, ///< if the machine lets them
    off,       ///< all is sent as messages
    required   ///< launch_error if it cannot be
};

/// A job: the communicator of its processes, and how they reach one another.
struct mpi_job {
    MPI_Comm comm = MPI_COMM_WORLD;               ///< borrowed: messages go over copies of it, and it stays its owner's
    mpi_windows windows = mpi_windows::automatic; ///< memory that processes of a machine share
    int ranks_per_machine = 0;                    ///< ranks of a machine, to try what several would do; 0: as they are
};

/// A group whose ranks are the processes of an MPI communicator, seen from one of them: SPMD.
///
/// What a function throws that `run` is given stops all ranks, as in processes::group. Ranks of one machine notice in
/// 0.2 s if one of them dies, and tell the other machines; what is lost otherwise is noticed after the deadline. If
/// MPI is ours (nobody had initialised it), a job that has failed is aborted when this process exits.
class mpi_group {
public:
    using communicator = mpi_communicator;

    /// All processes of `job.comm` call it together. `devices`: how many there have to be, 0 for any number;
    /// `agreed`: what all must have in common, in words. Throws launch_error, deadline_error, mpi_error.
    explicit mpi_group(mpi_job const& job = {}, int devices = 0,
                       std::chrono::duration<double> limit = std::chrono::seconds(30), std::string_view agreed = {}) try
        : session_(mpi_runtime::session::begin(limit)), limit_(limit), begins_until_(deadline::in(limit)),
          messages_(job.comm, limit, begins_until_) {
        try {
            compare_agreed(job, agreed);
            check_size(devices);
            find_machines(job);
            meet(job);
        } catch (...) {
            give_up(); // others may not come to free what has been made
            throw;
        }
        messages_.look_around = [this] {
            if (node_ != nullptr) node_->look_around();
        };
        messages_.is_gone = [this](int r) {
            auto const place = node_ == nullptr ? -1 : places_[static_cast<std::size_t>(r)];
            return place >= 0 && place != node_->rank() && node_->is_gone(place);
        };
        messages_.on_stop = [this](stop_reason const& why) {
            if (node_ != nullptr) node_->stop(why);
        };
    } catch (launch_error const&) {
        mpi_runtime::session::begin(limit).failed(exit_code::launch);
    } catch (...) {
        mpi_runtime::session::begin(limit).failed(exit_code::failure);
    }
    mpi_group(mpi_group const&) = delete;
    mpi_group& operator=(mpi_group const&) = delete;
    ~mpi_group() {
        if (!runs_.process().is_this()) return; // a fork's copy: nothing of MPI is its own
        if (stopped()) {
            give_up();
            return;
        }
        if (std::uncaught_exceptions() == exceptions_) {
            node_.reset(); // ranks that still wait for this one learn at once that it has left
            messages_.close(std::chrono::seconds(5));
            return;
        }
        // All ranks may throw alike, as where a loss is not finite: each then tells its own error. Else those that wait
        // for this one hear of it before their deadline, whichever of several groups they wait in.
        auto const most = std::min<std::chrono::duration<double>>(std::chrono::seconds(1), limit_ / 4);
        if (!session_.has_failed() && messages_.close(most)) return;
        give_up();
        stop_all(stop_reason::made(stop_reason::kind::failed, rank(), 0, taken_away));
        session_.failed(exit_code::failure);
    }

    int rank() const noexcept { return messages_.rank(); }
    int size() const noexcept { return messages_.size(); }
    communicator& own() noexcept { return *communicator_; }
    communicator const& own() const noexcept { return *communicator_; }

    /// The levels of ranks that are near one another: so many to a socket, sockets to a machine, machines; {n, 1} where
    /// all are alike; none if machines hold different numbers of them, or numbers that do not follow one another.
    levels const& near() const noexcept { return levels_; }
    int machines() const noexcept { return machines_; }
    bool shares_memory() const noexcept { return communicator_->shares_memory(); }
    /// True if this rank knows that the group has been stopped: an error has been thrown here.
    bool failed() const noexcept { return runs_.failed(); }
    bool stopped() const noexcept { return messages_.stopped() || (node_ != nullptr && node_->stopped()); }

    /// "4 processes on 1 machine, Open MPI 4.1.4, which share memory".
    std::string describe() const {
        auto text = std::to_string(size()) + (size() == 1 ? " process on " : " processes on ") +
                    std::to_string(machines_) + (machines_ == 1 ? " machine, " : " machines, ") +
                    mpi_runtime::library();
        if (shares_memory()) return text + ", which share memory";
        if (communicator_->machine() != nullptr && machines_ != size())
            return text + ", which share the memory of a machine and send messages between machines";
        return text + ", which send messages" + (why_messages_.empty() ? "" : " (" + why_messages_ + ")");
    }

    /// Runs `f(communicator&)` on this rank; every rank has to. Allocates nothing.
    template<class F>
    void run(F&& f) {
        runs_.run(rank(), *communicator_, f, [&](stop_reason const& why) {
            stop_all(why);
            session_.failed(exit_code::failure);
        });
    }

    /// The ranks that give the same colour, in the order of their keys; nothing for a colour below 0. All ranks call it
    /// together.
    std::unique_ptr<mpi_group> split(int color, int key, mpi_windows windows = mpi_windows::automatic) {
        MPI_Comm part = MPI_COMM_NULL;
        {
            mpi_runtime::watchdog::guard const guard(limit_ + std::chrono::seconds(1), "MPI_Comm_split");
            messages_.notices().meet(deadline::in(limit_), "MPI_Comm_split");
            mpi_runtime::check(MPI_Comm_split(messages_.comm(), color < 0 ? MPI_UNDEFINED : color, key, &part),
                               "MPI_Comm_split", rank(), "a group is split");
        }
        if (part == MPI_COMM_NULL) return nullptr;
        auto owned = mpi_handle::own(part);
        mpi_job job{part, windows};
        try {
            return std::make_unique<mpi_group>(job, 0, limit_);
        } catch (...) { // others may not come to free it
            owned.give_up();
            throw;
        }
    }

    /// The ranks that differ from this one along one axis of a mesh alone. `mesh` has the sizes of its axes, the
    /// fastest first: rank r is at place r % mesh.sizes[0] of axis 0.
    std::unique_ptr<mpi_group> along(levels const& mesh, int axis, mpi_windows windows = mpi_windows::automatic) {
        if (mesh.ranks() != size() || axis < 0 || axis >= mesh.count)
            throw usage_error("axis " + std::to_string(axis) + " of a mesh of " + std::to_string(mesh.ranks()) +
                              " ranks in " + std::to_string(mesh.count) + " axes was asked for in a group of " +
                              std::to_string(size()) + " ranks: the sizes of the axes multiplied are the ranks");
        int below = 1;
        for (int i = 0; i < axis; ++i) below *= mesh.sizes[i];
        int const extent = mesh.sizes[axis], place = rank() / below % extent;
        return split(rank() % below + rank() / (below * extent) * below, place, windows);
    }

private:
    void give_up() noexcept {
        messages_.give_up();
        node_comm_.give_up();
    }

    TRIREME_COLD void stop_all(stop_reason const& why) noexcept {
        if (node_ != nullptr) node_->stop(why);
        if (communicator_ == nullptr || !communicator_->shares_memory()) messages_.stop(why);
    }

    // ---- how a group comes to be ----

    /// A call that waits for all ranks, when all are here: none waits for one that is missing.
    template<class Call>
    void together(char const* name, Call&& call) {
        mpi_runtime::watchdog::guard const guard(begins_until_.left() + std::chrono::seconds(2), name);
        messages_.notices().meet(begins_until_, name);
        mpi_runtime::check(call(), name, rank(), "a group begins");
    }

    TRIREME_COLD void compare_agreed(mpi_job const& job, std::string_view agreed) {
        messages_.notices().generation =
            static_cast<std::uint64_t>(shared_clock()) * 4194304 + static_cast<std::uint64_t>(getpid());
        together("MPI_Bcast",
                 [&] { return MPI_Bcast(&messages_.notices().generation, 1, MPI_UINT64_T, 0, messages_.comm()); });
        constexpr int most = agreed_text::most;
        std::vector<char> all(static_cast<std::size_t>(size()) * most);
        agreed_text mine;
        char const* const names[] = {"automatic", "off", "required"};
        mine.set(std::string("windows ") + names[static_cast<int>(job.windows)] + "; " +
                 (job.ranks_per_machine == 0 ? "all" : std::to_string(job.ranks_per_machine)) + " ranks to a machine" +
                 (agreed.empty() ? "" : "; ") + std::string(agreed));
        together("MPI_Allgather", [&] {
            return MPI_Allgather(mine.text, most, MPI_CHAR, all.data(), most, MPI_CHAR, messages_.comm());
        });
        for (int r = 0; r < size(); ++r) {
            agreed_text theirs;
            std::memcpy(theirs.text, all.data() + static_cast<std::size_t>(r) * most, most);
            require_one_program(rank(), mine.get(), r, theirs.get());
        }
    }

    TRIREME_COLD void check_size(int devices) const {
        if (devices == 0 || devices == size()) return;
        auto const number = std::to_string(devices);
        auto text = "the mesh has " + number + (devices == 1 ? " device" : " devices") + ", the job has " +
                    std::to_string(size()) + (size() == 1 ? " process" : " processes") + " (" + mpi_runtime::library() +
                    "): ";
        auto const by = launch::discover();
        if (by.launched() && by.size == size())
            text += "start as many processes as the mesh has devices, mpirun -n " + number + ", or change the mesh";
        else if (!by.launched() && std::getenv("SLURM_JOB_ID") != nullptr)
            text += "this is an allocation of SLURM, but srun was not used: srun -n " + number + " PROGRAM";
        else if (!by.launched())
            text += "start it with mpirun -n " + number + " PROGRAM";
        else if (std::strcmp(by.launcher, "torchrun") == 0)
            text += "it was started by torchrun (" + by.source + "), which does not start MPI: use mpirun -n " +
                    number + " PROGRAM";
        else if (std::strcmp(by.launcher, "srun of SLURM") == 0)
            text += by.source + ", but MPI knows of no other process: this MPI and srun have no interface in common, "
                                "try srun --mpi=pmix or srun --mpi=pmi2";
        else
            text += by.source +
                    ", but MPI knows of no other process: the launcher is not that of the library that the "
                    "program is linked with; use " +
                    (mpi_runtime::library().rfind("MPICH", 0) == 0 ? "mpiexec.mpich" : "mpirun.openmpi") + " -n " +
                    number;
        throw launch_error(text);
    }

    /// The processor socket that all of this process's processors are on, as the kernel counts; -1 if there are
    /// several.
    static int socket() {
        cpu_set_t set;
        if (sched_getaffinity(0, sizeof set, &set) != 0) return -1;
        int found = -1;
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) continue;
            std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id");
            int id = -1;
            if (!(file >> id) || (found >= 0 && id != found)) return -1;
            found = id;
        }
        return found;
    }

    /// Finds the levels: the ranks that share a machine, and those that share a socket of it.
    TRIREME_COLD void find_machines(mpi_job const& job) {
        MPI_Comm node = MPI_COMM_NULL;
        if (job.ranks_per_machine > 0)
            together("MPI_Comm_split",
                     [&] { return MPI_Comm_split(messages_.comm(), rank() / job.ranks_per_machine, rank(), &node); });
        else
            together("MPI_Comm_split_type", [&] {
                return MPI_Comm_split_type(messages_.comm(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &node);
            });
        node_comm_ = mpi_handle::own(node);
        MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);

        int leader = rank();
        together("MPI_Bcast", [&] { return MPI_Bcast(&leader, 1, MPI_INT, 0, node); });
        std::array<int, 2> const mine{leader, socket()};
        std::vector<std::array<int, 2>> all(static_cast<std::size_t>(size()));
        together("MPI_Allgather",
                 [&] { return MPI_Allgather(mine.data(), 2, MPI_INT, all.data(), 2, MPI_INT, messages_.comm()); });
        for (int r = 0; r < size(); ++r) machines_ += all[static_cast<std::size_t>(r)][0] == r;
        auto const in_runs = [&](int length, auto const& of) { // whether runs of this length are alike in `of`
            if (length < 1 || size() % length != 0) return false;
            for (int r = 0; r < size(); ++r) {
                auto const& here = all[static_cast<std::size_t>(r)];
                auto const& first = all[static_cast<std::size_t>(r / length * length)];
                if (of(here) != of(first)) return false;
                if (r % length == 0 && r != 0 && of(here) == of(all[static_cast<std::size_t>(r - 1)])) return false;
            }
            return true;
        };
        int const per_machine = size() / machines_;
        if (!in_runs(per_machine, [](auto const& a) { return a[0]; })) return;
        int per_socket = 1;
        while (per_socket < per_machine && all[static_cast<std::size_t>(per_socket)] == all[0]) ++per_socket;
        bool const bound = std::all_of(all.begin(), all.end(), [](auto const& a) { return a[1] >= 0; });
        bool const sockets = bound && per_socket > 1 && per_socket < per_machine && per_machine % per_socket == 0 &&
                             in_runs(per_socket, [](auto const& a) { return a; });
        if (sockets && machines_ > 1)
            levels_ = levels(per_socket, per_machine / per_socket, machines_);
        else if (sockets)
            levels_ = levels(per_socket, per_machine / per_socket);
        else if (machines_ > 1)
            levels_ = levels(per_machine, machines_);
        else
            levels_ = levels(size(), 1);
    }

    /// The ranks of a machine meet in its memory: for data if all ranks are there, else to look after one another.
    TRIREME_COLD void meet(mpi_job const& job) {
        auto const node = node_comm_.get();
        int here = 0, place = 0;
        MPI_Comm_size(node, &here);
        MPI_Comm_rank(node, &place);
        std::optional<processes::meeting_place> where;
        processes::address address;
        if (place == 0) {
            try {
                where = processes::meeting_place::create(here);
                address = where->where();
            } catch (processes::window_error const& e) {
                why_messages_ = e.what();
            }
        }
        together("MPI_Bcast", [&] { return MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, node); });
        if (place != 0 && address.descriptor >= 0) {
            try {
                where = processes::meeting_place::open(address);
            } catch (processes::window_error const& e) {
                why_messages_ = e.what();
            }
        }
        int reached = where.has_value() ? 1 : 0, all = 0;
        together("MPI_Allreduce", [&] { return MPI_Allreduce(&reached, &all, 1, MPI_INT, MPI_MIN, node); });
        if (all == 1) {
            auto const near = here == size() ? levels_ : levels();
            // a rank that waits for another machine is late first, and knows for which rank
            auto const patient = here == size() ? limit_ : limit_ + std::chrono::seconds(1);
            node_ = std::make_unique<processes::group>(*where, place, patient, near, std::string_view(), rank(),
                                                       begins_until_);
            messages_.waiting = node_->waiting();
        }
        bool const alone = here == 1 && size() > 1; // on its machine: its memory is read by nobody
        bool const shares = all == 1 && job.windows != mpi_windows::off && !alone;
        if (job.windows == mpi_windows::off) why_messages_ = "windows are off";
        int const refused = job.windows == mpi_windows::required && !shares && !alone ? 1 : 0;
        int somewhere = 0;
        together("MPI_Allreduce",
                 [&] { return MPI_Allreduce(&refused, &somewhere, 1, MPI_INT, MPI_MAX, messages_.comm()); });
        if (somewhere != 0)
            throw launch_error("shared windows are required, and the processes of a machine cannot share memory: " +
                               (why_messages_.empty() ? "another of them says why" : why_messages_));
        places_ = places_on(node);
        communicator_ = std::make_unique<mpi_communicator>(messages_, node_.get(), shares, places_, levels_);
    }

    /// The number of every rank among the ranks of this machine, -1 for those elsewhere.
    std::vector<int> places_on(MPI_Comm node) const {
        MPI_Group all = MPI_GROUP_NULL, near = MPI_GROUP_NULL;
        MPI_Comm_group(messages_.comm(), &all);
        MPI_Comm_group(node, &near);
        std::vector<int> ranks(static_cast<std::size_t>(size())), places(ranks.size());
        for (int r = 0; r < size(); ++r) ranks[static_cast<std::size_t>(r)] = r;
        MPI_Group_translate_ranks(all, size(), ranks.data(), near, places.data());
        MPI_Group_free(&all);
        MPI_Group_free(&near);
        for (auto& place : places)
            if (place == MPI_UNDEFINED) place = -1;
        return places;
    }

    mpi_runtime::session& session_;
    std::chrono::duration<double> limit_;
    deadline begins_until_; ///< all of its set-up
    mpi_messages messages_;
    mpi_handle node_comm_;
    std::unique_ptr<processes::group> node_;
    std::unique_ptr<mpi_communicator> communicator_;
    std::vector<int> places_; ///< of all ranks on this machine
    levels levels_;
    int machines_ = 0;
    std::string why_messages_;
    runs_until_failure runs_;
    int exceptions_ = std::uncaught_exceptions();
};

} // namespace trireme
