// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipelines that cannot be: axes, schedules, cuts, devices.
// On the page: pipelines
#include "prelude.hpp"

#include <trireme/processes.hpp>
#include <trireme/rehearsal.hpp>
#include <trireme/schedules.hpp>

namespace tri0089 {
struct no_schedule {};
#if defined(NO_SCHEDULE)
// NO_SCHEDULE: TRI0089 | pipeline takes a schedule | no_schedule
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<no_schedule, 4>>;
#elif defined(NO_MICRO_BATCHES)
// NO_MICRO_BATCHES: TRI0089 | at least 1
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<gpipe, 0>>;
#else
using program = staged<on<mesh<host, pp<2>>>, pipeline<gpipe, 4>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0089

namespace tri0090 {
#if defined(NO_CUT)
// NO_CUT: TRI0090 | balanced_by_flops
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<gpipe, 4>, stages_by<gpipe>>;
#else
using program = staged<on<mesh<host, pp<2>>>, pipeline<gpipe, 4>, stages_by<balanced_by_flops>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0090

namespace tri0091 {
// Stages read one another's memory, or send what goes from one to another.
#if defined(STAGES_OVER_MESSAGES)
// STAGES_OVER_MESSAGES: TRI0091 | shared_windows | transport<nccl> | pp<2> | pigeons
// errors <= 1
using program = staged<on<mesh<host, dp<1>, pp<2>>>, pipeline<gpipe, 4>, transport<pigeons>>;
#else
using program = staged<on<mesh<host, dp<1>, pp<2>>>, pipeline<gpipe, 4>, transport<shared_windows>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0091

namespace tri0092 {
#if defined(OTHER_MICRO_BATCHES_THAN_SHARDS)
// OTHER_MICRO_BATCHES_THAN_SHARDS: TRI0092 | its logical shards | pipeline< | reproducible<
// errors <= 1
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 3>, reproducible<fixed_tree, 8>>;
#else
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 4>, reproducible<fixed_tree, 8>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0092

namespace tri0093 {
#if defined(STAGES_WITHOUT_AN_AXIS)
// STAGES_WITHOUT_AN_AXIS: TRI0093 | write on<mesh<host, dp<dynamic>, pp<dynamic>>>
// errors <= 1
using program = staged<on<mesh<host, dp<dynamic>>>>;
program::run_options const options{.devices = 2, .stages = 2};
#elif defined(STAGES_THAT_THE_TYPE_FIXES)
// STAGES_THAT_THE_TYPE_FIXES: TRI0093 | leaves them open
// errors <= 1
using program = staged<on<mesh<host, dp<dynamic>, pp<2>>>>;
program::run_options const options{.devices = 2, .stages = 2};
#elif defined(MICRO_BATCHES_THAT_THE_TYPE_FIXES)
// MICRO_BATCHES_THAT_THE_TYPE_FIXES: TRI0093 | what the policy pipeline says
// errors <= 1
using program = staged<on<mesh<host, pp<dynamic>>>, pipeline<gpipe, 4>>;
program::run_options const options{.stages = 2, .micro_batches = 8};
#else
using program = staged<on<mesh<host, dp<dynamic>, pp<dynamic>>>>;
program::run_options const options{.devices = 2, .stages = 2, .micro_batches = 8, .schedule = gpipe{}};
#endif
} // namespace tri0093

namespace tri0131 {
#if defined(SCHEDULE_WITHOUT_STAGES)
// SCHEDULE_WITHOUT_STAGES: TRI0131 | leave them out | pipeline< | dp<2>
// errors <= 1
using program = staged<on<mesh<host, dp<2>>>, pipeline<gpipe, 4>>;
#elif defined(CUT_WITHOUT_STAGES)
// CUT_WITHOUT_STAGES: TRI0131 | leave them out | stages_by< | dp<2>
// errors <= 1
using program = staged<on<mesh<host, dp<2>>>, stages_by<cut_before<3>>>;
#else
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 4>, stages_by<cut_before<2>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0131

namespace tri0132 {
// What the type leaves open is an option, and its default is no constant of the type.
using program = staged<on<mesh<host, dp<1>, pp<2>>>>; // how many micro-batches?
#if defined(OPEN)
// OPEN: TRI0132 | plan(batch, layout_of(options, run_options)) | pp<2>
// errors <= 1
auto const cost = program::plan(batch{64});
#else
auto const cost = program::plan(batch{64}, program::layout_of({}, {.micro_batches = 8}));
#endif
} // namespace tri0132

namespace tri0094 {
#if defined(MORE_STAGES_THAN_PLACES)
// MORE_STAGES_THAN_PLACES: TRI0094 | Use fewer stages | at_most<4> | pp<5>
// errors <= 1
using program = staged<on<mesh<host, pp<5>>>, pipeline<gpipe, 4>>;
#else
using program = staged<on<mesh<host, pp<4>>>, pipeline<gpipe, 4>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0094

namespace tri0095 {
#if defined(CUT_BEFORE_A_FUNCTION)
// CUT_BEFORE_A_FUNCTION: TRI0095 | right behind the layer | cut_before<1
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<gpipe, 4>, stages_by<cut_before<1>>>;
#elif defined(ONE_CUT_TOO_FEW)
// ONE_CUT_TOO_FEW: TRI0095 | one row less than there are stages | cut_before<2 | pp<3>
// errors <= 1
using program = staged<on<mesh<host, pp<3>>>, pipeline<gpipe, 4>, stages_by<cut_before<2>>>;
#elif defined(CUTS_THE_WRONG_WAY_ROUND)
// CUTS_THE_WRONG_WAY_ROUND: TRI0095 | in rising order
// errors <= 1
using program = staged<on<mesh<host, pp<3>>>, pipeline<gpipe, 4>, stages_by<cut_before<4, 2>>>;
#elif defined(CUT_INSIDE_A_RESIDUAL)
// CUT_INSIDE_A_RESIDUAL: TRI0095 | none inside a residual | cut_before<4 | rows<2, 8
// errors <= 1
using body = residual<sequential<linear<8>, relu, linear<8>>>; // rows 2 to 7
using program = trainer<network<input<8>, linear<8>, relu, body, linear<4>>, cross_entropy, sgd, on<mesh<host, pp<2>>>,
                        pipeline<gpipe, 4>, stages_by<cut_before<4>>>;
#else
using program = staged<on<mesh<host, pp<3>>>, pipeline<gpipe, 4>, stages_by<cut_before<2, 4>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0095

namespace tri0108 {
// Statistics of all samples of a step need them at once, and a batch in parts has a part of them at a time.
#if defined(SYNCHRONISED_PARTS)
// SYNCHRONISED_PARTS: TRI0108 | batch_norm<per_shard> | at_layer<0 | accumulate<4>
// errors <= 1
using norm = batch_norm<synchronised>;
#else
using norm = batch_norm<per_shard>;
#endif
using program = trainer<network<input<1, 4, 4>, norm, flatten, linear<4>>, cross_entropy, sgd, accumulate<4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0108

namespace tri0113 {
// A batch has at least one part.
#if defined(NO_PARTS)
// NO_PARTS: TRI0113 | at least 1 | accumulate<0>
// errors <= 1
using program = staged<accumulate<0>>;
#else
using program = staged<accumulate<4>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0113

namespace tri0114 {
// The schedule of a pipeline runs several times in a step, each time over as many micro-batches.
#if defined(UNEVEN_PASSES)
// UNEVEN_PASSES: TRI0114 | let N divide their number | accumulate<3> | pipeline< | 8
// errors <= 1
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 8>, accumulate<3>>;
#elif defined(UNEVEN_PASSES_OF_SHARDS)
// UNEVEN_PASSES_OF_SHARDS: TRI0114 | V over the number of replicas | accumulate<2> | dp<2> | reproducible< | 6
// errors <= 1
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe>, accumulate<2>, reproducible<fixed_tree, 6>>;
#elif defined(UNEVEN_SHARDS)
// UNEVEN_SHARDS: TRI0114 | V over the number of replicas | accumulate<2> | dp<2> | reproducible< | 5
// errors <= 1
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe>, accumulate<2>, reproducible<fixed_tree, 5>>;
#else
using program = staged<on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 8>, accumulate<2>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0114

namespace tri0117 {
// recompute takes blocks as types, or all of a network.
#if defined(ALL_AND_A_BLOCK)
// ALL_AND_A_BLOCK: TRI0117 | recompute takes all, or | recompute<trireme::all,
// errors <= 1
using program = staged<recompute<all, linear<24>>>;
#elif defined(NOTHING_TO_RECOMPUTE)
// NOTHING_TO_RECOMPUTE: TRI0117 | one or several types of blocks | recompute<>
// errors <= 1
using program = staged<recompute<>>;
#else
using program = staged<recompute<all>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0117

namespace tri0118 {
// What is computed again are blocks of the network, between places where it can be cut.
using body = sequential<linear<8>, relu, linear<8>>;
template<class Recompute>
using in_blocks = trainer<network<input<8>, linear<8>, residual<body>, linear<4>>, cross_entropy, sgd, Recompute>;
#if defined(BLOCK_OF_ANOTHER_NETWORK)
// BLOCK_OF_ANOTHER_NETWORK: TRI0118 | has no such block | gets<trireme::residual<
// errors <= 1
using program = in_blocks<recompute<residual<sequential<linear<8>, relu>>>>;
#elif defined(ONE_OF_TWO_BLOCKS)
// ONE_OF_TWO_BLOCKS: TRI0118 | has no such block | residual<trireme::sequential<trireme::linear<9
// errors <= 1
using program = in_blocks<recompute<residual<body>, residual<sequential<linear<9>, relu, linear<8>>>>>;
#elif defined(BLOCK_INSIDE_A_RESIDUAL)
// BLOCK_INSIDE_A_RESIDUAL: TRI0118 | not inside a residual | gets<trireme::sequential<
// errors <= 1
using program = in_blocks<recompute<body>>;
#elif defined(BLOCK_OF_ONE_ROW)
// BLOCK_OF_ONE_ROW: TRI0118 | at least two | gets<trireme::linear<4
// errors <= 1
using program = in_blocks<recompute<linear<4>>>;
#else
using program = in_blocks<recompute<residual<body>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0118

namespace tri0119 {
// Such kernels keep numbers from one call to the next, in memory that a trainer plans for its largest micro-batch.
#if defined(ROWS_TIMED_ALL_SAMPLES_AT_ONCE)
// ROWS_TIMED_ALL_SAMPLES_AT_ONCE: TRI0119 | its option trace | gets< | at_once
// errors <= 1
auto const policy = measure_rows<deep, at_once>().policy(2);
#else
auto const policy = measure_rows<deep, portable>().policy(2);
#endif
} // namespace tri0119

namespace tri0096 {
#if defined(SYNCHRONISED_STAGES)
// SYNCHRONISED_STAGES: TRI0096 | batch_norm<per_shard> | at_layer<0 | pp<2>
// errors <= 1
using norm = batch_norm<synchronised>;
#else
using norm = batch_norm<per_shard>;
#endif
using program = trainer<network<input<1, 4, 4>, norm, flatten, linear<8>, relu, linear<4>>, cross_entropy, sgd,
                        on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0096

namespace tri0097 {
// Values are kept from forward to backward; evaluation keeps none.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
#if defined(VALUES_NOT_KEPT)
        // VALUES_NOT_KEPT: TRI0097 | reads what is not there | own_order | on_role<1> | at_task<2>
        // errors <= 1
        for (int i = 0; i < m; ++i) {
            out[n++] = {task_kind::evaluate, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#else
        for (int i = 0; i < m; ++i) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0097

namespace tri0140 {
// Micro-batches are counted from 0.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
#if defined(LINES_TOO_MANY)
        // LINES_TOO_MANY: TRI0140 | at most three lines | own_order | on_role<0>
        // errors <= 1
        for (int i = 0; i < 4 * m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i / 4)};
#elif defined(COUNTED_FROM_ONE)
        // COUNTED_FROM_ONE: TRI0140 | counted from 0 | own_order | on_role<0> | of_micro_batch<4>
        // errors <= 1
        for (int i = 1; i <= m; ++i) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#else
        for (int i = 0; i < m; ++i) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0140

namespace tri0141 {
// What has not gone forward cannot go back.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
#if defined(BACK_BEFORE_FORWARD)
        // BACK_BEFORE_FORWARD: TRI0141 | swap the task | own_order | on_role<1> | at_task<0> | of_micro_batch<0>
        // errors <= 1
        for (int i = 0; i < m; ++i) {
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        }
#else
        for (int i = 0; i < m; ++i) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0141

namespace tri0142 {
// Each micro-batch goes once each way.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
#if defined(FORWARD_TWICE)
        // FORWARD_TWICE: TRI0142 | leave out the task | own_order | on_role<0> | at_task<
        // errors <= 1
        out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(0)};
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = 1; i < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#else
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0142

namespace tri0143 {
// Bits depend on the order in which numbers are added.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
#if defined(LAST_IN_FIRST_OUT)
        // LAST_IN_FIRST_OUT: TRI0143 | leave out reproducible | own_order | on_role<1> | of_micro_batch<3>
        // errors <= 1
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = m - 1; i >= 0; --i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#else
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>, reproducible<fixed_tree, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0143

namespace tri0144 {
// What one role sends, its neighbour receives, in one order.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, [[maybe_unused]] int role, scheduled_work* out) {
        int n = 0;
#if defined(ORDERS_OF_THEIR_OWN)
        // ORDERS_OF_THEIR_OWN: TRI0144 | in one order | own_order | on_role<1> | at_task<0> | of_micro_batch<3>
        // errors <= 1
        for (int i = 0; i < m; ++i)
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(role == 0 ? i : m - 1 - i)};
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#else
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0144

namespace tri0145 {
// Nobody may wait for what comes only afterwards: here the last role goes back when two micro-batches are there, and
// the first one sends the second when it has the gradient of the first.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, [[maybe_unused]] int role, scheduled_work* out) {
        int n = 0;
#if defined(EACH_WAITS_FOR_THE_OTHER)
        // EACH_WAITS_FOR_THE_OTHER: TRI0145 | waits for ever | own_order | on_role<0> | at_task<
        // errors <= 1
        for (int i = 0; i < m; ++i) {
            if (role == 0 || i == 0) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            if (role == 1 && i + 1 < m) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i + 1)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#else
        for (int i = 0; i < m; ++i) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
        }
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0145

namespace tri0146 {
// No gradient is used before all are there.
struct own_order {
    static constexpr char const* name = "own_order";
    static constexpr int chunks = 1;
    static constexpr int write(int, int m, int, scheduled_work* out) {
        int n = 0;
#if defined(ONE_LEFT_OUT)
        // ONE_LEFT_OUT: TRI0146 | a gradient is lost | own_order | on_role<1>
        // errors <= 1
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = 0; i + 1 < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#else
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(i)};
        for (int i = 0; i < m; ++i) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(i)};
#endif
        return n;
    }
};
using program = staged<on<mesh<host, pp<2>>>, pipeline<own_order, 4>>;
auto const cost = program::plan(batch{64});
} // namespace tri0146

namespace tri0147 {
// Some schedules need so many micro-batches that every role has something to do.
#if defined(FEW_MICRO_BATCHES)
// FEW_MICRO_BATCHES: TRI0147 | so few micro-batches | at_least<4> | dual_pipe_v | 3
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<dual_pipe_v, 3>>;
#elif defined(FEW_SHARDS)
// FEW_SHARDS: TRI0147 | times the number of replicas, in reproducible<fixed_tree, V> | at_least<4> | dual_pipe_v | 2
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<dual_pipe_v>, reproducible<fixed_tree, 2>>;
#else
using program = staged<on<mesh<host, pp<2>>>, pipeline<dual_pipe_v, 4>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0147

namespace tri0133 {
// A transport with one queue from device to device cannot carry a schedule whose values and gradients pass one another.
struct one_queue : thread_transport {
    static constexpr lowering moves = by_messages;
};
#if defined(ONE_QUEUE)
// ONE_QUEUE: TRI0133 | choose another schedule | zero_bubble_v | one_queue | on_role<
// errors <= 1
using program = staged<on<mesh<host, pp<2>>>, pipeline<zero_bubble_v, 8>, transport<one_queue>>;
#else
using program = staged<on<mesh<host, pp<2>>>, pipeline<zero_bubble_h1, 8>, transport<one_queue>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0133
