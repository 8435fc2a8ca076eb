// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Data-parallel training on two devices, written by hand: threads, barriers, loops. by_hand_with_trireme.cpp is the
// same training with the library, and prints the same losses.
//
// What one has to get right here, and what nobody checks:
//   - shapes: three sizes and four offsets, combined anew in every loop; a wrong one reads a neighbour's weights;
//   - gradients: derived on paper, one loop nest each;
//   - synchronisation: three barriers per step, each for a reason that stands beside it; without the second, training
//     seems to go on: the last loss was 0.790, 0.796 and 0.801 in three runs, instead of 0.759;
//   - failure: a thread that throws ends the program, one that stalls stops it for ever;
//   - cost: nothing says how much memory a device needs, or how much it reads from the other.
//
// In fairness: this is 150 lines of plain C++ with nothing behind them, and one may read every operation that happens.
// The library's loops are longer, and hidden. They are also what makes it faster: here one image is computed at a time.
//
// From Trireme come only the images and the random numbers of the first weights, so that both programs begin alike.

#include "standard_output.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/data/fashion_mnist.hpp>

#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

constexpr std::size_t devices = 2;
constexpr std::size_t batch = 256, steps = 100;
constexpr float learning_rate = 0.5f;

// The network: pixels (784) -> linear -> sigmoid (64) -> linear -> softmax (10).
constexpr std::size_t inputs = 784, hidden = 64, classes = 10;

// All parameters in one array, so that one loop can add the gradients of two devices.
constexpr std::size_t w1 = 0;                     // hidden x inputs
constexpr std::size_t b1 = w1 + hidden * inputs;  // hidden
constexpr std::size_t w2 = b1 + hidden;           // classes x hidden
constexpr std::size_t b2 = w2 + classes * hidden; // classes
constexpr std::size_t parameters = b2 + classes;

// What one device owns. Everyone has all weights, and the gradients of its own half of each batch.
struct device {
    std::vector<float> weights = std::vector<float>(parameters);
    std::vector<float> gradients = std::vector<float>(parameters);
    double loss = 0; // sum over its images of one step
};

/// Xavier's uniform distribution, from the numbers that Trireme draws for the network's k-th parameter tensor.
void initialise(float* weights, std::size_t rows, std::size_t columns, std::uint32_t k) {
    trireme::random_stream const random(1, trireme::random_purpose::parameters, k);
    double const bound = std::sqrt(6.0 / static_cast<double>(rows + columns));
    for (std::size_t i = 0; i < rows * columns; ++i)
        weights[i] = static_cast<float>(bound * (2.0 * random.uniform(i) - 1.0));
}

/// y = w x + b
void linear(float const* w, float const* b, float const* x, float* y, std::size_t rows, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) {
        y[r] = b[r];
        for (std::size_t c = 0; c < columns; ++c) y[r] += w[r * columns + c] * x[c];
    }
}

/// dw += dy x^T, db += dy
void linear_gradients(float const* x, float const* dy, float* dw, float* db, std::size_t rows, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) {
        db[r] += dy[r];
        for (std::size_t c = 0; c < columns; ++c) dw[r * columns + c] += dy[r] * x[c];
    }
}

/// Forward and backward of one image; adds to the device's gradients and loss.
void learn(device& d, std::uint8_t const* pixels, std::size_t label) {
    float x[inputs], h[hidden], p[classes];
    float const* const w = d.weights.data();
    float* const g = d.gradients.data();

    for (std::size_t i = 0; i < inputs; ++i) x[i] = static_cast<float>(pixels[i]) * (1.0f / 255.0f);
    linear(w + w1, w + b1, x, h, hidden, inputs);
    for (auto& v : h) v = 1.0f / (1.0f + std::exp(-v));
    linear(w + w2, w + b2, h, p, classes, hidden);

    // softmax; the largest logit is taken off first, so that no exponential overflows
    float largest = p[0], sum = 0;
    for (auto const v : p) largest = v > largest ? v : largest;
    float const label_logit = p[label] - largest;
    for (auto& v : p) sum += v = std::exp(v - largest);
    for (auto& v : p) v /= sum;
    d.loss += static_cast<double>(std::log(sum) - label_logit);

    // the loss is a mean over the batch, not over this device's half of it
    float dp[classes], dh[hidden];
    for (std::size_t c = 0; c < classes; ++c) dp[c] = (p[c] - (c == label ? 1.0f : 0.0f)) / static_cast<float>(batch);
    linear_gradients(h, dp, g + w2, g + b2, classes, hidden);
    for (std::size_t j = 0; j < hidden; ++j) {
        dh[j] = 0;
        for (std::size_t c = 0; c < classes; ++c) dh[j] += w[w2 + c * hidden + j] * dp[c];
        dh[j] *= h[j] * (1.0f - h[j]);
    }
    linear_gradients(x, dh, g + w1, g + b1, hidden, inputs);
}

int main() try {
    watch_standard_output();
    auto const train = trireme::fashion_mnist::load().train;
    device all[devices];
    for (auto& d : all) { // equal weights everywhere; biases are zero
        initialise(d.weights.data() + w1, hidden, inputs, 0);
        initialise(d.weights.data() + w2, classes, hidden, 2);
    }
    std::barrier<> everyone(devices);

    auto const work = [&](std::size_t me) {
        auto& mine = all[me];
        for (std::size_t step = 1; step <= steps; ++step) {
            // my half of the batch
            mine.loss = 0;
            mine.gradients.assign(parameters, 0.0f);
            auto const first = (step - 1) * batch + me * batch / devices;
            auto const last = (step - 1) * batch + (me + 1) * batch / devices;
            for (auto i = first; i < last; ++i) learn(mine, train.image(i).data(), train.label(i));

            // all-reduce: I add my half of the parameters over all devices, then fetch the other half
            auto const begin = [](std::size_t d) { return d * parameters / devices; };
            everyone.arrive_and_wait(); // or I would add gradients that are not finished
            for (std::size_t d = 0; d < devices; ++d) {
                if (d == me) continue;
                for (auto i = begin(me); i < begin(me + 1); ++i) mine.gradients[i] += all[d].gradients[i];
            }
            if (me == 0 && step % 10 == 0) {
                double loss = 0;
                for (auto const& d : all) loss += d.loss;
                std::printf("step %zu loss %.6f\n", step, loss / static_cast<double>(batch));
            }
            everyone.arrive_and_wait(); // or I would fetch a half that is not added up
            for (std::size_t d = 0; d < devices; ++d) {
                if (d == me) continue;
                for (auto i = begin(d); i < begin(d + 1); ++i) mine.gradients[i] = all[d].gradients[i];
            }
            everyone.arrive_and_wait(); // or I would clear gradients that the other still fetches

            for (std::size_t i = 0; i < parameters; ++i) mine.weights[i] -= learning_rate * mine.gradients[i];
        }
    };
    std::vector<std::thread> threads;
    for (std::size_t d = 1; d < devices; ++d) threads.emplace_back(work, d);
    work(0);
    for (auto& t : threads) t.join();
} catch (std::exception const& e) {
    std::fprintf(stderr, "by_hand: %s\n", e.what());
    return trireme::exit_code::of(e);
}
