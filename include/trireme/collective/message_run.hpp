// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/run.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

namespace trireme {

/// Memory that message_run keeps with a communicator, so that it need not be made again: the messages of schedules, and
/// room for what arrives. Grows with the largest collective.
class message_memory {
public:
    /// The part of `rank` in a schedule; made the first time.
    std::vector<rank_round> const& rounds_of(schedule const& s, int rank) {
        for (auto const& l : lists_)
            if (l->of.same_steps(s) || same_in_groups(l->of, s)) return l->rounds;
        lists_.push_back(std::make_unique<lists>(lists{s, trireme::rounds_of_rank(messages_of(s), rank)}));
        return lists_.back()->rounds;
    }

    void* staging(std::size_t bytes) {
        if (bytes > staging_.bytes()) staging_ = host_memory(bytes);
        return staging_.data();
    }

    std::vector<std::byte> packed; ///< blocks on their way out

private:
    struct lists {
        schedule of;
        std::vector<rank_round> rounds;
    };
    static bool same_in_groups(schedule const& a, schedule const& b) noexcept {
        return a.groups.count != 0 && a.groups == b.groups && a.step_in_groups == b.step_in_groups &&
               a.steps == b.steps && a.chunks == b.chunks && a.root == b.root;
    }
    std::vector<std::unique_ptr<lists>> lists_;
    host_memory staging_;
};

} // namespace trireme

namespace trireme::inline TRIREME_ISA {

/// Executes a schedule that has been proved, round by round (schedule/messages.hpp): what a round's steps read is sent
/// and received, then sums are formed, then these are pushed. Between ranks of one machine nothing is sent: there
/// readers read in place, and pushing ranks write in place. The bits are those of schedule_run.
///
/// Ranks of one machine count both halves of a round. A rank reads a neighbour's memory, or writes to it, once the
/// neighbour has finished the round before, its messages included; and goes on to the next round once the neighbours
/// that read from it, or write to it, have done so. Within a round no step touches what another writes: that suffices.
template<class T, message_communicator C, class Reduce>
class message_run {
    using neighbours = typename C::near_communicator;

public:
    /// Enters the collective. Throws usage_error if the schedule is for another number of ranks.
    message_run(C& comm, schedule const& s, buffer_cut const& cut, collective_call const& call, Reduce reduce)
        : comm_(comm), machine_(comm.machine()), schedule_(s), cut_(cut), call_(call), reduce_(std::move(reduce)) {
        if (s.ranks != comm.size()) detail::refuse_size(call.name, s, comm.size());
        memory_ = &comm.template kept<message_memory>();
        rounds_ = &memory_->rounds_of(s, comm.rank());
        comm_.messages().enter(call);
        detail::or_withdraw(comm_, [&] {
            if (machine_ != nullptr) call_ = machine_->enter(call);
            take_memory();
        });
    }
    message_run(message_run const&) = delete;
    message_run& operator=(message_run const&) = delete;

    bool done() const noexcept { return round_ == rounds_->size(); }
    operation now() const noexcept { return {call_.name, schedule_.name, static_cast<int>(round_)}; }

    bool advance() {
        moving([&] {
            while (!done()) {
                begin_half();
                if (!comm_.messages().settled(now()) || !neighbours_ready()) break;
                end_half();
            }
        });
        if (machine_ != nullptr) machine_->pause();
        return done();
    }

    void finish() {
        moving([&] {
            while (!done()) {
                begin_half();
                comm_.messages().wait(now(), [&] { return neighbours_ready(); });
                end_half();
            }
        });
        if (machine_ != nullptr) machine_->leave(static_cast<int>(2 * rounds_->size()));
        comm_.messages().leave();
    }

private:
    void take_memory() {
        std::size_t staged = 0;
        for (auto const& r : *rounds_) staged = std::max(staged, staged_before(r, nullptr));
        staging_ = static_cast<T*>(memory_->staging(staged * sizeof(T)));
        memory_->packed.clear();
    }

    enum class half : std::uint8_t { reads, pushes };
    static constexpr int most = 1024; // ranks that can be read from, or written to, in one step

    template<class Steps>
    void moving(Steps steps) {
        if (machine_ != nullptr) machine_->resume();
        detail::or_withdraw(comm_, steps);
    }

    /// The elements of a message: as they arrive, or as this rank sends them.
    range piece_of(round_message const& m) const noexcept {
        if constexpr (detail::cuts_inputs<Reduce>)
            if (m.from == comm_.rank() && m.count != 0) return reduce_.sent_to(m.to);
        return elements_of(cut_, m.first, m.count);
    }
    /// The beginning of what this rank sends.
    std::size_t read_begin_of(round_message const& m) const noexcept {
        return detail::cuts_inputs<Reduce> ? piece_of(m).begin : elements_of(cut_, m.read, 1).begin;
    }

    rank_round const& round() const noexcept { return (*rounds_)[round_]; }
    bool is_near(int rank) const noexcept { return comm_.place_of(rank) >= 0; }

    /// True if neighbours have come as far as this half needs them.
    bool neighbours_ready() {
        if (machine_ == nullptr) return true;
        int const before = 2 * static_cast<int>(round_);
        auto const all = [&](std::vector<round_message> const& list, int round_message::* other, int after) {
            for (auto const& m : list)
                if (is_near(m.*other) && !machine_->has_completed(comm_.place_of(m.*other), after, now())) {
                    comm_.messages().awaits(m.*other);
                    return false;
                }
            return true;
        };
        if (half_ == half::reads)
            return all(round().received, &round_message::from, before) &&
                   all(round().pushed, &round_message::to, before);
        return all(round().sent, &round_message::to, before + 1) &&
               all(round().taken, &round_message::from, before + 1);
    }

    /// Begins the messages of this half, if they have not been begun.
    void begin_half() {
        if (begun_) return;
        begun_ = true;
        auto& way = comm_.messages();
        way.awaits(-1);
        auto const far = [&](std::vector<round_message> const& list, int round_message::* other, auto&& begin) {
            for (auto const& m : list)
                if (auto const piece = piece_of(m); !is_near(m.*other) && (piece.size() != 0 || m.count == 0))
                    begin(m, piece);
        };
        if (half_ == half::reads) {
            far(round().received, &round_message::from, [&](round_message const& m, range const& piece) {
                if (m.count == 0)
                    way.receive(m.from, nullptr, 0);
                else if (m.added)
                    way.receive(m.from, staged(m), piece.size() * blocks(m.from) * sizeof(T));
                else
                    way.receive(m.from, output(call_, piece.begin), piece.size() * sizeof(T));
            });
            far(round().sent, &round_message::to, [&](round_message const& m, range const& piece) {
                if (m.count == 0) return way.send(m.to, nullptr, 0);
                auto const* const from = where(call_, read_begin_of(m), m.written);
                if (m.added)
                    send_blocks(m.to, from, piece.size());
                else
                    way.send(m.to, from, piece.size() * sizeof(T));
            });
        } else {
            far(round().taken, &round_message::from, [&](round_message const& m, range const& piece) {
                way.receive(m.from, output(call_, piece.begin), piece.size() * sizeof(T));
            });
            far(round().pushed, &round_message::to, [&](round_message const& m, range const& piece) {
                way.send(m.to, output(call_, piece.begin), piece.size() * sizeof(T));
            });
        }
    }

    /// A rank's blocks arrive side by side, whatever lies between them where they come from.
    void send_blocks(int to, T const* from, std::size_t size) {
        auto const count = blocks(comm_.rank());
        if (count == 1) return comm_.messages().send(to, from, size * sizeof(T));
        auto& packed = memory_->packed;
        auto const at = packed.size();
        // a message under way must not move: the first message of a round reserves the place for all of them
        if (at == 0) packed.reserve(round().sent.size() * largest_sent() * count * sizeof(T));
        packed.resize(at + count * size * sizeof(T));
        auto* const place = reinterpret_cast<T*>(packed.data() + at);
        for (std::size_t b = 0; b < count; ++b)
            std::memcpy(place + b * size, from + b * detail::between_blocks(reduce_), size * sizeof(T));
        comm_.messages().send(to, place, count * size * sizeof(T));
    }
    std::size_t largest_sent() const noexcept {
        std::size_t largest = 0;
        for (auto const& m : round().sent) largest = std::max(largest, elements_of(cut_, m.first, m.count).size());
        return largest;
    }

    void end_half() {
        begun_ = false;
        if (half_ == half::reads) {
            memory_->packed.clear();
            for (auto const& m : round().received)
                if (is_near(m.from) && !m.added) copy(m);
            for (auto const& s : round().sums) add(s);
            count(round().received, &round_message::from,
                  [&](round_message const& m) { return m.added ? blocks(m.from) : std::size_t{1}; });
            complete(2 * round_);
            half_ = half::pushes;
        } else {
            count(round().pushed, &round_message::to, [](round_message const&) { return std::size_t{1}; });
            complete(2 * round_ + 1);
            half_ = half::reads;
            ++round_;
        }
    }
    void complete(std::size_t halves) {
        if (machine_ != nullptr) machine_->complete(static_cast<int>(halves));
    }

    /// From a neighbour's memory.
    void copy(round_message const& m) {
        auto const piece = elements_of(cut_, m.first, m.count);
        if (piece.size() == 0) return;
        auto const& theirs = machine_->call_of(comm_.place_of(m.from));
        auto const read_begin = detail::begin_at_source(reduce_, m.from, elements_of(cut_, m.read, 1).begin);
        std::memcpy(output(call_, piece.begin), where(theirs, read_begin, m.written), piece.size() * sizeof(T));
    }

    void add(round_sum const& s) {
        auto const piece = elements_of(cut_, s.first, s.count);
        if (piece.size() == 0) return;
        auto step = schedule_.at(comm_.rank(), s.step);
        if (s.sources > most || step.destinations.count > most) detail::refuse_step(call_.name, schedule_, step, most);
        T const* sources[most];
        std::size_t apart[most];
        T* copies[most];
        for (auto const& m : round().received) {
            if (!m.added || m.first != s.first) continue;
            auto const place = comm_.place_of(m.from);
            sources[m.source] =
                place < 0 ? staged(m) : where(machine_->call_of(place), elements_of(cut_, m.read, 1).begin, m.written);
            apart[m.source] = place < 0 ? piece.size() : detail::between_blocks(reduce_);
        }
        int written = 0; // to neighbours; the others get it by messages
        for (auto const& m : round().pushed)
            if (m.first == s.first && is_near(m.to))
                copies[written++] = output(machine_->call_of(comm_.place_of(m.to)), piece.begin);
        step.destinations.count = written;
        reduce_(reduction_view<T>{comm_.rank(), comm_.size(), step, piece.begin, piece.size(),
                                  where(call_, piece.begin, s.written), output(call_, piece.begin), sources, copies,
                                  apart});
    }

    /// The address at which the numbers of a message wait to be added.
    T* staged(round_message const& m) const noexcept { return staging_ + staged_before(round(), &m); }

    /// Elements of a round that are staged before those of a message; of all for none.
    std::size_t staged_before(rank_round const& r, round_message const* message) const noexcept {
        std::size_t sum = 0;
        for (auto const& m : r.received) {
            if (&m == message) break;
            if (m.added && !is_near(m.from))
                sum += round_up(elements_of(cut_, m.first, m.count).size() * blocks(m.from), cache_line / sizeof(T));
        }
        return sum;
    }

    std::size_t blocks(int rank) const { return detail::blocks_of(reduce_, rank, comm_.size()); }

    /// As the pulling run counts: what two ranks exchange in one half of a round is one message.
    template<class Blocks>
    void count(std::vector<round_message> const& list, int round_message::* other, Blocks&& blocks) {
        traffic moved;
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (list[i].count == 0) continue;
            moved.messages += i == 0 || list[i - 1].*other != list[i].*other;
            moved.bytes += elements_of(cut_, list[i].first, list[i].count).size() * blocks(list[i]) * sizeof(T);
        }
        comm_.count(moved);
    }

    static T const* where(collective_call const& of, std::size_t begin, bool written) noexcept {
        return written || of.in_place() ? output(of, begin) : detail::input_of<T>(of, begin);
    }
    static T* output(collective_call const& of, std::size_t begin) noexcept { return detail::output_of<T>(of, begin); }

    C& comm_;
    neighbours* machine_;
    schedule schedule_;
    buffer_cut cut_;
    collective_call call_;
    Reduce reduce_;
    message_memory* memory_ = nullptr;
    std::vector<rank_round> const* rounds_ = nullptr;
    T* staging_ = nullptr;
    std::size_t round_ = 0;
    half half_ = half::reads;
    bool begun_ = false;
};

/// Has the transport perform a collective of its own, in the place of a schedule's steps.
template<class T, message_communicator C>
class native_run {
public:
    native_run(C& comm, schedule const& s, collective_call const& call) : comm_(comm), name_(s.name), call_(call) {
        auto* const out = reinterpret_cast<T*>(call.out);
        comm_.messages().enter(call);
        detail::or_withdraw(comm_.messages(), [&] {
            if (call.in != call.out && call.out_bytes != 0) std::memcpy(call.out, call.in, call.out_bytes);
            comm_.messages().all_reduce(out, call.elements, call.op);
        });
        moved_ = traffic_of(s, comm.rank(), {call.elements, sizeof(T), s.chunks});
    }
    native_run(native_run const&) = delete;
    native_run& operator=(native_run const&) = delete;

    bool done() const noexcept { return over_; }
    operation now() const noexcept { return {call_.name, name_, 0}; }
    bool advance() {
        detail::or_withdraw(comm_.messages(), [&] { over_ = over_ || comm_.messages().settled(now()); });
        return over_;
    }
    void finish() {
        detail::or_withdraw(comm_.messages(), [&] { comm_.messages().wait(now(), [] { return true; }); });
        over_ = true;
        comm_.count(moved_);
        comm_.messages().leave();
    }

private:
    C& comm_;
    char const* name_;
    collective_call call_;
    traffic moved_;
    bool over_ = false;
};

/// For communicators whose ranks may or may not share memory, as the launch has it: by pulling if all do, else by
/// messages.
template<class T, message_communicator C, class Reduce>
class either_run {
    using pulling = schedule_run<T, typename C::near_communicator, Reduce>;
    using sending = message_run<T, C, Reduce>;
    using native = native_run<T, C>;

public:
    either_run(C& comm, schedule const& s, buffer_cut const& cut, collective_call const& call, Reduce reduce) {
        if (s.of_a_transport)
            run_.template emplace<native>(comm, s, call);
        else if (auto* const near = comm.near(); near != nullptr)
            run_.template emplace<pulling>(*near, s, cut, call, std::move(reduce));
        else
            run_.template emplace<sending>(comm, s, cut, call, std::move(reduce));
    }

    bool done() const noexcept {
        return visit([](auto const& r) { return r.done(); });
    }
    operation now() const noexcept {
        return visit([](auto const& r) { return r.now(); });
    }
    bool advance() {
        return visit([](auto& r) { return r.advance(); });
    }
    void finish() {
        visit([](auto& r) {
            r.finish();
            return true;
        });
    }

private:
    // std::visit without the place that an exception could leave it in
    template<class F>
    auto visit(F&& f) {
        if (auto* const r = std::get_if<pulling>(&run_)) return f(*r);
        if (auto* const r = std::get_if<sending>(&run_)) return f(*r);
        return f(*std::get_if<native>(&run_));
    }
    template<class F>
    auto visit(F&& f) const {
        if (auto const* const r = std::get_if<pulling>(&run_)) return f(*r);
        if (auto const* const r = std::get_if<sending>(&run_)) return f(*r);
        return f(*std::get_if<native>(&run_));
    }

    std::variant<std::monostate, pulling, sending, native> run_;
};

template<class T, message_communicator C, class Reduce>
struct run_by<T, C, Reduce> {
    using type = either_run<T, C, Reduce>;
};

} // namespace trireme::inline TRIREME_ISA
