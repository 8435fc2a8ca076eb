// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that are told what only trainers are told.
// On the page: networks that are not trained
#include "prelude.hpp"

namespace tri0106 {
// A model has no gradients: nothing is added, clipped or begun.
#if defined(REDUCED)
// REDUCED: TRI0106 | leave out the others | at_policy<1 | reduce_by< | ring
// errors <= 1
using program = model<deep, on<mesh<host, dp<2>>>, reduce_by<ring>>;
#elif defined(CLIPPED)
// CLIPPED: TRI0106 | leave out the others | at_policy<0 | clip_norm
// errors <= 1
using program = model<deep, clip_norm>;
#else
using program = model<deep, on<mesh<host, dp<2>>>, hold_weights<once>>;
#endif
auto const cost = program::plan(batch{64});
} // namespace tri0106

namespace tri0107 {
// What a model is given are weights; rates, decay and seeds are for those that make them.
#if defined(WITH_A_RATE)
// WITH_A_RATE: TRI0107 | a model is not trained
// errors <= 1
model<deep> const m{{.learning_rate = 0.1f}};
#elif defined(WITH_A_SEED)
// WITH_A_SEED: TRI0107 | a model is not trained
// errors <= 1
model<deep> const m{{.batch = 64, .seed = 1}};
#else
model<deep> const m{{.batch = 64}};
#endif
} // namespace tri0107
