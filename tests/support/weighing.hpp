// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/data/samples_in_memory.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// Training with a loss in which samples count differently, and some of them nothing.
namespace test_weighing {
using namespace trireme;

struct weights_of_five {
    static constexpr double of[] = {0.5, 1, 0, 3, 0.1};
};
inline constexpr int left_out = -100;

/// Classes count differently, targets are smooth, some samples are left out.
using weighing = cross_entropy_with<class_weights<weights_of_five>, ignoring<left_out>, label_smoothing<percent<10>>>;

/// Layers that are cut at any place, with statistics and random numbers.
using net = network<input<6>, linear<16>, batch_norm<per_shard>, relu, linear<12>, hyperbolic_tangent,
                    dropout<percent<10>>, linear<8>, sigmoid, linear<5>>;
using plain_net = network<input<6>, linear<8>, hyperbolic_tangent, linear<5>>;

/// Samples of 6 numbers with one of 5 labels that can be learnt of them, or none, of about a third of them.
struct labelled_table {
    std::vector<float> inputs;
    std::vector<int> labels;

    explicit labelled_table(std::size_t n, std::uint64_t seed = 1) {
        random_stream const r(seed, random_purpose::user, 3);
        for (std::size_t i = 0; i < 6 * n; ++i) inputs.push_back(static_cast<float>(r.uniform(i)));
        for (std::size_t s = 0; s < n; ++s) {
            auto const* const x = &inputs[6 * s];
            auto const best = static_cast<int>(std::max_element(x, x + 5) - x);
            labels.push_back(r.below(6 * n + s, 3) == 0 ? left_out : best);
        }
    }
    std::size_t size() const noexcept { return labels.size(); }
    samples_in_memory samples() const { return samples_in_memory(inputs, make_shape(6), labels, 5, left_out); }
    operator sample_set() const { return samples(); }

    labelled_table& leave_out_all() {
        labels.assign(labels.size(), left_out);
        return *this;
    }
    /// The sum of the labels' weights, and how many have one.
    batch_weight weight() const {
        batch_weight all;
        for (int const label : labels) {
            double const w = label == left_out ? 0 : weights_of_five::of[label];
            all.sum += w;
            all.targets += w > 0 ? 1 : 0;
        }
        return all;
    }
};

/// Trained on full batches, fewer samples, and some of which none counts; tested; trained for two epochs with short
/// last batches: all numbers that are left of it, and with `observed` what observers are told.
template<class Trainer>
std::vector<double> train(Trainer& t, bool observed = true) {
    labelled_table const all(48), few(31, 2), fewest(13, 4), tested(53, 3), many(130, 5);
    auto const none = labelled_table(20, 6).leave_out_all();
    std::vector<double> told;
    for (auto const* batch : {&all, &few, &none, &fewest, &all}) told.push_back(t.step(*batch).loss);
    for (auto const* set : {&tested, &none}) {
        auto const e = t.evaluate(*set);
        told.insert(told.end(), {e.loss, e.accuracy, static_cast<double>(e.samples)});
    }
    struct {
        samples_in_memory train, test;
    } const data{many.samples(), tested.samples()};
    auto const keep = [&](progress_report const& p) {
        if (observed) told.push_back(p.loss);
    };
    for (auto const& epoch : t.fit(data, {.epochs = 2}, keep))
        told.insert(told.end(), {epoch.loss, epoch.test.loss, epoch.test.accuracy});
    for (double const x : t.gather_parameters()) told.push_back(x);
    for (double const x : t.gather_buffers()) told.push_back(x);
    return told;
}

/// The loss says this of one sample, and whether it is right; by hand. `logits`: 5.
struct by_hand {
    double loss = 0;
    bool right = false;

    by_hand(double const* logits, int label) {
        if (label == left_out) return;
        double const largest = *std::max_element(logits, logits + 5);
        double sum = 0;
        for (int c = 0; c < 5; ++c) sum += std::exp(logits[c] - largest);
        for (int c = 0; c < 5; ++c) {
            double const q = (c == label ? 0.9 * weights_of_five::of[c] : 0) + 0.1 / 5 * weights_of_five::of[c];
            loss -= q * (logits[c] - largest - std::log(sum));
        }
        right = weights_of_five::of[label] > 0 && std::max_element(logits, logits + 5) - logits == label;
    }
};

} // namespace test_weighing
