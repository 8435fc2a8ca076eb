// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace trireme {

/// The operands of a reduction step: `elements` numbers from `begin` on of the buffer, of this rank and of the sources.
template<class T>
struct reduction_view {
    int rank;
    int ranks;
    collective_step const& step;
    std::size_t begin;
    std::size_t elements;
    T const* own;            ///< this rank's numbers
    T* out;                  ///< where its result goes
    T const* const* sources; ///< step.sources.count of them, in order
    T* const* copies;        ///< step.destinations.count of them: where the result goes, too
    /// For each source: how many elements lie between two of its blocks; none: as many as in a buffer.
    std::size_t const* apart = nullptr;
};

namespace detail {

[[noreturn]] TRIREME_COLD inline void refuse_size(char const* what, schedule const& s, int ranks) {
    throw usage_error(std::string(what) + " was given the schedule " + s.name + " for " + std::to_string(s.ranks) +
                      " ranks in a group of " + std::to_string(ranks) + ": make it for the group's size");
}
[[noreturn]] TRIREME_COLD inline void refuse_native(char const* what, schedule const& s) {
    throw usage_error(std::string(what) + " by " + s.name +
                      ": it is a transport's own, and this group's has none: choose another strategy");
}
[[noreturn]] TRIREME_COLD inline void refuse_step(char const* what, schedule const& s, collective_step const& step,
                                                  int most) {
    throw usage_error(std::string(what) + " by " + s.name + ": a step reads from " +
                      std::to_string(step.sources.count) + " ranks at once; at most " + std::to_string(most) +
                      " are possible, so choose another strategy for this group");
}

/// The number of blocks that a rank's part of a buffer has for a reduction, and of elements between two of them: one
/// block, but for sums of logical shards.
template<class Reduce>
std::size_t blocks_of([[maybe_unused]] Reduce const& reduce, [[maybe_unused]] int rank, [[maybe_unused]] int ranks) {
    if constexpr (requires { reduce.blocks(rank, ranks); })
        return reduce.blocks(rank, ranks);
    else
        return 1;
}
template<class Reduce>
std::size_t between_blocks([[maybe_unused]] Reduce const& reduce) {
    if constexpr (requires { reduce.between_blocks(); })
        return reduce.between_blocks();
    else
        return 0;
}

/// A reduction that says where blocks lie in inputs, because the cut is that of the output alone (all_to_allv): the
/// beginning of the block for this rank in another rank's input, and the block for another rank in this rank's.
template<class Reduce>
concept cuts_inputs = requires(Reduce const& reduce, int rank) {
    { reduce.begin_at_source(rank) } -> std::same_as<std::size_t>;
    { reduce.sent_to(rank) } -> std::same_as<range>;
};

/// The beginning of a block in the input of `source`: `begin`, unless the reduction says another one.
template<class Reduce>
std::size_t begin_at_source([[maybe_unused]] Reduce const& reduce, [[maybe_unused]] int source, std::size_t begin) {
    if constexpr (cuts_inputs<Reduce>)
        return reduce.begin_at_source(source);
    else
        return begin;
}

/// The addresses of number `begin`, as the schedule counts, in a rank's input and output.
template<class T>
T const* input_of(collective_call const& call, std::size_t begin) noexcept {
    return reinterpret_cast<T const*>(call.in + (begin * sizeof(T) - call.in_from));
}
template<class T>
T* output_of(collective_call const& call, std::size_t begin) noexcept {
    return reinterpret_cast<T*>(call.out + (begin * sizeof(T) - call.out_from));
}

/// `f()`; if it throws, `what.withdraw()` first: the caller may free its buffers, which peers may be using.
template<class W, class F>
void or_withdraw(W& what, F&& f) {
    try {
        f();
    } catch (...) {
        what.withdraw();
        throw;
    }
}

} // namespace detail
} // namespace trireme

namespace trireme::inline TRIREME_ISA {

/// Executes a schedule that has been proved, by pulling. Where input and output lie apart, a chunk is read from the
/// input of its owner until the owner has written it. `Reduce` adds: `bytes = reduce(reduction_view<T>)`, with the
/// bytes read from peers for an answer.
template<class T, pull_communicator C, class Reduce>
class schedule_run {
public:
    static_assert(sizeof(T) <= cache_line);

    /// Enters the collective. Throws usage_error if the schedule is for another number of ranks; a reduction from, or
    /// to, more than 1024 ranks at once throws one when it comes to it.
    schedule_run(C& comm, schedule const& s, buffer_cut const& cut, collective_call const& call, Reduce reduce)
        : comm_(comm), schedule_(s), cut_(cut), call_(call), reduce_(std::move(reduce)) {
        if (s.ranks != comm.size()) detail::refuse_size(call.name, s, comm.size());
        if (s.of_a_transport) detail::refuse_native(call.name, s);
        call_ = comm_.enter(call_);
    }
    schedule_run(schedule_run const&) = delete;
    schedule_run& operator=(schedule_run const&) = delete;

    bool done() const noexcept { return at_ == schedule_.steps; }
    operation now() const noexcept { return {call_.name, schedule_.name, at_}; }

    /// Performs the steps that need not wait; says whether none is left.
    bool advance() {
        moving([&] {
            while (!done() && try_step()) {}
        });
        comm_.pause();
        return done();
    }

    /// Performs what is left, and leaves.
    void finish() {
        moving([&] {
            while (!done()) step();
        });
        comm_.leave(schedule_.steps);
    }

private:
    static constexpr int most = 1024; // ranks of a group that can add at once

    template<class Steps>
    void moving(Steps steps) {
        comm_.resume();
        detail::or_withdraw(comm_, steps);
    }

    void step() {
        auto const s = schedule_.at(comm_.rank(), at_);
        if (s.kind != step_kind::idle)
            for (int k = 0; k < s.sources.count; ++k) comm_.wait_for(s.sources.at(k, comm_.size()), s.after, now());
        perform(s);
    }

    bool try_step() {
        auto const s = schedule_.at(comm_.rank(), at_);
        if (s.kind != step_kind::idle)
            for (int k = 0; k < s.sources.count; ++k)
                if (!comm_.has_completed(s.sources.at(k, comm_.size()), s.after, now())) return false;
        perform(s);
        return true;
    }

    void perform(collective_step const& s) {
        if (reads(s.kind)) {
            traffic moved{static_cast<std::uint64_t>(s.sources.count + s.destinations.count), 0};
            // neighbouring chunks that lie side by side everywhere are one piece
            bool whole = s.chunk.count > 1 && call_.in_place();
            for (int k = 0; whole && k < s.sources.count; ++k)
                whole = comm_.call_of(s.sources.at(k, comm_.size())).in_place();
            for (int j = 0; j < s.chunk.count;) {
                auto piece = range_of(s.chunk.at(j, schedule_.chunks));
                int const first = j++;
                if (whole)
                    for (; j < s.chunk.count && range_of(s.chunk.at(j, schedule_.chunks)).begin == piece.end; ++j)
                        piece.end = range_of(s.chunk.at(j, schedule_.chunks)).end;
                moved.bytes += move(s, s.chunk.at(first, schedule_.chunks), piece);
            }
            comm_.count(moved);
        }
        comm_.complete(at_++);
    }

    range range_of(int chunk) const noexcept { return cut_.at(schedule_.place(chunk)); }

    /// The address at which `rank` has a chunk after `steps` steps.
    T const* where(collective_call const& of, int rank, int chunk, int steps, std::size_t begin) const noexcept {
        return of.in_place() || schedule_.writes(rank, chunk, steps) ? detail::output_of<T>(of, begin)
                                                                     : detail::input_of<T>(of, begin);
    }

    /// Bytes that were moved between ranks.
    bytes_t move(collective_step const& s, int chunk, range piece) {
        auto const bytes = piece.size() * sizeof(T);
        if (bytes == 0) return 0; // an empty buffer has no address
        if (s.kind == step_kind::copy) {
            int const source = s.sources.at(0, comm_.size());
            auto const& theirs = comm_.call_of(source);
            T const* from = nullptr;
            if (s.source_chunk >= 0)
                from = detail::input_of<T>(theirs,
                                           detail::begin_at_source(reduce_, source, range_of(s.source_chunk).begin));
            else
                from = where(theirs, source, chunk, s.after, piece.begin);
            std::memcpy(detail::output_of<T>(call_, piece.begin), from, bytes);
            return bytes;
        }
        if (s.sources.count > most || s.destinations.count > most) detail::refuse_step(call_.name, schedule_, s, most);
        T const* sources[most];
        T* copies[most];
        for (int k = 0; k < s.sources.count; ++k) {
            int const source = s.sources.at(k, comm_.size());
            sources[k] = where(comm_.call_of(source), source, chunk, s.after, piece.begin);
        }
        for (int k = 0; k < s.destinations.count; ++k)
            copies[k] = detail::output_of<T>(comm_.call_of(s.destinations.at(k, comm_.size())), piece.begin);
        auto const read = reduce_(reduction_view<T>{comm_.rank(), comm_.size(), s, piece.begin, piece.size(),
                                                    where(call_, comm_.rank(), chunk, at_, piece.begin),
                                                    detail::output_of<T>(call_, piece.begin), sources, copies});
        return read + bytes * static_cast<bytes_t>(s.destinations.count);
    }

    C& comm_;
    schedule schedule_;
    buffer_cut cut_;
    collective_call call_;
    Reduce reduce_;
    int at_ = 0;
};

/// The class that runs a schedule on a communicator: schedule_run, unless the header of a transport names another.
template<class T, class C, class Reduce>
struct run_by {
    using type = schedule_run<T, C, Reduce>;
};
template<class T, class C, class Reduce>
using run_of = typename run_by<T, C, Reduce>::type;

} // namespace trireme::inline TRIREME_ISA
