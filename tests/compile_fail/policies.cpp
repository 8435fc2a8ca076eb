// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies that are unknown, doubled, contradictory or empty.
// On the page: the trainer and its policies
#include "prelude.hpp"

namespace tri0020 {
#if defined(ZERO_DEVICES)
// ZERO_DEVICES: TRI0020 | at least one device | at_least<1> | devices<0>
// errors <= 1
using program = my_trainer<on<mesh<host, dp<0>>>>;
#else
using program = my_trainer<on<mesh<host, dp<1>>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0020

namespace tri0021 {
// A policy says which question it answers. A bare strategy, mesh or dtype does not. `at_policy<1, ring>` counts from
// the first policy.
#if defined(UNKNOWN_POLICY)
// UNKNOWN_POLICY: TRI0021 | Allowed, each at most once | at_policy<1 | ring
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, ring>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<ring>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0021

namespace tri0022 {
// Neither the first nor the last would be an obvious winner, so neither wins.
#if defined(DOUBLED_POLICY)
// DOUBLED_POLICY: TRI0022 | keep one of them | at_policy<0 | at_policy<2 | reduce_by< | direct
// errors <= 1
using program = my_trainer<reduce_by<ring>, on<mesh<host, dp<2>>>, reduce_by<direct>>;
#elif defined(THE_SAME_POLICY_TWICE)
// THE_SAME_POLICY_TWICE: TRI0022 | at_policy<0 | at_policy<1 | reduce_by<
// errors <= 1
using program = my_trainer<reduce_by<ring>, reduce_by<ring>>;
#elif defined(TWO_PLACES)
// TWO_PLACES: TRI0022 | at_policy<0 | at_policy<1 | hold_weights< | once | per_device
// errors <= 1
using program = my_trainer<hold_weights<once>, hold_weights<per_device>>;
#elif defined(THE_SAME_PLACE_TWICE)
// THE_SAME_PLACE_TWICE: TRI0022 | at_policy<0 | at_policy<2 | hold_weights<
// errors <= 1
using program = my_trainer<hold_weights<once>, on<mesh<host, dp<2>>>, hold_weights<once>>;
#else
using program = my_trainer<reduce_by<ring>, on<mesh<host, dp<2>>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0022

namespace tri0023 {
// A ring adds in an order that depends on the number of devices; the fixed tree is the promise that none does. The tree
// travels by direct exchange.
#if defined(CONTRADICTORY_POLICIES)
// CONTRADICTORY_POLICIES: TRI0023 | fixes the order of additions | reproducible< | ring
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<ring>, reproducible<fixed_tree, 8>>;
#elif defined(TENSORS_OF_A_FIXED_TREE)
// TENSORS_OF_A_FIXED_TREE: TRI0023 | for_tensors< | reproducible<
// errors <= 1
using program =
    my_trainer<on<mesh<host, dp<2>>>, reproducible<fixed_tree, 4>, reduce_by<direct, for_tensors<in_layer<1>, ring>>>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>, reproducible<fixed_tree, 8>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0023

namespace tri0024 {
// The unit of work is a logical shard. A device without one would only wait.
#if defined(FEWER_SHARDS_THAN_DEVICES)
// FEWER_SHARDS_THAN_DEVICES: TRI0024 | at_least<4> | shards<2>
// errors <= 1
using program = my_trainer<on<mesh<host, dp<4>>>, reproducible<fixed_tree, 2>>;
#else
// V is part of what the bits depend on, the number of devices is not. Choose V once, for the largest machine in mind:
using program = my_trainer<on<mesh<host, dp<4>>>, reproducible<fixed_tree, 8>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0024

namespace tri0025 {
// With `-ffast-math` (or `-Ofast`) a compiler may add in any order it likes, and in another one after the next edit.
// The promise of equal bits could not be kept. Trainers without `reproducible` may use it.
//
// Compiled with `-ffast-math`:
#if defined(FAST_MATH)
// FAST_MATH: TRI0025 | compile without -ffast-math | reproducible<
// errors <= 1
// flags: -ffast-math
#else
// The same, compiled without:
#endif
auto const cost = my_trainer<on<mesh<host, dp<2>>>, reproducible<fixed_tree, 8>>::plan(batch{64});
} // namespace tri0025

namespace tri0026 {
#if defined(STRATEGY_WITHOUT_A_NAME)
// STRATEGY_WITHOUT_A_NAME: TRI0026 | my_ring
// errors <= 1
struct my_ring {
    static constexpr schedule all_reduce(int ranks) noexcept { return ring::all_reduce(ranks); }
};
#else
// The name is for messages:
struct my_ring {
    static constexpr char const* name = "my ring";
    static constexpr schedule all_reduce(int ranks) noexcept { return ring::all_reduce(ranks); }
};
#endif
auto const cost = my_trainer<on<mesh<host, dp<2>>>, reduce_by<my_ring>>::plan(batch{64});
} // namespace tri0026

namespace no_strategies {
struct my_ring {}; // a strategy in name only
#if defined(NO_STRATEGY)
// NO_STRATEGY: TRI0026 | my_ring
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<my_ring>>;
#elif defined(NO_CANDIDATE)
// NO_CANDIDATE: TRI0026 | dissemination
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<best_of<dissemination>>>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<best_of<ring, direct>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace no_strategies

namespace tri0027 {
// These three have no default and a fixed order; only policies may come in any order. An optimizer or a loss of your
// own that lacks one of its parts is refused in the same way: the concept, in a static_assert, names the part.
using net = network<input<1, 28, 28>, flatten, linear<10>>;
#if defined(NO_OPTIMIZER)
// NO_OPTIMIZER: TRI0027 | gets<
// errors <= 1
using program = trainer<net, cross_entropy, on<mesh<host, dp<2>>>>;
#elif defined(NO_NETWORK)
// NO_NETWORK: TRI0027 | gets<
// errors <= 1
using program = trainer<linear<10>, cross_entropy, sgd>;
#elif defined(INCOMPLETE_OPTIMIZER)
// INCOMPLETE_OPTIMIZER: TRI0027 | static_assert(optimizer<it>)
// errors <= 1
struct without_an_update {
    static constexpr char const* name = "without an update";
    static constexpr std::size_t state_per_parameter = 0;
};
using program = trainer<net, cross_entropy, without_an_update>;
#elif defined(NO_CONSTANT)
// NO_CONSTANT: TRI0027 | loss<it>
// errors <= 1
struct described_at_run_time {
    static loss_description describe(shape output) { return {.targets = output}; }
};
using program = trainer<net, described_at_run_time, sgd>;
#else
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0027

namespace tri0028 {
// It names the order in which sums are taken. There is one so far.
#if defined(ANOTHER_ORDER)
// ANOTHER_ORDER: TRI0028 | reproducible< | ring
// errors <= 1
using program = my_trainer<reproducible<ring, 8>>;
#else
using program = my_trainer<reproducible<fixed_tree, 8>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0028

namespace tri0029 {
// Leave `reproducible` out for a trainer whose bits may depend on the number of devices. Where the program chooses,
// `reproducible<fixed_tree, dynamic>` takes the option `logical_shards`, and there 0 means "not reproducible".
#if defined(NO_SHARDS)
// NO_SHARDS: TRI0029 | reproducible< | 0
// errors <= 1
using program = my_trainer<reproducible<fixed_tree, 0>>;
#else
using program = my_trainer<reproducible<fixed_tree, 8>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0029

namespace tri0043 {
// The word names the policy by its position, as in all refusals of an argument.
#if defined(AN_AXIS_AS_MESH)
// AN_AXIS_AS_MESH: TRI0043 | at_policy<0 | dp<2>
// errors <= 1
using program = my_trainer<on<dp<2>>>;
#elif defined(NO_MESH)
// NO_MESH: TRI0043 | at_policy<0 | int
// errors <= 1
using program = my_trainer<on<int>>;
#elif defined(NO_DEVICE)
// NO_DEVICE: TRI0043 | at_policy<1 | my_ring
// errors <= 1
struct my_ring {};
using program = my_trainer<reduce_by<ring>, on<mesh<my_ring, dp<2>>>>;
#elif defined(STAGES_BEFORE_REPLICAS)
// STAGES_BEFORE_REPLICAS: TRI0043 | dp and pp, in this order | pp<2> | dp<2>
// errors <= 1
using program = my_trainer<on<mesh<host, pp<2>, dp<2>>>>;
#elif defined(AN_AXIS_TWICE)
// AN_AXIS_TWICE: TRI0043 | each at most once
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>, dp<2>>>>;
#elif defined(NO_AXIS)
// NO_AXIS: TRI0043
// errors <= 1
using program = my_trainer<on<mesh<host, int>>>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0043

namespace tri0044 {
// The devices of all processes are counted, be they threads, processes or GPUs. The limits are `max_devices`,
// `max_roles` and `max_logical_shards`; what is chosen by options is held to the same ones when the trainer is
// constructed.
#if defined(TOO_MANY_DEVICES)
// TOO_MANY_DEVICES: TRI0044 | dp<300>
// errors <= 1
using program = my_trainer<on<mesh<host, dp<300>>>>;
#elif defined(TOO_MANY_STAGES)
// TOO_MANY_STAGES: TRI0044 | 64 on the axis pp | pp<100>
// errors <= 1
using program = my_trainer<on<mesh<host, dp<1>, pp<100>>>, pipeline<one_f_one_b, 8>>;
#elif defined(TOO_MANY_SHARDS)
// TOO_MANY_SHARDS: TRI0044 | shards<5000>
// errors <= 1
using program = my_trainer<reproducible<fixed_tree, 5000>>;
#else
using program = my_trainer<on<mesh<host, dp<16>>>>;
#endif
auto const cost = program::plan(batch{4096});
} // namespace tri0044

namespace tri0045 {
// Where the weights are held once, no device needs the whole sum of gradients: it adds its own slice, updates that
// slice of the weights, and lets the others read. A ring or a tree comes to a slice several times before it is
// complete. A strategy that is `chosen_at_run_time` might be one of them.
#if defined(ONE_COPY_IN_A_RING)
// ONE_COPY_IN_A_RING: TRI0045 | write reduce_by<direct>, or leave out hold_weights<once> | ring
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<ring>, hold_weights<once>>;
#elif defined(ONE_COPY_BY_ANY_STRATEGY)
// ONE_COPY_BY_ANY_STRATEGY: TRI0045 | chosen_at_run_time
// errors <= 2, for without a layout there is no plan
using program = my_trainer<hold_weights<once>, reduce_by<chosen_at_run_time>>;
#elif defined(TENSORS_OF_ONE_COPY)
// TENSORS_OF_ONE_COPY: TRI0045 | for_tensors<
// errors <= 1
using program =
    my_trainer<on<mesh<host, dp<2>>>, hold_weights<once>, reduce_by<direct, for_tensors<in_layer<1>, ring>>>;
#else
// `reduce_by<direct>` is the default, and `reproducible<fixed_tree, V>` travels by direct exchange, too:
using program = my_trainer<on<mesh<host, dp<2>>>, reproducible<fixed_tree, 8>, hold_weights<once>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0045

namespace tri0100 {
// The norm of a gradient is known when all of it has been added; weights that are held once are updated slice by slice,
// as soon as a slice is.
#if defined(CLIPPED_ON_THE_WAY)
// CLIPPED_ON_THE_WAY: TRI0100 | leave out one of the two | clip_norm | hold_weights<
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, hold_weights<once>, clip_norm>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>, clip_norm>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0100

namespace tri0102 {
// The options of a trainer are those of its optimizer: one of your own needs a field for the largest norm, as sgd has
// it.
struct without_max_norm : sgd {
    template<class Choices>
    struct options {
        float learning_rate = 0.1f, weight_decay = 0;
        trireme::batch batch = 32;
        std::uint64_t seed = 0;
        typename Choices::logical_shards logical_shards = {};
    };
};
#if defined(OPTIMIZER_WITHOUT_A_NORM)
// OPTIMIZER_WITHOUT_A_NORM: TRI0102 | typename Choices::max_norm | without_max_norm
// errors <= 1
using program = trainer<deep, cross_entropy, without_max_norm, clip_norm>;
#else
using program = trainer<deep, cross_entropy, without_max_norm>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0102

namespace all_agree {
auto const cost =
    my_trainer<reproducible<fixed_tree, 8>, on<mesh<host, dp<2>>>, reduce_by<direct>, hold_weights<once>>::plan(
        batch{64});
} // namespace all_agree

namespace tri0053 {
// The strategy that stands first is for all gradients. A second one needs to be told which tensors it is for; and it
// must be able to all-reduce them, which a barrier, say, cannot.
#if defined(STRATEGY_WITHOUT_TENSORS)
// STRATEGY_WITHOUT_TENSORS: TRI0053 | for_tensors<Which, Strategy> | gets< | ring
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<direct, ring>>;
#elif defined(TENSORS_WITHOUT_ALL_REDUCE)
// TENSORS_WITHOUT_ALL_REDUCE: TRI0053 | dissemination
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<direct, for_tensors<in_layer<0>, dissemination>>>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>, reduce_by<direct, for_tensors<of_at_least<64_KiB>, ring>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0053

namespace tri0065 {
// A reproducible trainer gives the same bits on any number of devices. Its logical shards are the same there, too, and
// so are their statistics; sums over devices are not.
#if defined(STATISTICS_OF_ALL_DEVICES)
// STATISTICS_OF_ALL_DEVICES: TRI0065 | write batch_norm<per_shard> | at_layer< | batch_norm< | gets< | reproducible<
// | fixed_tree | 8
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<2, kernel<3>>, batch_norm<synchronised>, flatten, linear<10>>;
#else
using net = network<input<1, 28, 28>, conv2d<2, kernel<3>>, batch_norm<per_shard>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reproducible<fixed_tree, 8>>::plan(batch{64});
} // namespace tri0065

namespace statistics_in_a_repeat {
#if defined(STATISTICS_IN_A_REPEAT)
// STATISTICS_IN_A_REPEAT: TRI0065 | at_layer< | reproducible< | fixed_tree
// errors <= 2, for without a layout there is no plan
using net = network<input<1, 28, 28>, repeat<2, residual<batch_norm<synchronised>>, relu>, flatten, linear<10>>;
auto const cost = trainer<net, cross_entropy, sgd, reproducible<fixed_tree, dynamic>>::plan(batch{64});
#endif
} // namespace statistics_in_a_repeat

namespace tri0111 {
// `without_decay` takes types that choose tensors by what they are.
#if defined(NO_RULE_OF_DECAY)
// NO_RULE_OF_DECAY: TRI0111 | biases, norms | without_decay< | linear<
// errors <= 1
using program = trainer<deep, cross_entropy, adamw, without_decay<linear<10>>>;
#else
using program = trainer<deep, cross_entropy, adamw, without_decay<biases, in_layer<1>>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0111

namespace tri0112 {
// What does not decay is said of the option weight_decay, which an optimizer of one's own need not have.
struct without_weight_decay : sgd {
    template<class Choices>
    struct options {
        float learning_rate = 0.1f;
        trireme::batch batch = 32;
        std::uint64_t seed = 0;
        typename Choices::logical_shards logical_shards = {};
    };
};
#if defined(NOTHING_TO_DECAY)
// NOTHING_TO_DECAY: TRI0112 | float weight_decay = 0.0f | without_weight_decay | without_decay< | biases
// errors <= 1
using program = trainer<deep, cross_entropy, without_weight_decay, without_decay<biases>>;
#else
using program = trainer<deep, cross_entropy, without_weight_decay>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0112

namespace tri0067 {
// Convolutions and products in bf16 need instructions of their own, which on the host oneDNN has; `portable` would be
// slower than in f32.
#if defined(BF16_BY_PORTABLE)
// BF16_BY_PORTABLE: TRI0067 | onednn in f32 and bf16 | kernels< | portable | precision< | bf16
// errors <= 1
using program = my_trainer<precision<bf16>>;
#else
using program = my_trainer<precision<f32>>; // or kernels<onednn>, with trireme/onednn.hpp
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0067

namespace tri0076 {
// `trireme/trireme.hpp` has what every machine can compile, and of the rest the names.
#if defined(REFERENCE_WITHOUT_ITS_HEADER)
// REFERENCE_WITHOUT_ITS_HEADER: TRI0076 | trireme/reference.hpp for reference | at_policy<0 | reference
// errors <= 1
using program = my_trainer<kernels<reference>>;
#elif defined(DEVICE_WITHOUT_ITS_HEADER)
// DEVICE_WITHOUT_ITS_HEADER: TRI0076 | include trireme/cuda.hpp for gpu | at_policy<0 | gpu
// errors <= 1
using program = my_trainer<on<mesh<gpu, dp<2>>>>;
#elif defined(TRANSPORT_WITHOUT_ITS_HEADER)
// TRANSPORT_WITHOUT_ITS_HEADER: TRI0076 | trireme/mpi.hpp for mpi | at_policy<1 | mpi
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>, transport<mpi>>;
#elif defined(KERNELS_WITHOUT_THEIR_HEADER)
// KERNELS_WITHOUT_THEIR_HEADER: TRI0076 | trireme/onednn.hpp for onednn | at_policy<0 | onednn
// errors <= 1
using program = my_trainer<kernels<onednn>>;
#else
// With `#include <trireme/reference.hpp>` that compiles. Without it, take the fast ones:
using program = my_trainer<kernels<portable>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0076

namespace tri0083 {
// A kernel policy says how many samples its kernels compute side by side: kernels/portable/policy.hpp has the form.
#if defined(NO_KERNELS)
// NO_KERNELS: TRI0083 | at_policy<0 | kernels<
// errors <= 1
using program = my_trainer<kernels<int>>;
#else
using program = my_trainer<kernels<portable>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0083

namespace tri0084 {
// Integers train nothing. In bf16 only activations are kept, and convolutions and products computed.
#if defined(NO_DTYPE)
// NO_DTYPE: TRI0084 | at_policy<0 | i32
// errors <= 1
using program = my_trainer<precision<i32>>;
#else
using program = my_trainer<precision<f64>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0084

namespace tri0085 {
// A method gives value `i` of a tensor from a stream of random numbers: layer/initialise.hpp has the form.
#if defined(NO_METHOD)
// NO_METHOD: TRI0085 | at_policy<0 | initialise<
// errors <= 1
using program = my_trainer<initialise<int>>;
#else
using program = my_trainer<initialise<he_normal>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0085

namespace tri0086 {
// There is one copy of the weights per device, or one for all devices of a process.
#if defined(NO_PLACE)
// NO_PLACE: TRI0086 | at_policy<0 | hold_weights<int>
// errors <= 1
using program = my_trainer<hold_weights<int>>;
#else
using program = my_trainer<hold_weights<once>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0086

namespace tri0087 {
// Faults are for tests: `at` may throw, or sleep, wherever a device is in a step.
#if defined(NO_FAULTS)
// NO_FAULTS: TRI0087 | at_policy<0 | with_faults<
// errors <= 1
struct nothing {};
using program = my_trainer<with_faults<nothing>>;
#else
struct failing_device {
    static void at(fault_point, int device, std::uint64_t step) {
        if (device == 1 && step == 3) throw std::runtime_error("as asked");
    }
};
using program = my_trainer<with_faults<failing_device>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0087
