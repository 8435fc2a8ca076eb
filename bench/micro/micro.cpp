// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every kernel of LeNet beside the machine's best, in the lines of measure.hpp.

#include "../lenet/network.hpp"
#include "measure.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace {

using namespace bench;

constexpr char const* names[lenet::depth] = {"conv1",   "sigmoid1", "pool1",    "conv2",   "sigmoid2", "pool2",
                                             "flatten", "linear1",  "sigmoid3", "linear2", "sigmoid4", "linear3"};

/// The kernels of layer `Index` for granules of `Lanes` samples.
template<std::size_t Index, std::size_t Lanes>
void measure_layer(options const& o, double& sink) {
    using layer_t = lenet::layer_type<Index>;
    using in = lenet::input_of<Index>;
    using out = lenet::input_of<Index + 1>;
    constexpr auto const& row = lenet::row(Index);
    if constexpr (!row.description.execution.view) {
        constexpr auto parameters = row.description.parameter_elements();
        numbers const x(in::size * Lanes), dx(in::size * Lanes), y(out::size * Lanes), dy(out::size * Lanes);
        numbers const w(parameters), dw(parameters);
        auto const name = (Lanes == 1 ? std::string("one sample/") : std::string()) + names[Index];
        auto const measure = [&](char const* what, flops_t flops, std::size_t values, auto&& kernel) {
            constexpr int passes = 10; // between two looks at the clock, of the roof as well
            bool const computes = row.description.parameter_count > 0;
            auto const work =
                computes ? static_cast<double>(flops * Lanes) : static_cast<double>(values * sizeof(float));
            auto const ours = rate(o.seconds, [&] {
                for (int i = 0; i < passes; ++i) kernel();
                return passes * work;
            });
            auto const roof =
                computes ? rate(o.seconds, [&] { return bench::multiply_adds(sink); }) : rate(o.seconds, [&] {
                    double bytes = 0;
                    for (int i = 0; i < passes; ++i) bytes += bench::stream(y.data(), dy.data(), y.size(), 1e-9f);
                    return bytes;
                });
            report(name + "/" + what, computes ? "fma-peak" : "memory", work, ours, roof,
                   computes ? "GFLOP/s" : "GB/s");
        };
        using calls = detail::layer_calls<layer_t, in, out, Lanes, float>;
        detail::layer_operands<float, float> const at{x.data(), y.data(),  dy.data(), dx.data(),
                                                      w.data(), dw.data(), {}};
        measure("forward", row.description.forward_flops, x.size() + y.size(),
                [&] { calls::template run<detail::row_call::forward>(portable{}, at); });
        if constexpr (Index > lenet::first_trainable)
            measure("backward_input", row.description.backward_input_flops, x.size() + 2 * y.size(),
                    [&] { calls::template run<detail::row_call::backward_input>(portable{}, at); });
        if constexpr (row.description.parameter_count > 0)
            measure("backward_weights", row.description.backward_weights_flops, 0,
                    [&] { calls::template run<detail::row_call::backward_weights>(portable{}, at); });
    }
}

/// The optimizers' passes over LeNet's parameters against a plain pass over as many bytes.
void measure_optimizers(options const& o) {
    constexpr std::size_t n = round_up(lenet::parameters, cache_line / sizeof(float));
    numbers const memory(4 * n);
    auto* const w = memory.data();
    auto const measure = [&](char const* name, std::size_t touched, auto&& pass) {
        auto const work = static_cast<double>(touched * n * sizeof(float));
        auto const ours = rate(o.seconds, [&] {
            pass();
            return work;
        });
        auto const roof = rate(o.seconds, [&] { return bench::stream(w, w + n, n, 1e-9f); });
        report(name, "memory", work, ours, roof, "GB/s");
    };
    portable const k;
    measure("sgd", 3, [&] { sgd_update(k, w, w + n, n, {1e-9f}); });
    measure("sgd_momentum", 5, [&] { sgd_momentum_update(k, w, w + 2 * n, w + n, n, {1e-9f, 0.0f, 0.9f}); });
    measure("sgd_nesterov", 5, [&] { sgd_nesterov_update(k, w, w + 2 * n, w + n, n, {1e-9f, 0.0f, 0.9f}); });
}

/// AdamW on 64 million parameters, which no cache holds, against a bare loop over the same arrays: weights, means and
/// squares are read and written, gradients are read.
class many_parameters {
public:
    many_parameters() {
        for (std::size_t i = 0; i < n; ++i) square_.data()[i] = std::abs(square_.data()[i]);
    }
    void measure(options const& o) {
        auto *const w = w_.data(), *const mean = mean_.data(), *const square = square_.data();
        auto const* const g = g_.data();
        auto const work = static_cast<double>(7 * n * sizeof(float));
        auto const ours = rate(o.seconds, [&] {
            adam_update<true>(portable{}, w, mean, square, g, n, numbers_, made_++);
            return work;
        });
        auto const bare = rate(o.seconds, [&] {
            bench::update_three(w, mean, square, g, n, 1e-9f);
            return work;
        });
        report("adamw/64M", "memory", work, ours, bare, "GB/s");
    }

private:
    static constexpr std::size_t n = 64'000'000;
    numbers w_{n}, mean_{n}, square_{n}, g_{n};
    adam_numbers<float> numbers_{1e-9f, 0.01f, 0.9f, 0.999f, 1e-8f};
    std::uint64_t made_ = 0;
};

template<std::size_t Lanes, std::size_t... Index>
void measure_layers(options const& o, double& sink, std::index_sequence<Index...>) {
    (measure_layer<Index, Lanes>(o, sink), ...);
}

} // namespace

int main(int argc, char** argv) {
    options o;
    if (argc > 1) o.rounds = std::atoi(argv[1]);
    double sink = 0;
    many_parameters many;
    for (int r = 0; r < o.rounds; ++r) {
        constexpr auto layers = std::make_index_sequence<lenet::depth>{};
        measure_layers<portable::lanes<float>>(o, sink, layers);
        measure_layers<1>(o, sink, layers);
        measure_optimizers(o);
        many.measure(o);
    }
    std::fprintf(stderr, "checksum %g\n", sink);
}
