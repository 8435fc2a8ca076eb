// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options that the type has already answered, or that nobody knows; and a training that nobody runs.
// On the page: options that the type has already answered, or that are called otherwise
#include "prelude.hpp"

namespace tri0040 {
// What the type says and what an option says could disagree. So there is one place for it. Where the program chooses,
// the type says `dynamic`, and the checks run when the trainer is constructed.
#if defined(DEVICES_GIVEN_TWICE)
// DEVICES_GIVEN_TWICE: TRI0040 | dp<dynamic>
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>>;
#else
using program = my_trainer<on<mesh<host, dp<dynamic>>>>;
#endif
program::run_options const given{.devices = 4};
} // namespace tri0040

namespace tri0041 {
// A trainer without `reduce_by` has `reduce_by<direct>`, which fixes it, too.
#if defined(STRATEGY_GIVEN_TWICE)
// STRATEGY_GIVEN_TWICE: TRI0041 | chosen_at_run_time
// errors <= 1
using program = my_trainer<reduce_by<ring>>;
#else
using program = my_trainer<reduce_by<chosen_at_run_time>>;
#endif
program::run_options const given{.strategy = direct{}};
} // namespace tri0041

namespace tri0042 {
// A trainer without `reproducible` fixes them to none.
#if defined(SHARDS_GIVEN_TWICE)
// SHARDS_GIVEN_TWICE: TRI0042 | reproducible<fixed_tree, dynamic>
// errors <= 1
using program = my_trainer<reproducible<fixed_tree, 8>>;
#elif defined(SHARDS_GIVEN_TO_NONE)
// SHARDS_GIVEN_TO_NONE: TRI0042
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>>;
#else
using program = my_trainer<reproducible<fixed_tree, dynamic>>;
#endif
program::options const given{.logical_shards = 4};
} // namespace tri0042

namespace tri0101 {
#if defined(NORM_WITHOUT_THE_POLICY)
// NORM_WITHOUT_THE_POLICY: TRI0101 | add clip_norm behind the optimizer
// errors <= 1
using program = my_trainer<on<mesh<host, dp<2>>>>;
#else
using program = my_trainer<on<mesh<host, dp<2>>>, clip_norm>;
#endif
program::options const given{.max_norm = 0.5f};
} // namespace tri0101

namespace tri0077 {
// The names that other libraries use are fields that cannot be set, so that the compiler can say this. Of a name that
// nobody foresaw it [says less](#messages-without-a-code).
using program = trainer<network<input<1, 28, 28>, flatten, linear<10>>, cross_entropy, sgd_momentum>;
#if defined(LEARNING_RATE_OF_ANOTHER_NAME)
// LEARNING_RATE_OF_ANOTHER_NAME: TRI0077 | lr is learning_rate
// errors <= 1
void make() { program t{{.lr = 0.1f, .momentum = 0.9f, .batch = 64}}; }
#else
void make() { program t{{.learning_rate = 0.1f, .momentum = 0.9f, .batch = 64}}; }
#endif
} // namespace tri0077

namespace of_another {
#if defined(BATCH_OF_ANOTHER_NAME)
// BATCH_OF_ANOTHER_NAME: TRI0077 | batch_size is batch
// errors <= 1
my_trainer<>::options const given{.learning_rate = 0.1f, .batch_size = 64};
#elif defined(MOMENTUM_OF_PLAIN_SGD)
// MOMENTUM_OF_PLAIN_SGD: TRI0077 | sgd_momentum
// errors <= 1
void make() { my_trainer<> t{{.learning_rate = 0.1f, .momentum = 0.9f, .batch = 64}}; }
#elif defined(BETAS_IN_BRACES)
// BETAS_IN_BRACES: TRI0077 | betas are beta1 and beta2
// errors <= 1
void make() { trainer<deep, cross_entropy, adamw> t{{.betas = {0.9, 0.95}}}; }
#elif defined(EPSILON_OF_ANOTHER_NAME)
// EPSILON_OF_ANOTHER_NAME: TRI0077 | eps is epsilon
// errors <= 1
void make() { trainer<deep, cross_entropy, adam> t{{.eps = 1e-6f}}; }
#elif defined(SMOOTHING_OF_ANOTHER_NAME)
// SMOOTHING_OF_ANOTHER_NAME: TRI0077 | alpha is smoothing
// errors <= 1
void make() { trainer<deep, cross_entropy, rmsprop> t{{.alpha = 0.9f}}; }
#elif defined(MOMENTUM_OF_PLAIN_RMSPROP)
// MOMENTUM_OF_PLAIN_RMSPROP: TRI0077 | rmsprop_momentum
// errors <= 1
void make() { trainer<deep, cross_entropy, rmsprop> t{{.momentum = 0.9f}}; }
#elif defined(RATE_DECAY_OF_ANOTHER_NAME)
// RATE_DECAY_OF_ANOTHER_NAME: TRI0077 | lr_decay is rate_decay
// errors <= 1
void make() { trainer<deep, cross_entropy, adagrad> t{{.lr_decay = 0.1f}}; }
#elif defined(EPOCHS_OF_A_TRAINER)
// EPOCHS_OF_A_TRAINER: TRI0077 | epochs goes to fit or train
// errors <= 1
void make() { my_trainer<> t{{.learning_rate = 0.1f, .batch = 64, .epochs = 10}}; }
#elif defined(FIT_WITHOUT_A_LOOP)
// FIT_WITHOUT_A_LOOP: fit trains while its result is iterated | t.train(data, {.epochs = 10})
// errors <= 1
#pragma GCC diagnostic error "-Wunused-result"
void forget(my_trainer<>& t, dataset const& data) { t.fit(data, {.epochs = 10}); }
#else
void make(my_trainer<>& t, dataset const& data) { t.train(data, {.epochs = 10}); }
#endif
} // namespace of_another

namespace tri0088 {
// What decides the weights comes first, and moves with them to another machine. Where they are trained comes second.
#if defined(DEVICES_AMONG_WHAT_IS_TRAINED)
// DEVICES_AMONG_WHAT_IS_TRAINED: TRI0088 | in braces of their own
// errors <= 1
void make() { my_trainer<on<mesh<host, dp<dynamic>>>> t{{.learning_rate = 0.1f, .devices = 2}}; }
#elif defined(NOTHING_BUT_DEVICES)
// NOTHING_BUT_DEVICES: TRI0088 | in braces of their own
// errors <= 1
void make() { my_trainer<on<mesh<host, dp<dynamic>>>> t{{.devices = 2}}; }
#elif defined(BATCH_WHERE_IT_RUNS)
// BATCH_WHERE_IT_RUNS: TRI0088 | in braces of their own
// errors <= 1
void make() { my_trainer<on<mesh<host, dp<dynamic>>>> t{{.learning_rate = 0.1f}, {.batch = 64, .devices = 2}}; }
#else
void make() { my_trainer<on<mesh<host, dp<dynamic>>>> t{{.learning_rate = 0.1f, .batch = 64}, {.devices = 2}}; }
#endif
} // namespace tri0088
