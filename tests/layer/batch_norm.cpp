// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/linear.hpp>

#include <support/numbers.hpp>

#include "one_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace layer_batch_norm_test {
using namespace trireme;

namespace {

// Batch norms with a fault to choose, for testing the checker.

/// As if mean and variance were constants: a usual mistake, with which a network learns all the same, but worse.
struct constant_statistics : batch_norm<> {
    static void backward_agree(auto const& io, int phase) {
        batch_norm<>::backward_agree(io, phase);
        auto const channels = io.x.sample.extent[0];
        std::fill_n(io.place.kept + 2 * channels, 2 * channels, 0.0);
    }
};
struct without_the_variance : batch_norm<> {
    static void backward_agree(auto const& io, int phase) {
        batch_norm<>::backward_agree(io, phase);
        auto const channels = io.x.sample.extent[0];
        std::fill_n(io.place.kept + 3 * channels, channels, 0.0);
    }
};
struct wrong_weight : batch_norm<> {
    static void backward_agree(auto const& io, int phase) {
        batch_norm<>::backward_agree(io, phase);
        io.gradient(0)[0] *= 1.1;
    }
};
struct forgets_a_granule : batch_norm<> {
    static void backward_gather(auto const& io) {
        if (io.place.granule.first == 0) batch_norm<>::backward_gather(io);
    }
};
struct says_it_does_not_read : batch_norm<> {
    static constexpr layer_description describe(shape in) noexcept {
        auto d = batch_norm<>::describe(in);
        d.execution.backward_reads_input = false; // then its output takes its input's place
        return d;
    }
};

/// One batch norm on its own shard, in double.
template<class Layer, class Input, class Kernels = portable>
struct bench {
    using net = network<Input, Layer>;
    using pass_type = host_pass<net, Kernels, double>;
    static constexpr auto lanes = pass_type::lanes, size = Input::extents::size;

    std::size_t samples;
    std::vector<double> x, parameters, gradients, buffers, statistics;
    typename pass_type::plan_type places;
    std::vector<double> arena;

    explicit bench(std::size_t n)
        : samples(n), x(numbers::uniform<double>(0, n * size, 3)), parameters(net::parameters),
          gradients(net::parameters), buffers(net::buffers), statistics(net::buffers), places(pass_type::plan(n)),
          arena(pass_type::elements(places), std::numeric_limits<double>::quiet_NaN()) {
        initialise_parameters<net, xavier_uniform>(parameters.data(), 1);
        initialise_buffers<net>(buffers.data());
    }

    double at(std::size_t sample, std::size_t i) const { return x[sample * size + i]; }

    /// The outputs, sample by sample.
    std::vector<double> forward(granule_place const& shard) {
        detail::model_numbers<double> const model{parameters.data(), gradients.data(), buffers.data(),
                                                  statistics.data()};
        pass_type const pass(places, arena.data(), model, shard);
        pass.forward([&](std::size_t g) {
            for (std::size_t lane = 0; lane < lanes; ++lane)
                for (std::size_t i = 0; i < size; ++i)
                    pass.input(g)[i * lanes + lane] = at(std::min(g * lanes + lane, samples - 1), i);
        });
        std::vector<double> y(samples * size);
        for (std::size_t s = 0; s < samples; ++s)
            for (std::size_t i = 0; i < size; ++i) y[s * size + i] = pass.output(s / lanes)[i * lanes + s % lanes];
        return y;
    }
};

/// By the formula, with all samples at hand.
template<class Input, class Kernels>
void normalises(std::size_t samples) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(samples);
    bench<batch_norm<>, Input, Kernels> b(samples);
    constexpr auto channels = Input::extents::shape.extent[0], positions = b.size / channels;
    for (std::size_t c = 0; c < channels; ++c) {
        b.parameters[c] = 1.0 + 0.5 * static_cast<double>(c);
        b.parameters[channels + c] = 0.25 * static_cast<double>(c);
    }
    auto const batch = 4 * samples; // this shard is a quarter of it
    auto const y = b.forward({1, 1, 0, 0, samples, samples, batch});
    auto const n = static_cast<double>(samples * positions);
    double worst = 0;
    for (std::size_t c = 0; c < channels; ++c) {
        double mean = 0, variance = 0;
        auto const each = [&](auto const& f) {
            for (std::size_t s = 0; s < samples; ++s)
                for (std::size_t p = 0; p < positions; ++p) f(s * b.size + c * positions + p);
        };
        each([&](std::size_t i) { mean += b.x[i] / n; });
        each([&](std::size_t i) { variance += (b.x[i] - mean) * (b.x[i] - mean) / n; });
        each([&](std::size_t i) {
            auto const wanted =
                b.parameters[c] * (b.x[i] - mean) / std::sqrt(variance + 1e-5) + b.parameters[channels + c];
            worst = std::max(worst, std::abs(y[i] - wanted));
        });
        // running statistics get this shard's share, and the unbiased variance
        CHECK(b.statistics[c] == doctest::Approx(mean / 4));
        CHECK(b.statistics[channels + c] == doctest::Approx(variance * n / (n - 1) / 4));
    }
    CHECK(worst < 1e-11);
}

} // namespace

TEST_SUITE("layer/batch_norm") {
    TEST_CASE_TEMPLATE("normalises over all samples of a shard", Kernels, portable, one_sample, reference) {
        for (std::size_t const samples : {2u, 3u, 8u, 17u}) {
            normalises<input<3, 4, 5>, Kernels>(samples);
            normalises<input<5>, Kernels>(samples);
        }
    }

    TEST_CASE("one value has no variance: what comes out is the bias") {
        bench<batch_norm<>, input<3>> b(1);
        for (auto& weight : b.parameters) weight = 0.5;
        for (auto const value : b.forward({1, 1, 0, 0, 1, 1, 1})) CHECK(value == doctest::Approx(0.5));
        CHECK(b.statistics[0] == doctest::Approx(b.at(0, 0)));
        CHECK(b.statistics[3] == 0); // of the running variance: no division by n - 1 = 0
    }

    TEST_CASE("evaluation takes the running statistics, and each sample by itself") {
        bench<batch_norm<>, input<2, 1, 3>> b(1);
        b.parameters = {2, 3, 10, 20};
        b.buffers = {1, -1, 4, 0.25};
        using pass_type = decltype(b)::pass_type;
        detail::model_numbers<double> const model{b.parameters.data(), nullptr, b.buffers.data()};
        pass_type const pass(b.places, b.arena.data(), model, {1, 1, 0, 0, 1, 1, 1});
        for (std::size_t i = 0; i < b.size * b.lanes; ++i) pass.input(0)[i] = static_cast<double>(i);
        pass.evaluate();
        for (std::size_t i = 0; i < b.size * b.lanes; ++i) {
            auto const x = static_cast<double>(i);
            bool const first = i / b.lanes < 3;
            CHECK(pass.output(0)[i] == doctest::Approx(first ? 2 * (x - 1) / std::sqrt(4 + 1e-5) + 10
                                                             : 3 * (x + 1) / std::sqrt(0.25 + 1e-5) + 20));
        }
    }

    TEST_CASE_TEMPLATE("backward is the derivative of forward", Kernels, portable, one_sample, reference) {
        CHECK(check_gradients<batch_norm<>, input<3, 4, 5>, Kernels>().ok());
        CHECK(check_gradients<batch_norm<per_shard>, input<2, 1, 1>, Kernels>().ok());
        CHECK(check_gradients<batch_norm<>, input<5>, Kernels>().ok());
        CHECK(check_gradients<batch_norm<synchronised>, input<2, 3, 3>, Kernels>().ok()); // of one device
        CHECK(check_gradients<
                  sequential<conv2d<3, kernel<3>>, batch_norm<>, hyperbolic_tangent, batch_norm<>, flatten, linear<2>>,
                  input<2, 5, 4>, Kernels>()
                  .ok());
        CHECK(check_gradients<sequential<flatten, linear<6>, batch_norm<>, sigmoid>, input<2, 3, 1>, Kernels>().ok());
    }

    TEST_CASE_TEMPLATE("the checker finds what is wrong with a batch norm", Kernels, portable, reference) {
        using image = input<2, 3, 3>;
        CHECK(check_gradients<constant_statistics, image, Kernels>().input_error > 1e-3);
        CHECK(check_gradients<without_the_variance, image, Kernels>().input_error > 1e-3);
        CHECK(check_gradients<wrong_weight, image, Kernels>().parameter_error > 1e-3);
        CHECK_FALSE(check_gradients<forgets_a_granule, image, Kernels>().ok());
        CHECK_FALSE(check_gradients<says_it_does_not_read, image, Kernels>().ok());
        CHECK_FALSE(check_gradients<constant_statistics, input<5>, Kernels>().ok());
    }
}

} // namespace layer_batch_norm_test
