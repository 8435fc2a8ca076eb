// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/proved.hpp>
#include <trireme/collective/reduction.hpp>
#include <trireme/collective/run.hpp>
#include <trireme/schedule/collective/strategy_by_default.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

/// Numbers one behind the other that outlive the call: a vector or an array that has a name, a span. A temporary one
/// would be gone while others still read it.
template<class B>
concept buffer = std::ranges::contiguous_range<B> && std::ranges::sized_range<B> && std::ranges::borrowed_range<B>;

template<class B>
using element_of = std::ranges::range_value_t<B>;

/// One of T, to be written to.
template<class B, class T>
concept buffer_of = buffer<B> && std::same_as<element_of<B>, T> &&
                    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<B>>>;

template<class B>
concept writable_buffer = buffer_of<B, element_of<B>>;

/// A vector or an array that its caller gives away: the call returns it, with the result in it.
template<class B>
concept temporary_buffer = std::ranges::contiguous_range<B> && std::ranges::sized_range<B> &&
                           !std::ranges::borrowed_range<B> && !std::is_const_v<B>;

/// Numbers that a call of a `v` collective takes: a buffer or a temporary one, of any size on each rank.
template<class B>
concept numbers_of_any_count =
    (buffer<B> || temporary_buffer<B>) && byte_copyable<element_of<B>> && std::default_initializable<element_of<B>> &&
    !std::same_as<element_of<B>, bool>; // results are vectors

/// One number, or anything else that is copied as bytes and is no range: a call takes it and returns its result.
template<class T>
concept single_value = std::is_object_v<T> && byte_copyable<T> && !std::ranges::range<T> && !std::is_pointer_v<T> &&
                       !reduction_operation<T>;

namespace detail {

template<class T>
constexpr char const* name_of_dtype() noexcept {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
        constexpr char const* names[2][4] = {{"u8", "u16", "u32", "u64"}, {"i8", "i16", "i32", "i64"}};
        constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        return names[std::is_signed_v<T>][size];
    } else {
        return "bytes";
    }
}

} // namespace detail

template<class T>
inline constexpr char const* dtype_name = detail::name_of_dtype<T>();
template<>
inline constexpr char const* dtype_name<float> = "f32";
template<>
inline constexpr char const* dtype_name<double> = "f64";
template<>
inline constexpr char const* dtype_name<bf16> = "bf16";

namespace detail {

/// The operation of a collective that adds nothing.
struct no_op {
    static constexpr char const* name = "";
};

/// True if every reduction of a schedule has all other ranks for sources.
constexpr bool adds_at_once(schedule const& s) noexcept {
    for (int r = 0; r < s.ranks; ++r)
        for (int i = 0; i < s.steps; ++i)
            if (auto const step = s.at(r, i); step.kind == step_kind::reduce && step.sources.count != s.ranks - 1)
                return false;
    return true;
}

/// The part of a rank's output buffer that the collective writes.
enum class output_part { none, own_block, whole };

constexpr output_part written_by(schedule const& s, int rank) noexcept {
    auto part = output_part::none;
    for (int i = 0; i < s.steps; ++i) {
        auto const step = s.at(rank, i);
        if (!reads(step.kind)) continue;
        if (part == output_part::none) part = output_part::own_block;
        for (int j = 0; j < step.chunk.count; ++j)
            if (s.owner(step.chunk.at(j, s.chunks)) != rank) return output_part::whole;
    }
    return part;
}

} // namespace detail

} // namespace trireme

namespace trireme::detail::inline TRIREME_ISA {

/// Adds by an operation of collective/reduction.hpp; divides on the way where all contributions come at once.
template<class Op>
struct adder {
    int divisor = 1;
    Op how = Op();
    template<class T>
    bytes_t operator()(reduction_view<T> const& v) const noexcept(!is_commutative<Op>) {
        if constexpr (named_operation<Op> && in_registers<T>)
            reduce_into<Op>(v.out, v.copies, v.step.destinations.count, v.own, v.sources, v.step.sources.count,
                            v.elements, divisor);
        else if constexpr (reduction_operation<Op> && combines<Op, T>)
            combine_into(v.out, v.copies, v.step.destinations.count, v.own, v.sources, v.step.sources.count, v.elements,
                         divisor, how);
        return static_cast<bytes_t>(v.step.sources.count) * v.elements * sizeof(T);
    }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// A collective that has begun and must be waited for: `wait` returns when this rank's part is over. Between, `advance`
/// does what can be done without waiting; nothing moves by itself. To drop it before stops the group, with an error
/// that says so. Buffers belong to the collective until then.
template<class T, class Op, collective_communicator C>
class [[nodiscard("a collective that has begun must be waited for: keep this value and call its wait()")]] in_flight {
public:
    in_flight(C& comm, schedule const& s, buffer_cut const& cut, collective_call const& call, range divide,
              Op how = Op())
        : comm_(comm), divide_(divide), out_(reinterpret_cast<T*>(call.out)),
          divisor_(std::same_as<Op, op::avg> ? s.ranks : 1),
          at_once_(divisor_ != 1 && !s.of_a_transport && detail::adds_at_once(s)),
          run_(comm, s, cut, call, detail::adder<Op>{at_once_ ? divisor_ : 1, std::move(how)}) {}
    in_flight(in_flight const&) = delete;
    in_flight& operator=(in_flight const&) = delete;
    ~in_flight() {
        if (over_) return;
        if (std::uncaught_exceptions() == exceptions_)
            comm_.abandon(run_.now());
        else
            comm_.withdraw(); // the exception that passes is the reason
    }

    /// Performs the steps that need not wait; true if nothing is left but to call `wait`.
    bool advance() {
        if (failed_) throw group_stopped();
        if (over_) return true;
        return guarded([&] { return run_.advance(); });
    }

    /// Performs what is left. Throws deadline_error, mismatch_error or group_stopped; the buffers then hold partial
    /// results, the group has been stopped, and to wait again is group_stopped.
    void wait() {
        if (failed_) throw group_stopped();
        if (over_) return;
        guarded([&] {
            run_.finish();
            return true;
        });
        over_ = true;
        if constexpr (std::same_as<Op, op::avg>)
            if (!at_once_ && divisor_ != 1) detail::divide(out_ + divide_.begin, divide_.size(), divisor_);
    }

private:
    template<class F>
    bool guarded(F&& f) {
        try {
            return f();
        } catch (...) { // said by an exception; the destructor need not say it again
            over_ = failed_ = true;
            throw;
        }
    }

    C& comm_;
    range divide_; ///< elements of the output that averages divide at the end
    T* out_;
    int divisor_;
    bool at_once_;
    bool over_ = false;
    bool failed_ = false;
    int exceptions_ = std::uncaught_exceptions();
    run_of<T, C, detail::adder<Op>> run_;
};

} // namespace trireme::inline TRIREME_ISA

namespace trireme {

namespace detail {

/// An input into an output that lies elsewhere.
template<class T>
void copy_elements(T const* from, T* to, std::size_t n) noexcept {
    if (n != 0 && from != to) std::memcpy(to, from, n * sizeof(T));
}

/// Room for a result of `times` inputs; what is in it does not matter.
template<class T>
std::vector<T> copies_of(std::span<T const> in, std::size_t times) {
    return in.empty() ? std::vector<T>() : std::vector<T>(times * in.size(), in.front());
}

/// Buffers may be one, so that every number stands where it would; else they must not overlap. `in_from`, `out_from`:
/// the elements of the whole that come before.
template<class T>
void check_overlap(char const* what, std::span<T const> in, std::size_t in_from, std::span<T const> out,
                   std::size_t out_from) {
    auto const begin = [](std::span<T const> s) { return reinterpret_cast<std::uintptr_t>(s.data()); };
    auto const a = begin(in), b = begin(out);
    bool const apart = in.empty() || out.empty() || a + in.size_bytes() <= b || b + out.size_bytes() <= a;
    if (!apart && a - in_from * sizeof(T) != b - out_from * sizeof(T))
        throw usage_error(std::string(what) + ": input and output overlap, and not so that each number stays where it "
                                              "is; give it buffers that lie apart, or one for both");
}

inline void check_root(char const* what, int root, int ranks) {
    if (root < 0 || root >= ranks)
        throw usage_error(std::string(what) + ": root = " + std::to_string(root) + " in a group of " +
                          std::to_string(ranks) + " ranks: it is a number from 0 to " + std::to_string(ranks - 1));
}

[[noreturn]] inline void wrong_size(char const* what, char const* buffer, std::size_t has, std::string const& wants) {
    throw usage_error(std::string(what) + ": the " + buffer + " has " + std::to_string(has) + " elements; it needs " +
                      wants);
}

/// The check that `offsets` cut the numbers of a buffer into one block per rank: throws usage_error.
inline void check_blocks(char const* what, char const* buffer, std::size_t elements,
                         std::span<std::size_t const> offsets, int ranks) {
    auto const n = static_cast<std::size_t>(ranks);
    if (offsets.size() != n + 1)
        throw usage_error(std::string(what) + ": the " + buffer + " has " + std::to_string(offsets.size() - 1) +
                          " blocks; it needs " + std::to_string(n) + ", one per rank");
    for (std::size_t q = 0; q < n; ++q)
        if (offsets[q + 1] < offsets[q])
            throw usage_error(std::string(what) + ": the block for rank " + std::to_string(q) + " ends at number " +
                              std::to_string(offsets[q + 1]) + ", before it begins at " + std::to_string(offsets[q]));
    if (offsets[0] != 0)
        throw usage_error(std::string(what) + ": the block for rank 0 begins at number " + std::to_string(offsets[0]) +
                          ", and not at 0");
    if (offsets[n] != elements)
        wrong_size(what, buffer, elements, std::to_string(offsets[n]) + ", the sum of the counts of its blocks");
}

template<collective_communicator C>
levels groups_of(C const& comm) {
    if constexpr (requires {
                      { comm.groups() } -> std::convertible_to<levels>;
                  })
        return comm.groups();
    else
        return {};
}

/// The schedule that a strategy makes of a collective on `elements` numbers in this group.
template<class Strategy, collective Goal, class T, collective_communicator C>
schedule schedule_for(C const& comm, std::size_t elements, int root = 0) {
    return proved_schedule<Strategy, Goal>(comm.size(), root, groups_of(comm), elements * sizeof(T));
}

[[noreturn]] TRIREME_COLD inline void refuse_own_operation(char const* what, schedule const& s, char const* own) {
    throw usage_error(std::string(what) + " by " + s.name +
                      ": it is a transport's own, which knows sum, max, min and "
                      "avg, but not the operation \"" +
                      own + "\": choose another strategy for it");
}

template<class T, class Op>
collective_call call_of(collective goal, schedule const& s, std::size_t elements, std::span<T const> in,
                        std::span<T> out, Op const& how = Op()) {
    [[maybe_unused]] static constexpr typename combining_check<Op, T>::type checked{};
    if constexpr (is_commutative<Op>)
        if (s.of_a_transport) refuse_own_operation(name_of(goal), s, how.name);
    collective_call call;
    call.name = name_of(goal);
    call.strategy = s.name;
    call.op = how.name;
    call.dtype = dtype_name<T>;
    call.elements = elements;
    call.element_bytes = sizeof(T);
    call.root = s.root;
    call.steps = s.steps;
    call.chunks = s.chunks;
    call.in = reinterpret_cast<std::byte const*>(in.data());
    call.out = reinterpret_cast<std::byte*>(out.data());
    call.in_bytes = in.size_bytes();
    call.out_bytes = out.size_bytes();
    return call;
}

} // namespace detail

} // namespace trireme

namespace trireme::inline TRIREME_ISA {

/// Runs a schedule that has been proved to be `what`, in place: for schedules that are values, and for reductions of
/// one's own (see schedule_run). Throws as all_reduce does.
template<class T, collective_communicator C, class Reduce = detail::adder<op::sum>>
void run_schedule(C& comm, collective what, schedule const& s, std::span<T> buffer, Reduce const& reduce = {}) {
    auto call = detail::call_of<T, op::sum>(what, s, buffer.size(), buffer, buffer);
    // a reduction may read further blocks behind the first
    auto const behind = (detail::blocks_of(reduce, comm.rank(), comm.size()) - 1) * detail::between_blocks(reduce);
    call.in_bytes = call.out_bytes = (behind + buffer.size()) * sizeof(T);
    run_of<T, C, Reduce>(comm, s, {buffer.size(), sizeof(T), s.chunks}, call, reduce).finish();
}

} // namespace trireme::inline TRIREME_ISA
