// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme {

/// Why a schedule is no all-reduce, or no reduce-scatter.
enum class schedule_fault : std::uint8_t {
    none,
    out_of_range, ///< a source or chunk that does not exist, a rank that reads itself, another number of ranks
    deadlock,     ///< a rank waits for a step that its source can never complete
    added_twice,  ///< a contribution enters a chunk that already holds it
    missing,      ///< a chunk ends without some rank's contribution
    ranks_differ, ///< two ranks end with different orders of addition in one chunk, so with different bits
    overwritten,  ///< a chunk may be overwritten while, or before, somebody reads it
    out_of_order  ///< two reads from one peer overtake each other: a message queue could not carry them
};

struct verdict {
    schedule_fault fault = schedule_fault::none;
    int rank = 0;
    int step = 0;
    int chunk = 0;
    constexpr bool ok() const noexcept { return fault == schedule_fault::none; }
};

namespace detail {

/// Working memory of a proof; usable in constant expressions.
template<class T>
class scratch {
public:
    constexpr explicit scratch(std::size_t n) : data_(new T[n]{}) {}
    scratch(scratch const&) = delete;
    scratch& operator=(scratch const&) = delete;
    constexpr ~scratch() { delete[] data_; }
    constexpr T& operator[](std::size_t i) { return data_[i]; }
    constexpr T* data() { return data_; }

private:
    T* data_;
};

constexpr std::uint64_t mix(std::uint64_t x) noexcept { // splitmix64's finaliser
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/// Names the value a + b. Symmetric, because IEEE addition is commutative; not associative, because it is not.
constexpr std::uint64_t name_of_sum(std::uint64_t a, std::uint64_t b) noexcept {
    return mix((a + b) * 0x9E3779B97F4A7C15u + (a ^ b)) + mix(a) + mix(b);
}

constexpr bool reads(step_kind k) noexcept { return k == step_kind::copy || k == step_kind::reduce; }

/// Who must end with a chunk complete: every rank, or the rank of the chunk's number.
enum class completes { everywhere, at_its_rank };

/// The proof in its parts; `verify_all_reduce` says what is proved.
class reduction_proof {
public:
    template<collective_schedule S>
    constexpr explicit reduction_proof(S const& s, completes goal)
        : goal_(goal), ranks_(s.ranks), chunks_(s.chunks), steps_(s.steps),
          words_(static_cast<std::size_t>((s.ranks + 63) / 64)),
          table_(static_cast<std::size_t>(s.ranks * s.steps + 1)),
          order_(static_cast<std::size_t>(s.ranks * s.steps + 1)) {
        for (int r = 0; r < ranks_; ++r)
            for (int i = 0; i < steps_; ++i) table_[place(r, i)] = s.at(r, i);
    }

    constexpr verdict run() {
        verdict v = well_formed();
        if (v.ok()) v = contributions();
        if (v.ok()) v = in_order();
        for (int reader = 0; v.ok() && reader < ranks_; ++reader) v = overwrites(reader);
        return v;
    }

private:
    constexpr std::size_t place(int rank, int step) const noexcept {
        return static_cast<std::size_t>(rank * steps_ + step);
    }

    constexpr verdict well_formed() {
        for (int r = 0; r < ranks_; ++r)
            for (int i = 0; i < steps_; ++i) {
                auto const step = table_[place(r, i)];
                if (step.kind == step_kind::idle) continue;
                auto const [first, count, stride] = step.sources;
                bool fits = count >= (reads(step.kind) ? 1 : 0) && count < ranks_ && step.after >= 0 &&
                            (count == 0 || (first >= 0 && first < ranks_)) &&
                            (count < 2 || (stride >= 0 && stride < ranks_)) &&
                            (!reads(step.kind) || (step.chunk >= 0 && step.chunk < chunks_)) &&
                            (step.kind != step_kind::copy || count == 1);
                for (int k = 0; fits && k < count; ++k) fits = step.sources.at(k, ranks_) != r;
                if (!fits) return {schedule_fault::out_of_range, r, i, step.chunk};
            }
        return {};
    }

    /// Runs the schedule, each rank as far as it can go, with sets of contributions instead of numbers. Any other
    /// interleaving gives the same sets, which is what `overwrites` proves. Leaves the order of completion in order_.
    constexpr verdict contributions() {
        auto const set_count = static_cast<std::size_t>(ranks_ * chunks_);
        scratch<std::uint64_t> has(set_count * words_);
        scratch<std::uint64_t> value(set_count); // the name of the sum that stands in the chunk
        scratch<int> done(static_cast<std::size_t>(ranks_));
        for (int r = 0; r < ranks_; ++r)
            for (int c = 0; c < chunks_; ++c) {
                auto const at = static_cast<std::size_t>(r * chunks_ + c);
                has[at * words_ + static_cast<std::size_t>(r) / 64] = std::uint64_t{1} << (r % 64);
                value[at] = mix(static_cast<std::uint64_t>(r) + 1);
            }

        std::size_t completed = 0;
        for (bool progress = true; progress;) {
            progress = false;
            for (int r = 0; r < ranks_; ++r)
                while (done[static_cast<std::size_t>(r)] < steps_) {
                    int const i = done[static_cast<std::size_t>(r)];
                    auto const step = table_[place(r, i)];
                    bool ready = true;
                    if (step.kind != step_kind::idle)
                        for (int k = 0; ready && k < step.sources.count; ++k)
                            ready = done[static_cast<std::size_t>(step.sources.at(k, ranks_))] >= step.after;
                    if (!ready) break;
                    if (reads(step.kind) && !apply(r, step, has, value))
                        return {schedule_fault::added_twice, r, i, step.chunk};
                    ++done[static_cast<std::size_t>(r)];
                    order_[completed++] = static_cast<int>(place(r, i));
                    progress = true;
                }
        }

        verdict stuck{schedule_fault::none, 0, steps_, 0};
        for (int r = 0; r < ranks_; ++r)
            if (int const i = done[static_cast<std::size_t>(r)]; i < stuck.step)
                stuck = {schedule_fault::deadlock, r, i, table_[place(r, i)].chunk};
        if (!stuck.ok()) return stuck;

        for (int c = 0; c < chunks_; ++c)
            for (int r = 0; r < ranks_; ++r) {
                if (goal_ == completes::at_its_rank && r != c) continue;
                auto const at = static_cast<std::size_t>(r * chunks_ + c);
                for (int from = 0; from < ranks_; ++from)
                    if (!(has[at * words_ + static_cast<std::size_t>(from) / 64] >> (from % 64) & 1))
                        return {schedule_fault::missing, r, steps_, c};
                if (goal_ == completes::everywhere && value[at] != value[static_cast<std::size_t>(c)])
                    return {schedule_fault::ranks_differ, r, steps_, c};
            }
        return {};
    }

    /// False if a contribution would be added twice.
    constexpr bool apply(int rank, collective_step const& step, scratch<std::uint64_t>& has,
                         scratch<std::uint64_t>& value) {
        auto const own = static_cast<std::size_t>(rank * chunks_ + step.chunk);
        for (int k = 0; k < step.sources.count; ++k) {
            auto const from = static_cast<std::size_t>(step.sources.at(k, ranks_) * chunks_ + step.chunk);
            bool const add = step.kind == step_kind::reduce;
            for (std::size_t w = 0; w < words_; ++w) {
                auto const theirs = has[from * words_ + w];
                if (add && (has[own * words_ + w] & theirs) != 0) return false;
                has[own * words_ + w] = add ? has[own * words_ + w] | theirs : theirs;
            }
            value[own] = add ? name_of_sum(value[own], value[from]) : value[from];
        }
        return true;
    }

    /// A message lowering posts the send of a chunk when its owner has completed `after` steps and receives in the
    /// order of the reader's steps. One in-order queue per pair carries that if `after` never falls along the reader's
    /// steps.
    constexpr verdict in_order() {
        scratch<int> latest(static_cast<std::size_t>(ranks_));
        for (int r = 0; r < ranks_; ++r) {
            for (int q = 0; q < ranks_; ++q) latest[static_cast<std::size_t>(q)] = 0;
            for (int i = 0; i < steps_; ++i) {
                auto const step = table_[place(r, i)];
                if (!reads(step.kind)) continue;
                for (int k = 0; k < step.sources.count; ++k) {
                    auto& last = latest[static_cast<std::size_t>(step.sources.at(k, ranks_))];
                    if (step.after < last) return {schedule_fault::out_of_order, r, i, step.chunk};
                    last = step.after;
                }
            }
        }
        return {};
    }

    /// Every read by `reader` must be over before its source writes the chunk again, or leaves. known(q, i) is how many
    /// of the reader's steps are certainly complete once q has completed i steps: what q has learnt by waiting,
    /// directly or through others.
    constexpr verdict overwrites(int reader) {
        auto const stride = static_cast<std::size_t>(steps_ + 1);
        scratch<int> known_at(static_cast<std::size_t>(ranks_) * stride);
        int* const known = known_at.data();
        for (int i = 0; i <= steps_; ++i)
            known[static_cast<std::size_t>(reader) * stride + static_cast<std::size_t>(i)] = i;
        for (int done = 0; done < ranks_ * steps_; ++done) {
            int const r = order_[static_cast<std::size_t>(done)] / steps_;
            if (r == reader) continue;
            int const i = order_[static_cast<std::size_t>(done)] % steps_;
            auto const here = static_cast<std::size_t>(r) * stride + static_cast<std::size_t>(i);
            auto const& step = table_[place(r, i)];
            int best = known[here];
            if (step.kind != step_kind::idle)
                for (int k = 0; k < step.sources.count; ++k) {
                    auto const from = static_cast<std::size_t>(step.sources.at(k, ranks_)) * stride;
                    int const theirs = known[from + static_cast<std::size_t>(step.after)];
                    if (theirs > best) best = theirs;
                }
            known[here + 1] = best;
        }
        for (int i = 0; i < steps_; ++i) {
            auto const& step = table_[place(reader, i)];
            if (!reads(step.kind)) continue;
            for (int k = 0; k < step.sources.count; ++k) {
                int const source = step.sources.at(k, ranks_);
                int write = step.after;
                while (write < steps_) {
                    auto const& other = table_[place(source, write)];
                    if (reads(other.kind) && other.chunk == step.chunk) break;
                    ++write;
                }
                // the knowledge when the write begins, or when the source leaves
                auto const then = static_cast<std::size_t>(source) * stride +
                                  static_cast<std::size_t>(write < steps_ ? write + 1 : steps_);
                if (known[then] < i + 1) return {schedule_fault::overwritten, reader, i, step.chunk};
            }
        }
        return {};
    }

    completes goal_;
    int ranks_;
    int chunks_;
    int steps_;
    std::size_t words_;
    scratch<collective_step> table_;
    scratch<int> order_;
};

} // namespace detail

/// Proves that `s` is an all-reduce, for every interleaving of its ranks:
/// - it ends: no deadlock, in the pull lowering, nor in a message lowering with zero buffering (rendezvous) and one
///   in-order queue per pair, whose sends are posted when a step completes and awaited before the chunk is overwritten;
/// - every rank ends with every contribution exactly once in every chunk, added in one order, so with the same bits;
/// - no chunk is read while or after it is overwritten, and none after its owner has left.
///
/// The first fault found names rank, step and chunk; of a deadlock, the earliest stuck step. Usable in constant
/// expressions within all compilers' default limits up to 16 ranks; above, call it at construction.
/// Cost: n^2 times steps operations, n times (chunks + steps) words.
template<collective_schedule S>
constexpr verdict verify_all_reduce(S const& s) {
    if (s.ranks < 1 || s.chunks < 1 || s.steps < 0) return {schedule_fault::out_of_range, 0, 0, 0};
    return detail::reduction_proof(s, detail::completes::everywhere).run();
}

/// Proves the same of a reduce-scatter, which has as many chunks as ranks: chunk r ends on rank r with every
/// contribution exactly once; what the other chunks hold does not matter.
template<collective_schedule S>
constexpr verdict verify_reduce_scatter(S const& s) {
    if (s.ranks < 1 || s.chunks != s.ranks || s.steps < 0) return {schedule_fault::out_of_range, 0, 0, 0};
    return detail::reduction_proof(s, detail::completes::at_its_rank).run();
}

/// The same for a schedule that is to run on `ranks` ranks: a strategy may have made it for another number.
template<collective_schedule S>
constexpr verdict verify_all_reduce(S const& s, int ranks) {
    if (s.ranks != ranks) return {schedule_fault::out_of_range, s.ranks, 0, 0};
    return verify_all_reduce(s);
}

constexpr char const* describe(schedule_fault fault) noexcept {
    switch (fault) {
    case schedule_fault::none:
        return "is proved";
    case schedule_fault::out_of_range:
        return "names a rank or chunk that does not exist, reads its own buffer, or is made for another number of "
               "ranks";
    case schedule_fault::deadlock:
        return "deadlocks: the source can never complete the step that is waited for";
    case schedule_fault::added_twice:
        return "adds a contribution twice";
    case schedule_fault::missing:
        return "ends without some rank's contribution";
    case schedule_fault::ranks_differ:
        return "ends with different orders of addition on different ranks";
    case schedule_fault::overwritten:
        return "lets a chunk be overwritten while it is read: a wait is missing";
    case schedule_fault::out_of_order:
        return "reads from one peer in an order that no message queue could keep";
    }
    return "";
}

/// The compile-time face of the proof: one class per fault, so that the text says what is wrong and the words say
/// where.
template<schedule_fault Fault, class... Where>
struct schedule_rule;

template<class... Where>
struct schedule_rule<schedule_fault::out_of_range, Where...> {
    static_assert(rule_holds<Where...>, "TRI0030: this reduction schedule names a rank or chunk that does not exist, "
                                        "reads its own buffer, or is made for another number of ranks: correct the "
                                        "step named below");
};
template<class... Where>
struct schedule_rule<schedule_fault::deadlock, Where...> {
    static_assert(rule_holds<Where...>, "TRI0031: this reduction schedule deadlocks: the step named below waits for a "
                                        "step that its source can never complete; wait for an earlier one");
};
template<class... Where>
struct schedule_rule<schedule_fault::added_twice, Where...> {
    static_assert(rule_holds<Where...>, "TRI0032: this reduction schedule adds a contribution twice: the step named "
                                        "below reduces a chunk that is already in the sum; reduce it once");
};
template<class... Where>
struct schedule_rule<schedule_fault::missing, Where...> {
    static_assert(rule_holds<Where...>, "TRI0033: this reduction schedule ends without every contribution on every "
                                        "rank: the chunk named below is incomplete; add or copy what is missing");
};
template<class... Where>
struct schedule_rule<schedule_fault::ranks_differ, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0034: this reduction schedule adds one chunk in different orders on "
                  "different ranks, so that their bits differ: reduce it once and copy the result");
};
template<class... Where>
struct schedule_rule<schedule_fault::overwritten, Where...> {
    static_assert(rule_holds<Where...>, "TRI0035: this reduction schedule lets a chunk be overwritten while the step "
                                        "named below reads it: let its owner wait for the reader first");
};
template<class... Where>
struct schedule_rule<schedule_fault::out_of_order, Where...> {
    static_assert(rule_holds<Where...>, "TRI0036: this reduction schedule reads from one peer in an order that no "
                                        "message queue could keep: let `after` never fall along the steps of a rank");
};

namespace detail {

template<class Strategy, int Ranks>
struct proof_of {
    static constexpr verdict value = verify_all_reduce(Strategy::all_reduce(Ranks), Ranks);
};

template<class Strategy, int Ranks, bool Holds>
struct schedule_check {
    using type = no_rule;
};
template<class Strategy, int Ranks>
struct schedule_check<Strategy, Ranks, false> {
    static constexpr verdict v = proof_of<Strategy, Ranks>::value;
    using type =
        schedule_rule<v.fault, strategy<Strategy>, devices<Ranks>, on_rank<v.rank>, at_step<v.step>, of_chunk<v.chunk>>;
};

} // namespace detail

/// Ranks up to which a strategy is proved by the compiler; larger groups are proved when they are constructed.
inline constexpr int proved_by_compiler = 16;

/// `no_rule` if `Strategy` is an all-reduce for `Ranks` ranks, else the rule it breaks, which does not compile.
template<reduction_strategy Strategy, int Ranks>
using all_reduce_rule =
    typename detail::schedule_check<Strategy, Ranks, detail::proof_of<Strategy, Ranks>::value.ok()>::type;

} // namespace trireme
