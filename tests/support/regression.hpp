// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/data/samples_in_memory.hpp>
#include <trireme/trireme.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

// Training on numbers of one's own, with a loss of one's own that works on every device.
namespace test_regression {
using namespace trireme;

/// One sample of squared_error: its values lie `apart` from one another.
template<class T, class Stored, bool Backward>
struct squared_error_of_sample {
    Stored const* x;
    T const* target;
    Stored* dx;
    T const* weight;
    T* loss;
    std::size_t values, apart, samples_apart;

    TRIREME_HOST_DEVICE void operator()(std::size_t sample) const {
        T sum = 0;
        for (std::size_t i = 0; i < values; ++i) {
            auto const at = sample * samples_apart + i * apart;
            T const off = static_cast<T>(x[at]) - target[at];
            sum += off * off;
            if constexpr (Backward) dx[at] = static_cast<Stored>(weight[sample] * 2 * off);
        }
        loss[sample] = sum;
    }
};

/// The sum of (x - target)^2 over the values of a sample, each of which has its target.
struct squared_error {
    static constexpr loss_description describe(shape output) noexcept {
        return {.flops = 4 * output.size(), .targets = output};
    }
    static void forward(auto const& io) { apply<false>(io); }
    static void backward(auto const& io) { apply<true>(io); }

private:
    template<bool Backward>
    static void apply(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        constexpr auto values = io_t::input::size;
        constexpr bool on_host = !accelerator_kernels<typename io_t::kernels>;
        squared_error_of_sample<typename io_t::value_type, typename io_t::stored_type, Backward> const of_sample{
            io.x.data,           io.target.data, io.dx.data, io.weight, io.loss, values, on_host ? io_t::lanes : 1,
            on_host ? 1 : values};
        if constexpr (on_host)
            for (std::size_t lane = 0; lane < io_t::lanes; ++lane) of_sample(lane);
        else
            io.policy.each(io.policy.samples(), of_sample);
    }
};

/// Samples of 6 numbers, whose 3 targets a network can learn. `N`: what the numbers are.
template<class N>
struct made_up_table {
    std::vector<N> inputs;
    std::vector<float> targets;

    explicit made_up_table(std::size_t n, std::uint64_t seed = 1) {
        random_stream const r(seed, random_purpose::user, 2);
        for (std::size_t i = 0; i < 6 * n; ++i) inputs.push_back(static_cast<N>(r.below(i, 100)));
        for (std::size_t i = 0; i < n; ++i) {
            auto const x = [&](std::size_t k) { return static_cast<float>(inputs[6 * i + k]) / 100; };
            targets.insert(targets.end(), {x(0) + x(1), x(2) * x(3), x(4) - x(5)});
        }
    }
    std::size_t size() const noexcept { return targets.size() / 3; }
    samples_in_memory samples() const {
        return samples_in_memory(inputs, make_shape(6), targets, make_shape(3)).scaled(0.01);
    }
    operator sample_set() const { return samples(); }
};

/// Samples likewise, whose targets are between 0 and 1, as losses of logits take them.
struct made_up_shares : made_up_table<float> {
    explicit made_up_shares(std::size_t n, std::uint64_t seed = 1) : made_up_table<float>(n, seed) {
        for (auto& target : targets) target = (target + 1) / 3;
    }
};

/// Layers that are cut at any place, with statistics and random numbers.
using curve = network<input<6>, linear<16>, batch_norm<per_shard>, relu, linear<12>, hyperbolic_tangent,
                      dropout<percent<10>>, linear<8>, sigmoid, linear<3>>;

/// Trained on several batches, tested, trained for an epoch: all numbers that are left of it.
template<class Trainer>
std::vector<double> train(Trainer& t) {
    made_up_table<float> const all(96), few(37, 2), tested(53, 3);
    std::vector<double> told;
    for (int k = 0; k < 3; ++k) told.push_back(t.step(k == 1 ? few : all).loss);
    struct {
        samples_in_memory train, test;
    } const data{few.samples(), tested.samples()};
    for (auto const& epoch : t.fit(data, {.epochs = 2})) told.insert(told.end(), {epoch.loss, epoch.test.loss});
    for (double const x : t.gather_parameters()) told.push_back(x);
    for (double const x : t.gather_buffers()) told.push_back(x);
    return told;
}

/// Losses of steps of 40 samples, of more and of fewer, and of tests on them, and all parameters after them.
template<class Table = made_up_table<float>, class Trainer>
std::vector<double> steps_of_any_size(Trainer& t) {
    std::vector<double> told;
    for (std::size_t const n : {40u, 40u, 90u, 11u}) {
        Table const samples(n, n);
        told.push_back(t.step(samples).loss);
        told.push_back(t.evaluate(samples).loss);
    }
    for (double const x : t.gather_parameters()) told.push_back(x);
    return told;
}

} // namespace test_regression
