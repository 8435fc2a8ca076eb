// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A layer of your own in 40 lines: write it, let the checker compare its gradients with numbers, train with it.
//
// The layer is swish with a trainable slope per channel, y = x * sigmoid(slope * x) (Ramachandran, Zoph, Le, "Searching
// for activation functions", 2017). The library does not have it, and nothing below uses anything that is not public.
// From the description the compiler works out the rest: shapes, memory, where the slopes lie among the parameters, and
// that their gradients are added over the devices like all others.

#include "standard_output.hpp"

#include <trireme/trireme.hpp>

#include <cstdio>

using namespace trireme;

// ---- The layer ------------------------------------------------------------------------------------------------------

template<class... Where>
struct swish_input_rule {
    static_assert(rule_holds<Where...>, "swish has one slope per channel: it needs an image, so put it before flatten");
};

struct swish {
    static constexpr layer_description describe(shape in) {
        if (in.rank != 3) return refused(in); // (channels, height, width)
        layer_description d;
        d.output = in;
        d.forward_flops = 3 * in.size(); // two products and a sigmoid
        d.backward_input_flops = 7 * in.size();
        d.backward_weights_flops = 8 * in.size();
        d.parameter_count = 1;
        d.parameters[0] = {.name = "slope", .shape = make_shape(in.extent[0]), .init = initial::ones};
        d.execution.backward_reads_output = false; // frees y as soon as the next layer has read it
        return d;
    }
    static void forward(auto const& io) {
        for_all_values(io, [&](auto c, auto i) { io.y[i] = io.x[i] * gate(io, c, i); });
    }
    static void backward_input(auto const& io) { // writes dx: d/dx of x g(s x) is g + s x g (1 - g)
        for_all_values(io, [&](auto c, auto i) {
            auto const g = gate(io, c, i);
            io.dx[i] = io.dy[i] * (g + io.parameter(0)[c] * io.x[i] * g * (1 - g));
        });
    }
    static void backward_weights(auto const& io) { // adds to the gradient: d/ds of x g(s x) is x^2 g (1 - g)
        for_all_values(io, [&](auto c, auto i) {
            auto const g = gate(io, c, i);
            io.gradient(0)[c] += io.dy[i] * io.x[i] * io.x[i] * g * (1 - g);
        });
    }
    template<class Where, class In>
    using refusal = swish_input_rule<Where, wants<rank<3>>, gets<rank<In::rank>>>;

    static auto gate(auto const& io, auto c, auto i) { return sigmoid_function::value(io.parameter(0)[c] * io.x[i]); }

    // A call works on a granule of samples, here all treated alike: channel after channel, sample innermost.
    static void for_all_values(auto const& io, auto f) {
        auto const channels = io.x.sample.extent[0], per_channel = io.x.size() / channels;
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t i = c * per_channel; i < (c + 1) * per_channel; ++i) f(c, i);
    }
};

// ---- A mistake, to see it found -------------------------------------------------------------------------------------

// Training does not tell: with this layer the network below ends with the same loss and accuracy, because its other
// 19,354 parameters make up for eight that move the wrong way. Only a gradient check does.
struct swish_with_wrong_sign : swish {
    static void backward_weights(auto const& io) {
        for_all_values(io, [&](auto c, auto i) {
            auto const g = gate(io, c, i);
            io.gradient(0)[c] -= io.dy[i] * io.x[i] * io.x[i] * g * (1 - g);
        });
    }
};

/// Prints what the checker found, and returns whether it is content.
template<class Layer, class Input>
bool check(char const* what) {
    auto const report = check_gradients<Layer, Input>();
    std::printf("%-36s %8zu %14.1e %14.1e   %s\n", what, report.derivatives, report.input_error, report.parameter_error,
                report.ok() ? "right" : "WRONG");
    return report.ok();
}

// ---- A network with it ----------------------------------------------------------------------------------------------

// clang-format off
using net = network<input<1, 28, 28>,
    conv2d<8, kernel<5>, stride<2>>, swish, avg_pool2d<2>,
    flatten, linear<64>, relu, linear<10>>;
// clang-format on

// Put `swish` behind `flatten`, and the compiler says where it stands, what it wants and what it gets.
using net_trainer = data_parallel_trainer<net, cross_entropy, sgd_momentum, on<mesh<host, dp<2>>>>;

int main() try {
    watch_standard_output();
    // First the proof. Several shapes, because a wrong index often agrees with a right one where extents are equal.
    std::printf("%-36s %8s %14s %14s\n", "gradients against differences", "compared", "input error", "slope error");
    bool right = check<swish, input<1, 1, 1>>("swish, 1 x 1 x 1");
    right &= check<swish, input<3, 5, 4>>("swish, 3 x 5 x 4");
    right &= check<swish, input<8, 2, 7>>("swish, 8 x 2 x 7");
    right &= !check<swish_with_wrong_sign, input<3, 5, 4>>("swish with a wrong sign, 3 x 5 x 4");
    if (!right) {
        std::fprintf(stderr, "own_layer: the checker should accept the layer and refuse its wrong copy\n");
        return 1;
    }

    // Then the use, like any layer of the library: it stands in the network table with its parameters and FLOPs.
    std::printf("\n%s\n", network_table<net>().c_str());
    auto const data = fashion_mnist::load();
    net_trainer t{{.learning_rate = 0.05f, .batch = 256, .seed = 1}};
    double loss = 0;
    for (int step = 1; step <= 100; ++step) {
        loss = t.step(data.train.take(256 * static_cast<std::size_t>(step - 1), 256)).loss;
        if (step == 1 || step % 20 == 0) std::printf("step %3d  loss %.4f\n", step, loss);
    }

    // The slopes began at 1 and have moved: what backward_weights added on two devices has reached the parameters.
    auto const parameters = t.gather_parameters();
    auto const* const slopes = parameters.data() + net::row(1).first_parameter;
    std::printf("slopes ");
    bool moved = true;
    for (int c = 0; c < 8; ++c) {
        std::printf(" %.3f", static_cast<double>(slopes[c]));
        moved = moved && slopes[c] != 1;
    }
    auto const test = t.evaluate(data.test);
    std::printf("\ntest accuracy %.4f after 100 steps on %d devices\n", test.accuracy, t.devices());
    if (loss < 1.0 && test.accuracy > 0.7 && moved) return 0;
    std::fprintf(stderr, "own_layer: it should have learned more than this\n");
    return 1;
} catch (std::exception const& e) {
    std::fprintf(stderr, "own_layer: %s\n", e.what());
    return exit_code::of(e);
}
