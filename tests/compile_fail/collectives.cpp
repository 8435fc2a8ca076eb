// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Collectives of one's own that are not what they say. What compiles is a broadcast along a line, a barrier at rank 0
// and an all-reduce that writes to others.

#include <trireme/trireme.hpp>

using namespace trireme;

struct own {
    static constexpr char const* name = "own";

    static constexpr schedule broadcast(int ranks, int root = 0) noexcept { return {name, ranks, 1, 2, &line, root}; }
    static constexpr collective_step line(int n, int rank, int s) noexcept {
#if defined(READS_NOTHING)
        // READS_NOTHING: TRI0047: this schedule reads a chunk too early | strategy<own> | devices<4>
        // | on_rank<2> | at_step<0> | of_chunk<0>
        // errors <= 2
        int const after = rank == 2 ? 0 : 1;
#else
        int const after = 1;
#endif
        if (s == 0)
            return rank == 0 ? collective_step{} : collective_step{step_kind::copy, 0, one_rank(rank - 1), after};
        return rank == n - 1 ? collective_step{} : collective_step{step_kind::wait, 0, one_rank(rank + 1), 1};
    }

    static constexpr schedule all_gather(int ranks) noexcept { return {name, ranks, ranks, ranks, &fetch}; }
    static constexpr collective_step fetch(int n, int rank, int s) noexcept {
        if (s == n - 1) return {step_kind::wait, 0, all_others(rank, n), n - 1};
#if defined(WRONG_BLOCK)
        // WRONG_BLOCK: TRI0047: this schedule reads a chunk too early
        int const block = rank == 1 && s == 0 ? 3 : (rank + 1 + s) % n;
#else
        int const block = (rank + 1 + s) % n;
#endif
        return {step_kind::copy, block, one_rank((rank + 1 + s) % n), 0};
    }

    static constexpr schedule barrier(int ranks) noexcept { return {name, ranks, 1, 2, &meet}; }
    static constexpr collective_step meet(int n, int rank, int s) noexcept {
#if defined(UNAWARE)
        // UNAWARE: TRI0050: this barrier lets the rank named below leave before it knows that all have entered
        // | strategy<own> | devices<4> | on_rank<0>
        // errors <= 2
        if (s == 0) return rank == 0 ? collective_step{step_kind::wait, 0, {1, n - 2, 1}, 0} : collective_step{};
#else
        if (s == 0) return rank == 0 ? collective_step{step_kind::wait, 0, all_others(0, n), 0} : collective_step{};
#endif
        return rank == 0 ? collective_step{} : collective_step{step_kind::wait, 0, one_rank(0), 1};
    }

    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, ranks, 2, &exchange}; }
    static constexpr collective_step exchange(int n, int rank, int s) noexcept {
#if defined(UNHEARD)
        // UNHEARD: TRI0051: this schedule writes a chunk to a rank that never waits for it | strategy<own> | devices<4>
        // | on_rank<0> | at_step<0> | of_chunk<0>
        // errors <= 2
        if (rank == 1 && s == 1) return {step_kind::wait, 0, {2, 2, 1}, 1};
#endif
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0, all_others(rank, n)};
        return {step_kind::wait, 0, all_others(rank, n), 1};
    }
};

#if defined(REUSED)
// REUSED: TRI0049: this schedule uses a chunk again that was written to another rank | strategy<twice> | devices<4>
// | on_rank<0> | at_step<1>
// errors <= 2
struct twice {
    static constexpr char const* name = "twice";
    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, 1, 3, &step}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept { // tells rank 1 before all is added
        if (rank == 0 && s == 0) return {step_kind::reduce, 0, one_rank(1), 0, one_rank(1)};
        if (rank == 0 && s == 1) return {step_kind::reduce, 0, {2, n - 2, 1}, 0};
        if (rank == 0) return {step_kind::wait, 0, all_others(0, n), 3};
        return s == 2 ? collective_step{step_kind::copy, 0, one_rank(0), 2} : collective_step{};
    }
};
static_assert(proves<twice, collective::all_reduce, 4>);
#endif

#if defined(MISPLACED)
// MISPLACED: TRI0048: this schedule leaves a rank with what belongs to another rank or chunk | strategy<backwards>
// | devices<4> | on_rank<1> | of_chunk<0>
// errors <= 2
struct backwards {
    static constexpr char const* name = "backwards";
    static constexpr schedule all_to_all(int ranks) noexcept { return {name, ranks, ranks, ranks, &step}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        auto step = direct::all_to_all(n).at(rank, s);
        if (step.kind == step_kind::copy) step.source_chunk = step.chunk.first; // the source's own block, not ours
        return step;
    }
};
static_assert(proves<backwards, collective::all_to_all, 4>);
#endif

#if defined(ANOTHER_CHUNK)
// ANOTHER_CHUNK: TRI0081: this schedule reads another chunk than it writes | only an all-to-all may | strategy<crossed>
// | on_rank<0> | at_step<0> | of_chunk<1>
// errors <= 2
struct crossed {
    static constexpr char const* name = "crossed";
    static constexpr schedule all_gather(int ranks) noexcept { return {name, ranks, ranks, 2, &step}; }
    static constexpr collective_step step(int, int rank, int s) noexcept {
        int const peer = 1 - rank;
        if (s == 1) return {step_kind::wait, 0, one_rank(peer), 1};
        return {step_kind::copy, peer, one_rank(peer), 0, {}, rank};
    }
};
static_assert(proves<crossed, collective::all_gather, 2>);
#endif

#if defined(NO_STRATEGY)
// NO_STRATEGY: TRI0079: a collective is told its strategy | all_reduce<ring>(...) | asked_for<
// errors <= 1
void add(threads::communicator& c, std::vector<float>& x) { all_reduce(c, x); }
#endif

#if defined(NO_OPERATION)
// NO_OPERATION: TRI0080: this is no reduction operation | op::sum, op::max, op::min and op::avg are | gets<std::plus<
// errors <= 1
void add(threads::communicator& c, std::vector<float>& x) { all_reduce<ring>(c, x, std::plus<>()); }
#endif

#if defined(NO_OPERATION_BETWEEN_BUFFERS)
// NO_OPERATION_BETWEEN_BUFFERS: TRI0080: this is no reduction operation | lambda
// errors <= 1
void add(threads::communicator& c, std::vector<float>& x, std::vector<float>& y) {
    reduce<direct>(c, x, y, 0, [](auto a, auto b) { return a * b; });
}
#endif

#if defined(NO_INNER)
// NO_INNER: TRI0046: hierarchical<Inner, Outer> needs an inner strategy with | strategy<trireme::dissemination>
// errors <= 2
static_assert(hierarchical<dissemination, ring>::depth == 2);
#endif

#if defined(WRONG_STRATEGY)
// WRONG_STRATEGY: TRI0052: this strategy does not make this collective | strategy<trireme::binomial_tree>
// | asked_for<
// errors <= 2
void add(threads::communicator& c, std::vector<float>& x) { all_reduce<binomial_tree>(c, x); }
#endif

#if defined(TEMPORARY)
// TEMPORARY: no matching function for call to
void add(threads::communicator& c) { all_reduce<ring>(c, std::vector<float>(10)); }
#endif

static_assert(proves<own, collective::broadcast, 4>);
static_assert(proves<own, collective::all_gather, 4>);
static_assert(proves<own, collective::barrier, 4>);
static_assert(proves<own, collective::all_reduce, 4>);

int main() {}
