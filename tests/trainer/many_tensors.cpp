// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers with more tensors than any layer of the library.

#include <trireme/layer/gradient_check.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/files.hpp>
#include <support/networks.hpp>

#include <cstddef>

namespace trainer_many_tensors_test {
using namespace trireme;
using test_networks::made_up;
using test_support::same_bits;

namespace {

/// A polynomial of each value, whose coefficients are a tensor each: as many as a layer may have.
struct polynomial {
    static constexpr char const* names[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    static constexpr int terms = max_parameter_tensors;
    static_assert(terms == 8);

    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.parameter_count = terms;
        for (int k = 0; k < terms; ++k)
            d.parameters[k] = {
                .name = names[k], .shape = make_shape(in.size()), .init = k == 1 ? initial::ones : initial::zeros};
        return d;
    }
    static void forward(auto const& io) {
        for_all_values(io, [&](auto i, auto at) {
            io.y[at] = 0;
            for (int k = terms - 1; k >= 0; --k) io.y[at] = io.y[at] * io.x[at] + io.parameter(k)[i];
        });
    }
    static void backward_input(auto const& io) {
        for_all_values(io, [&](auto i, auto at) {
            auto slope = 0 * io.x[at];
            for (int k = terms - 1; k > 0; --k) slope = slope * io.x[at] + static_cast<float>(k) * io.parameter(k)[i];
            io.dx[at] = io.dy[at] * slope;
        });
    }
    static void backward_weights(auto const& io) {
        for_all_values(io, [&](auto i, auto at) {
            auto power = io.dy[at];
            for (int k = 0; k < terms; ++k, power = power * io.x[at]) io.gradient(k)[i] += power;
        });
    }
    static void for_all_values(auto const& io, auto f) {
        auto const samples = io.x.size() / io.x.sample.size(); // side by side
        for (std::size_t at = 0; at < io.x.size(); ++at) f(at / samples, at);
    }
};

using net = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<12>, polynomial, linear<10>>;
template<class Mesh>
using trainer_on = trainer<net, cross_entropy, sgd, on<Mesh>, reproducible<fixed_tree, 4>>;

template<class Trainer>
auto trained() {
    Trainer t{{.learning_rate = 0.1f, .batch = 32, .seed = 3}};
    for (int step = 0; step < 3; ++step) t.step(made_up(32, static_cast<std::uint64_t>(step)));
    return t.gather_parameters();
}

} // namespace

TEST_SUITE("trainer/many_tensors") {
    TEST_CASE("a layer may have eight tensors, on any devices and stages, and in files") {
        auto const report = check_gradients<polynomial, input<5>>();
        CHECK(report.input_error < 1e-6);
        CHECK(report.parameter_error < 1e-6);

        auto const one = trained<trainer_on<mesh<host, dp<1>>>>();
        CHECK(same_bits(one, trained<trainer_on<mesh<host, dp<2>>>>()));
        CHECK(same_bits(one, trained<trainer_on<mesh<host, dp<2>, pp<2>>>>()));

        files::folder const folder;
        auto const path = folder.path("weights.safetensors");
        trainer_on<mesh<host, dp<1>>> written{{.batch = 32, .seed = 3}}, read{{.batch = 32, .seed = 4}};
        written.step(made_up(32));
        save_weights(written, path);
        load_weights(read, path);
        CHECK(same_bits(written.gather_parameters(), read.gather_parameters()));
    }
}

} // namespace trainer_many_tensors_test
