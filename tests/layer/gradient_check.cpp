// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/dropout.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/pool2d.hpp>

#include "one_sample.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <sstream>
#include <vector>

namespace layer_gradient_check_test {
using namespace trireme;

namespace {

/// A layer whose backward is off by a factor, and one that counts a weight's gradient wrongly.
template<class Layer>
struct doubled : Layer {
    static void backward_input(auto const& io) {
        Layer::backward_input(io);
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] *= 2;
    }
};
template<class Layer>
struct miscounted : Layer {
    static void backward_weights(auto const& io) {
        Layer::backward_weights(io);
        io.gradient(0)[0] += 0.5;
    }
};

/// Drops other values backward than forward: those of a step later.
struct forgetful_dropout : dropout<percent<50>> {
    static void backward_input(auto const& io) {
        auto later = io.place;
        ++later.granule.step;
        auto other = io;
        dropout<percent<50>>::backward_input(std::remove_cvref_t<decltype(io)>{
            other.x, other.y, other.dy, other.dx, other.parameters, other.gradients, other.policy, later});
    }
};

/// A layer with a fault to choose, for testing the checker: y = s x with one slope s.
enum class fault {
    none,
    wrong_sign,
    forgets_a_term,
    adds_to_input_gradient,
    overwrites_parameter_gradient,
    reads_input
};

template<fault Fault>
struct scaled {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"slope", make_shape(1), 1, 1, initial::ones};
        d.execution.backward_reads_input = Fault != fault::reads_input;
        d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.parameter(0)[0] * io.x[i];
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) {
            auto const d = (Fault == fault::wrong_sign ? -1 : 1) * io.parameter(0)[0] * io.dy[i];
            if (Fault == fault::adds_to_input_gradient)
                io.dx[i] += d;
            else
                io.dx[i] = d;
        }
    }
    static void backward_weights(auto const& io) {
        double sum = 0;
        for (std::size_t i = Fault == fault::forgets_a_term ? 1 : 0; i < io.x.size(); ++i) sum += io.x[i] * io.dy[i];
        if (Fault == fault::overwrites_parameter_gradient)
            io.gradient(0)[0] = sum;
        else
            io.gradient(0)[0] += sum;
    }
};

/// y = s x, of the samples that a granule has; twice the slope is kept from forward to backward, beside a buffer.
struct scaled_by_what_it_keeps {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"slope", make_shape(1), 1, 1, initial::ones};
        d.kept = 1;
        d.buffer_count = 1;
        d.buffers[0] = {"seen", make_shape(2), 1, 1, initial::ones};
        return d;
    }
    static void forward(auto const& io) {
        io.place.kept[0] = 2 * io.parameter(0)[0] * io.place.buffers[1];
        io.place.statistics[1] += io.place.granule.share();
        each(io, [&](std::size_t i) { io.y[i] = io.place.kept[0] * io.x[i] / 2; });
    }
    static void backward_input(auto const& io) {
        each(io, [&](std::size_t i) { io.dx[i] = io.place.kept[0] / 2 * io.dy[i]; });
    }
    static void backward_weights(auto const& io) {
        each(io, [&](std::size_t i) { io.gradient(0)[0] += io.x[i] * io.dy[i]; });
    }

private:
    static void each(auto const& io, auto const& f) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io_t::input::size; ++i)
            for (std::size_t lane = 0; lane < io.place.granule.count; ++lane) f(i * io_t::lanes + lane);
    }
};

} // namespace

TEST_SUITE("layer/gradient_check") {
    TEST_CASE_TEMPLATE("every layer's backward is the derivative of its forward", Kernels, portable, one_sample,
                       reference) {
        CHECK(check_gradients<conv2d<3, kernel<3>>, input<2, 5, 6>, Kernels>().ok());
        CHECK(check_gradients<conv2d<3, kernel<5>, padding<2>>, input<1, 6, 5>, Kernels>().ok());
        CHECK(check_gradients<conv2d<2, kernel<3>, padding<1>, stride<2>>, input<2, 7, 6>, Kernels>().ok());
        CHECK(check_gradients<conv2d<5, kernel<1>>, input<3, 2, 2>, Kernels>().ok());
        CHECK(check_gradients<conv2d<3, kernel<1>, stride<2>>, input<2, 4, 6>, Kernels>().ok()); // a shortcut
        CHECK(check_gradients<conv2d<3, kernel<1>, stride<2>>, input<2, 7, 5>, Kernels>().ok());
        CHECK(check_gradients<conv2d<3, kernel<3>, padding<1>, stride<2>>, input<2, 8, 4>, Kernels>().ok());
        CHECK(check_gradients<conv2d<2, kernel<2>, stride<3>>, input<1, 8, 9>, Kernels>().ok()); // gaps between windows
        CHECK(check_gradients<avg_pool2d<2>, input<2, 4, 6>, Kernels>().ok());
        CHECK(check_gradients<avg_pool2d<2>, input<1, 5, 5>, Kernels>().ok());
        CHECK(check_gradients<avg_pool2d<3, stride<2>>, input<1, 7, 7>, Kernels>().ok());
        CHECK(check_gradients<max_pool2d<2>, input<2, 4, 6>, Kernels>().ok());
        CHECK(check_gradients<max_pool2d<3, stride<2>>, input<1, 7, 7>, Kernels>().ok());
        CHECK(check_gradients<max_pool2d<2, stride<3>>, input<1, 8, 8>, Kernels>().ok());
        CHECK(check_gradients<sigmoid, input<3, 4>, Kernels>().ok());
        CHECK(check_gradients<hyperbolic_tangent, input<13>, Kernels>().ok());
        CHECK(check_gradients<relu, input<2, 3, 4>, Kernels>().ok());
        CHECK(check_gradients<gelu, input<2, 3, 4>, Kernels>().ok());
        CHECK(check_gradients<gelu_tanh, input<13>, Kernels>().ok());
        CHECK(check_gradients<linear<7>, input<11>, Kernels>().ok());
        CHECK(check_gradients<linear<1>, input<1>, Kernels>().ok());
        CHECK(check_gradients<linear<7, without_bias>, input<11>, Kernels>().ok());
        CHECK(check_gradients<flatten, input<2, 3, 4>, Kernels>().ok());
        CHECK(check_gradients<global_avg_pool2d, input<3, 4, 5>, Kernels>().ok());
        CHECK(check_gradients<global_avg_pool2d, input<2, 1, 1>, Kernels>().ok());
        CHECK(check_gradients<dropout<percent<50>>, input<2, 3, 5>, Kernels>().ok());
        CHECK(check_gradients<dropout<percent<10>>, input<7>, Kernels>().ok());
        CHECK(check_gradients<dropout<percent<0>>, input<7>, Kernels>().ok());
    }

    TEST_CASE_TEMPLATE("rows that are tied have the derivative by what they have in common", Kernels, portable,
                       one_sample) {
        using twice = sequential<linear<6>, sigmoid, linear<6>, hyperbolic_tangent, tied<2>>;
        auto const r = check_gradients<twice, input<6>, Kernels>();
        CHECK(r.ok());
        CHECK(r.derivatives == 6 + 2 * 42);
        CHECK(check_gradients<sequential<linear<6>, sigmoid, tied<0>, relu, tied<0>>, input<6>, Kernels>().ok());
        using images = sequential<conv2d<2, kernel<3>, padding<1>>, residual<tied<0>>, batch_norm<>, sigmoid>;
        CHECK(check_gradients<images, input<2, 4, 4>, Kernels>().ok());
        CHECK_FALSE(check_gradients<sequential<miscounted<linear<6>>, sigmoid, tied<0>>, input<6>, Kernels>().ok());
    }

    TEST_CASE("the report counts every derivative") {
        constexpr auto lanes = portable::lanes<double>;
        CHECK(check_gradients<linear<7>, input<11>>().derivatives == 11 * lanes + 7 * 11 + 7);
    }

    TEST_CASE("a derivative that is no number is the largest error, wherever it stands") {
        constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
        std::vector<double> at{1, 2, 3};
        auto const sum = [&] { return at[0] + at[1] + at[2]; };
        for (std::size_t i = 0; i < 3; ++i) {
            std::vector<double> analytic(3, 1.0);
            std::size_t compared = 0;
            CHECK(detail::difference_error(at, analytic, sum, compared) < 1e-6);
            analytic[i] = nan;
            CHECK(std::isnan(detail::difference_error(at, analytic, sum, compared)));
            CHECK(compared == 6);
        }
    }

    TEST_CASE("the checker finds what is wrong with a layer") {
        using in = input<2, 3>;
        CHECK(check_gradients<scaled<fault::none>, in>().ok());
        CHECK(check_gradients<scaled<fault::wrong_sign>, in>().input_error > 0.01);
        CHECK(check_gradients<scaled<fault::forgets_a_term>, in>().parameter_error > 1e-4);
        CHECK_FALSE(check_gradients<scaled<fault::adds_to_input_gradient>, in>().overwrites_input_gradient);
        CHECK_FALSE(check_gradients<scaled<fault::overwrites_parameter_gradient>, in>().adds_parameter_gradients);
        CHECK_FALSE(check_gradients<scaled<fault::reads_input>, in>().ok()); // it said that it does not
    }

    TEST_CASE_TEMPLATE("a layer sees a full granule, its buffers and what it keeps", Kernels, portable, one_sample) {
        CHECK(check_gradients<scaled_by_what_it_keeps, input<2, 3>, Kernels>().ok());
        CHECK_FALSE(check_gradients<doubled<scaled_by_what_it_keeps>, input<2, 3>, Kernels>().ok());
        CHECK_FALSE(check_gradients<miscounted<scaled_by_what_it_keeps>, input<2, 3>, Kernels>().ok());
    }

    TEST_CASE("a report says in a line what is wrong") {
        std::ostringstream text;
        text << gradient_report{0.25, 1e-9, true, true, 12};
        CHECK(text.str() == "derivatives compared: 12; largest error 0.25 by inputs, 1e-09 by parameters");
        CHECK(to_string(gradient_report{0, 0, false, true, 1}) ==
              "derivatives compared: 1; largest error 0 by inputs, 0 by parameters; "
              "backward_input does not overwrite dx");
        CHECK(to_string(check_gradients<scaled<fault::overwrites_parameter_gradient>, input<2, 3>>())
                  .ends_with("; backward_weights does not add to the gradient"));
    }

    TEST_CASE_TEMPLATE("and with convolutions, averages and dropout", Kernels, portable, one_sample, reference) {
        using shortcut = conv2d<3, kernel<1>, stride<2>>;
        using halving = conv2d<3, kernel<3>, padding<1>, stride<2>>;
        CHECK(check_gradients<doubled<shortcut>, input<2, 4, 6>, Kernels>().input_error > 0.01);
        CHECK(check_gradients<miscounted<shortcut>, input<2, 4, 6>, Kernels>().parameter_error > 0.01);
        CHECK(check_gradients<doubled<halving>, input<2, 8, 4>, Kernels>().input_error > 0.01);
        CHECK(check_gradients<miscounted<halving>, input<2, 8, 4>, Kernels>().parameter_error > 0.01);
        CHECK(check_gradients<doubled<global_avg_pool2d>, input<2, 3, 4>, Kernels>().input_error > 0.01);
        CHECK(check_gradients<doubled<dropout<percent<50>>>, input<2, 3, 5>, Kernels>().input_error > 0.01);
        CHECK(check_gradients<forgetful_dropout, input<2, 3, 5>, Kernels>().input_error > 0.01);
    }
}

} // namespace layer_gradient_check_test
