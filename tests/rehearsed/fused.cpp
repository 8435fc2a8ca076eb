// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What accelerators compute in one kernel around batch norms and residuals: a bias that cancels, a norm with the sum
// and the function behind it, and the slope of a function where gradients meet.

#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/pipelines.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace rehearsed_fused_test {
using namespace trireme;
using namespace rehearsed;
using test_networks::conv3;
using test_networks::made_up;

namespace {

/// Norms behind convolutions, alone, at the end of a body, of a shortcut, of both; functions before a fork, before a
/// repeat and at its rounds' ends, in it and around it; a body that is a norm alone.
template<class Norm>
using blocks = network<input<1, 28, 28>, avg_pool2d<7>, conv3<3>, Norm, relu,
                       repeat<3, residual<sequential<conv3<3>, Norm, sigmoid, conv3<3>, Norm>>, relu>,
                       residual<sequential<conv3<4, 2>, Norm>, sequential<conv2d<4, kernel<1>, stride<2>>, Norm>>, relu,
                       repeat<2, repeat<2, conv3<4>, relu>>, residual<sequential<relu, conv3<4>, relu, Norm>>,
                       hyperbolic_tangent, residual<sequential<Norm>>,
                       residual<sequential<conv3<4>, relu>, sequential<Norm, relu>>, relu, flatten, linear<10>>;

template<class Device, class Norm, class... Policies>
using of_blocks = trainer<blocks<Norm>, cross_entropy, sgd, on<mesh<Device, dp<2>>>, precision<f64>, Policies...>;

/// Kernels that leave no room for others beside them.
struct in_one_line : rehearsal::kernels {
    static constexpr std::uint64_t most_flops_beside = 0;
    using rehearsal::kernels::kernels;
};

/// Parameters without a bias that is 0.
std::vector<double> moved(std::vector<double> parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += 0.1 * static_cast<double>(i % 7) - 0.31;
    return parameters;
}

/// Losses and evaluations of some steps that begin with biases that are not 0, and all numbers after them.
template<class Trainer>
std::pair<std::vector<double>, std::vector<double>> trained() {
    Trainer t({.learning_rate = 0.05f, .batch = 12, .seed = 4});
    t.load_parameters(moved(t.gather_parameters()));
    std::vector<double> told;
    for (std::size_t step = 0; step < 4; ++step) {
        told.push_back(t.step(made_up(step == 2 ? 9 : 12, step)).loss);
        told.push_back(t.evaluate(made_up(7, 50 + step)).loss);
    }
    auto numbers = t.gather_parameters();
    auto const buffers = t.gather_buffers();
    numbers.insert(numbers.end(), buffers.begin(), buffers.end());
    return {told, numbers};
}

template<class Norm>
void as_on_the_host() {
    auto const wanted = trained<of_blocks<host, Norm>>();
    for (auto const when : {timing::late, timing::shuffled}) {
        on_stage const as_told(when, 2);
        auto const is = trained<of_blocks<rehearsal, Norm>>();
        CHECK(test_support::apart(is.first, wanted.first) < 1e-9);
        CHECK(test_support::apart(is.second, wanted.second) < 1e-9);
    }
}

/// A function of a layer of one's own, which kernels of an accelerator compute.
struct doubled {
    struct value {
        double const* x;
        double* y;
        void operator()(std::size_t i) const { y[i] = x[i] > 0 ? 2 * x[i] : 0; }
    };
    struct slope {
        double const *y, *dy;
        double* dx;
        void operator()(std::size_t i) const { dx[i] = y[i] > 0 ? 2 * dy[i] : 0; }
    };
    static void forward(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), value{io.x.data, io.y.data});
    }
    static void backward_input(auto const& io) {
        io.policy.each(io.x.size() * io.policy.samples(), slope{io.y.data, io.dy.data, io.dx.data});
    }
};
struct derived : relu { // with all other members of relu
    static void forward(auto const& io) { doubled::forward(io); }
    static void backward_input(auto const& io) { doubled::backward_input(io); }
};
struct by_itself : doubled {
    static constexpr layer_description describe(shape in) { return relu::describe(in); }
};
struct derived_linear : linear<8> { // its values, twice
    struct twice {
        double* y;
        void operator()(std::size_t i) const { y[i] *= 2; }
    };
    static void forward(auto const& io) {
        linear<8>::forward(io);
        io.policy.each(io.y.size() * io.policy.samples(), twice{io.y.data});
    }
};
struct linear_by_itself : derived_linear {
    static constexpr layer_description describe(shape in) {
        auto d = linear<8>::describe(in);
        d.execution.applies = false;
        return d;
    }
};
template<class Layer>
using before_a_function = trainer<network<input<1, 28, 28>, avg_pool2d<7>, flatten, Layer, sigmoid, linear<10>>,
                                  cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<f64>>;
template<class Layer>
using tied_before_a_function =
    trainer<network<input<1, 28, 28>, avg_pool2d<7>, flatten, linear<8>, Layer, tied<3>, sigmoid, linear<10>>,
            cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<f64>>;
template<class Layer>
using with = network<input<1, 28, 28>, avg_pool2d<7>, conv3<3>, Layer, residual<conv3<3>, Layer>, flatten, linear<10>>;
template<class Layer>
using training_with = trainer<with<Layer>, cross_entropy, sgd, on<mesh<rehearsal, dp<1>>>, precision<f64>>;

} // namespace

TEST_SUITE("rehearsed/fused") {
    TEST_CASE("a layer that derives from one with a function is computed by its own functions") {
        on_stage const as_usual;
        auto const own = trained<training_with<by_itself>>();
        CHECK(trained<training_with<derived>>() == own);
        CHECK(trained<training_with<relu>>() != own);
    }

    TEST_CASE("a layer that derives from one which applies functions leaves them alone") {
        on_stage const as_usual;
        auto const own = trained<before_a_function<linear_by_itself>>();
        CHECK(trained<before_a_function<derived_linear>>() == own);
        CHECK(trained<before_a_function<linear<8>>>() != own);
        auto const tied_own = trained<tied_before_a_function<linear_by_itself>>();
        CHECK(trained<tied_before_a_function<derived_linear>>() == tied_own);
    }

    TEST_CASE("a shard without samples goes through many norms as nothing") {
        using net =
            network<input<1, 4, 4>, repeat<20, conv2d<1, kernel<1>>, batch_norm<per_shard>>, flatten, linear<2>>;
        auto const after = []<class Device>(Device) {
            trainer<net, cross_entropy, sgd, on<mesh<Device, dp<1>>>, reproducible<fixed_tree, 8>> t{{.batch = 16}};
            t.load_parameters(std::vector<float>(net::parameters, 1.0f));
            std::vector<float> pixels(16 * 3);
            for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 7) / 7;
            std::vector<int> const labels{0, 1, 0};
            t.step(samples_in_memory(pixels, make_shape(1, 4, 4), labels, 2));
            return t.gather_parameters();
        };
        on_stage const as_usual;
        CHECK(test_support::apart(after(rehearsal{}), after(host{})) < 1e-3);
    }

    TEST_CASE("losses, parameters and statistics are the host's, of shards and of the whole batch") {
        as_on_the_host<batch_norm<per_shard>>();
        as_on_the_host<batch_norm<synchronised>>();
    }

    TEST_CASE("a bias in front of a batch norm gets no gradient, to the bit") {
        using net = blocks<batch_norm<per_shard>>;
        on_stage const as_usual;
        of_blocks<rehearsal, batch_norm<per_shard>> t({.learning_rate = 0.05f, .batch = 12, .seed = 4});
        auto const before = moved(t.gather_parameters());
        t.load_parameters(before);
        t.step(made_up(12));
        auto const after = t.gather_parameters();
        std::size_t cancelled = 0;
        for (std::size_t row = 0; row + 1 < net::depth; ++row) {
            auto const& r = net::row(row);
            if (!detail::bias_cancels(r, net::row(row + 1))) continue;
            ++cancelled;
            auto const weights = r.description.parameters[0].shape.size();
            auto const first = r.first_parameter + weights,
                       end = r.first_parameter + r.description.parameter_elements();
            std::size_t trained = 0;
            for (auto i = r.first_parameter; i < first; ++i) trained += after[i] != before[i];
            CHECK(trained > weights / 2);
            for (auto i = first; i < end; ++i) CHECK(after[i] == before[i]);
        }
        CHECK(cancelled == 9);
    }

    TEST_CASE("gradients by parameters have the same bits on one stream, which takes less memory") {
        using norm = batch_norm<per_shard>;
        using beside = of_blocks<rehearsal, norm>;
        using in_line = of_blocks<rehearsal, norm, kernels<in_one_line>>;
        auto const wanted = [] {
            on_stage const as_usual;
            return trained<beside>();
        }();
        for (auto const when : {timing::late, timing::shuffled, timing::eager}) {
            on_stage const as_told(when, 3);
            memory_taken const taken;
            in_line const t({.batch = 12});
            taken.is_planned(t);
            CHECK(trained<in_line>() == wanted);
        }
        auto const one = in_line::plan(batch{12}).memory(), two = beside::plan(batch{12}).memory();
        CHECK(one.activations < two.activations);
        CHECK(2 * one.workspace == two.workspace);
    }

    TEST_CASE("stages have the bits of one device, wherever a network can be cut") {
        using net = blocks<batch_norm<per_shard>>;
        using pipeline = test_pipelines::any_pipeline<rehearsal, net>;
        pipeline::options const training{.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 4};
        auto const wanted = [&] {
            on_stage const as_usual;
            pipeline one(training, {.devices = 1, .stages = 1});
            return test_pipelines::train(one);
        }();
        int const most = static_cast<int>(segments_of<net>.count);
        for (int const stages : {2, 3, 5, most})
            for (schedule_choice const& schedule : {schedule_choice(gpipe{}), schedule_choice(zero_bubble_h1{})}) {
                CAPTURE(stages);
                CAPTURE(schedule.name);
                on_stage const as_told(timing::shuffled, 1);
                pipeline t(training, {.devices = 1, .stages = stages, .schedule = schedule, .share_devices = true});
                CHECK(test_pipelines::train(t) == wanted);
            }
        CHECK(most >= 8);
    }
}

} // namespace rehearsed_fused_test
