// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes that do not fit: the message names the layer by its position, and both numbers.
#include <trireme/trireme.hpp>
using namespace trireme;

#if defined(LINEAR_ON_AN_IMAGE)
// LINEAR_ON_AN_IMAGE: TRI0012 | insert flatten before it | at_layer<3 | linear<120> | wants< | rank<1> | rank<3>
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, linear<120>>;
#elif defined(KERNEL_LARGER_THAN_ITS_INPUT)
// KERNEL_LARGER_THAN_ITS_INPUT: TRI0011 | at_layer<2 | at_most<14> | kernel<15>
// errors <= 1
using net = network<input<1, 28, 28>, relu, avg_pool2d<2>, conv2d<6, kernel<15>>, flatten, linear<10>>;
#elif defined(CONVOLUTION_BEHIND_FLATTEN)
// CONVOLUTION_BEHIND_FLATTEN: TRI0010 | at_layer<1 | rank<3> | rank<1>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, conv2d<6, kernel<5>>, flatten, linear<10>>;
#elif defined(WINDOW_LARGER_THAN_ITS_INPUT)
// WINDOW_LARGER_THAN_ITS_INPUT: TRI0015 | at_layer<0 | at_most<5> | kernel<6>
// errors <= 1
using net = network<input<1, 5, 8>, max_pool2d<6>, flatten, linear<10>>;
#elif defined(POOLING_A_VECTOR)
// POOLING_A_VECTOR: TRI0014 | at_layer<0 | rank<3> | rank<1>
// errors <= 1
using net = network<input<10>, avg_pool2d<2>>;
#elif defined(NO_STRIDE)
// NO_STRIDE: TRI0013 | at_layer<0
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, stride<0>>, flatten, linear<10>>;
#elif defined(NO_KERNEL)
// NO_KERNEL: TRI0013 | at_layer<0
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<6, padding<5>>, flatten, linear<10>>;
#elif defined(TWO_STRIDES)
// TWO_STRIDES: TRI0013 | at_layer<1 | stride<3>
// errors <= 1
using net = network<input<1, 28, 28>, relu, conv2d<6, kernel<3>, stride<2>, stride<3>>, flatten, linear<10>>;
#elif defined(NO_SUCH_OPTION)
// NO_SUCH_OPTION: TRI0016 | at_layer<0 | padding<1>
// errors <= 1
using net = network<input<1, 28, 28>, avg_pool2d<2, padding<1>>, flatten, linear<10>>;
#elif defined(NO_WINDOW)
// NO_WINDOW: TRI0016 | at_layer<0
// errors <= 1
using net = network<input<1, 28, 28>, max_pool2d<0>, flatten, linear<10>>;
#elif defined(INPUTS_AND_OUTPUTS)
// INPUTS_AND_OUTPUTS: TRI0078 | the number of its outputs alone | at_layer<1 | linear<784, 10>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<784, 10>>;
#elif defined(NO_OUTPUTS)
// NO_OUTPUTS: TRI0017 | at_layer<1
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<0>>;
#elif defined(NO_LAYER)
// NO_LAYER: TRI0018 | at_layer<1 | int
// errors <= 1
using net = network<input<10>, relu, int>;
#elif defined(LOSS_ON_AN_IMAGE)
// LOSS_ON_AN_IMAGE: TRI0019 | rank<1> | rank<3>
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<10, kernel<5>>>;
#elif defined(NO_SCOPE)
// NO_SCOPE: TRI0063 | per_shard or synchronised | at_layer<1, | batch_norm<int>
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>>, batch_norm<int>, flatten, linear<10>>;
#elif defined(NORM_OF_A_TABLE)
// NORM_OF_A_TABLE: TRI0063 | an input with channels | at_layer<0, | batch_norm< | gets< | rank<2>
// errors <= 1
using net = network<input<28, 28>, batch_norm<>, flatten, linear<10>>;
#elif defined(ALL_DROPPED)
// ALL_DROPPED: TRI0064 | from percent<0> to percent<99> | at_layer<2, | dropout< | 100
// errors <= 1
using net = network<input<1, 28, 28>, flatten, relu, dropout<percent<100>>, linear<10>>;
#elif defined(LESS_THAN_NOTHING_DROPPED)
// LESS_THAN_NOTHING_DROPPED: TRI0064 | at_layer<1, | dropout< | -1
// errors <= 1
using net = network<input<1, 28, 28>, flatten, dropout<percent<-1>>, linear<10>>;
#elif defined(A_PROBABILITY)
// A_PROBABILITY: TRI0064 | write dropout<percent<50>> | at_layer<1, | dropout<1>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, dropout<1>, linear<10>>;
#elif defined(NEVER_TRAINED)
// NEVER_TRAINED: TRI0075 | add it under exactly this name | at_layer<1, | gain
// errors <= 1
struct gain : relu {
    static constexpr layer_description describe(shape in) {
        auto d = relu::describe(in);
        d.parameter_count = 1;
        d.parameters[0] = {.name = "factor", .shape = make_shape(1)};
        return d;
    }
    static void backward_weight(auto const&) {}
};
using net = network<input<1, 28, 28>, flatten, repeat<2, gain>, linear<10>>;
#elif defined(AVERAGE_OF_A_VECTOR)
// AVERAGE_OF_A_VECTOR: TRI0014 | at_layer<1, | global_avg_pool2d | rank<3> | rank<1>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, global_avg_pool2d, linear<10>>;
#else
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, batch_norm<>, dropout<percent<0>>, flatten,
                    batch_norm<>, dropout<percent<99>>, linear<10>>;
#endif

// The first use of the network is what does not compile.
#if defined(LINEAR_ON_AN_IMAGE) || defined(POOLING_A_VECTOR) || defined(NORM_OF_A_TABLE) || defined(ALL_DROPPED)
std::size_t use() { return net::parameters; }
#else
auto use() { return trainer<net, cross_entropy, sgd>::plan(batch{64}).parameters; }
#endif
