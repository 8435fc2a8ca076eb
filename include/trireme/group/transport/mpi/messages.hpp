// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/device/host/watched_deadline.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/transport/call_words.hpp>
#include <trireme/group/transport/mpi/arguments.hpp>
#include <trireme/group/transport/mpi/errors.hpp>
#include <trireme/group/transport/mpi/handle.hpp>
#include <trireme/group/transport/mpi/members.hpp>
#include <trireme/group/transport/mpi/notices.hpp>
#include <trireme/group/transport/mpi/session.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// The messages of one rank in a group: what is sent and received without waiting, the waits for it, and how a group
/// ends when one of its ranks fails.
///
/// The tag of a message is made of what the rank has called and of that call's number, so that only those of one call
/// meet. Who waits long tells all others what it has called: ranks that have called different things, or one that is
/// missing, are found so, and cost nothing as long as all goes well.
class mpi_messages {
public:
    /// All ranks call it together; throws deadline_error if not all do until `end`.
    mpi_messages(MPI_Comm of, std::chrono::duration<double> limit, deadline const& end)
        : limit_(limit), data_(mpi_handle::duplicate(of, end)), notices_(duplicate_again(of, end), limit) {
        MPI_Comm_rank(of, &rank_);
        MPI_Comm_size(of, &size_);
        int* most_tag = nullptr;
        int found = 0;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most_tag), &found);
        most_tag_ = found != 0 ? static_cast<std::uint32_t>(*most_tag) : 32767;
    }
    mpi_messages(mpi_messages const&) = delete;
    mpi_messages& operator=(mpi_messages const&) = delete;

    /// Ends the group, when all ranks do within `most` (mpi_notices::close); else gives it up, and returns false.
    TRIREME_COLD bool close(std::chrono::duration<double> most) noexcept {
        bool const all = notices_.close(most, [this](stop_reason const& why) { be_stopped(why); });
        if (!all) give_up();
        return all;
    }

    /// Leaves its communicators to the end of the process, for not all ranks may come to free them.
    void give_up() noexcept {
        data_.give_up();
        links_.give_up();
        notices_.give_up();
    }

    mpi_notices& notices() noexcept { return notices_; }
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    bool stopped() const noexcept { return stopped_; }
    bool inside() const noexcept { return inside_; } ///< a collective that goes by messages
    MPI_Comm comm() const noexcept { return data_.get(); }

    /// The spins of a wait before it makes room for others.
    patience waiting = {20, 4};
    /// Asked during long waits, for what else may end them: it throws.
    std::function<void()> look_around;
    /// Asked whether a rank is known to be dead: nobody waits for it then.
    std::function<bool(int)> is_gone;
    /// Told when this group stops, so that it stops elsewhere, too.
    std::function<void(stop_reason const&)> on_stop;

    void at_training_step(std::uint64_t step) noexcept { step_ = step; }

    // ---- a collective ----

    /// Begins a collective of some members. Throws usage_error if the last one has not been left.
    void enter(collective_call const& call, mpi_members& among) {
        require_usable();
        if (inside_) refuse_second_call("rank " + std::to_string(rank_), call.name, name_);
        inside_ = true;
        name_ = call.name;
        auto mine = call;
        mine.subject = among.subject;
        mine_ = call_words(mine);
        among_ = &among;
        lane_ = among.lane;
        number_ = ++among.calls;
        tag_ = tag_of(mine_, number_, lane_);
        neighbour_ = -1;
        asking_ = false;
    }
    void leave() noexcept { inside_ = false; }

    /// Throws if the group has been stopped, or given up, or if this process was forked.
    void require_usable() {
        process_.require();
        check_withdrawn();
        if (stopped_) reason_.raise();
    }

    /// Without contents if there are 0 bytes.
    void send(int to, void const* data, std::size_t bytes) {
        in_pieces(
            bytes,
            [&](std::size_t at, int count) {
                auto* const from = count == 0 ? nullptr : static_cast<std::byte const*>(data) + at;
                mpi_runtime::check(MPI_Isend(from, count, MPI_BYTE, to, tag_, data_.get(), begin({to, false})),
                                   "MPI_Isend", rank_, name_);
            },
            most_bytes);
    }
    void receive(int from, void* data, std::size_t bytes) {
        in_pieces(
            bytes,
            [&](std::size_t at, int count) {
                auto* const to = count == 0 ? nullptr : static_cast<std::byte*>(data) + at;
                mpi_runtime::check(MPI_Irecv(to, count, MPI_BYTE, from, tag_, data_.get(), begin({from, true})),
                                   "MPI_Irecv", rank_, name_);
            },
            most_bytes);
    }

    /// The neighbour that this rank waits for beside its messages, -1 for none: for those who look for whom to blame.
    void awaits(int neighbour) noexcept { neighbour_ = neighbour; }

    /// MPI's own all-reduce, in place, by the operation of that name. Throws usage_error for numbers that MPI does not
    /// know.
    template<class T>
    void all_reduce(T* data, std::size_t elements, std::string_view name) {
        if (mpi_dtype<T>() == MPI_DATATYPE_NULL)
            throw usage_error("all_reduce by native: MPI adds float, double and int32_t; choose another strategy for "
                              "other numbers");
        auto const op = name == "max" ? MPI_MAX : name == "min" ? MPI_MIN : MPI_SUM;
        in_pieces(elements, [&](std::size_t at, int count) {
            mpi_runtime::check(
                MPI_Iallreduce(MPI_IN_PLACE, data + at, count, mpi_dtype<T>(), op, data_.get(), begin({-1, false})),
                "MPI_Iallreduce", rank_, name_);
        });
    }

    /// True if all requests that were begun are over; looks after the group now and then. Throws what a wait would
    /// throw. The deadline runs from the first answer that is no, while questions are less than a second apart.
    bool settled(operation const& what) {
        if (all_over(what)) return true;
        if (!asking_)
            begin_wait();
        else
            wait_until_.passed();
        if (++turn_ % 256 == 0) look(what);
        return false;
    }

    /// Waits for all that was begun, and until `ready()`.
    template<class Ready>
    void wait(operation const& what, Ready&& ready) {
        if (requests_.empty() && ready()) return;
        bool over = false; // what was begun
        wait_until(what, [&] { return (over = over || all_over(what)) && ready(); });
    }
    /// Waits until `ready()`, whatever was begun besides.
    template<class Ready>
    void wait_for(operation const& what, Ready&& ready) {
        if (ready()) return;
        wait_until(what, ready);
        asking_ = false; // the wait for what was begun has a deadline of its own
    }

    // ---- messages outside of collectives ----

    /// The communicator of links, made when it is first asked for: by all ranks together. Throws deadline_error.
    MPI_Comm links() {
        if (links_.get() == MPI_COMM_NULL) links_ = mpi_handle::duplicate(data_.get(), deadline::in(limit_));
        return links_.get();
    }
    /// The first of so many tags that no links have had before; all ranks ask for as many, in the same order.
    int first_tag(std::size_t tags) {
        if (tags > most_tag_ - next_tag_)
            throw usage_error("links from rank to rank want " + std::to_string(tags) + " more tags, and this MPI has " +
                              std::to_string(most_tag_ - next_tag_) + " left: make a new group");
        return static_cast<int>(std::exchange(next_tag_, next_tag_ + static_cast<std::uint32_t>(tags)));
    }
    /// The change in what has been sent over links and has not been taken: a rank that computes asks MPI more often as
    /// long as there is some, for MPI moves nothing else while nobody asks.
    void sends(int more) noexcept { sending_ += more; }

    /// Gives up what was begun, and tells the others why first. What does not end by itself is waited for shortly, and
    /// what a rank that is gone had a part in not at all: where that was sent, or was MPI's own collective, MPI may use
    /// its buffers as long as this process calls MPI. The group is of no use after that.
    TRIREME_COLD void withdraw() noexcept {
        if (!process_.is_this()) return;
        inside_ = false;
        withdrawn_ = true;
        tell_exception();
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            if (requests_[i] == MPI_REQUEST_NULL) continue;
            if (pending_[i].received)
                MPI_Cancel(&requests_[i]); // what is sent, and collectives, cannot be
            else if (is_lost(pending_[i].peer))
                requests_[i] = MPI_REQUEST_NULL;
        }
        await_shortly(requests_);
        requests_.clear();
        pending_.clear();
    }

    /// Tells all other ranks of the exception that is being handled, if there is one.
    TRIREME_COLD void tell_exception() noexcept {
        if (auto const why = std::current_exception(); why != nullptr) stop(stop_reason::of(rank_, why));
    }

    // ---- how a group ends ----

    /// Tells all other ranks why this one stops; returns shortly. The first reason is kept.
    TRIREME_COLD void stop(stop_reason const& why) noexcept {
        if (stopped_ || !process_.is_this()) return;
        stopped_ = true;
        reason_ = why;
        if (on_stop) {
            try {
                on_stop(why);
            } catch (...) {}
        }
        try {
            auto n = status_now();
            n.stops = 1;
            n.why = why;
            notices_.tell_last(
                n, [this](int r) { return !is_lost(r); },
                [this](std::vector<MPI_Request>& told) { await_shortly(told); });
        } catch (std::bad_alloc const&) {} // their deadlines tell them
    }

    /// Throws if another rank has stopped the group; a look that costs little.
    void check_stopped() {
        if (stopped_) reason_.raise();
        check_withdrawn();
        auto const now = deadline::clock::now();
        if (now < next_look_) return;
        next_look_ = now + (sending_ > 0 ? std::chrono::microseconds(200) : std::chrono::milliseconds(20));
        hear();
    }

    /// Gives some requests a short while to be over; all that a stopped group gives up has one such while.
    TRIREME_COLD void await_shortly(std::vector<MPI_Request>& requests) noexcept {
        auto end = deadline::in(short_withdrawal(limit_));
        if (stopped_ || withdrawn_) {
            if (!give_up_by_) give_up_by_ = end;
            end = *give_up_by_;
        }
        for (int over = 0; over == 0;)
            if (MPI_Testall(static_cast<int>(requests.size()), requests.data(), &over, MPI_STATUSES_IGNORE) !=
                    MPI_SUCCESS ||
                end.passed())
                break;
    }

    /// Ends a wait whose request has failed: most likely the ranks sent what others did not expect.
    [[noreturn]] TRIREME_COLD void fail(int status, operation const& what) {
        auto const end = deadline::in(std::chrono::milliseconds(200));
        while (!end.passed()) hear(); // another rank may know better
        mpi_error const error(status, std::string(what.name) + " (" + what.strategy + ", schedule step " +
                                          std::to_string(what.step) + ") failed on rank " + std::to_string(rank_) +
                                          " of " + std::to_string(size_) + ": " + mpi_runtime::words_for(status));
        stop(stop_reason::of(rank_, std::make_exception_ptr(error)));
        throw error;
    }

    /// The most bytes that one message carries; tests make it small.
    std::size_t most_bytes = std::size_t{1} << 30;

private:
    using notice = mpi_notices::notice;
    struct pending {
        int peer; ///< -1: all ranks
        bool received;
    };

    /// A second communicator, for the notices, of the same ranks as the one of the messages.
    mpi_handle duplicate_again(MPI_Comm of, deadline const& end) {
        try {
            return mpi_handle::duplicate(of, end);
        } catch (...) {
            data_.give_up(); // others may not come to free it
            throw;
        }
    }

    /// True if a rank will not answer any more; of -1, if any rank will not.
    bool is_lost(int rank) const {
        if (rank < 0) return stopped_ && reason_.what == stop_reason::kind::lost;
        if (stopped_ && reason_.what == stop_reason::kind::lost && reason_.rank == rank) return true;
        return is_gone && is_gone(rank);
    }

    MPI_Request* begin(pending p) {
        pending_.push_back(p);
        return &requests_.emplace_back(MPI_REQUEST_NULL);
    }

    /// True if all requests that were begun are over.
    bool all_over(operation const& what) {
        process_.require();
        if (requests_.empty()) return true;
        int over = 0;
        auto const status =
            MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &over, MPI_STATUSES_IGNORE);
        if (status != MPI_SUCCESS) fail(status, what);
        if (over == 0) return false;
        requests_.clear();
        pending_.clear();
        asking_ = false;
        end_wait();
        return true;
    }

    void check_withdrawn() const {
        if (withdrawn_ && !stopped_) throw usage_error(given_up_collective);
    }

    /// The rank that this one waits for: of the messages that are not over those that it receives first; -1 for none.
    int awaited() const noexcept {
        for (bool const received : {true, false})
            for (std::size_t i = 0; i < requests_.size(); ++i) {
                int over = 0;
                if (pending_[i].received == received && pending_[i].peer >= 0 &&
                    MPI_Request_get_status(requests_[i], &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over == 0)
                    return pending_[i].peer;
            }
        return neighbour_;
    }

    notice status_now() const noexcept {
        notice n;
        n.rank = rank_;
        n.lane = lane_;
        n.number = number_;
        n.step = step_;
        n.awaited = awaited();
        n.generation = notices_.generation;
        n.words = mine_;
        return n;
    }

    int tag_of(call_words const& words, std::uint32_t number, int lane) const noexcept {
        std::uint64_t hash = 0xcbf29ce484222325u ^ number ^ (static_cast<std::uint64_t>(lane) << 32);
        for (auto const w : words.words) {
            hash = (hash ^ w) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        }
        return static_cast<int>(hash % most_tag_);
    }

    template<class Over>
    void wait_until(operation const& what, Over&& over) {
        begin_wait();
        mpi_runtime::watchdog::guard const guard(limit_ + std::chrono::seconds(2), what.name);
        for (int turn = 0; !over(); ++turn) {
            if (turn < waiting.spins) continue;
            wait_until_.passed(); // looks at the clock
            if (turn % 16 == 0) look(what);
            // MPI moves nothing while nobody asks, so a rank that waits long only makes room for others
            if (turn < waiting.spins + 1000)
                std::this_thread::yield();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        neighbour_ = -1;
        end_wait();
    }
    void begin_wait() noexcept {
        wait_until_ = watched_deadline(deadline::in(limit_));
        tell_at_ = look_around_at_ = wait_until_.looked() + std::chrono::milliseconds(100);
        turn_ = 0;
        asking_ = true;
    }
    /// Says that a wait which the others have been told of is over, for they look further from rank to rank by it.
    void end_wait() {
        if (!std::exchange(told_, false)) return;
        notices_.tell(status_now());
    }

    /// Takes the notices that have come. Throws if one of them stops the group.
    void hear() {
        notices_.hear([this](stop_reason const& why) { be_stopped(why); });
    }
    void be_stopped(stop_reason const& why) {
        if (stopped_) return;
        stopped_ = true;
        reason_ = why;
        if (on_stop) on_stop(reason_);
        reason_.raise();
    }

    /// The look of a rank that has waited some time, and has looked at the clock just now, at the others.
    TRIREME_NOINLINE void look(operation const& what) {
        auto const now = wait_until_.looked();
        if (now < next_look_) return;
        next_look_ = now + std::chrono::milliseconds(5);
        hear();
        for (auto const& h : notices_.heard())
            if (inside_ && h.number == number_ && h.lane == lane_ && among_->has(h.rank) && !(h.words == mine_))
                disagree(h);
        if (now >= look_around_at_ && look_around) {
            look_around_at_ = now + std::chrono::milliseconds(100);
            look_around();
        }
        if (wait_until_.left() <= deadline::clock::duration::zero()) late(what);
        if (now < tell_at_) return;
        tell_at_ = now + std::chrono::milliseconds(300);
        told_ = true;
        notices_.tell(status_now());
    }

    [[noreturn]] TRIREME_COLD void disagree(notice const& other) {
        auto const error = different_calls("rank", number_, rank_, mine_, other.rank, other.words, number_);
        stop(stop_reason::of(rank_, std::make_exception_ptr(error)));
        reason_.raise();
    }

    /// Throws the error of a wait that came too late. The waits that the ranks have told of lead to the rank to blame,
    /// one that waits for no other.
    [[noreturn]] TRIREME_COLD void late(operation const& what) {
        auto const& heard = notices_.heard();
        auto first = awaited();
        for (int r = 0; first < 0 && r < size_; ++r) // a call of MPI's own, for which all ranks wait: who is not in it
            if (auto const& h = heard[static_cast<std::size_t>(r)];
                r != rank_ && among_->has(r) && (h.number != number_ || h.lane != lane_))
                first = r;
        int const guilty = end_of_waits(first < 0 ? rank_ : first, size_, [&](int r) {
            auto const& h = heard[static_cast<std::size_t>(r)];
            return h.number == 0 || h.awaited == rank_ ? -1 : h.awaited;
        });
        auto const& theirs = heard[static_cast<std::size_t>(guilty)];
        deadline_error const error(
            guilty,
            late_text("rank " + std::to_string(guilty), "arrive", limit_,
                      "rank " + std::to_string(rank_) + " waited" +
                          (first < 0 ? std::string() : " for rank " + std::to_string(first)) + " in " + what.name +
                          " (" + what.strategy + ", schedule step " + std::to_string(what.step) + ", call number " +
                          std::to_string(number_) + ") of training step " + std::to_string(step_) +
                          (theirs.number == 0 ? "; it has said nothing"
                                              : "; the last it has told of is training step " +
                                                    std::to_string(theirs.step) + ", its call number " +
                                                    std::to_string(theirs.number) + ", " + theirs.words.text()) +
                          "; look at what it says"));
        stop(stop_reason::of(guilty, std::make_exception_ptr(error)));
        throw error;
    }

    std::chrono::duration<double> limit_;
    mpi_handle data_;
    mpi_handle links_;           ///< for messages outside of collectives, whose tags are counted and not made of calls
    std::uint32_t next_tag_ = 0; ///< there
    int sending_ = 0;            ///< messages there that have not been taken
    mpi_notices notices_;
    int rank_ = 0;
    int size_ = 1;
    std::uint32_t most_tag_ = 32767;
    std::uint64_t step_ = 0;
    mpi_members const* among_ = nullptr; ///< those of the last collective
    int lane_ = 0;                       ///< theirs
    std::uint32_t number_ = 0;           ///< of that collective among them
    int tag_ = 0;
    char const* name_ = "";
    call_words mine_;
    bool inside_ = false;
    bool withdrawn_ = false;
    bool asking_ = false; ///< since an answer that was no
    bool told_ = false;   ///< the others know of this wait
    int neighbour_ = -1;
    std::vector<MPI_Request> requests_;
    std::vector<pending> pending_; ///< what each of them is
    std::uint64_t turn_ = 0;
    watched_deadline wait_until_ = watched_deadline(deadline::in(std::chrono::seconds(0)));
    deadline::clock::time_point tell_at_ = {}, look_around_at_ = {}, next_look_ = {};
    bool stopped_ = false;
    stop_reason reason_;
    std::optional<deadline> give_up_by_;
    own_process process_;
};

} // namespace trireme
