// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reduction strategies of one's own that are no all-reduce.
// On the page: reduction schedules
#include "prelude.hpp"

namespace tri0030 {
// Ranks are 0 to ranks - 1, chunks 0 to chunks - 1; `copy` has one source, `reduce` at least one, and a rank is never
// its own source. The words `on_rank`, `at_step` and `of_chunk` say where. A strategy that is asked for four ranks and
// answers with a schedule for two breaks this rule, too.
struct own : by_steps<own, 1, 3> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(OUT_OF_RANGE)
        // OUT_OF_RANGE: TRI0030: this reduction schedule names a rank or chunk that does not exist | strategy<own>
        // | devices<4> | on_rank<2> | at_step<1> | of_chunk<1>
        // errors <= 2
        if (rank == 2 && s == 1) return {step_kind::copy, 1, one_rank(n - 1), 1}; // the only chunk is number 0
#elif defined(READS_ITSELF)
        // READS_ITSELF: TRI0030: | reads its own buffer | correct the step named below | strategy<own> | on_rank<1>
        // | at_step<1>
        // errors <= 2
        if (rank == 1 && s == 1) return {step_kind::copy, 0, one_rank(rank), 1};
#else
        if (rank == 2 && s == 1) return {step_kind::copy, 0, one_rank(n - 1), 1};
#endif
        return centre::step(n, rank, s);
    }
};
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0030

namespace tri0031 {
// Everything that could run has run, and this step still waits: for a step after the last one, or for one that waits in
// turn. The fourth number of a step counts the steps that its sources must have completed; 0 means that they have
// entered.
struct own : by_steps<own, 1, 3> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(DEADLOCK)
        // DEADLOCK: TRI0031: this reduction schedule deadlocks | can never complete; wait for an earlier one
        // | strategy<own> | devices<4> | on_rank<0> | at_step<1> | of_chunk<0>
        // errors <= 2
        if (rank == 0 && s == 1) return {step_kind::copy, 0, one_rank(n - 1), 4}; // its source has three steps
#else
        if (rank == 0 && s == 1) return {step_kind::copy, 0, one_rank(n - 1), 1};
#endif
        return centre::step(n, rank, s);
    }
};
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0031

namespace tri0032 {
// With a gradient that is counted twice training still works, only worse. So this is proved, not left to tests.
struct own : by_steps<own, 1, 3> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(ADDED_TWICE)
        // ADDED_TWICE: TRI0032: this reduction schedule adds a contribution twice | reduce it once
        // | strategy<own> | devices<4> | on_rank<2> | at_step<1> | of_chunk<0>
        // errors <= 2
        if (rank == 2 && s == 1) return {step_kind::reduce, 0, one_rank(n - 1), 1}; // the sum has its numbers already
#else
        if (rank == 2 && s == 1) return {step_kind::copy, 0, one_rank(n - 1), 1};
#endif
        return centre::step(n, rank, s);
    }
};
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0032

namespace tri0033 {
// Here `at_step` is the number of steps, which is the end.
struct own : by_steps<own, 1, 3> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(INCOMPLETE)
        // INCOMPLETE: TRI0033: this reduction schedule ends without every contribution on every rank
        // | strategy<own> | devices<4> | on_rank<1> | at_step<3> | of_chunk<0>
        // errors <= 2
        if (rank == 1 && s == 1) return {}; // and who brings the sum to rank 1?
#else
        if (rank == 1 && s == 1) return {step_kind::copy, 0, one_rank(n - 1), 1};
#endif
        return centre::step(n, rank, s);
    }
};
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0033

namespace tri0034 {
// (a + b) + c and a + (b + c) may differ in the last bit. Devices whose weights drift apart by roundings are hard to
// notice, so a chunk is added in one place.
#if defined(RANKS_DIFFER)
// RANKS_DIFFER: TRI0034: this reduction schedule adds one chunk in different orders on different ranks
// | strategy<own> | devices<4> | on_rank<1> | of_chunk<0>
// errors <= 2
struct own : by_steps<own, 1, 4> {
    static constexpr collective_step step(int, int rank, int s) noexcept {
        constexpr collective_step steps[4][4] = {
            {{step_kind::reduce, 0, one_rank(1), 0}, // ((0 + 1) + 2) + 3
             {step_kind::wait, 0, one_rank(1), 1},
             {step_kind::reduce, 0, two_ranks(2, 3, 4), 0},
             {step_kind::wait, 0, all_others(0, 4), 4}},
            {{step_kind::copy, 0, one_rank(0), 1}, {step_kind::reduce, 0, one_rank(2), 2}, {}, {}}, // (0 + 1) + (2 + 3)
            {{step_kind::wait, 0, one_rank(0), 3},
             {step_kind::reduce, 0, one_rank(3), 0},
             {step_kind::wait, 0, one_rank(1), 2},
             {step_kind::copy, 0, one_rank(0), 3}},
            {{step_kind::wait, 0, one_rank(0), 3},
             {step_kind::wait, 0, one_rank(2), 2},
             {step_kind::copy, 0, one_rank(0), 3},
             {}}};
        return steps[rank][s];
    }
};
#else
// The last rank adds, the others copy:
using own = centre;
#endif
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0034

namespace tri0035 {
// A rank that leaves the collective goes on, and its buffer gets new contents. It has to know that everybody who reads
// it has done so: from a wait, or from having read a step of theirs that came later.
struct own : by_steps<own, 1, 3> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(OVERWRITTEN)
        // OVERWRITTEN: TRI0035: this reduction schedule lets a chunk be overwritten while the step named below reads it
        // | strategy<own> | devices<4> | on_rank<0> | at_step<1> | of_chunk<0>
        // errors <= 2
        if (rank == n - 1 && s == 2) return {}; // done, so why wait?
#else
        if (rank == n - 1 && s == 2) return {step_kind::wait, 0, all_others(rank, n), 2};
#endif
        return centre::step(n, rank, s);
    }
};
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0035

namespace tri0036 {
// Threads may read a peer's memory in any order. Messages between two processes arrive in the order in which they were
// sent, and a chunk is sent when the step that makes it is complete. Schedules are the same for both, so what a rank
// reads from one peer comes in the order in which that peer completes it.
#if defined(OUT_OF_ORDER)
// OUT_OF_ORDER: TRI0036: this reduction schedule reads from one peer in an order that no message queue could keep
// | strategy<own> | devices<4> | on_rank<0> | at_step<3> | of_chunk<0>
// errors <= 2
constexpr int order[] = {1, 0}; // chunk 0 was ready before
#else
constexpr int order[] = {0, 1};
#endif
struct own : by_steps<own, 2, 5> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        bool const last = rank == n - 1;
        if (last && s < 2) return {step_kind::reduce, s, all_others(rank, n), 0}; // chunk 0, then chunk 1
        if (last) return {step_kind::wait, 0, all_others(rank, n), 4};
        if (s == 2 || s == 3) return {step_kind::copy, order[s - 2], one_rank(n - 1), 1 + order[s - 2]};
        return {};
    }
};
auto const cost = devices_by<own>::plan(batch{64});
} // namespace tri0036

namespace whole_schedules {
#if defined(DEADLOCK_IN_A_CYCLE)
// DEADLOCK_IN_A_CYCLE: TRI0031: this reduction schedule deadlocks | strategy<own> | devices<4>
// | on_rank<0> | at_step<0>
// errors <= 2
struct own {
    static constexpr char const* name = "everybody waits for a neighbour to begin";
    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, ranks, 1, &step}; }
    static constexpr collective_step step(int n, int rank, int) noexcept {
        return {step_kind::reduce, rank, one_rank((rank + 1) % n), 1};
    }
};
#elif defined(ANOTHER_NUMBER_OF_RANKS)
// ANOTHER_NUMBER_OF_RANKS: TRI0030: | strategy<own> | devices<4>
// errors <= 2
struct own {
    static constexpr char const* name = "always for two ranks";
    static constexpr schedule all_reduce(int) noexcept { return centre::all_reduce(2); }
};
#else
using own = centre;
#endif
using one_layer = network<input<4>, linear<2>>;
using own_trainer = data_parallel_trainer<one_layer, cross_entropy, sgd, on<mesh<host, dp<4>>>, reduce_by<own>>;
static_assert(own_trainer::plan(batch{8}).parameters == 10);
} // namespace whole_schedules
