// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/group/communicator.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace trireme::threads {

/// How many arenas a rank may allocate; the trainer needs four.
inline constexpr int max_arenas = 8;

/// What a rank has called last, for its peers to compare. A peer may look while the owner, ahead of it, writes the
/// next: then `number` says that there is nothing to compare.
struct published_call {
    std::atomic<std::uint32_t> number{0}; ///< of the collective, counted from 1
    std::atomic<int> root{0}, steps{0}, chunks{0};
    std::atomic<std::uint32_t> element_bytes{0};
    std::atomic<std::uint64_t> elements{0};
    std::atomic<char const*> name{""}, strategy{""}, op{""}, dtype{""};

    void publish(std::uint32_t n, collective_call const& c) noexcept {
        number.store(n, std::memory_order_relaxed);
        auto constexpr after = std::memory_order_release; // who sees one of these sees the number, too
        root.store(c.root, after);
        steps.store(c.steps, after);
        chunks.store(c.chunks, after);
        element_bytes.store(c.element_bytes, after);
        elements.store(c.elements, after);
        name.store(c.name, after);
        strategy.store(c.strategy, after);
        op.store(c.op, after);
        dtype.store(c.dtype, after);
    }

    /// What is compared; belongs to `number` if that is the same before and after.
    collective_call read() const noexcept {
        auto constexpr before = std::memory_order_acquire;
        collective_call c;
        c.root = root.load(before);
        c.steps = steps.load(before);
        c.chunks = chunks.load(before);
        c.element_bytes = element_bytes.load(before);
        c.elements = elements.load(before);
        c.name = name.load(before);
        c.strategy = strategy.load(before);
        c.op = op.load(before);
        c.dtype = dtype.load(before);
        return c;
    }
};

/// What one rank shows its peers. Written by its owner (`issued`: by rank 0), read by the others after a wait.
struct shared_slot {
    progress steps;                                      ///< steps completed, over all collectives
    published_call call;                                 ///< the collective it is in
    collective_call buffers;                             ///< the same, for those who read its buffers
    progress issued;                                     ///< jobs handed to this rank
    progress finished;                                   ///< jobs it has come back from
    std::atomic<int> waits_for{-1};                      ///< the rank it sleeps for or asks after, -1 if it computes
    std::atomic<std::uint32_t> waits_until{0};           ///< which count of that rank's steps
    std::array<void*, max_arenas> arenas{};              ///< where its arenas begin
    alignas(cache_line) std::atomic<bool> moving{false}; ///< may read from its peers' buffers, and write to them
};

/// The part of a group that its ranks share. It outlives the group if a device is still stuck in it.
class shared_state {
public:
    shared_state(int ranks, std::chrono::duration<double> limit, levels const& near)
        : wait_limit(limit), groups(near), waiting(patience::for_threads(ranks)),
          slots_(static_cast<std::size_t>(ranks)) {}

    int size() const noexcept { return static_cast<int>(slots_.size()); }
    shared_slot& slot(int rank) noexcept { return slots_[static_cast<std::size_t>(rank)]; }
    std::atomic<bool> const& stopped() const noexcept { return stopped_; }

    /// Stops the group: every wait, present and future, ends. The first reason is kept; a null one leaves the place to
    /// the next.
    void stop(int rank, std::exception_ptr why) noexcept {
        {
            std::lock_guard const lock(mutex_);
            if (why_ == nullptr) {
                why_ = std::move(why);
                culprit_ = rank;
            }
        }
        stopped_.store(true, std::memory_order_seq_cst);
        for (auto& s : slots_) {
            s.steps.wake();
            s.finished.wake();
        }
    }

    /// Ends a wait of a stopped group: with the mismatch that concerns all ranks, else without a reason, which device 0
    /// will tell.
    [[noreturn]] TRIREME_COLD void throw_stopped() const {
        std::unique_lock lock(mutex_);
        auto const why = why_;
        lock.unlock();
        try {
            if (why != nullptr) std::rethrow_exception(why);
        } catch (mismatch_error const&) {
            throw;
        } catch (...) {}
        throw group_stopped();
    }

    /// Throws what stopped the group: a deadline_error or a mismatch_error as it is, anything else as a device_error
    /// that names the device.
    [[noreturn]] TRIREME_COLD void rethrow() const {
        std::unique_lock lock(mutex_);
        auto const why = why_;
        auto const rank = culprit_;
        lock.unlock();
        if (why == nullptr)
            throw device_error(rank, std::make_exception_ptr(group_stopped()),
                               "an exception took it out of a collective, and was caught by the function it ran");
        try {
            std::rethrow_exception(why);
        } catch (deadline_error const&) {
            throw;
        } catch (mismatch_error const&) {
            throw;
        } catch (std::exception const& e) {
            throw device_error(rank, why, e.what());
        } catch (...) {
            throw device_error(rank, why, "an exception that is not derived from std::exception");
        }
    }

    /// Who is to blame when a rank has waited too long for `source`: follow the waits to a rank that waits for nobody,
    /// or for somebody who is there by now.
    int culprit(int source) noexcept {
        for (int hops = 0; hops < size(); ++hops) {
            int const next = slot(source).waits_for.load(std::memory_order_acquire);
            if (next < 0 || slot(next).steps.reached(slot(source).waits_until.load(std::memory_order_relaxed))) break;
            source = next;
        }
        return source;
    }

    std::chrono::duration<double> const wait_limit;
    levels const groups;
    patience const waiting;

private:
    std::vector<shared_slot> slots_;
    std::atomic<bool> stopped_{false};
    mutable std::mutex mutex_;
    std::exception_ptr why_;
    int culprit_ = -1;
};

/// One rank of a group of threads. Peers' memory is used in place: a byte on the wire is a byte read from a peer, or
/// written to one.
class communicator {
public:
    communicator(std::shared_ptr<shared_state> state, int rank) : state_(std::move(state)), rank_(rank) {}

    /// Bytes that the group itself takes per rank, for the plan.
    static constexpr bytes_t control_bytes = sizeof(shared_slot);

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return state_->size(); }

    /// Which ranks are near one another; no levels if nobody has said so.
    levels const& groups() const noexcept { return state_->groups; }

    /// Zeroed memory that peers can read. Every rank calls it in the same order; a peer may use the result once a
    /// collective has been entered.
    arena allocate(std::size_t bytes) {
        if (allocated_ == max_arenas) throw usage_error("a rank of a thread group has at most 8 arenas");
        auto const id = allocated_++;
        memory_[static_cast<std::size_t>(id)] = host_memory(bytes);
        auto* const data = memory_[static_cast<std::size_t>(id)].data();
        state_->slot(rank_).arenas[static_cast<std::size_t>(id)] = data;
        return {id, data, bytes};
    }

    template<class T>
    T const* peer(arena const& a, int rank) const noexcept {
        return shared<T>(a, rank);
    }

    /// The same to write to.
    template<class T>
    T* shared(arena const& a, int rank) const noexcept {
        return static_cast<T*>(state_->slot(rank).arenas[static_cast<std::size_t>(a.id)]);
    }

    /// Begins a collective. Throws usage_error if the last one has not been left.
    void enter(collective_call const& call) {
        if (inside_) refuse_second(call);
        inside_ = true;
        compared_ = 0;
        asking_until_.reset();
        auto& here = own();
        here.call.publish(++calls_, call);
        here.buffers = call;
        here.steps.advance_to(base_ + 1);
    }

    /// From here until `pause` or `leave` this rank may use its peers' buffers.
    void resume() noexcept { own().moving.store(true, std::memory_order_seq_cst); }
    void pause() noexcept { own().moving.store(false, std::memory_order_release); }

    /// Where a peer has its numbers, once a wait for it has returned; for a peer's own call the same as this rank's, or
    /// there is nothing of it to be read. Throws if it is another, or if the group has been stopped.
    collective_call const& call_of(int source) {
        // in this order after `resume`: who stops the group and then finds that nothing moves may free its buffers
        if (state_->stopped().load(std::memory_order_seq_cst)) state_->throw_stopped();
        if (!compare(source)) disagree(source);
        return state_->slot(source).buffers;
    }

    void complete(int step) noexcept { own().steps.advance_to(base_ + 2 + static_cast<std::uint32_t>(step)); }
    void leave(int steps) noexcept {
        base_ += static_cast<std::uint32_t>(steps) + 1;
        inside_ = false;
        pause();
    }

    /// Waits until `source` has completed `after` steps of the collective that this rank has entered.
    void wait_for(int source, int after, operation const& what) {
        auto& theirs = state_->slot(source).steps;
        auto const target = base_ + 1 + static_cast<std::uint32_t>(after);
        if (!theirs.reached(target)) {
            // a rank that is in another collective may never get there: it is compared as soon as it has entered
            if (!theirs.reached(base_ + 1)) wait_long(theirs, base_ + 1, source, what);
            compare(source);
            if (!theirs.reached(target)) wait_long(theirs, target, source, what);
        }
        compare(source);
    }

    /// The same as a question. Throws what a wait would throw; the deadline runs from the first answer that is no.
    bool has_completed(int source, int after, operation const& what) {
        auto& theirs = state_->slot(source).steps;
        if (state_->stopped().load(std::memory_order_relaxed)) state_->throw_stopped();
        bool done = theirs.reached(base_ + 1);
        if (done) {
            compare(source);
            done = theirs.reached(base_ + 1 + static_cast<std::uint32_t>(after));
        }
        if (!done) {
            // a peer that waits for this rank looks further
            waits(source, base_ + 1 + static_cast<std::uint32_t>(after));
            if (!asking_until_)
                asking_until_ = deadline::in(state_->wait_limit);
            else if (asking_until_->passed())
                throw_late(source, what);
        } else if (asking_until_) {
            own().waits_for.store(-1, std::memory_order_release);
            asking_until_.reset();
        }
        return done;
    }

    /// Leaves a collective that an exception ends here: stops the group, and returns when no peer uses this rank's
    /// buffers any more, so that they can be freed. At the latest after the deadline.
    TRIREME_COLD void withdraw() noexcept {
        inside_ = false;
        pause();
        if (!state_->stopped().load()) state_->stop(rank_, nullptr); // the exception follows
        auto const limit = deadline::in(state_->wait_limit);
        for (int r = 0; r < size(); ++r)
            while (r != rank_ && state_->slot(r).moving.load(std::memory_order_seq_cst) && !limit.passed())
                std::this_thread::yield();
    }

    /// The same for a rank that has begun a collective and will not go on.
    TRIREME_COLD void abandon(operation const& what) noexcept {
        state_->stop(rank_,
                     std::make_exception_ptr(usage_error(
                         std::string(what.name) + " (" + what.strategy + ") was begun and dropped in schedule step " +
                         std::to_string(what.step) + ": keep what start returns, and wait for it")));
        withdraw();
    }

    void count(traffic moved) noexcept { moved_ += moved; }

    /// What this rank has read from peers, or written to them, since it was made.
    traffic pulled() const noexcept { return moved_; }

    /// The training step, for messages.
    void at_training_step(std::uint64_t step) noexcept { training_step_ = step; }

    /// Throws group_stopped if another device has failed: for long computations between waits.
    void check_stopped() const {
        if (state_->stopped().load(std::memory_order_relaxed)) state_->throw_stopped();
    }

private:
    shared_slot& own() const noexcept { return state_->slot(rank_); }

    /// Says for whom this rank waits, for those who wait for it.
    void waits(int source, std::uint32_t target) noexcept {
        own().waits_until.store(target, std::memory_order_relaxed);
        own().waits_for.store(source, std::memory_order_release);
    }

    /// Throws on all ranks if `source` has called another collective than this rank, or the same otherwise. False if it
    /// is in a later one: then it has agreed with those it had to wait for.
    bool compare(int source) {
        auto const bit = std::uint64_t{1} << (source % 64);
        if (source < 64 && (compared_ & bit) != 0) return true;
        auto const& call = state_->slot(source).call;
        auto const& mine = own().buffers;
        if (call.number.load(std::memory_order_acquire) != calls_) return false;
        auto const theirs = call.read();
        bool const same = same_text(theirs.name, mine.name) && same_text(theirs.strategy, mine.strategy) &&
                          same_text(theirs.op, mine.op) && same_text(theirs.dtype, mine.dtype) &&
                          theirs.elements == mine.elements && theirs.element_bytes == mine.element_bytes &&
                          theirs.root == mine.root && theirs.steps == mine.steps && theirs.chunks == mine.chunks;
        if (call.number.load(std::memory_order_relaxed) != calls_) return false;
        if (!same) disagree(source);
        compared_ |= source < 64 ? bit : 0;
        return true;
    }

    [[noreturn]] TRIREME_COLD void refuse_second(collective_call const& call) const {
        throw usage_error(std::string("device ") + std::to_string(rank_) + " called " + call.name + " while its " +
                          own().buffers.name + " was in flight: wait for that first");
    }

    static bool same_text(char const* a, char const* b) noexcept { return a == b || std::strcmp(a, b) == 0; }

    [[noreturn]] TRIREME_COLD void disagree(int source) {
        auto const& call = state_->slot(source).call;
        auto const number = call.number.load(std::memory_order_acquire);
        mismatch_error const error("the devices of a group called different collectives, their number " +
                                   std::to_string(calls_) + ": device " + std::to_string(rank_) + " called " +
                                   told(own().buffers) + ", device " + std::to_string(source) + " called " +
                                   told(call.read()) +
                                   (number == calls_ ? "" : " as its number " + std::to_string(number)) +
                                   "; all must make the same calls in the same order");
        state_->stop(rank_, std::make_exception_ptr(error));
        state_->throw_stopped();
    }

    TRIREME_COLD static std::string told(collective_call const& call) {
        std::string text = std::string(call.name) + '<' + call.strategy + ">(";
        if (call.dtype[0] != 0) text += std::to_string(call.elements) + " x " + call.dtype + ", ";
        if (std::strcmp(call.dtype, "bytes") == 0) text += std::to_string(call.element_bytes) + " each, ";
        if (call.op[0] != 0) text += std::string(call.op) + ", ";
        return text + "root " + std::to_string(call.root) + "; " + std::to_string(call.steps) + " steps, " +
               std::to_string(call.chunks) + " chunks)";
    }

    TRIREME_NOINLINE void wait_long(progress& theirs, std::uint32_t target, int source, operation const& what) {
        auto const outcome = theirs.wait(target, state_->stopped(), deadline::in(state_->wait_limit), state_->waiting,
                                         [&] { waits(source, target); });
        if (outcome == progress::outcome::late) throw_late(source, what);
        own().waits_for.store(-1, std::memory_order_release);
        if (outcome == progress::outcome::stopped) state_->throw_stopped();
    }

    /// Ends a wait that took too long, while this rank is still part of the chain of waits.
    [[noreturn]] TRIREME_COLD void throw_late(int source, operation const& what) {
        auto const guilty = state_->culprit(source);
        deadline_error const error(guilty, late_message(guilty, source, what));
        state_->stop(guilty, std::make_exception_ptr(error));
        throw error;
    }

    TRIREME_COLD std::string late_message(int guilty, int source, operation const& what) const {
        char limit[32];
        std::snprintf(limit, sizeof limit, "%g", state_->wait_limit.count());
        auto text = "device " + std::to_string(guilty) + " did not arrive within the deadline of " + limit +
                    " s: device " + std::to_string(rank_) + " waited for device " + std::to_string(source) + " in " +
                    what.name + " (" + what.strategy + ", schedule step " + std::to_string(what.step) +
                    ") of training step " + std::to_string(training_step_) +
                    "; if it is only slow, raise the option `deadline`";
        return text;
    }

    std::shared_ptr<shared_state> state_;
    int rank_;
    int allocated_ = 0;
    std::uint32_t base_ = 0;     ///< of the step count, when the current collective began
    std::uint32_t calls_ = 0;    ///< collectives entered
    std::uint64_t compared_ = 0; ///< peers, a bit each, whose call agrees with the current one
    bool inside_ = false;        ///< a collective
    std::optional<deadline> asking_until_;
    std::uint64_t training_step_ = 0;
    traffic moved_;
    std::array<host_memory, max_arenas> memory_;
};

} // namespace trireme::threads
