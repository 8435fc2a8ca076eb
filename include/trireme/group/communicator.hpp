// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace trireme {

/// Names a piece of memory that every rank of a group has allocated in the same call. `id` counts those calls.
struct arena {
    int id = -1;
    void* data = nullptr;
    std::size_t bytes = 0;
};

/// The operation that a rank is in, for the message of a wait that came too late.
struct operation {
    char const* name = "";     ///< "all_reduce"
    char const* strategy = ""; ///< "ring"
    int step = 0;              ///< of the schedule
};

/// The data that a collective works for: a training step's samples, or numbers that are loaded. Ranks must agree in it.
struct collective_subject {
    char const* what = ""; ///< "samples"; at most eight characters
    std::uint64_t count = 0;
    std::uint64_t digest = 0;
    float learning_rate = 0;
    bool operator==(collective_subject const&) const = default;
};

/// A rank's part in one call of a collective: what all ranks must agree in, and where its numbers are.
struct collective_call {
    // compared between ranks; texts are literals
    char const* name = "";     ///< "all_reduce"
    char const* strategy = ""; ///< "ring"
    char const* op = "";       ///< "sum"; empty where nothing is added
    char const* dtype = "";    ///< "float"
    std::uint64_t elements = 0;
    std::uint32_t element_bytes = 0;
    int root = 0;
    int steps = 0; ///< of the schedule
    int chunks = 0;
    collective_subject subject = {}; ///< set by the communicator

    // the rest is this rank's alone. A buffer may hold a part of the schedule's: byte `from` of that is its first.
    std::byte const* in = nullptr;
    std::byte* out = nullptr; ///< the same address for a collective in place
    std::size_t in_bytes = 0; ///< that the buffer has
    std::size_t out_bytes = 0;
    std::size_t in_from = 0;
    std::size_t out_from = 0;

    bool in_place() const noexcept { return in == out && in_from == out_from; }
};

/// One rank's handle on a group. Storage comes from here, because the transport decides what a peer can reach: the heap
/// for threads, a shared window for processes of one machine, registered memory for network cards.
template<class C>
concept communicator = requires(C& c, C const& cc, std::size_t bytes) {
    { cc.rank() } -> std::convertible_to<int>;
    { cc.size() } -> std::convertible_to<int>;
    { c.allocate(bytes) } -> std::same_as<arena>;
    { cc.pulled() } -> std::convertible_to<traffic>;
};

/// A communicator whose ranks can read each other's memory. A collective is `enter`, which says where this rank's
/// numbers are meanwhile, then for every step of its schedule `wait_for` its sources (or asking whether they
/// `have_completed`), reading and writing through the addresses of their `call_of`, `count` what moved, and `complete`
/// the step; then `leave`. Peers' buffers are used only between
/// `resume` and `pause` or `leave`. A rank that an exception takes out of a collective has to `withdraw`, one that will
/// not go on to `abandon` it: both stop the group, and return when the rank's own buffers are free. All waits compare
/// what the ranks have called, and end with a mismatch_error if it differs.
template<class C>
concept pull_communicator = communicator<C> && requires(C& c, C const& cc, arena const& a, collective_call const& call,
                                                        int i, operation const& o, traffic t) {
    { cc.template peer<float>(a, i) } -> std::same_as<float const*>;
    { c.enter(call) } -> std::same_as<collective_call>;
    { c.call_of(i) } -> std::same_as<collective_call const&>;
    c.resume();
    c.pause();
    c.wait_for(i, i, o);
    { c.has_completed(i, i, o) } -> std::same_as<bool>;
    c.complete(i);
    c.leave(i);
    c.withdraw();
    c.abandon(o);
    c.count(t);
};

/// A communicator whose ranks may also write into each other's memory, one writer per place between two waits.
template<class C>
concept shared_memory_communicator = communicator<C> && requires(C const& c, arena const& a, int i) {
    { c.template shared<float>(a, i) } -> std::same_as<float*>;
};

/// A communicator has channels if its ranks keep in step outside of collectives, too, by counters in their arenas. The
/// stages of a pipeline and messages from rank to rank need them. `counter` is made in zeroed memory by its default
/// constructor; `advance_to` is called by its owner alone, and says that all it has written before may be read.
template<class C>
concept channel_communicator =
    pull_communicator<C> && shared_memory_communicator<C> && std::default_initializable<typename C::counter> &&
    requires(C& c, C const& cc, typename C::counter& counter, std::uint32_t n, int i, operation const& o) {
        counter.advance_to(n);
        { counter.reached(n) } -> std::same_as<bool>;
        c.wait_for(counter, n, i, o);
        cc.check_stopped();
    };

/// True if the ranks of a group share memory: known from the type, or, for some transports, from the launch.
template<communicator C>
constexpr bool shares_memory(C const& c) noexcept {
    if constexpr (requires { c.shares_memory(); })
        return c.shares_memory();
    else
        return shared_memory_communicator<C>;
}

/// A communicator whose ranks send one another messages, and may also share memory, as the launch has it: if all do,
/// `near` is the communicator that pulls; if those of one machine do, `machine` is theirs, and `place_of` a rank's
/// number there, -1 for one elsewhere. `messages` are those of a collective: `enter`; `receive` and `send` begin,
/// `settled` asks and `wait` waits for all that has begun, and for what a function says, `awaits` naming the
/// neighbour that it is about; `leave`, or `withdraw` after an error. `kept` is a place for what whoever runs
/// collectives wants to keep with the communicator.
template<class C>
concept message_communicator =
    communicator<C> && pull_communicator<typename C::near_communicator> &&
    requires(C& c, collective_call const& call, operation const& o, std::size_t n, void* p, int i) {
        { c.near() } -> std::same_as<typename C::near_communicator*>;
        { c.machine() } -> std::same_as<typename C::near_communicator*>;
        { c.place_of(i) } -> std::same_as<int>;
        c.messages().enter(call);
        c.messages().send(i, p, n);
        c.messages().receive(i, p, n);
        { c.messages().settled(o) } -> std::same_as<bool>;
        c.messages().wait(o, [] { return true; });
        c.messages().awaits(i);
        c.messages().leave();
        c.messages().withdraw();
        c.messages().all_reduce(static_cast<float*>(p), n, ""); // the strategy `native`
        { c.template kept<int>() } -> std::same_as<int&>;
        c.withdraw();
        c.abandon(o);
        c.count(traffic{});
    };

/// A communicator has links if its ranks send one another messages outside of collectives, too: each link has an order
/// of its own. `links(between_two, under_way)` makes a `link_messages`, with so many links from one rank to another and
/// room for so many messages. Its `send` begins a message, `has_sent` asks whether the memory of those up to a number
/// is free, `receive` waits for the next one, and `wait` for what a function says. Neighbours that share memory have
/// channels.
template<class C>
concept link_communicator =
    message_communicator<C> && channel_communicator<typename C::near_communicator> && shared_memory_communicator<C> &&
    requires(C& c, C const& cc, typename C::link_messages& m, operation const& o, std::size_t n, std::uint32_t number,
             int r, void* p) {
        { c.links(n, n) } -> std::same_as<typename C::link_messages>;
        m.send(n, number, r, n, p, n);
        { m.has_sent(n, number, o) } -> std::same_as<bool>;
        m.receive(r, n, p, n, o);
        m.wait(r, o, [] { return true; });
        cc.check_stopped();
    };

/// A communicator whose ranks exchange messages outside of collectives, through memory or over links.
template<class C>
concept channelled_communicator = channel_communicator<C> || link_communicator<C>;

/// True if no rank of a group sends its messages: all read one another's memory.
template<channelled_communicator C>
bool reads_all_in_place([[maybe_unused]] C& comm) noexcept {
    if constexpr (link_communicator<C>)
        return comm.near() != nullptr;
    else
        return true;
}

/// A communicator that collectives run on.
template<class C>
concept collective_communicator = pull_communicator<C> || message_communicator<C>;

/// A communicator that a trainer's device can work with: it tells what the group costs, takes the number of the
/// training step for its messages, and says between waits whether another rank has failed.
template<class C>
concept training_communicator = collective_communicator<C> && requires(C& c, C const& cc) {
    { C::control_bytes } -> std::convertible_to<bytes_t>; // what the group itself takes per rank, for the plan
    c.at_training_step(std::uint64_t{});                  // for the messages of late waits
    c.works_on(collective_subject{});                     // ranks must agree in it, from the next collective on
    cc.check_stopped();                                   // throws group_stopped if another rank has failed
};

} // namespace trireme
