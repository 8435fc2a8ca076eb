// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Residuals and repeats that do not fit together, and mistakes inside them: the message names the layer that was
// written, by its position in the network as it runs.
// On the page: residuals and repeats
#include "prelude.hpp"

namespace tri0060 {
// Values are added one by one. `wants` is the shape that the body gives, `gets` that of the shortcut; without a
// shortcut this is the residual's input. The position is that of the sum.
#if defined(WAYS_OF_DIFFERENT_CHANNELS)
// WAYS_OF_DIFFERENT_CHANNELS: TRI0060 | give the shortcut a convolution | at_layer<4, | residual<
// | conv2d<8 | wants< | extents<8, 28, 28> | gets< | extents<4, 28, 28>
// errors <= 1
using wider = residual<conv2d<8, kernel<3>, padding<1>>>;
#else
using wider = residual<conv2d<8, kernel<3>, padding<1>>, conv2d<8, kernel<1>>>;
#endif
using net = network<input<1, 28, 28>, conv2d<4, kernel<3>, padding<1>>, wider, flatten, linear<10>>;
auto const parameters = net::parameters;
} // namespace tri0060

namespace ways {
template<std::size_t C, std::size_t S = 1>
using conv3 = conv2d<C, kernel<3>, padding<1>, stride<S>>;
#if defined(WAYS_OF_DIFFERENT_STRIDES)
// WAYS_OF_DIFFERENT_STRIDES: TRI0060 | at_layer<6, | extents<8, 14, 14> | extents<8, 28, 28>
// errors <= 1
using net = network<input<4, 28, 28>, residual<sequential<conv3<8, 2>, relu, conv3<8>>, conv2d<8, kernel<1>>>, flatten,
                    linear<10>>;
#elif defined(WAYS_INSIDE_A_WAY)
// WAYS_INSIDE_A_WAY: TRI0060 | at_layer<4, | extents<4, 8, 8> | extents<5, 8, 8>
// errors <= 1
using net = network<input<4, 8, 8>, residual<sequential<residual<conv3<5>>, conv3<4>>>, flatten, linear<10>>;
#elif defined(WAYS_INSIDE_A_REPEAT)
// WAYS_INSIDE_A_REPEAT: TRI0060 | at_layer<5, | extents<4, 8, 8> | extents<5, 8, 8>
// errors <= 1
using net = network<input<1, 8, 8>, conv3<4>, relu, repeat<3, residual<conv3<5>>>, flatten, linear<10>>;
#else
using net =
    network<input<1, 28, 28>, conv3<4>, repeat<2, residual<sequential<conv3<4>, relu, conv3<4>>>, relu>,
            named<"half", residual<conv3<8, 2>, conv2d<8, kernel<1>, stride<2>>>>, global_avg_pool2d, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace ways

namespace tri0061 {
// The second repetition gets what the first one gives. All of them are one piece of code, made for one shape: so a
// network of a hundred blocks compiles as fast as one of two. `wants` is the shape of the block's input, `gets` that of
// its output.
template<std::size_t Channels>
using conv3 = conv2d<Channels, kernel<3>, padding<1>>;
#if defined(REPEAT_CHANGES_CHANNELS)
// REPEAT_CHANGES_CHANNELS: TRI0061 | before or behind the repeat | at_layer<1, | repeat<2 | extents<4, 8, 8> | gets<
// | extents<8, 8, 8>
// errors <= 1
using net = network<input<1, 8, 8>, conv3<4>, repeat<2, conv3<8>, relu>, flatten, linear<10>>;
#elif defined(REPEAT_INSIDE_A_REPEAT)
// REPEAT_INSIDE_A_REPEAT: TRI0061 | at_layer<2, | repeat<2 | avg_pool2d<2> | extents<4, 4, 4>
// errors <= 1
using net = network<input<4, 8, 8>, relu, repeat<3, relu, repeat<2, avg_pool2d<2>>>, flatten, linear<10>>;
#else
using net = network<input<1, 8, 8>, conv3<8>, repeat<2, conv3<8>, relu>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0061

namespace tri0062 {
// A block that is repeated 0 times, or one without layers, is most likely a slip. Without it the network is the same.
#if defined(REPEATED_NEVER)
// REPEATED_NEVER: TRI0062 | at least one layer at least once | at_layer<0, | repeat<
// errors <= 1
using net = network<input<4, 8, 8>, repeat<0, conv2d<4, kernel<3>>>, flatten, linear<10>>;
#elif defined(NOTHING_REPEATED)
// NOTHING_REPEATED: TRI0062 | at least one layer at least once | at_layer<0, | repeat<
// errors <= 1
using net = network<input<4, 8, 8>, repeat<2>, flatten, linear<10>>;
#else
using net = network<input<4, 8, 8>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0062

namespace inside {
template<std::size_t C>
using conv3 = conv2d<C, kernel<3>, padding<1>>;
#if defined(LINEAR_IN_A_REPEAT_IN_A_REPEAT)
// LINEAR_IN_A_REPEAT_IN_A_REPEAT: TRI0012 | at_layer<3, | linear<120> | rank<3>
// errors <= 1
using net = network<input<4, 8, 8>, relu, repeat<2, relu, relu, repeat<3, linear<120>>>, flatten, linear<10>>;
#elif defined(LINEAR_IN_A_BODY)
// LINEAR_IN_A_BODY: TRI0012 | at_layer<3, | linear<120> | rank<1> | rank<3>
// errors <= 1
using net = network<input<1, 8, 8>, conv3<4>, residual<sequential<conv3<4>, linear<120>>>, flatten, linear<10>>;
#elif defined(KERNEL_IN_A_SHORTCUT)
// KERNEL_IN_A_SHORTCUT: TRI0011 | at_layer<5, | at_most<8> | kernel<9>
// errors <= 1
using net = network<input<4, 8, 8>, residual<sequential<conv3<8>, relu>, sequential<relu, conv2d<8, kernel<9>>>>,
                    flatten, linear<10>>;
#elif defined(NO_LAYER_IN_A_BODY)
// NO_LAYER_IN_A_BODY: TRI0018 | at_layer<2, | int
// errors <= 1
using net = network<input<4, 8, 8>, residual<sequential<relu, int>>, flatten, linear<10>>;
#elif defined(NO_LAYER_IN_A_REPEAT)
// NO_LAYER_IN_A_REPEAT: TRI0018 | at_layer<2, | int
// errors <= 1
using net = network<input<4, 8, 8>, relu, repeat<2, relu, int>, flatten, linear<10>>;
#elif defined(UNDER_A_NAME)
// UNDER_A_NAME: TRI0012 | at_layer<1, | linear<120> | rank<3>
// errors <= 1
using net = network<input<4, 8, 8>, named<"stem", sequential<relu, linear<120>>>, flatten, linear<10>>;
#else
using net = network<input<4, 8, 8>, named<"stem", residual<sequential<conv3<4>, relu>>>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace inside

// The first use of the network is what does not compile, be it no trainer's.
namespace without_a_trainer {
#if defined(REPEAT_SHRINKS)
// REPEAT_SHRINKS: TRI0061 | at_layer<1, | extents<4, 8, 8> | extents<4, 4, 4>
// errors <= 1
using net = network<input<4, 8, 8>, relu, repeat<3, avg_pool2d<2>>, flatten, linear<10>>;
#elif defined(LINEAR_IN_A_REPEAT)
// LINEAR_IN_A_REPEAT: TRI0012 | insert flatten before it | at_layer<3, | linear<120> | rank<1> | rank<3>
// errors <= 1
using net =
    network<input<1, 8, 8>, conv2d<4, kernel<3>, padding<1>>, relu, repeat<2, relu, linear<120>>, flatten, linear<10>>;
#else
using net = network<input<4, 8, 8>, relu, avg_pool2d<2>, flatten, repeat<2, relu, linear<64>>, linear<10>>;
#endif
auto const parameters = net::parameters;
} // namespace without_a_trainer
