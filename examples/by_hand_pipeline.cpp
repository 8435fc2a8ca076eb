// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A pipeline of two stages on two threads, written by hand: two queues (by_hand_pipeline.hpp) and some loops. The
// program trains the network of by_hand.cpp so, trains it again with Trireme's pipeline, from equal weights and on
// equal images, and prints the losses of both beside one another.
//
// Points that one has to get right here, and that nobody checks:
//   - order: a message does not say which micro-batch it belongs to; both threads count, and have to count alike;
//   - frames: the first stage keeps the values of two micro-batches, since one goes forward before the one ahead of it
//     has come back; with one frame nothing stops, and the last loss is 0.955 instead of 0.759;
//   - waiting: a queue has room for one message; if the first stage goes forward with all four micro-batches before it
//     takes a gradient, each thread waits for the other for ever;
//   - failure: a thread that throws has to close the queues, or the other one waits for ever; one that stalls stops
//     both;
//   - bits: sums do not depend on the number of micro-batches, because each sample is computed by itself; kernels that
//     take several at once, or a second replica, add in another order, and the last digits become others;
//   - cost: nothing says how long a stage waits, nor how much it keeps and sends.
//
// Exit codes: 0; 1 if the losses differ; 2 for missing data.

#include "by_hand_pipeline.hpp"
#include "standard_output.hpp"

#include <trireme/trireme.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

using namespace trireme;

// ---- the network: pixels (784) -> linear -> sigmoid (64) | linear -> softmax (10) ----

constexpr std::size_t batch_size = 256, micro_batches = 4, samples = batch_size / micro_batches, steps = 100;
constexpr float learning_rate = 0.5f;
constexpr std::size_t inputs = 784, hidden = 64, classes = 10;

/// A linear layer of one sample after the other: weights, row by row, and then biases; and their gradients.
struct linear_layer {
    std::size_t rows, columns;
    std::vector<float> weights, gradients = std::vector<float>(weights.size());

    static constexpr std::size_t numbers(std::size_t rows, std::size_t columns) { return rows * columns + rows; }

    void forward(float const* x, float* y) const {
        for (std::size_t r = 0; r < rows; ++r) {
            y[r] = weights[rows * columns + r];
            for (std::size_t c = 0; c < columns; ++c) y[r] += weights[r * columns + c] * x[c];
        }
    }
    void backward_input(float const* dy, float* dx) const {
        for (std::size_t c = 0; c < columns; ++c) {
            dx[c] = 0;
            for (std::size_t r = 0; r < rows; ++r) dx[c] += weights[r * columns + c] * dy[r];
        }
    }
    void backward_weights(float const* x, float const* dy) { // adds to the gradients
        for (std::size_t r = 0; r < rows; ++r) {
            gradients[rows * columns + r] += dy[r];
            for (std::size_t c = 0; c < columns; ++c) gradients[r * columns + c] += dy[r] * x[c];
        }
    }
    void update() {
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= learning_rate * gradients[i];
        std::fill(gradients.begin(), gradients.end(), 0.0f);
    }
};

/// Softmax and cross entropy of one sample: returns the loss, and makes of logits their gradients. The loss is a mean
/// over the batch, not over the micro-batch.
double cross_entropy_by_hand(float (&p)[classes], std::size_t label) {
    float largest = p[0], sum = 0;
    for (auto const v : p) largest = std::max(largest, v);
    float const label_logit = p[label] - largest;
    for (auto& v : p) sum += v = std::exp(v - largest);
    for (std::size_t c = 0; c < classes; ++c)
        p[c] = (p[c] / sum - (c == label ? 1.0f : 0.0f)) / static_cast<float>(batch_size);
    return static_cast<double>(std::log(sum) - label_logit);
}

/// The losses of all steps.
std::vector<double> trained_by_hand(std::span<float const> weights, labelled_images const& images) {
    constexpr auto first_numbers = linear_layer::numbers(hidden, inputs);
    linear_layer first{hidden, inputs, {weights.begin(), weights.begin() + first_numbers}};
    linear_layer second{classes, hidden, {weights.begin() + first_numbers, weights.end()}};
    std::vector<double> losses(steps);
    two_queues queues;

    auto const first_device = [&] {
        constexpr std::size_t frames = 2; // micro-batches that have gone forward and not come back, at most
        std::vector<float> x(frames * samples * inputs), h(frames * samples * hidden);
        for (std::size_t step = 0; step < steps; ++step) {
            auto const forward = [&](std::size_t m) {
                auto const frame = m % frames;
                for (std::size_t s = 0; s < samples; ++s) {
                    auto const pixels = images.image(step * batch_size + m * samples + s);
                    auto* const in = &x[(frame * samples + s) * inputs];
                    auto* const out = &h[(frame * samples + s) * hidden];
                    for (std::size_t i = 0; i < inputs; ++i) in[i] = static_cast<float>(pixels[i]) * (1.0f / 255.0f);
                    first.forward(in, out);
                    for (std::size_t j = 0; j < hidden; ++j) out[j] = 1.0f / (1.0f + std::exp(-out[j]));
                }
                auto const begin = h.begin() + static_cast<std::ptrdiff_t>(frame * samples * hidden);
                return std::vector<float>(begin, begin + samples * hidden);
            };
            auto const backward = [&](std::size_t m, std::vector<float> dh) {
                auto const frame = m % frames;
                for (std::size_t s = 0; s < samples; ++s) {
                    auto const* const out = &h[(frame * samples + s) * hidden];
                    auto* const dy = &dh[s * hidden];
                    for (std::size_t j = 0; j < hidden; ++j) dy[j] *= out[j] * (1.0f - out[j]);
                    first.backward_weights(&x[(frame * samples + s) * inputs], dy);
                }
            };
            first_stage(queues, micro_batches, forward, backward);
            first.update();
        }
    };
    auto const second_device = [&] {
        for (std::size_t step = 0; step < steps; ++step) {
            second_stage(queues, micro_batches, [&](std::size_t m, std::vector<float> h) {
                std::vector<float> dh(h.size());
                for (std::size_t s = 0; s < samples; ++s) {
                    float p[classes];
                    second.forward(&h[s * hidden], p);
                    losses[step] += cross_entropy_by_hand(p, images.label(step * batch_size + m * samples + s)) /
                                    static_cast<double>(batch_size);
                    second.backward_weights(&h[s * hidden], p);
                    second.backward_input(p, &dh[s * hidden]);
                }
                return dh;
            });
            second.update();
        }
    };
    on_two_threads(queues, first_device, second_device);
    return losses;
}

// ---- the same training with Trireme ----

using perceptron = network<input<1, 28, 28>, flatten, linear<64>, sigmoid, linear<10>>;
using concise = trainer<perceptron, cross_entropy, sgd, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 4>,
                        stages_by<cut_before<3>>>; // 0 flatten, 1 linear, 2 sigmoid | 3 linear

int main() try {
    watch_standard_output();
    auto const images = fashion_mnist::load().train.take(0, steps * batch_size);
    concise t{{.learning_rate = learning_rate, .batch = batch_size, .seed = 1}};
    auto const by_hand = trained_by_hand(t.gather_parameters(), images);

    double furthest = 0; // relative to the loss
    for (std::size_t step = 1; step <= steps; ++step) {
        auto const loss = t.step(images.take((step - 1) * batch_size, batch_size)).loss, mine = by_hand[step - 1];
        if (step % 10 == 0) std::printf("step %zu loss %.6f by hand, %.6f with Trireme\n", step, mine, loss);
        if (!(std::abs(mine - loss) <= furthest * loss)) furthest = std::abs(mine - loss) / loss;
    }
    std::printf("the losses differ by %.1g of themselves at most\n", furthest);
    return furthest <= 1e-4 ? 0 : 1; // each adds in an order of its own, and rounds
} catch (std::exception const& e) {
    std::fprintf(stderr, "by_hand_pipeline: %s\n", e.what());
    return exit_code::of(e);
}
