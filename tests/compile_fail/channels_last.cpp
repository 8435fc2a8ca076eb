// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images of accelerators that lie channels last: in which numbers, and what may read one.
#include "prelude.hpp"
#include <trireme/rehearsal.hpp>

namespace images {
#if defined(IN_FLOAT)
// IN_FLOAT: TRI0067 | channels last in bf16 | kernels< | channels_last< | precision< | f32
// errors <= 1
using dtype = precision<f32>;
#else
using dtype = precision<bf16>;
#endif

#if defined(LAST_ON_THE_HOST)
// LAST_ON_THE_HOST: TRI0055 | kernels do not run on this kind of device | channels_last<
// errors <= 1
using where = on<mesh<host, dp<2>>>;
#else
using where = on<mesh<rehearsal, dp<2>>>;
#endif

#if defined(NORM_BEHIND_FLATTEN)
// NORM_BEHIND_FLATTEN: TRI0069 | global_avg_pool2d instead of flatten | at_layer<2, | batch_norm<
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<3>>, flatten, batch_norm<per_shard>, linear<10>>;
#else
using net = network<input<1, 8, 8>, conv2d<4, kernel<3>>, batch_norm<per_shard>, flatten, linear<10>>;
#endif

using last = kernels<channels_last<rehearsal::kernels>>;
auto const cost = trainer<net, cross_entropy, sgd, where, dtype, last>::plan(batch{64});
} // namespace images

namespace losses {
using last = kernels<channels_last<rehearsal::kernels>>;
using where = on<mesh<rehearsal, dp<2>>>;
#if defined(LOSS_ON_AN_IMAGE)
// LOSS_ON_AN_IMAGE: TRI0069 | a loss on an image needs other kernels | gets< | binary_cross_entropy | extents<4, 2, 2>
// errors <= 1
using net = network<input<1, 8, 8>, conv2d<4, kernel<7>>>;
#else
using net = network<input<1, 8, 8>, conv2d<1, kernel<7>>>;
using predicted = network<input<1, 8, 8>, conv2d<4, kernel<7>>>;
auto const of_model = model<predicted, where, precision<bf16>, last>::plan(batch{64});
#endif
auto const cost = trainer<net, binary_cross_entropy, sgd, where, precision<bf16>, last>::plan(batch{64});
} // namespace losses
