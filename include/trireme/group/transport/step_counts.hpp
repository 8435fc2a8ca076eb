// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/group/communicator.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

// How ranks that see one memory keep in step, be they threads or processes: each counts the steps it has completed, and
// waits for the counts of those it reads from.

/// The most arenas that a rank may allocate; a trainer needs five.
inline constexpr int max_arenas = 8;

/// The number of a rank's next arena. Throws usage_error if there are too many.
inline int next_arena(int& allocated) {
    if (allocated == max_arenas)
        throw usage_error("a rank of a group has at most " + std::to_string(max_arenas) + " arenas");
    return allocated++;
}

/// Throws usage_error if groups within groups do not have all ranks.
TRIREME_COLD inline void check_levels(int ranks, levels const& groups) {
    if (groups.count != 0 && groups.ranks() != ranks)
        throw usage_error("a group of " + std::to_string(ranks) + " ranks was given levels of " +
                          std::to_string(groups.ranks()) + ": their sizes multiplied are the ranks");
}

/// Throws usage_error on a rank that begins a collective within another.
[[noreturn]] TRIREME_COLD inline void refuse_second_call(std::string const& who, char const* call, char const* other) {
    throw usage_error(who + " called " + call + " while its " + other + " was in flight: wait for that first");
}

/// The words of a collective_call in which ranks must agree, without addresses: the same words mean the same in any
/// process. Texts are cut where they are longer than their place.
class call_words {
public:
    static constexpr std::size_t count = 20;

    call_words() = default;
    explicit call_words(collective_call const& c) noexcept {
        write(0, 2, c.name);
        write(2, 5, c.strategy);
        write(7, 3, c.op);
        write(10, 1, c.dtype);
        words[11] = c.elements;
        words[12] = c.element_bytes;
        words[13] = static_cast<std::uint32_t>(c.root);
        words[14] = static_cast<std::uint32_t>(c.steps);
        words[15] = static_cast<std::uint32_t>(c.chunks);
        write(16, 1, c.subject.what);
        words[17] = c.subject.count;
        words[18] = c.subject.digest;
        words[19] = std::bit_cast<std::uint32_t>(c.subject.learning_rate);
    }
    bool operator==(call_words const&) const = default;

    /// "all_reduce<ring>(1024 x f32, sum, root 0; 6 steps, 4 chunks)".
    TRIREME_COLD std::string text() const {
        auto const dtype = read(10, 1), op = read(7, 3);
        auto said = read(0, 2) + '<' + read(2, 5) + ">(";
        if (!dtype.empty()) said += std::to_string(words[11]) + " x " + dtype + ", ";
        if (dtype == "bytes") said += std::to_string(words[12]) + " each, ";
        if (!op.empty()) said += op + ", ";
        return said + "root " + std::to_string(words[13]) + "; " + std::to_string(words[14]) + " steps, " +
               std::to_string(words[15]) + " chunks)";
    }

    /// True if the calls are alike, and only the data that they work for differs.
    bool differs_in_subject_only(call_words const& other) const noexcept {
        return words != other.words && std::equal(words.begin(), words.begin() + 16, other.words.begin());
    }
    /// "64 samples with digest 0123456789abcdef, learning rate 0.1".
    TRIREME_COLD std::string subject_text() const {
        auto const what = read(16, 1);
        if (what.empty()) return "no data";
        auto const rate = std::bit_cast<float>(static_cast<std::uint32_t>(words[19]));
        return std::to_string(words[17]) + ' ' + what + " with digest " + digest_text(words[18]) + ", learning rate " +
               number_text(rate);
    }

    std::array<std::uint64_t, count> words{};

private:
    void write(std::size_t at, std::size_t n, char const* text) noexcept {
        std::memcpy(&words[at], text, strnlen(text, n * 8));
    }
    std::string read(std::size_t at, std::size_t n) const {
        char text[8 * count + 1] = {};
        std::memcpy(text, &words[at], n * 8);
        return text;
    }
};

/// The error of all ranks when two ranks have called different collectives as their collective of that number.
TRIREME_COLD inline mismatch_error different_calls(char const* member, std::uint32_t number, int rank,
                                                   call_words const& called, int other, call_words const& other_called,
                                                   std::uint32_t other_number) {
    auto const name = [&](int r) { return std::string(member) + ' ' + std::to_string(r); };
    if (number == other_number && called.differs_in_subject_only(other_called))
        return mismatch_error(std::string("the ") + member + "s of a group do not work on the same data: " +
                              name(rank) + " has " + called.subject_text() + ", " + name(other) + " has " +
                              other_called.subject_text() + "; give all of them the same data, and the same rate");
    return mismatch_error(std::string("the ") + member + "s of a group called different collectives, their number " +
                          std::to_string(number) + ": " + name(rank) + " called " + called.text() + ", " + name(other) +
                          " called " + other_called.text() +
                          (number == other_number ? "" : " as its number " + std::to_string(other_number)) +
                          "; all must make the same calls in the same order");
}

/// The last call of a rank, for its peers to compare. A peer may look while the owner, ahead of it, writes the next:
/// then `number` says that there is nothing to compare.
struct published_call {
    std::atomic<std::uint32_t> number{0}; ///< of the collective, counted from 1
    std::array<std::atomic<std::uint64_t>, call_words::count> words{};

    void publish(std::uint32_t n, call_words const& w) noexcept {
        number.store(n, std::memory_order_relaxed);
        // who sees one of these sees the number, too
        for (std::size_t i = 0; i < w.words.size(); ++i) words[i].store(w.words[i], std::memory_order_release);
    }

    /// Belongs to `number` if that is the same before and after.
    call_words read() const noexcept {
        call_words w;
        for (std::size_t i = 0; i < w.words.size(); ++i) w.words[i] = words[i].load(std::memory_order_acquire);
        return w;
    }
};

/// Lanes are the collectives that a rank can be in at once: one in the whole group, and one in each part of it that it
/// belongs to.
inline constexpr int max_lanes = 4;

/// The part of a lane that a rank shows its peers. Written by its owner, read by the others after a wait.
template<class Progress>
struct step_lane {
    Progress steps;                                      ///< steps completed, over all collectives
    published_call call;                                 ///< the collective it is in
    alignas(cache_line) std::atomic<bool> moving{false}; ///< may read from its peers' buffers, and write to them
};

/// All that a rank shows its peers, likewise.
template<class Progress>
struct step_slot {
    std::array<step_lane<Progress>, max_lanes> lanes;
    std::atomic<int> waits_for{-1};              ///< the rank it sleeps for or asks after, -1 if it computes
    std::atomic<int> waits_in{0};                ///< which of that rank's lanes
    std::atomic<std::uint32_t> waits_until{0};   ///< which count of its steps there
    std::atomic<std::uint64_t> training_step{0}; ///< as the rank has said, for messages
};

/// The state that a group's ranks share. The communicator below works with all such states; they differ in where memory
/// comes from, how a reason to stop reaches the others, and how one looks after peers during a long wait.
template<class S>
concept step_counting_state = requires(S& s, int rank, int lane, std::exception_ptr why, collective_call const& call) {
    { S::member } -> std::convertible_to<char const*>; // what messages call a rank: "device"
    { s.size() } -> std::convertible_to<int>;
    { s.known_as(rank) } -> std::same_as<int>; // the number that messages and errors give a rank
    s.slot(rank).lanes[0].steps.reached(std::uint32_t{});
    { s.stopped() } -> std::same_as<std::atomic<bool> const&>;
    s.stop(rank, why);   // ends all waits; the first reason is kept
    s.throw_stopped();   // what a rank throws that finds the group stopped
    s.look_around(rank); // before each sleep of a long wait: stops the group if a peer is gone
    { s.is_gone(rank) } -> std::same_as<bool>;
    { s.allocate(rank, int{}, std::size_t{}) } -> std::same_as<void*>; // an arena of `rank`, the caller
    { s.at(rank, int{}) } -> std::convertible_to<void*>;               // where `rank` has it
    s.show_buffers(rank, lane, call);                                  // where the numbers of `rank`, the caller, are
    { s.buffers_of(rank, lane) } -> std::same_as<collective_call const&>;
    s.state_of(rank); // a clause about a late rank, for messages
    { s.withdrawal_limit() } -> std::convertible_to<std::chrono::duration<double>>; // of `withdraw`, below
};

/// The longest that a rank which gives a collective up waits for others, where what they still use is not freed: a
/// part of the deadline, which has passed when the rank gives up because another is late.
inline std::chrono::duration<double> short_withdrawal(std::chrono::duration<double> wait_limit) noexcept {
    return std::min<std::chrono::duration<double>>(wait_limit / 10, std::chrono::milliseconds(250));
}

/// True if rank `next` has come as far as somebody waits for who shows this slot.
template<class State, class Slot>
bool has_come(State& state, Slot const& waiting, int next) noexcept {
    auto const lane = static_cast<std::size_t>(waiting.waits_in.load(std::memory_order_relaxed));
    return state.slot(next).lanes[lane].steps.reached(waiting.waits_until.load(std::memory_order_relaxed));
}

/// The rank to blame when a rank has waited too long for `source`: the waits lead from `source` to a rank that waits
/// for no other, or for one that is there by now.
template<class State>
int culprit_of(State& state, int source) noexcept {
    for (int hops = 0; hops < state.size(); ++hops) {
        auto& waiting = state.slot(source);
        int const next = waiting.waits_for.load(std::memory_order_acquire);
        if (next < 0 || next >= state.size() || has_come(state, waiting, next)) break;
        source = next;
    }
    return source;
}

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

    /// Begins a collective. Throws usage_error if the last one has not been left.
    collective_call enter(collective_call const& call) {
        require_outside(call);
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
    /// deadline runs from the first answer that is no.
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
                asking_until_ = deadline::in(state_->wait_limit);
                look_again_ = deadline::in(look_interval);
            } else if (asking_until_->passed()) {
                throw_late(source, what);
            } else if (look_again_->passed()) {
                look_again_ = deadline::in(look_interval);
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
        // an exception that has not been caught yet is not known here, and follows
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

    /// Throws if the group has been stopped: for long computations between waits.
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
        right = right && found == 1 && !whole.slot().lanes[static_cast<std::size_t>(lane)].steps.reached(1);
        if (right) return lane;
        throw usage_error("a part of a group is made of the whole group's ranks, each once and this one among them, "
                          "with a lane from 1 to " +
                          std::to_string(max_lanes - 1) + " that no other part has used");
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

    TRIREME_COLD std::string name_of(int rank) const {
        return std::string(State::member) + ' ' + std::to_string(state_->known_as(known(rank)));
    }

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
        auto const outcome =
            theirs.wait(target, state_->stopped(), deadline::in(state_->wait_limit), state_->waiting, [&] {
                waits(source, steps);
                state_->look_around(rank_);
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
        return std::string(State::member) + ' ' + std::to_string(state_->known_as(guilty)) +
               " did not arrive within the deadline of " + seconds_text(state_->wait_limit) + " s: " + name_of(place_) +
               " waited for " + name_of(source) + " in " + what.name + " (" + what.strategy + ", schedule step " +
               std::to_string(what.step) + ") of training step " +
               std::to_string(slot().training_step.load(std::memory_order_relaxed)) + state_->state_of(guilty) +
               "; if it is only slow, raise the option `deadline`";
    }

    int place_ = 0, size_ = 0;
    std::vector<int> members_; ///< by place, if this is a part
    int allocated_ = 0;
    collective_call call_;       ///< the last one
    collective_subject subject_; ///< of the next one
    call_words words_;           ///< the same, to compare
    std::uint32_t base_ = 0;     ///< of the step count, when the current collective began
    std::uint32_t calls_ = 0;    ///< collectives entered
    std::uint64_t compared_ = 0; ///< peers, a bit each, whose call agrees with the current one
    bool inside_ = false;        ///< a collective
    int asked_ = -1;             ///< the rank that has not come as far, by the last answer
    std::optional<deadline> asking_until_, look_again_;
    traffic moved_;
    own_process process_;
};

} // namespace trireme
