// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/transport/processes/window.hpp>
#include <trireme/group/transport/step_slots.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trireme::processes {

/// The address of a rank's memory, which means the same in all processes. Arena -1 is none; those from `staging` on,
/// one per lane, are the rank's own, for buffers that are no arenas.
struct place {
    int arena = -1;
    std::size_t offset = 0;
};
inline constexpr int staging = max_arenas, max_windows = max_arenas + max_lanes;

/// A window that a rank shows its peers; they map it when they need it, and again when `generation` has changed.
struct shown_window {
    std::atomic<std::uint32_t> generation{0};
    std::atomic<int> descriptor{-1};
    std::atomic<std::uint64_t> bytes{0};
};

/// The stages of a rank's membership, in their order. A rank is `leaving` while an exception takes it out of the group.
enum class presence : int { awaited, joining, here, leaving, left };

/// The data that one rank shows its peers.
struct process_slot : step_slot<shared_progress> {
    std::atomic<presence> present{presence::awaited};
    std::atomic<int> known_as{-1};          ///< its rank in the whole group, of which this may be one machine's part
    std::atomic<int> process{0};            ///< its number
    cpu_set_t processors{};                 ///< that it may use
    std::atomic<std::int64_t> heartbeat{0}; ///< on the clock of all processes, in ns
    std::array<shown_window, max_windows> windows{};
    struct buffers {
        place in, out;
        std::size_t in_from = 0, out_from = 0;
    };
    std::array<buffers, max_lanes> calls; ///< the buffers of its calls
    agreed_text agreed;
};

struct process_table {
    static constexpr std::uint64_t layout = 0x5472697265'0006; ///< changes with what stands below
    std::uint64_t magic = layout;
    std::uint64_t slot_bytes = sizeof(process_slot);
    int ranks = 0;
    std::atomic<bool> stopped{false};
    std::atomic<int> reason{0};   ///< 0: none; 1: being written; 2: below
    std::atomic<int> gave_up{-1}; ///< the first rank that an exception took out of a collective
    stop_reason why;

    static std::size_t bytes_for(int ranks) noexcept {
        return first_slot + static_cast<std::size_t>(ranks) * sizeof(process_slot);
    }
    process_slot& slot(int rank) noexcept {
        return reinterpret_cast<process_slot*>(reinterpret_cast<std::byte*>(this) + first_slot)[rank];
    }

private:
    static constexpr std::size_t first_slot = 2048;
};
static_assert(sizeof(process_table) <= 2048 && alignof(process_slot) <= 2048);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// The address of a meeting place: a process that has it, its descriptor there, and its number of ranks.
struct address {
    int process = 0;
    int descriptor = -1;
    int ranks = 0;
};

/// The memory through which the ranks of one machine find one another. One process makes it; the others inherit it in a
/// fork, or open it by its address.
class meeting_place {
public:
    static meeting_place create(int ranks) {
        if (ranks < 1) throw usage_error("a group needs at least one process, not " + std::to_string(ranks));
        meeting_place p(window::create(process_table::bytes_for(ranks), "the meeting place of processes"));
        auto* const table = new (p.window_->data()) process_table;
        table->ranks = ranks;
        for (int r = 0; r < ranks; ++r) new (&table->slot(r)) process_slot;
        return p;
    }
    /// Throws window_error if it is not there, or not of this build.
    static meeting_place open(address const& a) {
        meeting_place p(
            window::open(a.process, a.descriptor, process_table::bytes_for(a.ranks), "the meeting place of processes"));
        auto const& table = p.table();
        if (table.magic != process_table::layout || table.slot_bytes != sizeof(process_slot) || table.ranks != a.ranks)
            throw window_error("the meeting place of processes is of another build of Trireme: start one program in "
                               "all processes");
        return p;
    }

    process_table& table() const noexcept { return *static_cast<process_table*>(window_->data()); }
    /// For a process that has opened or made it; in a forked one that of its parent.
    address where() const noexcept { return {getpid(), window_->descriptor(), table().ranks}; }

private:
    explicit meeting_place(window w) : window_(std::make_shared<window>(std::move(w))) {}
    std::shared_ptr<window> window_;
};

/// One rank's view of the memory that the ranks of a machine share: what step_counting needs, for processes.
class state {
public:
    static constexpr char const* member = "rank";

    state(meeting_place where, int rank, std::chrono::duration<double> limit, levels const& near)
        : wait_limit(limit), groups(near), where_(std::move(where)), table_(where_.table()), rank_(rank),
          peers_(static_cast<std::size_t>(size())) {}
    state(state const&) = delete;
    state& operator=(state const&) = delete;
    ~state() {
        for (auto const& p : peers_)
            if (p.pidfd >= 0) close(p.pidfd);
    }

    int size() const noexcept { return table_.ranks; }
    int rank() const noexcept { return rank_; }
    /// The number of a rank in messages and errors: its place here, until it has joined.
    int known_as(int rank) const noexcept {
        int const known = slot(rank).known_as.load(std::memory_order_relaxed);
        return known < 0 ? rank : known;
    }
    process_slot& slot(int rank) const noexcept { return table_.slot(rank); }
    std::atomic<bool> const& stopped() const noexcept { return table_.stopped; }

    /// Once all have joined: launchers give each process processors of its own, or all the same.
    void adapt_patience() noexcept {
        cpu_set_t all;
        CPU_ZERO(&all);
        for (int r = 0; r < size(); ++r) CPU_OR(&all, &all, &slot(r).processors);
        waiting = patience::on(size(), CPU_COUNT(&all));
    }

    // ---- why a group stops ----

    /// Stops the group in all processes; nothing in a process that was forked since. The first reason is kept; a null
    /// one leaves the place to the next.
    void stop(int rank, std::exception_ptr const& why) noexcept {
        if (!process_.is_this()) return;
        int none = -1;
        if (why != nullptr)
            give_reason(stop_reason::of(known_as(rank), why));
        else
            table_.gave_up.compare_exchange_strong(none, rank);
        end_waits();
    }

    /// The reason, as the exception it was on the rank that stopped the group. Without one a function has caught the
    /// exception that took its rank out of a collective: usage_error on that rank.
    [[noreturn]] TRIREME_COLD void throw_stopped() const {
        auto const gave_up = [this] { return table_.gave_up.load(std::memory_order_relaxed); };
        // a rank that stops the group first and knows the reason later is given a moment; this one may have caught it
        for (int i = 0; i < 500 && gave_up() != rank_ && !has_reason(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (has_reason()) table_.why.raise();
        if (gave_up() < 0) stop_reason().raise();
        if (gave_up() == rank_) throw usage_error(given_up_collective);
        throw device_error(known_as(gave_up()), nullptr, given_up_collective);
    }

    void stop(stop_reason const& why) noexcept {
        if (!process_.is_this()) return;
        give_reason(why);
        end_waits();
    }

    // ---- looking after peers ----

    /// Stops the group if a rank is gone without having left, or if the one that this rank waits for has left, or is
    /// leaving with an exception, and has not come as far as the rank's slot says.
    void look_around(int rank) noexcept {
        look_around(rank, [&] {
            auto const& mine = slot(rank_);
            return has_come(*this, mine, mine.waits_for.load(std::memory_order_relaxed));
        });
    }
    /// A look of a rank whose wait is over if `come()` is true.
    template<class Come>
    void look_around(int, Come const& come) noexcept {
        for (int r = 0; r < size(); ++r)
            if (r != rank_ && is_gone(r)) return lose(r, "died: it was killed, or ended without leaving the group");
        auto const source = slot(rank_).waits_for.load(std::memory_order_relaxed);
        if (source < 0 || source >= size()) return;
        // in this order: the other rank may come and leave at once
        auto const present = slot(source).present.load(std::memory_order_acquire);
        if (present < presence::leaving || come()) return;
        if (present == presence::leaving) // this rank's call has no end, and so it cannot throw alike
            stop(stop_reason::made(stop_reason::kind::failed, known_as(source), 0, taken_away));
        else
            lose(source, "has left the group, having finished, and others still wait for it: all ranks must make the "
                         "same calls");
    }

    /// True if the process of a rank that had joined has ended; one that has left may.
    bool is_gone(int rank) noexcept {
        auto& s = slot(rank);
        if (!still_here(s)) return false;
        auto& p = peers_[static_cast<std::size_t>(rank)];
        int const process = s.process.load(std::memory_order_relaxed);
        if (p.pidfd == -1) {
            p.pidfd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
            if (p.pidfd < 0 && errno == ESRCH) return still_here(s);
            if (p.pidfd < 0) p.pidfd = -2; // an older kernel, or a sandbox: it is only asked for its name
        }
        if (p.pidfd == -2) return kill(process, 0) != 0 && errno == ESRCH && still_here(s);
        pollfd over{p.pidfd, POLLIN, 0};
        return poll(&over, 1, 0) == 1 && still_here(s);
    }

    /// The state of a rank that is late, as far as it is known: ", in training step 7 ..., its process is stopped".
    TRIREME_COLD std::string state_of(int rank) const {
        auto& s = slot(rank);
        auto text = "; " + std::string(member) + ' ' + std::to_string(known_as(rank)) + " is " + doing(rank);
        auto const silent = static_cast<double>(shared_clock() - s.heartbeat.load(std::memory_order_relaxed)) * 1e-9;
        if (rank != rank_ && silent > 0.5) {
            char number[64];
            std::snprintf(number, sizeof number, "%.1f s", silent);
            text += ", and its process (" + std::to_string(s.process.load()) + ") has given no sign of life for " +
                    number + ": it is stopped, or the machine has no time for it";
        }
        return text;
    }

    /// "in training step 7, in its 12th collective, all_reduce<ring>(...)".
    TRIREME_COLD std::string doing(int rank) const {
        auto& s = slot(rank);
        auto const moving = [](auto const& l) { return l.moving.load(); };
        auto const found = std::find_if(s.lanes.begin(), s.lanes.end(), moving);
        auto const& lane = found == s.lanes.end() ? s.lanes[0] : *found;
        auto const number = lane.call.number.load(std::memory_order_acquire);
        auto const step = s.training_step.load(std::memory_order_relaxed);
        auto text = "in training step " + std::to_string(step);
        if (number == 0) return step == 0 ? text + ", before its first collective" : text;
        return text + (moving(lane) ? ", in its collective number " : ", after its collective number ") +
               std::to_string(number) + ", " + lane.call.read().text();
    }

    /// A peer that was stopped in the midst of a collective uses windows, which stay mapped where it maps them: nothing
    /// that it touches is freed. Only a peer that is about to end its work on them is worth waiting for.
    std::chrono::duration<double> withdrawal_limit() const noexcept { return short_withdrawal(wait_limit); }

    // ---- where memory is ----

    /// Memory that peers can map: arena number `id`, or `staging`, which may be taken again, larger.
    void* allocate(int, int id, std::size_t bytes) {
        auto const what = "rank " + std::to_string(known_as(rank_)) + ", arena " + std::to_string(id);
        auto& own = own_[static_cast<std::size_t>(id)];
        own = window::create(round_up<std::size_t>(std::max<std::size_t>(bytes, 1), 4096), what.c_str());
        auto& shown = slot(rank_).windows[static_cast<std::size_t>(id)];
        shown.descriptor.store(own.descriptor(), std::memory_order_relaxed);
        shown.bytes.store(own.bytes(), std::memory_order_relaxed);
        shown.generation.fetch_add(1, std::memory_order_release);
        return own.data();
    }

    /// The address in this process of an arena of `rank`.
    std::byte* at(int rank, int arena) {
        auto const i = static_cast<std::size_t>(arena);
        if (rank == rank_) return static_cast<std::byte*>(own_[i].data());
        auto& mapped = peers_[static_cast<std::size_t>(rank)].windows[i];
        auto const& shown = slot(rank).windows[i];
        auto const generation = shown.generation.load(std::memory_order_acquire);
        if (generation == 0)
            throw usage_error("arena " + std::to_string(arena) + " of rank " + std::to_string(known_as(rank)) +
                              " is not there yet: a peer's memory may be used once a collective has been entered");
        if (mapped.generation != generation) {
            auto const what = "memory of rank " + std::to_string(known_as(rank));
            try {
                mapped.memory = window::open(slot(rank).process.load(std::memory_order_relaxed),
                                             shown.descriptor.load(), shown.bytes.load(), what.c_str());
            } catch (window_error const&) { // it may have died in the meantime, which says more
                look_around(rank_);
                if (stopped().load()) throw_stopped();
                throw;
            }
            mapped.memory.close_descriptor(); // of 64 ranks there would be too many
            mapped.generation = generation;
        }
        return static_cast<std::byte*>(mapped.memory.data());
    }

    /// The place of this rank's memory, if all of it is in one of the rank's windows.
    place find(std::byte const* data, std::size_t bytes) const noexcept {
        for (int i = 0; i < max_windows; ++i) {
            auto const& w = own_[static_cast<std::size_t>(i)];
            auto const* const begin = static_cast<std::byte const*>(w.data());
            if (w && data >= begin && data + bytes <= begin + w.bytes())
                return {i, static_cast<std::size_t>(data - begin)};
        }
        return {};
    }

    void show_buffers(int rank, int lane, collective_call const& c) noexcept {
        auto& s = slot(rank).calls[static_cast<std::size_t>(lane)];
        s.in = find(c.in, c.in_bytes);
        s.out = find(c.out, c.out_bytes);
        s.in_from = c.in_from;
        s.out_from = c.out_from;
    }

    collective_call const& buffers_of(int rank, int lane) {
        auto const& s = slot(rank).calls[static_cast<std::size_t>(lane)];
        auto& c = peers_[static_cast<std::size_t>(rank)].calls[static_cast<std::size_t>(lane)];
        c.in = s.in.arena < 0 ? nullptr : at(rank, s.in.arena) + s.in.offset;
        c.out = s.out.arena < 0 ? nullptr : at(rank, s.out.arena) + s.out.offset;
        c.in_from = s.in_from;
        c.out_from = s.out_from;
        return c;
    }

    std::chrono::duration<double> const wait_limit;
    levels const groups;
    patience waiting = {20, 4}; ///< set when all have joined

private:
    /// A process that has ended may have left just before.
    static bool still_here(process_slot const& s) noexcept {
        auto const present = s.present.load(std::memory_order_acquire);
        return present == presence::here || present == presence::leaving;
    }

    TRIREME_COLD void lose(int rank, char const* how) noexcept {
        auto reason = stop_reason::made(stop_reason::kind::lost, known_as(rank), slot(rank).training_step.load(),
                                        "a rank was lost");
        try {
            reason.text.set("rank " + std::to_string(known_as(rank)) + " (process " +
                            std::to_string(slot(rank).process.load()) + ") " + how + "; it was " + doing(rank) +
                            "; noticed by rank " + std::to_string(known_as(rank_)));
        } catch (...) {} // no memory for more words
        stop(reason);
    }

    bool has_reason() const noexcept { return table_.reason.load(std::memory_order_acquire) == 2; }
    void end_waits() noexcept {
        table_.stopped.store(true, std::memory_order_seq_cst);
        for (int r = 0; r < size(); ++r)
            for (auto& lane : slot(r).lanes) lane.steps.wake();
    }

    void give_reason(stop_reason const& why) noexcept {
        int none = 0;
        if (!table_.reason.compare_exchange_strong(none, 1)) return;
        table_.why = why;
        table_.reason.store(2, std::memory_order_release);
    }

    struct mapping {
        std::uint32_t generation = 0;
        window memory;
    };
    struct peer {
        int pidfd = -1;
        std::array<collective_call, max_lanes> calls;
        std::array<mapping, max_windows> windows;
    };

    meeting_place where_;
    process_table& table_;
    int rank_;
    std::array<window, max_windows> own_;
    std::vector<peer> peers_;
    own_process process_;
};

} // namespace trireme::processes
