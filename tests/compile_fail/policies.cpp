// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies that are unknown, doubled, contradictory or empty, and options that the type has already answered.
#include <trireme/trireme.hpp>
using namespace trireme;

using net = network<input<1, 28, 28>, flatten, linear<10>>;
struct my_ring {}; // a strategy in name only

#if defined(UNKNOWN_POLICY)
// UNKNOWN_POLICY: TRI0021 | Allowed, each at most once | at_policy<1 | ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, ring>;
#elif defined(DOUBLED_POLICY)
// DOUBLED_POLICY: TRI0022 | keep one of them | at_policy<0 | at_policy<2 | reduce_by< | direct
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reduce_by<ring>, on<mesh<host, dp<2>>>, reduce_by<direct>>;
#elif defined(THE_SAME_POLICY_TWICE)
// THE_SAME_POLICY_TWICE: TRI0022 | at_policy<0 | at_policy<1 | reduce_by<
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reduce_by<ring>, reduce_by<ring>>;
#elif defined(CONTRADICTORY_POLICIES)
// CONTRADICTORY_POLICIES: TRI0023 | fixes the order of additions | reproducible< | ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<ring>, reproducible<fixed_tree, 8>>;
#elif defined(ZERO_DEVICES)
// ZERO_DEVICES: TRI0020 | at least one device | at_least<1> | devices<0>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<0>>>>;
#elif defined(FEWER_SHARDS_THAN_DEVICES)
// FEWER_SHARDS_THAN_DEVICES: TRI0024 | at_least<4> | shards<2>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<4>>>, reproducible<fixed_tree, 2>>;
#elif defined(NO_MESH)
// NO_MESH: TRI0043 | at_policy<0 | int
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<int>>;
#elif defined(NO_TRANSPORT)
// NO_TRANSPORT: TRI0043 | at_policy<1 | my_ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reduce_by<ring>, on<mesh<my_ring, dp<2>>>>;
#elif defined(NO_KERNELS)
// NO_KERNELS: TRI0043 | at_policy<0 | kernels<
// errors <= 1
using program = trainer<net, cross_entropy, sgd, kernels<int>>;
#elif defined(DEVICE_WITHOUT_ITS_HEADER)
// DEVICE_WITHOUT_ITS_HEADER: TRI0076 | include trireme/cuda.hpp for gpu | at_policy<0 | gpu
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<gpu, dp<2>>>>;
#elif defined(TRANSPORT_WITHOUT_ITS_HEADER)
// TRANSPORT_WITHOUT_ITS_HEADER: TRI0076 | trireme/mpi.hpp for mpi | at_policy<1 | mpi
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, transport<mpi>>;
#elif defined(KERNELS_WITHOUT_THEIR_HEADER)
// KERNELS_WITHOUT_THEIR_HEADER: TRI0076 | trireme/onednn.hpp for onednn | at_policy<0 | onednn
// errors <= 1
using program = trainer<net, cross_entropy, sgd, kernels<onednn>>;
#elif defined(REFERENCE_WITHOUT_ITS_HEADER)
// REFERENCE_WITHOUT_ITS_HEADER: TRI0076 | trireme/reference.hpp for reference | at_policy<0 | reference
// errors <= 1
using program = trainer<net, cross_entropy, sgd, kernels<reference>>;
#elif defined(NO_DTYPE)
// NO_DTYPE: TRI0043 | at_policy<0 | i32
// errors <= 1
using program = trainer<net, cross_entropy, sgd, precision<i32>>;
#elif defined(BF16_BY_PORTABLE)
// BF16_BY_PORTABLE: TRI0067 | onednn in f32 and bf16 | kernels< | portable | precision< | bf16
// errors <= 1
using program = trainer<net, cross_entropy, sgd, precision<bf16>>;
#elif defined(NO_METHOD)
// NO_METHOD: TRI0043 | at_policy<0 | initialise<
// errors <= 1
using program = trainer<net, cross_entropy, sgd, initialise<int>>;
#elif defined(NO_PLACE)
// NO_PLACE: TRI0043 | at_policy<0 | hold_weights<int>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, hold_weights<int>>;
#elif defined(TWO_PLACES)
// TWO_PLACES: TRI0022 | at_policy<0 | at_policy<1 | hold_weights< | once | per_device
// errors <= 1
using program = trainer<net, cross_entropy, sgd, hold_weights<once>, hold_weights<per_device>>;
#elif defined(THE_SAME_PLACE_TWICE)
// THE_SAME_PLACE_TWICE: TRI0022 | at_policy<0 | at_policy<2 | hold_weights<
// errors <= 1
using program = trainer<net, cross_entropy, sgd, hold_weights<once>, on<mesh<host, dp<2>>>, hold_weights<once>>;
#elif defined(ONE_COPY_IN_A_RING)
// ONE_COPY_IN_A_RING: TRI0045 | write reduce_by<direct>, or leave out hold_weights<once> | ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<ring>, hold_weights<once>>;
#elif defined(ONE_COPY_BY_ANY_STRATEGY)
// ONE_COPY_BY_ANY_STRATEGY: TRI0045 | chosen_at_run_time
// errors <= 2, for without a layout there is no plan
using program = trainer<net, cross_entropy, sgd, hold_weights<once>, reduce_by<chosen_at_run_time>>;
#elif defined(TOO_MANY_DEVICES)
// TOO_MANY_DEVICES: TRI0044 | devices<300>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<300>>>>;
#elif defined(TOO_MANY_SHARDS)
// TOO_MANY_SHARDS: TRI0044 | shards<5000>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reproducible<fixed_tree, 5000>>;
#elif defined(ANOTHER_ORDER)
// ANOTHER_ORDER: TRI0028 | reproducible< | ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reproducible<ring, 8>>;
#elif defined(NO_SHARDS)
// NO_SHARDS: TRI0029 | reproducible< | 0
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reproducible<fixed_tree, 0>>;
#elif defined(NO_STRATEGY)
// NO_STRATEGY: TRI0026 | my_ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<my_ring>>;
#elif defined(STRATEGY_WITHOUT_TENSORS)
// STRATEGY_WITHOUT_TENSORS: TRI0053 | for_tensors<Which, Strategy> | gets< | ring
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<direct, ring>>;
#elif defined(TENSORS_WITHOUT_ALL_REDUCE)
// TENSORS_WITHOUT_ALL_REDUCE: TRI0053 | dissemination
// errors <= 1
using program =
    trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<direct, for_tensors<in_layer<0>, dissemination>>>;
#elif defined(TENSORS_OF_ONE_COPY)
// TENSORS_OF_ONE_COPY: TRI0045 | for_tensors<
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, hold_weights<once>,
                        reduce_by<direct, for_tensors<in_layer<1>, ring>>>;
#elif defined(TENSORS_OF_A_FIXED_TREE)
// TENSORS_OF_A_FIXED_TREE: TRI0023 | for_tensors< | reproducible<
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reproducible<fixed_tree, 4>,
                        reduce_by<direct, for_tensors<in_layer<1>, ring>>>;
#elif defined(STATISTICS_OF_ALL_DEVICES)
// STATISTICS_OF_ALL_DEVICES: TRI0065 | write batch_norm<per_shard> | at_layer< | batch_norm< | gets< | reproducible<
// | fixed_tree | 8
// errors <= 1
using normed = network<input<1, 28, 28>, conv2d<2, kernel<3>>, batch_norm<synchronised>, flatten, linear<10>>;
using program = trainer<normed, cross_entropy, sgd, on<mesh<host, dp<2>>>, reproducible<fixed_tree, 8>>;
#elif defined(STATISTICS_IN_A_REPEAT)
// STATISTICS_IN_A_REPEAT: TRI0065 | at_layer< | reproducible< | fixed_tree
// errors <= 2, for without a layout there is no plan
using normed = network<input<1, 28, 28>, repeat<2, residual<batch_norm<synchronised>>, relu>, flatten, linear<10>>;
using program = trainer<normed, cross_entropy, sgd, reproducible<fixed_tree, dynamic>>;
#elif defined(NO_CANDIDATE)
// NO_CANDIDATE: TRI0026 | dissemination
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<best_of<dissemination>>>;
#elif defined(NO_NETWORK)
// NO_NETWORK: TRI0027 | gets<
// errors <= 1
using program = trainer<linear<10>, cross_entropy, sgd>;
#elif defined(NO_OPTIMIZER)
// NO_OPTIMIZER: TRI0027 | gets<
// errors <= 1
using program = trainer<net, cross_entropy, on<mesh<host, dp<2>>>>;
#elif defined(DEVICES_GIVEN_TWICE)
// DEVICES_GIVEN_TWICE: TRI0040 | dp<dynamic>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>>;
program::options given{.devices = 4};
#elif defined(STRATEGY_GIVEN_TWICE)
// STRATEGY_GIVEN_TWICE: TRI0041 | chosen_at_run_time
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reduce_by<ring>>;
program::options given{.strategy = direct{}};
#elif defined(SHARDS_GIVEN_TWICE)
// SHARDS_GIVEN_TWICE: TRI0042 | reproducible<fixed_tree, dynamic>
// errors <= 1
using program = trainer<net, cross_entropy, sgd, reproducible<fixed_tree, 8>>;
program::options given{.logical_shards = 4};
#elif defined(LEARNING_RATE_OF_ANOTHER_NAME)
// LEARNING_RATE_OF_ANOTHER_NAME: TRI0077 | lr is learning_rate
// errors <= 1
using program = trainer<net, cross_entropy, sgd_momentum>;
void make() { program t{{.lr = 0.1f, .momentum = 0.9f, .batch = 64}}; }
#elif defined(MOMENTUM_OF_PLAIN_SGD)
// MOMENTUM_OF_PLAIN_SGD: TRI0077 | sgd_momentum
// errors <= 1
using program = trainer<net, cross_entropy, sgd>;
void make() { program t{{.learning_rate = 0.1f, .momentum = 0.9f, .batch = 64}}; }
#elif defined(EPOCHS_OF_A_TRAINER)
// EPOCHS_OF_A_TRAINER: TRI0077 | epochs goes to fit or train
// errors <= 1
using program = trainer<net, cross_entropy, sgd>;
void make() { program t{{.learning_rate = 0.1f, .batch = 64, .epochs = 10}}; }
#elif defined(FIT_WITHOUT_A_LOOP)
// FIT_WITHOUT_A_LOOP: fit trains while its result is iterated | t.train(data, {.epochs = 10})
// errors <= 1
#pragma GCC diagnostic error "-Wunused-result"
using program = trainer<net, cross_entropy, sgd>;
void forget(program& t, dataset const& data) { t.fit(data, {.epochs = 10}); }
#else
using program = trainer<net, cross_entropy, sgd, reproducible<fixed_tree, 8>, on<mesh<host, dp<2>>>, reduce_by<direct>,
                        hold_weights<once>>;
#endif

auto use() { return program::plan(batch{64}).parameters; }
