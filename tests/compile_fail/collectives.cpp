// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of one's own that are not what they say, and collectives called wrongly.
// On the page: other collectives and their schedules
#include "prelude.hpp"

namespace tri0046 {
// Within a group the buffer is either cut up, so that every rank takes a part of it to the other groups, or collected
// at the first rank. A strategy that can do neither has no way into the next level, and one that cannot all-reduce is
// no outer one.
#if defined(NO_INNER_IN_A_TRAINER)
// NO_INNER_IN_A_TRAINER: TRI0046: hierarchical<Inner, Outer> needs an inner strategy with
// | strategy<trireme::dissemination>
using in_groups = hierarchical<dissemination, ring>;
#else
using in_groups = hierarchical<direct, ring>;
#endif
auto const cost = devices_by<in_groups>::plan(batch{64});
} // namespace tri0046

namespace tri0127 {
// Numbers that are rounded have to be widened again, and added by schedules whose bytes a plan knows. In f32 there is
// nothing to compress, a transport's own all-reduce sends what it likes, and what is compressed once is so.
struct telepathy {
    static constexpr char const* name = "telepathy";
    static constexpr bool of_a_transport = true;
    static constexpr schedule all_reduce(int ranks) { return ring::all_reduce(ranks); }
};
#if defined(COMPRESSED_TO_F32)
// COMPRESSED_TO_F32: TRI0127: compressed<Wire, Strategy> sends gradients as bf16 | f32 | strategy<trireme::ring>
// errors <= 1
using narrow = compressed<f32, ring>;
#elif defined(COMPRESSED_BY_A_TRANSPORT)
// COMPRESSED_BY_A_TRANSPORT: TRI0127 | bf16 | telepathy>
// errors <= 1
using narrow = compressed<bf16, telepathy>;
#elif defined(COMPRESSED_TWICE)
// COMPRESSED_TWICE: TRI0127 | strategy<trireme::compressed<trireme::bf16, trireme::ring>
// errors <= 1
using narrow = compressed<bf16, compressed<bf16, ring>>;
#elif defined(COMPRESSED_BY_NO_STRATEGY)
// COMPRESSED_BY_NO_STRATEGY: TRI0127 | strategy<trireme::bf16>
// errors <= 1
using narrow = compressed<bf16, bf16>;
#else
using narrow = compressed<bf16, ring>;
#endif
auto const cost = devices_by<narrow>::plan(batch{64});
} // namespace tri0127

namespace tri0129 {
// The candidates of best_of are compared by the time of the same bytes, and run where nothing is kept. What is chosen
// may be compressed as a whole.
#if defined(COMPRESSED_CANDIDATE)
// COMPRESSED_CANDIDATE: TRI0129: best_of chooses among strategies | strategy<trireme::compressed<trireme::bf16,
// trireme::ring> errors <= 1
using chosen = best_of<direct, compressed<bf16, ring>>;
#else
using chosen = compressed<bf16, best_of<direct, ring>>;
#endif
auto const cost = devices_by<chosen>::plan(batch{64});
} // namespace tri0129

namespace compressions {
#if defined(COMPRESSED_AND_REPRODUCIBLE)
// COMPRESSED_AND_REPRODUCIBLE: TRI0023 | compressed<
// errors <= 1
auto const fixed = my_trainer<reduce_by<compressed<bf16, ring>>, reproducible<fixed_tree, 8>>::plan(batch{64});
#elif defined(COMPRESSED_WITHOUT_A_TRAINER)
// COMPRESSED_WITHOUT_A_TRAINER: TRI0052 | strategy<trireme::compressed<
void use(threads::communicator& me, std::span<float> numbers) { all_reduce<compressed<bf16, ring>>(me, numbers); }
#else
auto const cost = my_trainer<reduce_by<compressed<bf16, direct>>>::plan(batch{64});
#endif
} // namespace compressions

namespace depths {
#if defined(NO_INNER)
// NO_INNER: TRI0046: hierarchical<Inner, Outer> needs an inner strategy with | strategy<trireme::dissemination>
// errors <= 2
static_assert(hierarchical<dissemination, ring>::depth == 2);
#else
static_assert(hierarchical<direct, ring>::depth == 2);
#endif
} // namespace depths

namespace tri0047 {
// In a broadcast, a scatter, a gather or an all-gather most chunks are empty when a rank enters. Who copies one must
// wait until its source has got it: not only on most days, but in every interleaving. The words say which step of which
// rank comes too early.
struct own {
    static constexpr schedule broadcast(int ranks, int root = 0) noexcept { return {"line", ranks, 1, 2, &step, root}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(READS_NOTHING)
        // READS_NOTHING: TRI0047: this schedule reads a chunk too early | strategy<own> | devices<4>
        // | on_rank<2> | at_step<0> | of_chunk<0>
        // errors <= 2
        int const after = rank == 2 ? 0 : 1; // rank 1 has entered then, and has nothing
#else
        int const after = 1;
#endif
        if (s == 0 && rank > 0) return {step_kind::copy, 0, one_rank(rank - 1), after};
        if (s == 1 && rank < n - 1) return {step_kind::wait, 0, one_rank(rank + 1), 1};
        return {};
    }
};
static_assert(proves<own, collective::broadcast, 4>);
} // namespace tri0047

namespace tri0155 {
// Any rank may be the root. The schedule of another one is that of rank 0, turned round by its `root`; blocks that
// belong to ranks turn with it if it has `blocks`. The compiler proves it for root 0 and for root 1.
struct own {
#if defined(ROOT_FORGOTTEN)
    // ROOT_FORGOTTEN: TRI0155: this strategy forgets the root | strategy<own> | devices<4>
    // errors <= 2
    static constexpr schedule broadcast(int ranks, int = 0) noexcept { return {"own", ranks, 1, 2, &step}; }
#else
    static constexpr schedule broadcast(int ranks, int root = 0) noexcept { return {"own", ranks, 1, 2, &step, root}; }
#endif
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == 0 && rank > 0) return {step_kind::copy, 0, one_rank(0), 0};
        if (s == 1 && rank == 0) return {step_kind::wait, 0, all_others(0, n), 1};
        return {};
    }
};
static_assert(proves<own, collective::broadcast, 4>);
} // namespace tri0155

namespace turned_without_blocks {
struct own {
    static constexpr schedule gather(int ranks, int root = 0) noexcept {
        auto s = direct::gather(ranks, root);
#if defined(BLOCKS_FORGOTTEN)
        // BLOCKS_FORGOTTEN: TRI0047 | strategy<own> | devices<4>
        // errors <= 2
        s.blocks = false;
#endif
        return s;
    }
};
static_assert(proves<own, collective::gather, 4>);
} // namespace turned_without_blocks

namespace fetching {
struct own {
    static constexpr schedule all_gather(int ranks) noexcept { return {"own", ranks, ranks, ranks, &step}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == n - 1) return {step_kind::wait, 0, all_others(rank, n), n - 1};
#if defined(WRONG_BLOCK)
        // WRONG_BLOCK: TRI0047: this schedule reads a chunk too early
        int const block = rank == 1 && s == 0 ? 3 : (rank + 1 + s) % n;
#else
        int const block = (rank + 1 + s) % n;
#endif
        return {step_kind::copy, block, one_rank((rank + 1 + s) % n), 0};
    }
};
static_assert(proves<own, collective::all_gather, 4>);
} // namespace fetching

namespace tri0048 {
// The right number of bytes has arrived, but they are others. In an all-to-all, block q of a rank's result is the block
// that rank q had for it: `source_chunk`, the sixth number of a step, is the reader.
struct swap {
    static constexpr schedule all_to_all(int ranks) noexcept { return {"swap", ranks, ranks, 2, &step}; }
    static constexpr collective_step step(int, int rank, int s) noexcept {
        int const peer = 1 - rank;
        if (s == 1) return {step_kind::wait, 0, one_rank(peer), 1};
#if defined(BLOCK_OF_ITS_OWN)
        // BLOCK_OF_ITS_OWN: TRI0048: this schedule leaves a rank with what belongs to another rank or chunk
        // | strategy<swap> | devices<2> | on_rank<1> | of_chunk<0>
        // errors <= 2
        return {step_kind::copy, peer, one_rank(peer), 0, {}, peer}; // the block that the peer has for itself
#else
        return {step_kind::copy, peer, one_rank(peer), 0, {}, rank};
#endif
    }
};
static_assert(proves<swap, collective::all_to_all, 2>);
} // namespace tri0048

namespace altered {
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
} // namespace altered

namespace tri0049 {
// A `reduce` with `destinations` writes its result into other ranks' buffers. As messages these are on their way until
// the receiver comes to them, so the sender's chunk must stay as it is. And a rank may read or add to a chunk that was
// written for it only if its owner has written it before, too: otherwise nobody could say whether the number is in the
// owner's input or in its output.
struct twice : by_steps<twice, 1, 3> {
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(REUSED)
        // REUSED: TRI0049: this schedule uses a chunk again that was written to another rank | strategy<twice>
        // | devices<4> | on_rank<0> | at_step<1>
        // errors <= 2
        if (rank == 0 && s == 0) return {step_kind::reduce, 0, one_rank(1), 0, one_rank(1)}; // before all is added
        if (rank == 0 && s == 1) return {step_kind::reduce, 0, {2, n - 2, 1}, 0};
        if (rank == 0) return {step_kind::wait, 0, all_others(0, n), 3};
        return s == 2 ? collective_step{step_kind::copy, 0, one_rank(0), 2} : collective_step{};
#else
        if (rank == 0 && s == 0) return {step_kind::reduce, 0, one_rank(1), 0};
        if (rank == 0 && s == 1) return {step_kind::reduce, 0, {2, n - 2, 1}, 0, all_others(0, n)}; // to all at last
        if (rank == 0) return {};
        return s == 2 ? collective_step{step_kind::wait, 0, one_rank(0), 2} : collective_step{};
#endif
    }
};
static_assert(proves<twice, collective::all_reduce, 4>);
} // namespace tri0049

namespace tri0050 {
// A rank knows of another one by waiting for it, or for somebody who has.
struct own {
    static constexpr schedule barrier(int ranks) noexcept { return {"own", ranks, 1, 2, &step}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
#if defined(UNAWARE)
        // UNAWARE: TRI0050: this barrier lets the rank named below leave before it knows that all have entered
        // | strategy<own> | devices<4> | on_rank<0>
        // errors <= 2
        if (rank == 0 && s == 0) return {step_kind::wait, 0, {1, n - 2, 1}, 0}; // all but the last rank
#else
        if (rank == 0 && s == 0) return {step_kind::wait, 0, all_others(0, n), 0};
#endif
        if (rank != 0 && s == 1) return {step_kind::wait, 0, one_rank(0), 1};
        return {};
    }
};
static_assert(proves<own, collective::barrier, 4>);
} // namespace tri0050

namespace tri0051 {
// What is written to a rank has arrived when that rank has waited for the writer to complete the step. A rank that
// never does may leave, or read, before.
struct own {
    static constexpr char const* name = "own";
    static constexpr schedule all_reduce(int ranks) noexcept { return {name, ranks, ranks, 2, &step}; }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0, all_others(rank, n)};
#if defined(UNHEARD)
        // UNHEARD: TRI0051: this schedule writes a chunk to a rank that never waits for it | strategy<own> | devices<4>
        // | on_rank<0> | at_step<0> | of_chunk<0>
        // errors <= 2
        if (rank == 1) return {step_kind::wait, 0, {2, n - 2, 1}, 1}; // for all but rank 0
#endif
        return {step_kind::wait, 0, all_others(rank, n), 1};
    }
};
static_assert(proves<own, collective::all_reduce, 4>);
} // namespace tri0051

namespace tri0052 {
// Not every strategy makes sense for every collective: a binomial tree moves a whole buffer per message, which an
// all-reduce can do better; a ring has no root. A collective with a root asks for a schedule by the ranks and the root.
// The words name the strategy and the collective.
#if defined(WRONG_STRATEGY)
// WRONG_STRATEGY: TRI0052: this strategy does not make this collective | strategy<trireme::binomial_tree>
// | asked_for<
// errors <= 2
void add(threads::communicator& me, std::vector<float>& numbers) { all_reduce<binomial_tree>(me, numbers); }
#else
void add(threads::communicator& me, std::vector<float>& numbers) { all_reduce<double_binary_tree>(me, numbers); }
#endif
struct from_rank_0 {
    static constexpr char const* name = "from_rank_0";
#if defined(NO_ROOT)
    // NO_ROOT: TRI0052: this strategy does not make this collective | strategy<from_rank_0> | and the root
    // errors <= 2
    static constexpr schedule broadcast(int ranks) { return direct::broadcast(ranks); }
#else
    static constexpr schedule broadcast(int ranks, int root) { return direct::broadcast(ranks, root); }
#endif
};
static_assert(proves<from_rank_0, collective::broadcast, 4>);
void tell(threads::communicator& me, std::vector<float>& numbers) { broadcast<from_rank_0>(me, numbers); }
} // namespace tri0052

namespace tri0080 {
// Ranks compare what they call, and combine the ranks' numbers in any order and grouping: a function alone has no name,
// and nobody has said that its order does not matter.
#if defined(A_LAMBDA)
// A_LAMBDA: TRI0080: this is no reduction operation | op::commutative( | lambda
// errors <= 1
void largest(threads::communicator& me, std::vector<float>& numbers) {
    all_reduce(me, numbers, [](float a, float b) { return a > b ? a : b; });
}
#elif defined(NO_OPERATION)
// NO_OPERATION: TRI0080: this is no reduction operation | op::sum, op::max, op::min and op::avg are | gets<std::plus<
// errors <= 1
void add(threads::communicator& me, std::vector<float>& numbers) { all_reduce<ring>(me, numbers, std::plus<>()); }
#elif defined(NO_OPERATION_BETWEEN_BUFFERS)
// NO_OPERATION_BETWEEN_BUFFERS: TRI0080: this is no reduction operation | lambda
// errors <= 1
void multiply(threads::communicator& me, std::vector<float>& from, std::vector<float>& to) {
    reduce<direct>(me, from, to, 0, [](auto a, auto b) { return a * b; });
}
#elif defined(NO_OPERATION_ON_A_NUMBER)
// NO_OPERATION_ON_A_NUMBER: TRI0080: this is no reduction operation | lambda
// errors <= 1
double product(threads::communicator& me, double mine) {
    return all_reduce(me, mine, [](auto a, auto b) { return a * b; });
}
#else
void largest(threads::communicator& me, std::vector<float>& numbers) {
    all_reduce(me, numbers, op::commutative("largest", [](float a, float b) { return a > b ? a : b; }));
}
#endif
} // namespace tri0080

namespace tri0115 {
// Whatever the schedule, two elements become one of the same kind, on every rank, in the midst of other ranks' numbers.
struct interval {
    float from, to;
};
#if defined(OF_ANOTHER_TYPE)
// OF_ANOTHER_TYPE: TRI0115: this operation does not combine two elements of the buffer | wants<
// errors <= 1
void widest(threads::communicator& me, std::vector<interval>& mine) {
    all_reduce(me, mine, op::commutative("widest", [](interval a, interval b) { return a.to - b.from; }));
}
#elif defined(A_COUNTER)
// A_COUNTER: TRI0115: this operation does not combine two elements of the buffer | wants<int>
// errors <= 1
int counted(threads::communicator& me) {
    int calls = 0;
    return all_reduce(me, 1, op::commutative("counted", [calls](int a, int b) mutable { return a + b + ++calls; }));
}
#else
void widest(threads::communicator& me, std::vector<interval>& mine) {
    all_reduce(me, mine, op::commutative("widest", [](interval a, interval b) {
                   return interval{std::min(a.from, b.from), std::max(a.to, b.to)};
               }));
}
#endif
} // namespace tri0115

namespace tri0081 {
// Everywhere else a chunk has one place in the buffers of all ranks.
struct crossed {
    static constexpr char const* name = "crossed";
    static constexpr schedule all_gather(int ranks) noexcept { return {name, ranks, ranks, 2, &step}; }
    static constexpr collective_step step(int, int rank, int s) noexcept {
        int const peer = 1 - rank;
        if (s == 1) return {step_kind::wait, 0, one_rank(peer), 1};
#if defined(ANOTHER_CHUNK)
        // ANOTHER_CHUNK: TRI0081: this schedule reads another chunk than it writes | only an all-to-all may
        // | strategy<crossed> | on_rank<0> | at_step<0> | of_chunk<1>
        // errors <= 2
        return {step_kind::copy, peer, one_rank(peer), 0, {}, rank};
#else
        return {step_kind::copy, peer, one_rank(peer), 0};
#endif
    }
};
static_assert(proves<crossed, collective::all_gather, 2>);
} // namespace tri0081

namespace temporaries {
#if defined(TEMPORARY)
// TEMPORARY: no matching function for call to
void add(threads::communicator& me) { start_all_reduce<ring>(me, std::vector<float>(10)).wait(); }
#elif defined(TEMPORARY_OUTPUT)
// TEMPORARY_OUTPUT: no matching function for call to
void add(threads::communicator& me, std::vector<float>& mine) { all_reduce(me, mine, std::vector<float>(10)); }
#else
auto added(threads::communicator& me) { return all_reduce(me, std::vector<float>(10)); }
#endif
} // namespace temporaries
