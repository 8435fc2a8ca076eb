// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Reduction strategies of one's own that are no all-reduce. What compiles is the smallest one that is: the last rank
// adds the whole buffer (chunk 0), the others copy it, and it waits until they have.

#include <trireme/trireme.hpp>

using namespace trireme;

struct centre {
    static constexpr char const* name = "centre";
    static constexpr int steps = 3;

    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, 1, ranks > 1 ? steps : 0, &step}; }

    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == 0 && rank == n - 1) return {step_kind::reduce, 0, all_others(rank, n), 0};
        if (s == 1 && rank != n - 1) return {step_kind::copy, 0, one_rank(n - 1), 1};
        if (s == 2 && rank == n - 1) return {step_kind::wait, 0, all_others(rank, n), 2};
        return {};
    }
};

/// `centre`, but `Broken::change` may alter a step.
template<class Broken>
struct altered {
    static constexpr schedule all_reduce(int ranks) noexcept {
        return {Broken::name, ranks, 1, ranks > 1 ? centre::steps : 0, &step};
    }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        return Broken::change(n, rank, s, centre::step(n, rank, s));
    }
};

#if defined(DEADLOCK)
// DEADLOCK: TRI0031: this reduction schedule deadlocks | can never complete; wait for an earlier one
// | strategy<own> | devices<4> | on_rank<0> | at_step<1> | of_chunk<0>
// errors <= 2
struct own : altered<own> {
    static constexpr char const* name = "waits for a step after the last";
    static constexpr collective_step change(int, int rank, int s, collective_step step) noexcept {
        if (rank == 0 && s == 1) step.after = 4;
        return step;
    }
};
#elif defined(DEADLOCK_IN_A_CYCLE)
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
#elif defined(ADDED_TWICE)
// ADDED_TWICE: TRI0032: this reduction schedule adds a contribution twice | reduce it once
// | strategy<own> | devices<4> | on_rank<2> | at_step<1> | of_chunk<0>
// errors <= 2
struct own : altered<own> {
    static constexpr char const* name = "adds where it should copy";
    static constexpr collective_step change(int, int rank, int s, collective_step step) noexcept {
        if (rank == 2 && s == 1) step.kind = step_kind::reduce;
        return step;
    }
};
#elif defined(INCOMPLETE)
// INCOMPLETE: TRI0033: this reduction schedule ends without every contribution on every rank
// | strategy<own> | devices<4> | on_rank<1> | at_step<3> | of_chunk<0>
// errors <= 2
struct own : altered<own> {
    static constexpr char const* name = "leaves a rank out";
    static constexpr collective_step change(int, int rank, int s, collective_step step) noexcept {
        return rank == 1 && s == 1 ? collective_step{} : step;
    }
};
#elif defined(RANKS_DIFFER)
// RANKS_DIFFER: TRI0034: this reduction schedule adds one chunk in different orders on different ranks
// | strategy<own> | devices<4> | on_rank<1> | of_chunk<0>
// errors <= 2
struct own {
    static constexpr char const* name = "rank 0 has ((0 + 1) + 2) + 3, rank 1 has (0 + 1) + (2 + 3)";
    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, 1, 4, &step}; }
    static constexpr collective_step step(int, int rank, int s) noexcept {
        constexpr collective_step steps[4][4] = {
            {{step_kind::reduce, 0, one_rank(1), 0},
             {step_kind::wait, 0, one_rank(1), 1},
             {step_kind::reduce, 0, two_ranks(2, 3, 4), 0},
             {step_kind::wait, 0, all_others(0, 4), 4}},
            {{step_kind::copy, 0, one_rank(0), 1}, {step_kind::reduce, 0, one_rank(2), 2}, {}, {}},
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
#elif defined(OVERWRITTEN)
// OVERWRITTEN: TRI0035: this reduction schedule lets a chunk be overwritten while the step named below reads it
// | strategy<own> | devices<4> | on_rank<0> | at_step<1> | of_chunk<0>
// errors <= 2
struct own : altered<own> {
    static constexpr char const* name = "leaves without waiting for the readers";
    static constexpr collective_step change(int, int, int s, collective_step step) noexcept {
        return s == 2 ? collective_step{} : step;
    }
};
#elif defined(OUT_OF_ORDER)
// OUT_OF_ORDER: TRI0036: this reduction schedule reads from one peer in an order that no message queue could keep
// | strategy<own> | devices<4> | on_rank<0> | at_step<3> | of_chunk<0>
// errors <= 2
struct own {
    static constexpr char const* name = "two chunks, the second fetched first";
    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, 2, 5, &step}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (rank == n - 1) {
            if (s < 2) return {step_kind::reduce, s, all_others(rank, n), 0};
            return {step_kind::wait, 0, all_others(rank, n), 4};
        }
        if (s == 2) return {step_kind::copy, 1, one_rank(n - 1), 2};
        if (s == 3) return {step_kind::copy, 0, one_rank(n - 1), 1};
        return {};
    }
};
#elif defined(OUT_OF_RANGE)
// OUT_OF_RANGE: TRI0030: this reduction schedule names a rank or chunk that does not exist | strategy<own> | devices<4>
// | on_rank<2> | at_step<1> | of_chunk<1>
// errors <= 2
struct own : altered<own> {
    static constexpr char const* name = "copies a chunk behind the last";
    static constexpr collective_step change(int, int rank, int s, collective_step step) noexcept {
        if (rank == 2 && s == 1) step.chunk = 1;
        return step;
    }
};
#elif defined(READS_ITSELF)
// READS_ITSELF: TRI0030: | reads its own buffer | correct the step named below | strategy<own> | on_rank<1>
// | at_step<1>
// errors <= 2
struct own : altered<own> {
    static constexpr char const* name = "reads itself";
    static constexpr collective_step change(int, int rank, int s, collective_step step) noexcept {
        if (rank == 1 && s == 1) step.sources = one_rank(rank);
        return step;
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

int main() {}
