// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/device/host/watched_deadline.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/transport/call_words.hpp>
#include <trireme/group/transport/step_slots.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

// Ranks that see one memory, threads or processes, keep in step by counts: each rank counts the steps it has completed,
// and waits for the counts of the ranks it reads from.

/// One rank of a group whose ranks see one memory: the part of a pull_communicator that keeps them in step.
///
/// An object is a handle on the whole group, or on a part of it, whose ranks are numbered by their place in the list of
/// its members. Parts count steps of their own; arenas, the reason to stop, who waits for whom, and the numbers that
/// messages give the ranks are those of the whole group.
template<step_counting_state State>
class step_counting {
public:
    step_counting(std::shared_ptr<State> state, int rank)
        : state_(std::move(state)), rank_(rank), place_(rank), size_(state_->size()) {}
    /// Makes a rank's handle on a part of the group of `whole`. Every member makes it with the same `lane`, from 1 to
    /// max_lanes - 1, and the same members; a rank has one part per lane. Throws usage_error for anything else.
    step_counting(step_counting const& whole, int lane, std::vector<int> members)
        : state_(whole.state_), rank_(whole.rank_), lane_(checked(whole, lane, members)), members_(std::move(members)) {
        size_ = static_cast<int>(members_.size());
        while (members_[static_cast<std::size_t>(place_)] != rank_) ++place_;
    }
    step_counting(step_counting const&) = delete;
    step_counting& operator=(step_counting const&) = delete;

    int rank() const noexcept { return place_; }
    int size() const noexcept { return size_; }

    /// The levels of ranks that are near one another; none if they were not given, and in a part of the group.
    levels groups() const noexcept { return is_part() ? levels{} : state_->groups; }

    /// Zeroed memory that peers can use. Every rank of the whole group calls it in the same order; a peer may use the
    /// result once a collective has been entered.
    arena allocate(std::size_t bytes) {
        process_.require();
        if (is_part()) throw usage_error("a part of a group was asked for an arena: the whole group has them");
        auto const id = next_arena(allocated_);
        return {id, state_->allocate(rank_, id, bytes), bytes};
    }

    template<class T>
    T const* peer(arena const& a, int rank) const {
        return shared<T>(a, rank);
    }
    /// The memory of a rank's arena to write to; `peer` gives it to read.
    template<class T>
    T* shared(arena const& a, int rank) const {
        return static_cast<T*>(static_cast<void*>(state_->at(known(rank), a.id)));
    }

    /// Begins a collective. Throws usage_error if the last one has not been left, and the reason if the group has been
    /// stopped: the counts of one that was given up may be as high as this one's.
    collective_call enter(collective_call const& call) {
        require_outside(call);
        check_stopped();
        state_->show_buffers(rank_, lane_, call);
        inside_ = true;
        compared_ = 0;
        asking_until_.reset();
        bool const same = same_literals(call);
        call_ = call;
        call_.subject = subject_;
        if (!same) words_ = call_words(call_);
        auto& here = own();
        here.call.publish(++calls_, words_);
        here.steps.advance_to(base_ + 1);
        return call;
    }

    /// From here until `pause` or `leave` this rank may use its peers' buffers.
    void resume() {
        process_.require();
        own().moving.store(true, std::memory_order_seq_cst);
    }
    void pause() noexcept { own().moving.store(false, std::memory_order_release); }

    /// The buffers of a peer's call, once a wait for the peer has returned; the call agrees with this rank's. Throws if
    /// the peer has called another collective, or has left this one already, or if the group has been stopped.
    collective_call const& call_of(int source) {
        // in this order after `resume`: who stops the group and then finds that nothing moves may free its buffers
        if (state_->stopped().load(std::memory_order_seq_cst)) end_here();
        if (!compare(source)) disagree(source);
        return state_->buffers_of(known(source), lane_);
    }

    void complete(int step) noexcept { own().steps.advance_to(base_ + 2 + static_cast<std::uint32_t>(step)); }
    void leave(int steps) noexcept {
        base_ += static_cast<std::uint32_t>(steps) + 1;
        inside_ = false;
        pause();
    }

    /// Waits until `source` has completed `after` steps of the collective that this rank has entered.
    void wait_for(int source, int after, operation const& what) {
        auto& theirs = lane_of(source).steps;
        auto const target = base_ + 1 + static_cast<std::uint32_t>(after);
        if (!theirs.reached(target)) {
            // a rank that is in another collective may never get there: it is compared as soon as it has entered
            if (!theirs.reached(base_ + 1)) wait_long(theirs, base_ + 1, source, what);
            compare(source);
            if (!theirs.reached(target)) wait_long(theirs, target, source, what);
        }
        compare(source);
    }

    /// A counter in an arena, by which two ranks keep in step outside of collectives.
    using counter = std::remove_cvref_t<decltype(std::declval<State&>().slot(0).lanes[0].steps)>;

    /// Waits until such a counter of `source` has come to `target`.
    void wait_for(counter& theirs, std::uint32_t target, int source, operation const& what) {
        process_.require();
        if (!theirs.reached(target)) wait_long(theirs, target, source, what, never(source));
    }

    /// True if `source` has completed `after` steps: `wait_for` as a question. Throws what a wait would throw; the
    /// deadline runs from the first answer that is no, while questions are less than a second apart.
    bool has_completed(int source, int after, operation const& what) {
        auto& theirs = lane_of(source).steps;
        if (state_->stopped().load(std::memory_order_relaxed)) end_here();
        bool done = theirs.reached(base_ + 1);
        if (done) {
            compare(source);
            done = theirs.reached(base_ + 1 + static_cast<std::uint32_t>(after));
        }
        if (!done) {
            // a peer that waits for this rank looks further
            waits(source, base_ + 1 + static_cast<std::uint32_t>(after));
            if (!asking_until_ || asked_ != source) {
                asked_ = source;
                asking_until_.emplace(deadline::in(state_->wait_limit));
                look_again_ = asking_until_->looked() + look_interval;
            } else if (asking_until_->passed()) {
                throw_late(source, what);
            } else if (asking_until_->looked() >= look_again_) {
                look_again_ = asking_until_->looked() + look_interval;
                state_->look_around(rank_);
            }
        } else if (asking_until_ && asked_ == source) {
            slot().waits_for.store(-1, std::memory_order_release);
            asking_until_.reset();
        }
        return done;
    }

    /// Leaves a collective that an exception ends here: stops the group, and returns when no peer uses this rank's
    /// buffers any more, so that they can be freed; at the latest after the state's `withdrawal_limit`.
    TRIREME_COLD void withdraw() noexcept {
        if (!process_.is_this()) return; // what is shared belongs to the process that was forked
        inside_ = false;
        pause();
        // an exception that has not been caught yet is not known here, and follows if it leaves the group's function
        if (!state_->stopped().load()) state_->stop(rank_, std::current_exception());
        auto const limit = deadline::in(state_->withdrawal_limit());
        for (int r = 0; r < state_->size(); ++r)
            while (r != rank_ && is_moving(state_->slot(r)) && !limit.passed() && !state_->is_gone(r))
                std::this_thread::yield();
    }

    /// Withdraws from a collective that this rank has begun and will not go on with.
    TRIREME_COLD void abandon(operation const& what) noexcept {
        state_->stop(rank_,
                     std::make_exception_ptr(usage_error(
                         std::string(what.name) + " (" + what.strategy + ") was begun and dropped in schedule step " +
                         std::to_string(what.step) + ": keep what start returns, and wait for it")));
        withdraw();
    }

    void count(traffic moved) noexcept { moved_ += moved; }

    /// The traffic that this rank has read from peers, or written to them, since it was made.
    traffic pulled() const noexcept { return moved_; }

    /// The training step, for messages.
    void at_training_step(std::uint64_t step) noexcept { slot().training_step.store(step, std::memory_order_relaxed); }

    /// The data that the next collectives work for. Ranks whose data differ are told so by the first of them.
    void works_on(collective_subject const& s) noexcept { subject_ = s; }

    /// Throws if the group has been stopped: between collectives, and in long computations between waits.
    void check_stopped() const {
        if (state_->stopped().load(std::memory_order_relaxed)) state_->throw_stopped();
    }

protected:
    void require_outside(collective_call const& call) const {
        process_.require();
        if (inside_) refuse_second_call(name_of(place_), call.name, call_.name);
    }
    bool is_part() const noexcept { return lane_ != 0; }

    std::shared_ptr<State> state_;
    int rank_; ///< in the whole group
    int lane_ = 0;

private:
    static constexpr std::chrono::milliseconds look_interval{100};

    static int checked(step_counting const& whole, int lane, std::vector<int> const& members) {
        bool right = !whole.is_part() && lane > 0 && lane < max_lanes;
        int found = 0;
        for (auto const r : members) {
            right = right && r >= 0 && r < whole.size();
            found += r == whole.rank_ ? 1 : 0;
        }
        auto const bit = right && found == 1 ? std::uint32_t{1} << lane : 0;
        if (bit != 0 && (std::exchange(whole.lanes_taken_, whole.lanes_taken_ | bit) & bit) == 0) return lane;
        throw usage_error("a part of a group is made of the whole group's ranks, each once and this one among them, "
                          "with a lane from 1 to " +
                          std::to_string(max_lanes - 1) + " that no other part has taken");
    }

    /// The number in the whole group of a rank.
    int known(int place) const noexcept { return is_part() ? members_[static_cast<std::size_t>(place)] : place; }
    auto& slot() const noexcept { return state_->slot(rank_); }
    auto& lane_of(int place) const noexcept {
        return state_->slot(known(place)).lanes[static_cast<std::size_t>(lane_)];
    }
    auto& own() const noexcept { return slot().lanes[static_cast<std::size_t>(lane_)]; }
    template<class Slot>
    static bool is_moving(Slot const& s) noexcept {
        for (auto const& lane : s.lanes)
            if (lane.moving.load(std::memory_order_seq_cst)) return true;
        return false;
    }

    /// Throws why the group has been stopped. Its first reason may still be on its way from a rank that waits until
    /// nobody uses its buffers any more, and so it has to be said first that this one does not.
    [[noreturn]] TRIREME_COLD void end_here() {
        pause();
        state_->throw_stopped();
    }

    /// Says for whom this rank waits, for those who wait for it.
    void waits(int source, std::uint32_t target) noexcept {
        slot().waits_until.store(target, std::memory_order_relaxed);
        slot().waits_in.store(lane_, std::memory_order_relaxed);
        slot().waits_for.store(known(source), std::memory_order_release);
    }

    /// True if a call differs from the last one in nothing but its buffers, as far as one sees without reading texts.
    bool same_literals(collective_call const& c) const noexcept {
        return c.name == call_.name && c.strategy == call_.strategy && c.op == call_.op && c.dtype == call_.dtype &&
               c.elements == call_.elements && c.element_bytes == call_.element_bytes && c.root == call_.root &&
               c.steps == call_.steps && c.chunks == call_.chunks && subject_ == call_.subject;
    }

    /// Throws on all ranks if `source` has called another collective than this rank, or the same otherwise. False if it
    /// is in a later one: then it has agreed with those it had to wait for.
    bool compare(int source) {
        auto const bit = std::uint64_t{1} << (source % 64);
        if (source < 64 && (compared_ & bit) != 0) return true;
        auto const& call = lane_of(source).call;
        if (call.number.load(std::memory_order_acquire) != calls_) return false;
        bool const same = call.read() == words_;
        if (call.number.load(std::memory_order_relaxed) != calls_) return false;
        if (!same) disagree(source);
        compared_ |= source < 64 ? bit : 0;
        return true;
    }

    /// The name of a rank of the whole group, and of one by its place.
    TRIREME_COLD std::string named(int rank) const {
        return std::string(State::member) + ' ' + std::to_string(state_->known_as(rank));
    }
    TRIREME_COLD std::string name_of(int place) const { return named(known(place)); }

    [[noreturn]] TRIREME_COLD void disagree(int source) {
        auto const& call = lane_of(source).call;
        auto const number = call.number.load(std::memory_order_acquire);
        auto const error = different_calls(State::member, calls_, state_->known_as(rank_), words_,
                                           state_->known_as(known(source)), call.read(), number);
        state_->stop(rank_, std::make_exception_ptr(error));
        end_here();
    }

    /// A count of steps that a rank does not come to.
    std::uint32_t never(int rank) const noexcept { return lane_of(rank).steps.count() + (1u << 30); }

    template<class Progress>
    void wait_long(Progress& theirs, std::uint32_t target, int source, operation const& what) {
        wait_long(theirs, target, source, what, target);
    }
    /// `steps`: the count of the source's steps that others take this wait for.
    template<class Progress>
    TRIREME_NOINLINE void wait_long(Progress& theirs, std::uint32_t target, int source, operation const& what,
                                    std::uint32_t steps) {
        auto const outcome = theirs.wait(target, state_->stopped(), state_->wait_limit, state_->waiting, [&] {
            waits(source, steps);
            state_->look_around(rank_, [&] { return theirs.reached(target); });
        });
        if (outcome == wait_outcome::late) throw_late(source, what);
        slot().waits_for.store(-1, std::memory_order_release);
        if (outcome == wait_outcome::stopped) end_here();
    }

    /// Ends a wait that took too long, while this rank is still part of the chain of waits.
    [[noreturn]] TRIREME_COLD void throw_late(int source, operation const& what) {
        auto const guilty = culprit_of(*state_, known(source));
        deadline_error const error(state_->known_as(guilty), late_message(guilty, source, what));
        state_->stop(guilty, std::make_exception_ptr(error));
        throw error;
    }

    TRIREME_COLD std::string late_message(int guilty, int source, operation const& what) const {
        return late_text(named(guilty), "arrive", state_->wait_limit,
                         name_of(place_) + " waited for " + name_of(source) + " in " + what.name + " (" +
                             what.strategy + ", schedule step " + std::to_string(what.step) + ") of training step " +
                             std::to_string(slot().training_step.load(std::memory_order_relaxed)) +
                             state_->state_of(guilty));
    }

    int place_ = 0, size_ = 0;
    std::vector<int> members_;              ///< by place, if this is a part
    mutable std::uint32_t lanes_taken_ = 0; ///< by the whole group's parts, a bit each
    int allocated_ = 0;
    collective_call call_;       ///< the last one
    collective_subject subject_; ///< of the next one
    call_words words_;           ///< the same, to compare
    std::uint32_t base_ = 0;     ///< of the step count, when the current collective began
    std::uint32_t calls_ = 0;    ///< collectives entered
    std::uint64_t compared_ = 0; ///< peers, a bit each, whose call agrees with the current one
    bool inside_ = false;        ///< a collective
    int asked_ = -1;             ///< the rank that has not come as far, by the last answer
    std::optional<watched_deadline> asking_until_;
    deadline::clock::time_point look_again_; ///< at the peers, while it asks
    traffic moved_;
    own_process process_;
};

} // namespace trireme
