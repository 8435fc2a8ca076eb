// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/regression.hpp>

#include <trireme/trireme.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

// Training in which layers add to the loss.
namespace test_penalties {
using namespace trireme;

/// A layer of one's own that adds the mean of (x - 1)^4 over a sample's values to its loss, and doubles what passes.
struct near_one {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.adds_to_loss = true;
        d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using T = typename io_t::value_type;
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            T sum = 0;
            for (std::size_t i = lane; i < io.x.size(); i += io_t::lanes) {
                T const off = io.x[i] - 1;
                sum += off * off * off * off;
                io.y[i] = 2 * io.x[i];
            }
            if (io.place.loss != nullptr) io.place.loss[lane] = sum / T(io_t::input::size);
        }
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using T = typename io_t::value_type;
        for (std::size_t i = 0; i < io.x.size(); ++i) {
            T const off = io.x[i] - 1;
            io.dx[i] =
                2 * io.dy[i] + io.place.loss_weight[i % io_t::lanes] * 4 / T(io_t::input::size) * off * off * off;
        }
    }
};

/// A term in the first stage, one in the last, and one between, wherever a network of three stages is cut.
template<class Second>
using net_with = network<input<6>, linear<8>, activity_penalty<percent<30>>, hyperbolic_tangent, linear<7>, Second,
                         linear<6>, sigmoid, activity_penalty<percent<200>>, linear<3>>;
using net = net_with<near_one>;
/// Accelerators have all of these layers; dropout draws numbers, and batch_norm agrees on statistics.
using net_everywhere = network<input<6>, linear<8>, activity_penalty<percent<30>>, batch_norm<per_shard>, relu,
                               linear<7>, activity_penalty<percent<5>>, dropout<percent<10>>, linear<6>, sigmoid,
                               activity_penalty<percent<200>>, linear<3>>;

/// The layers of `net` add this to the loss of a sample, and give this output; by hand. `p`: its parameters.
struct by_hand {
    double added = 0;
    std::vector<double> out;

    by_hand(std::vector<double> const& p, std::vector<double> x) {
        std::size_t at = 0;
        auto const linear_layer = [&](std::size_t outputs) {
            std::vector<double> y(outputs);
            auto const* const w = &p[at];
            auto const* const b = w + outputs * x.size();
            for (std::size_t o = 0; o < outputs; ++o) {
                y[o] = b[o];
                for (std::size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
            }
            at += outputs * (x.size() + 1);
            x = y;
        };
        auto const add = [&](double share, auto const& f) {
            double sum = 0;
            for (double const v : x) sum += f(v);
            added += share * sum / static_cast<double>(x.size());
        };
        auto const square = [](double v) { return v * v; };
        linear_layer(8);
        add(0.3, square);
        for (double& v : x) v = std::tanh(v);
        linear_layer(7);
        add(1, [](double v) { return std::pow(v - 1, 4); });
        for (double& v : x) v *= 2;
        linear_layer(6);
        for (double& v : x) v = 1 / (1 + std::exp(-v));
        add(2, square);
        linear_layer(3);
        out = x;
    }
};

/// Steps on full, short and next to empty batches, an evaluation, and two epochs: all numbers that are left of it.
template<class Trainer>
std::vector<double> train(Trainer& t) {
    using test_regression::made_up_table;
    constexpr std::size_t least = Trainer::network_type::whole_shard ? 13 : 5;
    made_up_table<float> const all(48), few(31, 2), fewest(least, 4), tested(53, 3), many(130, 5);
    std::vector<double> told;
    for (auto const* batch : {&all, &few, &fewest, &all}) told.push_back(t.step(*batch).loss);
    told.push_back(t.evaluate(few).loss);
    struct {
        samples_in_memory train, test;
    } const data{many.samples(), tested.samples()};
    for (auto const& epoch : t.fit(data, {.epochs = 2})) told.insert(told.end(), {epoch.loss, epoch.test.loss});
    for (double const x : t.gather_parameters()) told.push_back(x);
    return told;
}

} // namespace test_penalties
