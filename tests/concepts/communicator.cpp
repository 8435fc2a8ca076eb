// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Communicators that model docs/concepts/communicator.md and nothing more: they run collectives, channels and trainers.
// What they do is what ranks of threads do, of which they show no more than the page asks for.

#include <trireme/collective/link_channel.hpp>
#include <trireme/collective/message_run.hpp>
#include <trireme/collective/rank_messages.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <any>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace communicator_concept_test {
using namespace trireme;

// [pull_archetype]
class pulling { // a rank of a group whose ranks read one another's memory
public:
    explicit pulling(threads::communicator& rank) : rank_(rank) {}
    pulling(pulling const&) = delete;
    pulling& operator=(pulling const&) = delete;
    void operator&() const = delete;

    // communicator
    int rank() const { return rank_.rank(); }
    int size() const { return rank_.size(); }
    arena allocate(std::size_t bytes) { return rank_.allocate(bytes); }
    traffic pulled() const { return rank_.pulled(); }

    // pull_communicator
    template<class T>
    T const* peer(arena const& a, int rank) const {
        return rank_.peer<T>(a, rank);
    }
    collective_call enter(collective_call const& call) { return rank_.enter(call); }
    collective_call const& call_of(int rank) { return rank_.call_of(rank); }
    void resume() { rank_.resume(); }
    void pause() { rank_.pause(); }
    void wait_for(int rank, int after, operation const& what) { rank_.wait_for(rank, after, what); }
    bool has_completed(int rank, int after, operation const& what) { return rank_.has_completed(rank, after, what); }
    void complete(int step) { rank_.complete(step); }
    void leave(int steps) { rank_.leave(steps); }
    void withdraw() noexcept { rank_.withdraw(); }
    void abandon(operation const& what) noexcept { rank_.abandon(what); }
    void count(traffic moved) { rank_.count(moved); }

protected:
    threads::communicator& rank_;
};
static_assert(pull_communicator<pulling> && collective_communicator<pulling>);
// [/pull_archetype]

// [training_archetype]
class training : public pulling { // what a trainer asks for besides
public:
    using pulling::pulling;
    static constexpr bytes_t control_bytes = threads::communicator::control_bytes;

    void at_training_step(std::uint64_t step) { rank_.at_training_step(step); }
    void works_on(collective_subject const& subject) { rank_.works_on(subject); }
    void check_stopped() const { rank_.check_stopped(); }
};
static_assert(training_communicator<training>);
// [/training_archetype]

// [channel_archetype]
class counting : public pulling { // what channels ask for besides
public:
    using pulling::pulling;
    using pulling::wait_for;
    class counter { // of messages
    public:
        void advance_to(std::uint32_t n) { count_.advance_to(n); }
        bool reached(std::uint32_t n) const { return count_.reached(n); }

    private:
        friend counting;
        threads::communicator::counter count_;
    };

    template<class T>
    T* shared(arena const& a, int rank) const {
        return rank_.shared<T>(a, rank);
    }
    void wait_for(counter& theirs, std::uint32_t n, int rank, operation const& what) {
        rank_.wait_for(theirs.count_, n, rank, what);
    }
    void check_stopped() const { rank_.check_stopped(); }
};
static_assert(channel_communicator<counting> && shared_memory_communicator<counting>);
// [/channel_archetype]

/// Messages of a group of threads: what a rank has sent lies here until it is received.
class post {
public:
    using bytes = std::vector<std::byte>;
    void put(int from, int to, bytes what) {
        std::lock_guard const lock(mutex_);
        lying_[{from, to}].push_back(std::move(what));
    }
    bool take(int from, int to, void* where, std::size_t size) {
        std::lock_guard const lock(mutex_);
        auto& way = lying_[{from, to}];
        if (way.empty()) return false;
        if (size != 0) std::memcpy(where, way.front().data(), std::min(size, way.front().size()));
        way.pop_front();
        return true;
    }

private:
    std::mutex mutex_;
    std::map<std::pair<int, int>, std::deque<bytes>> lying_;
};

// [message_archetype]
class sending { // a rank of a group whose ranks send one another messages, and share no memory
public:
    class message_queue {
    public:
        message_queue(post& way, int rank) : way_(way), rank_(rank) {}

        void enter(collective_call const&) {}
        void send(int to, void const* from, std::size_t bytes) { // may return before it has been received
            auto const* const first = static_cast<std::byte const*>(from);
            way_.put(rank_, to, {first, first + bytes});
        }
        void receive(int from, void* to, std::size_t bytes) { awaited_.push_back({from, to, bytes}); }
        bool settled(operation const&) { // whether all that has begun is there
            while (!awaited_.empty() &&
                   way_.take(awaited_.front().from, rank_, awaited_.front().to, awaited_.front().bytes))
                awaited_.pop_front();
            return awaited_.empty();
        }
        template<class F>
        void wait(operation const& what, F&& also) {
            while (!settled(what) || !also()) std::this_thread::yield();
        }
        void awaits(int) {}
        void leave() {}
        void withdraw() {}
        template<class T>
        void all_reduce(T*, std::size_t, char const*) {
            throw usage_error("this group has no all-reduce of its own");
        }
        post& way() { return way_; }

    private:
        struct message {
            int from;
            void* to;
            std::size_t bytes;
        };
        post& way_;
        int rank_;
        std::deque<message> awaited_;
    };
    using near_communicator = pulling;

    sending(post& way, int rank, int size) : queue_(way, rank), rank_(rank), size_(size) {}
    sending(sending const&) = delete;
    sending& operator=(sending const&) = delete;
    void operator&() const = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    arena allocate(std::size_t bytes) {
        memory_.emplace_back(bytes);
        return {static_cast<int>(memory_.size()) - 1, memory_.back().data(), bytes};
    }
    traffic pulled() const { return moved_; }

    near_communicator* near() { return nullptr; }    // of all ranks, if they share memory
    near_communicator* machine() { return nullptr; } // of those of one machine
    int place_of(int) { return -1; }                 // there; -1 for a rank elsewhere
    message_queue& messages() { return queue_; }
    post& way() { return queue_.way(); }
    template<class X>
    X& kept() {
        if (!kept_.has_value()) kept_ = std::make_shared<X>();
        return *std::any_cast<std::shared_ptr<X> const&>(kept_);
    }
    void withdraw() noexcept {}
    void abandon(operation const&) noexcept {}
    void count(traffic moved) { moved_ += moved; }

private:
    message_queue queue_;
    int rank_, size_;
    std::deque<host_memory> memory_;
    traffic moved_;
    std::any kept_;
};
static_assert(message_communicator<sending> && collective_communicator<sending>);
// [/message_archetype]

// [link_archetype]
class linking : public sending { // what channels between machines ask for besides
public:
    using sending::sending;
    using near_communicator = counting;
    near_communicator* near() { return nullptr; }
    near_communicator* machine() { return nullptr; }

    class link_messages { // each link has an order of its own: it is told by its tag among those of its two ranks
    public:
        link_messages(post& way, int rank) : way_(way), rank_(rank) {}
        link_messages(link_messages const&) = delete;
        link_messages& operator=(link_messages const&) = delete;

        void send(std::size_t, std::uint32_t, int to, std::size_t tag, void const* from, std::size_t bytes) {
            auto const* const first = static_cast<std::byte const*>(from);
            way_.put(sender(rank_, tag), to, {first, first + bytes});
        }
        bool has_sent(std::size_t, std::uint32_t, operation const&) { return true; } // all lies in the post
        void receive(int from, std::size_t tag, void* to, std::size_t bytes, operation const& what) {
            wait(from, what, [&] { return way_.take(sender(from, tag), rank_, to, bytes); });
        }
        template<class F>
        void wait(int, operation const&, F&& ready) {
            while (!ready()) std::this_thread::yield();
        }

    private:
        static int sender(int rank, std::size_t tag) { return rank + 1000 * static_cast<int>(tag + 1); }
        post& way_;
        int rank_;
    };
    link_messages links(std::size_t, std::size_t) { return link_messages(way(), rank()); }

    template<class T>
    T* shared(arena const& a, int) const { // of this rank: no other shares its memory
        return static_cast<T*>(a.data);
    }
    void check_stopped() const {}
};
static_assert(link_communicator<linking> && channelled_communicator<linking>);
// [/link_archetype]

// ---- each requirement is one: a member of another kind under the name takes it away ----

struct without_rank : pulling {
    struct rank;
};
struct without_size : pulling {
    struct size;
};
struct without_allocate : pulling {
    struct allocate;
};
struct without_pulled : pulling {
    struct pulled;
};
static_assert(communicator<pulling> && !communicator<without_rank> && !communicator<without_size>);
static_assert(!communicator<without_allocate> && !communicator<without_pulled>);

struct without_peer : pulling {
    struct peer;
};
struct without_enter : pulling {
    struct enter;
};
struct without_call_of : pulling {
    struct call_of;
};
struct without_resume : pulling {
    struct resume;
};
struct without_pause : pulling {
    struct pause;
};
struct without_wait_for : pulling {
    struct wait_for;
};
struct without_has_completed : pulling {
    struct has_completed;
};
struct without_complete : pulling {
    struct complete;
};
struct without_leave : pulling {
    struct leave;
};
struct without_withdraw : pulling {
    struct withdraw;
};
struct without_abandon : pulling {
    struct abandon;
};
struct without_count : pulling {
    struct count;
};
template<class... C>
inline constexpr bool none_pulls = !(pull_communicator<C> || ...) && (communicator<C> && ...);
static_assert(
    none_pulls<without_peer, without_enter, without_call_of, without_resume, without_pause, without_wait_for>);
static_assert(none_pulls<without_has_completed, without_complete, without_leave, without_withdraw, without_abandon>);
static_assert(none_pulls<without_count>);

struct without_control_bytes : training {
    struct control_bytes;
};
struct without_training_step : training {
    struct at_training_step;
};
struct without_subject : training {
    struct works_on;
};
struct without_check : training {
    struct check_stopped;
};
static_assert(!training_communicator<without_control_bytes> && !training_communicator<without_training_step>);
static_assert(!training_communicator<without_subject> && !training_communicator<without_check>);
static_assert(!training_communicator<pulling>);

class without_counter : public counting {
    using counter = void;
};
struct without_shared : counting {
    struct shared;
};
struct without_counted_wait : counting {
    void wait_for(int rank, int after, operation const& what);
};
struct without_counted_check : counting {
    struct check_stopped;
};
static_assert(!channel_communicator<without_counter> && !channel_communicator<without_shared>);
static_assert(!channel_communicator<without_counted_wait> && !channel_communicator<without_counted_check>);
static_assert(!channel_communicator<pulling> && channel_communicator<threads::communicator>);

struct without_near_type : sending {
    struct near_communicator;
};
struct without_near : sending {
    struct near;
};
struct without_machine : sending {
    struct machine;
};
struct without_place_of : sending {
    struct place_of;
};
struct without_messages : sending {
    struct messages;
};
struct without_kept : sending {
    struct kept;
};
struct without_sending_withdraw : sending {
    struct withdraw;
};
struct without_sending_abandon : sending {
    struct abandon;
};
struct without_sending_count : sending {
    struct count;
};
template<class... C>
inline constexpr bool none_sends = !(message_communicator<C> || ...);
static_assert(none_sends<without_near_type, without_near, without_machine, without_place_of, without_messages>);
static_assert(none_sends<without_kept, without_sending_withdraw, without_sending_abandon, without_sending_count>);

template<class Queue>
struct with_queue : sending {
    Queue& messages();
};
struct queue_without_enter : sending::message_queue {
    struct enter;
};
struct queue_without_send : sending::message_queue {
    struct send;
};
struct queue_without_receive : sending::message_queue {
    struct receive;
};
struct queue_without_settled : sending::message_queue {
    struct settled;
};
struct queue_without_wait : sending::message_queue {
    struct wait;
};
struct queue_without_awaits : sending::message_queue {
    struct awaits;
};
struct queue_without_leave : sending::message_queue {
    struct leave;
};
struct queue_without_withdraw : sending::message_queue {
    struct withdraw;
};
struct queue_without_all_reduce : sending::message_queue {
    struct all_reduce;
};
static_assert(message_communicator<with_queue<sending::message_queue>>);
static_assert(none_sends<with_queue<queue_without_enter>, with_queue<queue_without_send>>);
static_assert(none_sends<with_queue<queue_without_receive>, with_queue<queue_without_settled>>);
static_assert(none_sends<with_queue<queue_without_wait>, with_queue<queue_without_awaits>>);
static_assert(none_sends<with_queue<queue_without_leave>, with_queue<queue_without_withdraw>>);
static_assert(none_sends<with_queue<queue_without_all_reduce>>);

struct without_link_type : linking {
    struct link_messages;
};
struct without_links : linking {
    struct links;
};
struct without_link_shared : linking {
    struct shared;
};
struct without_link_check : linking {
    struct check_stopped;
};
template<class Links>
struct with_links : linking {
    using link_messages = Links;
    Links links(std::size_t, std::size_t);
};
struct links_without_send : linking::link_messages {
    struct send;
};
struct links_without_has_sent : linking::link_messages {
    struct has_sent;
};
struct links_without_receive : linking::link_messages {
    struct receive;
};
struct links_without_wait : linking::link_messages {
    struct wait;
};
template<class... C>
inline constexpr bool none_links = !(link_communicator<C> || ...) && !(channelled_communicator<C> || ...);
static_assert(link_communicator<with_links<linking::link_messages>> && !channelled_communicator<sending>);
static_assert(none_links<without_link_type, without_links, without_link_shared, without_link_check>);
static_assert(none_links<with_links<links_without_send>, with_links<links_without_has_sent>>);
static_assert(none_links<with_links<links_without_receive>, with_links<links_without_wait>>);

// ---- they do what their concepts are for ----

/// Collectives of every form, on one rank of `comm`; says whether all gave what they should.
template<class C>
bool reduces(C& comm) {
    int const n = comm.size();
    std::vector<float> numbers(7, static_cast<float>(comm.rank() + 1)), sums(7);
    auto const sum = static_cast<float>(n * (n + 1)) / 2;
    bool right = true;
    all_reduce<ring>(comm, numbers, sums); // from one buffer to another
    for (auto const x : sums) right = right && x == sum;
    auto begun = start_all_reduce<double_binary_tree>(comm, numbers); // in place, and step by step
    while (!begun.advance()) std::this_thread::yield();
    begun.wait();
    for (auto const x : numbers) right = right && x == sum;
    auto const ranks = all_gather<direct>(comm, comm.rank());
    for (int r = 0; r < n; ++r) right = right && ranks[static_cast<std::size_t>(r)] == r;
    barrier<dissemination>(comm);
    return right && comm.pulled().bytes > 0;
}

/// Runs f(communicator of threads) on three ranks, and says whether it is true on all.
template<class F>
bool on_three(F const& f) {
    threads::group devices(3);
    std::atomic<int> right = 0;
    devices.run([&](threads::communicator& c) { right += f(c) ? 1 : 0; });
    return right == 3;
}

/// A transport whose devices are archetypes.
class archetype_ranks {
public:
    using communicator = training;
    static constexpr bool of_one_process = true;

    template<class RunOptions, class Agreed>
    archetype_ranks(RunOptions const& r, parallel_layout const& l, Agreed const&) : group_(l.devices(), r.deadline) {
        for (int rank = 0; rank < l.devices(); ++rank) ranks_.emplace_back(group_.at(rank));
    }
    bool stopped() const noexcept { return group_.stopped(); }
    int first() const noexcept { return 0; }
    template<class State, class Job>
    void run(std::shared_ptr<State> const& state, Job job) {
        group_.run([&](threads::communicator& c) { job(*state, ranks_[static_cast<std::size_t>(c.rank())]); });
    }

private:
    threads::group group_;
    std::deque<training> ranks_;
};
struct by_archetypes : transport_traits {
    static constexpr bool joins_hosts = true;
    template<bool Staged>
    using ranks = archetype_ranks;
};

template<class... Policies>
std::vector<float> trained() {
    std::vector<float> numbers;
    std::vector<int> classes;
    for (int i = 0; i < 24; ++i) {
        for (int k = 0; k < 3; ++k) numbers.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
        classes.push_back(i % 2);
    }
    samples_in_memory const samples(numbers, make_shape(3), classes, 2);
    using net = network<input<3>, linear<4>, sigmoid, linear<2>>;
    trainer<net, cross_entropy, sgd, on<mesh<host, dp<3>>>, reduce_by<ring>, Policies...> t{{.batch = 24, .seed = 4}};
    for (int i = 0; i < 5; ++i) t.step(samples);
    auto all = t.gather_parameters();
    all.push_back(static_cast<float>(t.evaluate(samples).loss));
    return all;
}
} // namespace communicator_concept_test

TEST_SUITE("concepts/communicator") {
    using namespace communicator_concept_test;

    TEST_CASE("the archetype that pulls runs collectives") {
        CHECK(on_three([](threads::communicator& c) {
            pulling me(c);
            return reduces(me);
        }));
    }

    TEST_CASE("the archetype that sends messages runs the same collectives") {
        post way;
        CHECK(on_three([&](threads::communicator& c) {
            sending me(way, c.rank(), c.size());
            return reduces(me);
        }));
    }

    TEST_CASE("the archetype of channels carries messages") {
        CHECK(on_three([](threads::communicator& c) {
            counting me(c);
            auto const numbers = me.allocate(sizeof(int));
            channel_link const links[] = {{0, 1}, {1, 2}};
            rank_channels channels(me, links);
            operation const what{"test", "", 0};
            auto& mine = *static_cast<int*>(numbers.data);
            if (me.rank() == 0) mine = 42;
            if (me.rank() != 0)
                channels.receive(static_cast<std::size_t>(me.rank() - 1), what, [&](int from) {
                    mine = *me.peer<int>(numbers, from) + 1;
                    return sizeof(int);
                });
            if (me.rank() != 2) {
                auto const link = static_cast<std::size_t>(me.rank());
                channels.wait_taken(link, channels.send(link), what);
            }
            rank_messages messages(me);
            if (me.rank() == 2) messages.send(0, 7);
            return mine == 42 + me.rank() && (me.rank() != 0 || messages.template receive<int>(2).front() == 7);
        }));
    }

    TEST_CASE("the archetype of links carries messages, of two links between two ranks in any order") {
        post way;
        CHECK(on_three([&](threads::communicator& c) {
            linking me(way, c.rank(), 3);
            channel_link const links[] = {{0, 1}, {0, 1}, {1, 2}};
            rank_channels channels(me, links);
            operation const what{"test", "", 0};
            int got[2] = {}, mine[2] = {42, 43};
            auto const receive = [&](std::size_t link, int& to) {
                channels.receive(
                    link, what, std::as_writable_bytes(std::span(&to, 1)),
                    [](int) -> std::byte const* { throw usage_error("no memory is shared"); },
                    [](std::byte const*) { return sizeof(int); });
            };
            for (std::size_t const link : {0u, 1u})
                if (me.rank() == 0) channels.wait_taken(link, channels.send(link, mine + link, sizeof(int)), what);
            if (me.rank() == 1) receive(1, got[1]), receive(0, got[0]), channels.send(2, got, sizeof(int));
            if (me.rank() == 2) receive(2, got[0]);
            rank_messages messages(me);
            if (me.rank() == 2) messages.send(0, 7);
            if (me.rank() == 2) messages.send(0, 8);
            for (int const number : {7, 8})
                if (me.rank() == 0 && messages.template receive<int>(2).front() != number) return false;
            return (me.rank() == 0 || got[0] == 42) && (me.rank() != 1 || got[1] == 43);
        }));
    }

    TEST_CASE("the archetype of a trainer's communicator trains with the bits of threads") {
        CHECK(trained<transport<by_archetypes>>() == trained<>());
    }
}
