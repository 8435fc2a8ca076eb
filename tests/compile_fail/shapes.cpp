// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes that do not fit: the message names the layer by its position, and both numbers.
// On the page: shapes, layers, the network, the loss
#include "prelude.hpp"

namespace tri0001 {
// The shape of one sample has up to four dimensions; the batch is not among them. Kernels are made for these.
#if defined(FIVE_DIMENSIONS)
// FIVE_DIMENSIONS: TRI0001
using shape_of_a_sample = extents<2, 3, 4, 5, 6>;
#else
// Fold two dimensions into one:
using shape_of_a_sample = extents<2 * 3, 4, 5, 6>;
#endif
auto const values = shape_of_a_sample::size;
} // namespace tri0001

namespace tri0010 {
// A convolution slides over rows and columns. Behind `flatten` there are none left.
#if defined(CONVOLUTION_BEHIND_FLATTEN)
// CONVOLUTION_BEHIND_FLATTEN: TRI0010 | at_layer<1 | rank<3> | rank<1>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, conv2d<6, kernel<5>>, flatten, linear<10>>;
#else
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0010

namespace tri0011 {
// The kernel has to fit into the image at least once. The message has both numbers: `wants<at_most<14>>,
// gets<kernel<15>>`.
#if defined(KERNEL_LARGER_THAN_ITS_INPUT)
// KERNEL_LARGER_THAN_ITS_INPUT: TRI0011 | at_layer<2 | at_most<14> | kernel<15>
// errors <= 1
using net = network<input<1, 28, 28>, relu, avg_pool2d<2>, conv2d<6, kernel<15>>, flatten, linear<10>>;
#else
using net = network<input<1, 28, 28>, relu, avg_pool2d<2>, conv2d<6, kernel<5>>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0011

namespace tri0012 {
// A linear layer connects values, not images. That an image becomes a row of values is said in the program, because it
// is where the meaning of height and width ends. `flatten` costs nothing.
#if defined(LINEAR_ON_AN_IMAGE)
// LINEAR_ON_AN_IMAGE: TRI0012 | insert flatten before it | at_layer<3 | linear<120> | wants< | rank<1> | rank<3>
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, linear<120>>;
#else
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, flatten, linear<120>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0012

namespace tri0013 {
// A convolution without channels or with an empty window computes nothing, and a stride of 0 never ends. An option that
// is unknown or given twice is refused, not ignored.
#if defined(NO_CHANNELS)
// NO_CHANNELS: TRI0013 | at_layer<0
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<0, kernel<5>>, flatten, linear<10>>;
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
#else
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0013

namespace tri0014 {
// Pooling works on windows of rows and columns.
#if defined(POOLING_A_VECTOR)
// POOLING_A_VECTOR: TRI0014 | at_layer<0 | rank<3> | rank<1>
// errors <= 1
using net = network<input<10>, avg_pool2d<2>>;
#else
using net = network<input<1, 28, 28>, avg_pool2d<2>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0014

namespace average_of_a_vector {
#if defined(AVERAGE_OF_A_VECTOR)
// AVERAGE_OF_A_VECTOR: TRI0014 | at_layer<1, | global_avg_pool2d | rank<3> | rank<1>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, global_avg_pool2d, linear<10>>;
#else
using net = network<input<1, 28, 28>, global_avg_pool2d, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace average_of_a_vector

namespace tri0015 {
// The window has to fit at least once. Pooling has no padding.
#if defined(WINDOW_LARGER_THAN_ITS_INPUT)
// WINDOW_LARGER_THAN_ITS_INPUT: TRI0015 | at_layer<0 | at_most<5> | kernel<6>
// errors <= 1
using net = network<input<1, 5, 8>, max_pool2d<6>, flatten, linear<10>>;
#else
using net = network<input<1, 5, 8>, max_pool2d<5>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0015

namespace tri0016 {
#if defined(NO_STRIDE_OF_A_WINDOW)
// NO_STRIDE_OF_A_WINDOW: TRI0016 | at_layer<0
// errors <= 1
using net = network<input<1, 28, 28>, max_pool2d<2, stride<0>>, flatten, linear<10>>;
#elif defined(NO_SUCH_OPTION)
// NO_SUCH_OPTION: TRI0016 | at_layer<0 | padding<1>
// errors <= 1
using net = network<input<1, 28, 28>, avg_pool2d<2, padding<1>>, flatten, linear<10>>;
#elif defined(NO_WINDOW)
// NO_WINDOW: TRI0016 | at_layer<0
// errors <= 1
using net = network<input<1, 28, 28>, max_pool2d<0>, flatten, linear<10>>;
#else
// Without `stride` the windows lie side by side:
using net = network<input<1, 28, 28>, max_pool2d<2>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0016

namespace tri0017 {
#if defined(NO_OUTPUTS)
// NO_OUTPUTS: TRI0017 | at_layer<1
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<0>>;
#else
using net = network<input<1, 28, 28>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0017

namespace tri0018 {
// A layer answers with a description when it is shown the shape of its input. What does not is no layer: often a
// functor (`sigmoid_function` for `sigmoid`), a loss, or a second `input`.
#if defined(A_FUNCTOR)
// A_FUNCTOR: TRI0018 | at_layer<2 | sigmoid_function
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<84>, sigmoid_function, linear<10>>;
#elif defined(NO_LAYER)
// NO_LAYER: TRI0018 | at_layer<1 | int
// errors <= 1
using net = network<input<10>, relu, int>;
#elif defined(NO_CONSTANT)
// NO_CONSTANT: TRI0018 | static constexpr layer_description | at_layer<1 | described_at_run_time
// errors <= 1
struct described_at_run_time {
    static layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        return d;
    }
};
using net = network<input<1, 28, 28>, flatten, described_at_run_time, linear<10>>;
#else
using net = network<input<1, 28, 28>, flatten, linear<84>, sigmoid, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0018

namespace tri0130 {
// A network begins with the shape of one sample, without the number of samples.
#if defined(NO_INPUT)
// NO_INPUT: TRI0130 | network<input<1, 28, 28>, flatten, linear<10>> | gets< | linear<8>
// errors <= 1
using net = network<linear<8>, relu, linear<3>>;
#else
using net = network<input<4>, linear<8>, relu, linear<3>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0130

namespace tri0019 {
// The loss compares a row of values, one per class, with a label.
#if defined(LOSS_ON_AN_IMAGE)
// LOSS_ON_AN_IMAGE: TRI0019 | rank<1> | rank<3>
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<10, kernel<28>>>; // 10 x 1 x 1
#else
using net = network<input<1, 28, 28>, conv2d<10, kernel<28>>, flatten>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0019

namespace tri0063 {
// The scope says over which samples means and variances are taken: those of one logical shard, or those of all devices.
// Each channel has its own, over all positions of all samples. Which dimension of a table would be the channels cannot
// be guessed.
#if defined(NORM_OF_A_TABLE)
// NORM_OF_A_TABLE: TRI0063 | an input with channels | at_layer<0, | batch_norm< | gets< | rank<2>
// errors <= 1
using net = network<input<28, 28>, batch_norm<>, flatten, linear<10>>;
#else
using net = network<input<1, 28, 28>, batch_norm<>, flatten, linear<10>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0063

namespace no_scope {
#if defined(NO_SCOPE)
// NO_SCOPE: TRI0063 | per_shard or synchronised | at_layer<1, | batch_norm<int>
// errors <= 1
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>>, batch_norm<int>, flatten, linear<10>>;
#else
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>>, batch_norm<synchronised>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace no_scope

namespace tri0064 {
// Other libraries take a probability, and `dropout<1>` could be either: so the unit is written. The values that are
// left are divided by 1 - P / 100, so some have to be left. (clang before 18 has no words for `dropout<0.5>` but
// "non-type template argument of type 'double' is not yet supported".)
#if defined(A_PROBABILITY)
// A_PROBABILITY: TRI0064 | write dropout<percent<50>> | at_layer<1, | dropout<1>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, dropout<1>, linear<10>>;
#elif defined(A_PROBABILITY_IN_ATTENTION)
// A_PROBABILITY_IN_ATTENTION: TRI0064 | write dropout<percent<50>> | at_layer<0, | attention< | dropout<1>
// errors <= 1
using net = network<input<16, 96>, attention<heads<4>, dropout<1>>>;
#elif defined(LESS_THAN_NOTHING_DROPPED)
// LESS_THAN_NOTHING_DROPPED: TRI0064 | at_layer<1, | dropout< | -1
// errors <= 1
using net = network<input<1, 28, 28>, flatten, dropout<percent<-1>>, linear<10>>;
#else
using net = network<input<1, 28, 28>, flatten, dropout<percent<50>>, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0064

namespace all_dropped {
#if defined(ALL_DROPPED)
// ALL_DROPPED: TRI0064 | from percent<0> to percent<99> | at_layer<2, | dropout< | 100
// errors <= 1
using net = network<input<1, 28, 28>, flatten, relu, dropout<percent<100>>, linear<10>>;
#else
using net = network<input<1, 28, 28>, flatten, dropout<percent<0>>, relu, dropout<percent<99>>, linear<10>>;
#endif
auto const parameters = net::parameters;
} // namespace all_dropped

namespace tri0075 {
// Without the rule a slip in that name would give a program that runs, and a layer that keeps its first weights. A
// layer that agrees on something with other samples adds to its gradients there, and needs none.
struct gain {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {.name = "factor", .shape = make_shape(1), .init = initial::ones};
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.parameter(0)[0] * io.x[i];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.dx[i] = io.parameter(0)[0] * io.dy[i];
    }
#if defined(NEVER_TRAINED)
    // NEVER_TRAINED: TRI0075 | add it under exactly this name | at_layer<1, | gain
    // errors <= 1
    static void backward_weight(auto const& io) { // an s is missing
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[0] += io.x[i] * io.dy[i];
    }
#else
    static void backward_weights(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[0] += io.x[i] * io.dy[i];
    }
#endif
};
using net = network<input<1, 28, 28>, flatten, repeat<2, gain>, linear<10>>;
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0075

namespace tri0139 {
// Its `forward`, `backward_input` and `backward_weights` are static, and take what one layer works on.
struct twice {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = 2 * io.x[i];
    }
#if defined(MISSPELT_BACKWARD)
    // MISSPELT_BACKWARD: TRI0139 | missing, misspelt or not static | gets< | twice
    // errors <= 1
    static void backward_inputs(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = 2 * io.dy[i];
    }
#elif defined(NOT_STATIC)
    // NOT_STATIC: TRI0139 | missing, misspelt or not static | gets< | twice
    // errors <= 1
    void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = 2 * io.dy[i];
    }
#else
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = 2 * io.dy[i];
    }
#endif
};
inline bool right() { return check_gradients<twice, input<8>>().ok(); }
} // namespace tri0139

namespace tri0152 {
// Memory is planned by what a layer says of itself, which is not looked at again.
struct odd {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
#if defined(LARGER_IN_PLACE)
        // LARGER_IN_PLACE: TRI0152 | as many values as the input | at_layer<1, | odd
        // errors <= 1
        d.output = make_shape(2 * in.size());
        d.execution.in_place = true;
#elif defined(LARGER_VIEW)
        // LARGER_VIEW: TRI0152 | as many values as the input | at_layer<1, | odd
        // errors <= 1
        d.output = make_shape(2 * in.size());
        d.execution.view = true;
#elif defined(BEYOND_KEPT)
        // BEYOND_KEPT: TRI0152 | among the numbers `kept` | at_layer<1, | odd
        // errors <= 1
        d.kept = 4;
        d.forward = {2, {{1, 4}}};
#elif defined(FOUR_PHASES)
        // FOUR_PHASES: TRI0152 | 3 phases | at_layer<1, | odd
        // errors <= 1
        d.kept = 4;
        d.backward.phases = 4;
#elif defined(MANY_PARAMETERS)
        // MANY_PARAMETERS: TRI0152 | at most 8 parameter tensors | at_layer<1, | odd
        // errors <= 1
        d.parameter_count = 100;
#elif defined(MANY_BUFFERS)
        // MANY_BUFFERS: TRI0152 | 2 buffers | at_layer<1, | odd
        // errors <= 1
        d.buffer_count = 3;
#elif defined(NO_SUCH_BIAS)
        // NO_SUCH_BIAS: TRI0152 | channel_bias | at_layer<1, | odd
        // errors <= 1
        d.channel_bias = 0;
#else
        d.kept = 4;
        d.forward = {2, {{1, 3}}};
        d.execution.in_place = true;
#endif
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.y.size(); ++i) io.y[i] = io.x[i % io.x.size()];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = io.dy[i];
    }
    static void backward_weights(auto const&) {}
    static void forward_gather(auto const&) {}
    static void forward_agree(auto const&, int) {}
    static void backward_gather(auto const&) {}
    static void backward_agree(auto const&, int) {}
    static void evaluate(auto const& io) { forward(io); }
};
auto const cost = trainer<network<input<8>, linear<4>, odd, linear<4>>, cross_entropy, sgd>::plan(batch{64});
// A check of gradients looks at the description, too.
struct negated {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
#if defined(LARGER_IN_A_CHECK)
        // LARGER_IN_A_CHECK: TRI0152 | as many values as the input | gets< | negated
        // errors <= 1
        d.output = make_shape(2 * in.size());
#endif
        d.execution.in_place = true;
        d.execution.backward_reads_input = d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = -io.x[i];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = -io.dy[i];
    }
};
inline bool right() { return check_gradients<negated, input<8>>().ok(); }
} // namespace tri0152

namespace tri0150 {
// A layer that evaluates otherwise than it trains has a second function for it, which is static, and takes what
// `forward` takes. Otherwise predictions would be those of `forward`.
struct noisy {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = 2 * io.x[i];
    }
#if defined(EVALUATE_NOT_STATIC)
    // EVALUATE_NOT_STATIC: TRI0150 | `static void evaluate(auto const& io)` | gets< | noisy
    // errors <= 1
    void evaluate(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
#elif defined(EVALUATE_OF_ANOTHER_TYPE)
    // EVALUATE_OF_ANOTHER_TYPE: TRI0150 | `static void evaluate(auto const& io)` | gets< | noisy
    // errors <= 1
    static void evaluate(float const* x, float* y) { *y = *x; }
#else
    static void evaluate(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
#endif
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = 2 * io.dy[i];
    }
};
inline double learn(sample_set const& samples) {
    trainer<network<input<8>, noisy, linear<4>>, cross_entropy, sgd> t;
    t.step(samples);
    return t.evaluate(samples).loss;
}
} // namespace tri0150

namespace tri0078 {
#if defined(INPUTS_AND_OUTPUTS)
// INPUTS_AND_OUTPUTS: TRI0078 | the number of its outputs alone | at_layer<1 | linear<784, 10>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<784, 10>>;
#elif defined(WITHOUT_BIAS_TWICE)
// WITHOUT_BIAS_TWICE: TRI0078 | with without_bias behind it | at_layer<1 | linear<10, | ::without_bias>
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<10, without_bias, without_bias>>;
#elif defined(NO_BIAS_AS_A_WORD)
// NO_BIAS_AS_A_WORD: TRI0078 | with without_bias behind it | at_layer<1 | linear<10,
// errors <= 1
using net = network<input<1, 28, 28>, flatten, linear<10, false>>;
#else
using net = network<input<1, 28, 28>, flatten, linear<10>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0078
