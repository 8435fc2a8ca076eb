// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Residuals and repeats that do not fit together, and mistakes inside them: the message names the layer that was
// written, by its position in the network as it runs.
#include <trireme/trireme.hpp>
using namespace trireme;

template<std::size_t C, std::size_t S = 1>
using conv3 = conv2d<C, kernel<3>, padding<1>, stride<S>>;

#if defined(WAYS_OF_DIFFERENT_CHANNELS)
// WAYS_OF_DIFFERENT_CHANNELS: TRI0060 | give the shortcut a convolution | at_layer<4, | residual<
// | conv2d<8 | wants< | extents<8, 28, 28> | gets< | extents<4, 28, 28>
// errors <= 1
using net = network<input<1, 28, 28>, conv3<4>, residual<conv3<8>>, flatten, linear<10>>;
#elif defined(WAYS_OF_DIFFERENT_STRIDES)
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
#elif defined(REPEAT_CHANGES_CHANNELS)
// REPEAT_CHANGES_CHANNELS: TRI0061 | before or behind the repeat | at_layer<1, | repeat<2 | extents<4, 8, 8> | gets<
// | extents<8, 8, 8>
// errors <= 1
using net = network<input<1, 8, 8>, conv3<4>, repeat<2, conv3<8>, relu>, flatten, linear<10>>;
#elif defined(REPEAT_SHRINKS)
// REPEAT_SHRINKS: TRI0061 | at_layer<1, | extents<4, 8, 8> | extents<4, 4, 4>
// errors <= 1
using net = network<input<4, 8, 8>, relu, repeat<3, avg_pool2d<2>>, flatten, linear<10>>;
#elif defined(REPEAT_INSIDE_A_REPEAT)
// REPEAT_INSIDE_A_REPEAT: TRI0061 | at_layer<2, | repeat<2 | avg_pool2d<2> | extents<4, 4, 4>
// errors <= 1
using net = network<input<4, 8, 8>, relu, repeat<3, relu, repeat<2, avg_pool2d<2>>>, flatten, linear<10>>;
#elif defined(REPEATED_NEVER)
// REPEATED_NEVER: TRI0062 | at least one layer at least once | at_layer<0, | repeat<
// errors <= 1
using net = network<input<4, 8, 8>, repeat<0, conv3<4>>, flatten, linear<10>>;
#elif defined(NOTHING_REPEATED)
// NOTHING_REPEATED: TRI0062 | at least one layer at least once | at_layer<0, | repeat<
// errors <= 1
using net = network<input<4, 8, 8>, repeat<2>, flatten, linear<10>>;
#elif defined(LINEAR_IN_A_REPEAT)
// LINEAR_IN_A_REPEAT: TRI0012 | insert flatten before it | at_layer<3, | linear<120> | rank<1> | rank<3>
// errors <= 1
using net = network<input<1, 8, 8>, conv3<4>, relu, repeat<2, relu, linear<120>>, flatten, linear<10>>;
#elif defined(LINEAR_IN_A_REPEAT_IN_A_REPEAT)
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
using net =
    network<input<1, 28, 28>, conv3<4>, repeat<2, residual<sequential<conv3<4>, relu, conv3<4>>>, relu>,
            named<"half", residual<conv3<8, 2>, conv2d<8, kernel<1>, stride<2>>>>, global_avg_pool2d, linear<10>>;
#endif

// The first use of the network is what does not compile.
#if defined(WAYS_OF_DIFFERENT_CHANNELS) || defined(REPEAT_SHRINKS) || defined(LINEAR_IN_A_REPEAT)
std::size_t use() { return net::parameters; }
#else
auto use() { return trainer<net, cross_entropy, sgd>::plan(batch{64}).parameters; }
#endif
