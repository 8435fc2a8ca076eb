// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme {

/// Why a schedule is not the collective it should be.
enum class schedule_fault : std::uint8_t {
    none,
    out_of_range, ///< a source or chunk that does not exist, a rank that reads itself, another number of ranks
    deadlock,     ///< a rank waits for a step that its source can never complete
    added_twice,  ///< a contribution enters a chunk that already holds it
    missing,      ///< a chunk ends without some rank's contribution
    ranks_differ, ///< two ranks end with different orders of addition in one chunk, so with different bits
    overwritten,  ///< a chunk may be overwritten while, or before, somebody reads it
    out_of_order, ///< two reads from one peer overtake each other: a message queue could not carry them
    too_early,    ///< a chunk is read before its source is certain to have it
    misplaced,    ///< a chunk ends with what belongs to another rank or chunk
    reused,   ///< a chunk that was written to another rank is written again, or read there before its owner wrote it
    unaware,  ///< a rank may leave a barrier before another has entered it
    unheard,  ///< a chunk is written to a rank that never waits for the writing step
    elsewhere ///< a step reads another chunk than it writes, where the collective has no such step
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
    constexpr explicit scratch(std::size_t n) : data_(new T[n]{}), size_(n) {}
    constexpr scratch(std::size_t n, T all) : scratch(n) { fill(all); }
    scratch(scratch const&) = delete;
    scratch& operator=(scratch const&) = delete;
    constexpr ~scratch() { delete[] data_; }
    constexpr T& operator[](std::size_t i) { return data_[i]; }
    constexpr T* data() { return data_; }
    constexpr void fill(T x) {
        for (std::size_t i = 0; i < size_; ++i) data_[i] = x;
    }

private:
    T* data_;
    std::size_t size_;
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

/// True if the chunks of a collective belong to ranks.
constexpr bool belongs_to_ranks(collective goal) noexcept {
    return goal == collective::reduce_scatter || goal == collective::all_gather || goal == collective::gather ||
           goal == collective::scatter || goal == collective::all_to_all;
}

/// The proof of a schedule, phase by phase: it reads a table of steps, which the caller owns. A place is a chunk in the
/// buffer of a rank: rank * chunks + chunk. Each phase is a function that may be a constant expression of its own.
class schedule_proof {
public:
    template<collective_schedule S>
    constexpr schedule_proof(collective goal, S const& s, collective_step const* table, int const* owners) noexcept
        : goal_(goal), ranks_(s.ranks), chunks_(s.chunks), steps_(s.steps),
          words_(static_cast<std::size_t>((s.ranks + 63) / 64)), table_(table), owners_(owners) {
        if constexpr (requires { s.root; }) root_ = s.root;
    }

    static constexpr std::size_t count(int a, int b) noexcept { return index(a) * index(b) + 1; }

    template<collective_schedule S>
    static constexpr void fill(collective goal, S const& s, collective_step* table, int* owners) {
        for (int r = 0; r < s.ranks; ++r)
            for (int i = 0; i < s.steps; ++i) table[index(r) * index(s.steps) + index(i)] = s.at(r, i);
        if (!belongs_to_ranks(goal)) return;
        for (int c = 0; c < s.chunks; ++c) {
            if constexpr (requires { s.owner(c); })
                owners[c] = s.owner(c);
            else
                owners[c] = c / (s.chunks / s.ranks);
        }
    }

    /// Two accesses to one place. `chunk` is -1 where one is about a whole buffer, a step is `steps` for leaving and -1
    /// for entering.
    struct conflict {
        int earlier = 0, earlier_step = 0;
        int later = 0, later_step = 0;
        int owner = 0, chunk = 0;
        bool read = false;    ///< the earlier one
        bool reading = false; ///< the later one
    };

private:
    static constexpr std::size_t index(int i) noexcept { return static_cast<std::size_t>(i); }
    constexpr collective_step const& at(int rank, int step) const noexcept {
        return table_[index(rank) * index(steps_) + index(step)];
    }
    constexpr bool list_fits(rank_list const& list, int rank, bool reading) const noexcept {
        if (list.count < (reading ? 1 : 0) || list.count >= ranks_) return false;
        if (list.count == 0) return true;
        int const modulus = list.modulus == 0 ? ranks_ : list.modulus;
        bool fits = modulus > 0 && modulus <= ranks_ && list.first >= 0 && (list.modulus != 0 || list.first < ranks_) &&
                    list.first <= 2 * ranks_ && list.base >= 0 && list.base <= 2 * ranks_ && list.scale > 0 &&
                    list.scale <= ranks_ && (list.count < 2 || (list.stride >= 0 && list.stride < ranks_));
        for (int k = 0; fits && k < list.count; ++k) fits = list.at(k, ranks_) != rank;
        return fits;
    }

public:
    /// Phase 1: every step names what exists.
    constexpr verdict well_formed() const noexcept {
        for (int r = 0; r < ranks_; ++r)
            for (int i = 0; i < steps_; ++i) {
                auto const& step = at(r, i);
                if (step.kind == step_kind::idle) continue;
                bool const moves = reads(step.kind);
                bool const fits =
                    step.after >= 0 && list_fits(step.sources, r, moves) && list_fits(step.destinations, r, false) &&
                    (step.destinations.count == 0 || step.kind == step_kind::reduce) &&
                    (step.kind != step_kind::copy || step.sources.count == 1) &&
                    (!moves || (goal_ != collective::barrier && step.chunk.first >= 0 && step.chunk.first < chunks_ &&
                                step.chunk.count >= 1 && step.chunk.count <= chunks_)) &&
                    step.source_chunk >= -1 && step.source_chunk < chunks_;
                if (!fits) return {schedule_fault::out_of_range, r, i, step.chunk.first};
                if (step.source_chunk != -1 && (goal_ != collective::all_to_all || step.chunk.count != 1))
                    return {schedule_fault::elsewhere, r, i, step.chunk.first};
            }
        return {};
    }

private:
    /// Word w of the set of all ranks, or of one.
    constexpr std::uint64_t all_ranks(std::size_t w) const noexcept {
        auto const left = index(ranks_) - 64 * w;
        return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    }
    static constexpr std::uint64_t only(int rank, std::size_t w) noexcept {
        return index(rank) / 64 == w ? std::uint64_t{1} << (rank % 64) : 0;
    }

    /// The content of a place.
    struct content {
        int id = -1;             ///< the chunk it belongs to; -1: nothing
        std::uint64_t value = 0; ///< the name of the sum
        bool written = false;    ///< by its owner
        bool pushed = false;     ///< by another rank
    };

    constexpr bool starts_with(int rank, int chunk) const noexcept {
        switch (goal_) {
        case collective::all_gather:
        case collective::gather:
            return owners_[chunk] == rank;
        case collective::broadcast:
        case collective::scatter:
            return rank == root_;
        default:
            return true;
        }
    }

public:
    /// Phase 2: runs the schedule, each rank as far as it can go, with sets of contributions instead of numbers. Any
    /// other interleaving gives the same sets, which is what phases 4 and 5 prove. Leaves the order of completion in
    /// `order`.
    constexpr verdict contributions(int* order) const {
        scratch<std::uint64_t> sets(count(ranks_, chunks_) * words_);
        scratch<content> contents(count(ranks_, chunks_));
        scratch<int> done_by(count(1, ranks_));
        std::uint64_t* const has = sets.data();
        content* const holds = contents.data();
        int* const done = done_by.data();
        for (int r = 0; r < ranks_; ++r) {
            auto const name = mix(static_cast<std::uint64_t>(r) + 1);
            for (int c = 0; c < chunks_; ++c)
                if (starts_with(r, c)) {
                    has[index(r * chunks_ + c) * words_ + index(r) / 64] = std::uint64_t{1} << (r % 64);
                    holds[r * chunks_ + c] = {c, name};
                }
        }

        int completed = 0;
        for (bool progress = true; progress;) {
            progress = false;
            for (int r = 0; r < ranks_; ++r)
                for (; done[r] < steps_; ++done[r]) {
                    int const i = done[r];
                    auto const& step = at(r, i);
                    if (step.kind != step_kind::idle) {
                        bool ready = true;
                        for (int k = 0; ready && k < step.sources.count; ++k)
                            ready = done[step.sources.at(k, ranks_)] >= step.after;
                        if (!ready) break;
                        if (reads(step.kind))
                            for (int j = 0; j < step.chunk.count; ++j)
                                if (auto const fault = apply(r, step, step.chunk.at(j, chunks_), has, holds);
                                    fault != schedule_fault::none)
                                    return {fault, r, i, step.chunk.at(j, chunks_)};
                    }
                    order[completed++] = r * steps_ + i;
                    progress = true;
                }
        }

        verdict stuck{schedule_fault::none, 0, steps_, 0};
        for (int r = 0; r < ranks_; ++r)
            if (done[r] < stuck.step) stuck = {schedule_fault::deadlock, r, done[r], at(r, done[r]).chunk.first};
        if (!stuck.ok() || goal_ == collective::barrier) return stuck;

        for (int c = 0; c < chunks_; ++c)
            for (int r = 0; r < ranks_; ++r)
                if (auto const fault = ends_wrong(r, c, has, holds); fault != schedule_fault::none)
                    return {fault, r, steps_, c};
        return {};
    }

private:
    constexpr schedule_fault apply(int rank, collective_step const& step, int chunk, std::uint64_t* has,
                                   content* holds) const {
        bool const exchange = goal_ == collective::all_to_all; // reads inputs, which nobody writes
        bool const add = step.kind == step_kind::reduce;
        auto& own = holds[rank * chunks_ + chunk];
        auto* const own_set = has + index(rank * chunks_ + chunk) * words_;
        if (add && own.pushed && !own.written) return schedule_fault::reused;
        for (int k = 0; k < step.sources.count; ++k) {
            int const source = step.sources.at(k, ranks_);
            if (exchange) {
                own = {step.source_chunk >= 0 ? step.source_chunk : chunk, mix(static_cast<std::uint64_t>(source) + 1)};
                for (std::size_t w = 0; w < words_; ++w) own_set[w] = only(source, w);
                continue;
            }
            auto const& theirs = holds[source * chunks_ + chunk];
            auto const* const their_set = has + index(source * chunks_ + chunk) * words_;
            if (theirs.id < 0 || (add && own.id < 0)) return schedule_fault::too_early;
            if (theirs.pushed && !theirs.written) return schedule_fault::reused;
            for (std::size_t w = 0; w < words_; ++w) {
                if (add && (own_set[w] & their_set[w]) != 0) return schedule_fault::added_twice;
                own_set[w] = add ? own_set[w] | their_set[w] : their_set[w];
            }
            own.id = theirs.id;
            own.value = add ? name_of_sum(own.value, theirs.value) : theirs.value;
        }
        own.written = true;
        for (int k = 0; k < step.destinations.count; ++k) {
            int const there = step.destinations.at(k, ranks_) * chunks_ + chunk;
            for (std::size_t w = 0; w < words_; ++w) has[index(there) * words_ + w] = own_set[w];
            holds[there].id = own.id;
            holds[there].value = own.value;
            holds[there].pushed = true;
        }
        return schedule_fault::none;
    }

    constexpr schedule_fault ends_wrong(int rank, int chunk, std::uint64_t const* has, content const* holds) const {
        auto const& here = holds[rank * chunks_ + chunk];
        auto const* const set = has + index(rank * chunks_ + chunk) * words_;
        int const owner = owners_[chunk];
        int id = chunk;
        int from = -1; // whose it is to be; -1: everybody's sum
        switch (goal_) {
        case collective::all_reduce:
            break;
        case collective::reduce_scatter:
            if (rank != owner) return schedule_fault::none;
            break;
        case collective::reduce:
            if (rank != root_) return schedule_fault::none;
            break;
        case collective::all_gather:
            from = owner;
            break;
        case collective::gather:
            if (rank != root_) return schedule_fault::none;
            from = owner;
            break;
        case collective::broadcast:
            from = root_;
            break;
        case collective::scatter:
            if (rank != owner) return schedule_fault::none;
            from = root_;
            break;
        case collective::all_to_all:
            from = owner;
            id = rank * (chunks_ / ranks_) + chunk % (chunks_ / ranks_);
            break;
        case collective::barrier:
            return schedule_fault::none;
        }
        if (here.id < 0) return schedule_fault::missing;
        bool exact = true, enough = true;
        for (std::size_t w = 0; w < words_; ++w) {
            auto const wanted = from < 0 ? all_ranks(w) : only(from, w);
            exact = exact && set[w] == wanted;
            enough = enough && (set[w] & wanted) == wanted;
        }
        if (!exact) return from < 0 && !enough ? schedule_fault::missing : schedule_fault::misplaced;
        if (here.id != id) return schedule_fault::misplaced;
        if (goal_ == collective::all_reduce && here.value != holds[chunk].value) return schedule_fault::ranks_differ;
        return schedule_fault::none;
    }

public:
    /// Phase 3: a message lowering posts the send of a chunk when its owner has completed `after` steps, or the writing
    /// step if it writes the chunk to others. A rank receives in the order of its steps; what is written to it, in the
    /// first step that waits for the writing one. One in-order queue per pair carries that if `after` never falls along
    /// the steps of a rank. Sends are awaited before the chunk is written again, and a chunk that was written to others
    /// is not written again.
    constexpr verdict in_order() const {
        bool pushes = false;
        for (int cell = 0; cell < ranks_ * steps_; ++cell) pushes = pushes || table_[cell].destinations.count != 0;
        scratch<int> latest(count(1, ranks_));
        for (int r = 0; r < ranks_; ++r) {
            latest.fill(0);
            for (int i = 0; i < steps_; ++i) {
                auto const& step = at(r, i);
                if (step.kind == step_kind::idle || (step.kind == step_kind::wait && !pushes)) continue;
                for (int k = 0; k < step.sources.count; ++k) {
                    auto& last = latest[index(step.sources.at(k, ranks_))];
                    if (step.after < last) {
                        if (reads(step.kind)) return {schedule_fault::out_of_order, r, i, step.chunk.first};
                        continue;
                    }
                    last = step.after;
                }
                if (step.destinations.count == 0) continue;
                for (int k = 0; k < step.destinations.count; ++k)
                    if (!hears(step.destinations.at(k, ranks_), r, i))
                        return {schedule_fault::unheard, r, i, step.chunk.first};
                for (int later = i + 1; later < steps_; ++later) {
                    auto const& other = at(r, later);
                    if (!reads(other.kind)) continue;
                    for (int j = 0; j < step.chunk.count; ++j)
                        if (int const c = step.chunk.at(j, chunks_); other.chunk.has(c, chunks_))
                            return {schedule_fault::reused, r, later, c};
                }
            }
        }
        return {};
    }

    /// Phase 4: every two accesses to one place, at least one of them a write, that need a look at more than what the
    /// later rank has heard from the earlier one itself. To enter is to write the whole buffer (who reads it has waited
    /// for that; who writes into it must have), and so is to leave. Returns their number; `to` may be nullptr.
    constexpr int conflicts(int const* order, conflict* to) const {
        int total = 0;
        constexpr int nobody = -1;
        bool const exchange = goal_ == collective::all_to_all; // reads inputs, writes outputs
        scratch<int> writers(count(ranks_, chunks_), nobody), readers(count(ranks_, chunks_), nobody);
        scratch<int> heard_by(count(ranks_, ranks_), -1), last_by(count(ranks_, ranks_), nobody);
        int accesses = 0;
        bool pushes = false;
        for (int cell = 0; cell < ranks_ * steps_; ++cell) {
            if (reads(table_[cell].kind)) accesses += table_[cell].sources.count * table_[cell].chunk.count;
            pushes = pushes || table_[cell].destinations.count != 0;
        }
        scratch<int> reads_at(index(accesses) + 1), next_at(index(accesses) + 1); // lists of reads, the last one first
        int* const writer = writers.data();                                       // the cell that wrote a place last
        int* const reader = readers.data();                                       // the list of its reads since
        int* const heard = heard_by.data(); // [later][earlier]: steps it has heard of itself, -1: nothing
        int* const last = last_by.data();   // [owner][other]: the step of the last access to any of its places
        int* const read_at = reads_at.data();
        int* const next = next_at.data();
        int used = 0;
        auto const check = [&](int earlier, int earlier_step, int later, int later_step, int owner, int chunk,
                               bool read, bool reading = false) {
            if (earlier == later || heard[later * ranks_ + earlier] > earlier_step) return;
            if (to != nullptr) to[total] = {earlier, earlier_step, later, later_step, owner, chunk, read, reading};
            ++total;
        };
        auto const write = [&](int r, int i, int owner, int chunk) {
            int const at = owner * chunks_ + chunk;
            if (writer[at] != nobody) check(writer[at] / steps_, writer[at] % steps_, r, i, owner, chunk, false);
            for (int k = reader[at]; k != nobody; k = next[k])
                check(read_at[k] / steps_, read_at[k] % steps_, r, i, owner, chunk, true);
            writer[at] = r * steps_ + i;
            reader[at] = nobody;
        };
        for (int number = 0; number < ranks_ * steps_; ++number) {
            int const r = order[number] / steps_, i = order[number] % steps_;
            auto const& step = table_[order[number]];
            if (step.kind == step_kind::idle) continue;
            bool const moves = reads(step.kind);
            for (int k = 0; k < step.sources.count; ++k) {
                int const source = step.sources.at(k, ranks_), before = heard[r * ranks_ + source];
                if (step.after > before) heard[r * ranks_ + source] = step.after;
                // what `source` has written to this rank since: as a message it arrives now, and must not undo what
                // was written after it (a conflict that nothing resolves)
                for (int late = before < 0 ? 0 : before; pushes && late < step.after; ++late) {
                    auto const& theirs = at(source, late);
                    for (int to_whom = 0; to_whom < theirs.destinations.count; ++to_whom)
                        for (int j = 0; theirs.destinations.at(to_whom, ranks_) == r && j < theirs.chunk.count; ++j) {
                            int const chunk = theirs.chunk.at(j, chunks_);
                            if (writer[r * chunks_ + chunk] != source * steps_ + late)
                                check(source, steps_, r, i, r, chunk, false);
                            write(r, i, r, chunk);
                        }
                }
                if (!moves) continue;
                last[source * ranks_ + r] = i;
                if (exchange) continue;
                for (int j = 0; j < step.chunk.count; ++j) {
                    int const chunk = step.chunk.at(j, chunks_), at = source * chunks_ + chunk;
                    if (writer[at] != nobody)
                        check(writer[at] / steps_, writer[at] % steps_, r, i, source, chunk, false, true);
                    read_at[used] = order[number];
                    next[used] = reader[at];
                    reader[at] = used++;
                }
            }
            if (!moves || exchange) continue;
            for (int j = 0; j < step.chunk.count; ++j) write(r, i, r, step.chunk.at(j, chunks_));
            for (int k = 0; k < step.destinations.count; ++k) {
                int const there = step.destinations.at(k, ranks_);
                check(there, -1, r, i, there, step.chunk.first, false);
                for (int j = 0; j < step.chunk.count; ++j) write(r, i, there, step.chunk.at(j, chunks_));
                last[there * ranks_ + r] = i;
            }
        }
        for (int owner = 0; owner < ranks_; ++owner)
            for (int r = 0; r < ranks_; ++r) {
                if (int const i = last[owner * ranks_ + r]; i != nobody) check(r, i, owner, steps_, owner, -1, true);
                if (goal_ == collective::barrier) check(r, -1, owner, steps_, owner, -1, false);
            }
        return total;
    }

    /// Phase 5: that the conflicts whose earlier rank is one of [begin, end) are no races.
    constexpr verdict races(int const* order, conflict const* all, int total, int begin, int end) const {
        verdict v;
        for (int r = begin; v.ok() && r < end; ++r) v = resolve(order, all, total, r);
        return v;
    }

private:
    /// True if `rank` waits anywhere for step `step` of `other` to be complete.
    constexpr bool hears(int rank, int other, int step) const {
        for (int i = 0; i < steps_; ++i) {
            auto const& mine = at(rank, i);
            if (mine.kind == step_kind::idle || mine.after <= step) continue;
            for (int k = 0; k < mine.sources.count; ++k)
                if (mine.sources.at(k, ranks_) == other) return true;
        }
        return false;
    }

    /// Proves that the later rank of every conflict whose earlier one is `a` knows that the earlier access is over.
    /// known[q][i] is what q knows of `a` once it has completed i steps, by waiting, directly or through others: 0
    /// nothing, 1 that it has entered, 1 + s that s steps are complete.
    constexpr verdict resolve(int const* order, conflict const* conflicts, int total, int a) const {
        bool any = false;
        for (int k = 0; k < total; ++k) any = any || conflicts[k].earlier == a;
        if (!any) return {};
        int const stride = steps_ + 1;
        scratch<int> known_at(count(ranks_, stride));
        int* const known = known_at.data();
        for (int i = 0; i <= steps_; ++i) known[a * stride + i] = i + 1;
        for (int number = 0; number < ranks_ * steps_; ++number) {
            int const cell = order[number], r = cell / steps_, at = cell + r; // r * stride + step
            if (r == a) continue;
            auto const& step = table_[cell];
            int knows = known[at];
            if (step.kind != step_kind::idle)
                for (int k = 0; k < step.sources.count; ++k)
                    if (int const theirs = known[step.sources.at(k, ranks_) * stride + step.after]; theirs > knows)
                        knows = theirs;
            known[at + 1] = knows;
        }
        for (int k = 0; k < total; ++k) {
            auto const& c = conflicts[k];
            if (c.earlier != a) continue;
            // what it knows after the waits of the later step, or when it leaves
            int const knows = known[c.later * stride + (c.later_step < steps_ ? c.later_step + 1 : steps_)];
            if (c.earlier_step + 2 <= knows) continue;
            if (goal_ == collective::barrier) return {schedule_fault::unaware, c.later, steps_, 0};
            if (c.read) return first_unknown(a, c.owner, c.chunk, knows);
            return {c.reading ? schedule_fault::too_early : schedule_fault::overwritten, c.later, c.later_step,
                    c.chunk};
        }
        return {};
    }

    /// The first access of `a` to `chunk` of `owner` (-1: to any) of which one does not know that it is over.
    constexpr verdict first_unknown(int a, int owner, int chunk, int knows) const {
        for (int i = knows > 0 ? knows - 1 : 0; i < steps_; ++i) {
            auto const& step = at(a, i);
            if (!reads(step.kind)) continue;
            bool touches = false;
            for (int k = 0; k < step.sources.count; ++k) touches = touches || step.sources.at(k, ranks_) == owner;
            for (int k = 0; k < step.destinations.count; ++k)
                touches = touches || step.destinations.at(k, ranks_) == owner;
            if (touches && (chunk < 0 || step.chunk.has(chunk, chunks_)))
                return {schedule_fault::overwritten, a, i, chunk < 0 ? step.chunk.first : chunk};
        }
        return {schedule_fault::overwritten, a, steps_, chunk < 0 ? 0 : chunk};
    }

    collective goal_;
    int ranks_;
    int chunks_;
    int steps_;
    int root_ = 0;
    std::size_t words_;
    collective_step const* table_;
    int const* owners_;
};

} // namespace detail
} // namespace trireme
