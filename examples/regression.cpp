// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A network that gives values: the height and the speed of a stone, for any time of its flight. Samples are numbers in
// memory, the loss is the mean squared error, and predictions are drawn beside what is right.

#include "standard_output.hpp"

#include <trireme/trireme.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace trireme;

using curve = network<input<1>, linear<32>, hyperbolic_tangent, linear<32>, hyperbolic_tangent, linear<2>>;
using curve_trainer = trainer<curve, mean_squared_error, adam, on<mesh<host, dp<2>>>>;

/// Seconds since it was thrown upwards at 10 m/s -> metres, in tens, and metres per second, in tens.
void fly(float seconds, std::vector<float>& times, std::vector<float>& state) {
    times.push_back(seconds);
    state.push_back((10 * seconds - 4.9f * seconds * seconds) / 10);
    state.push_back((10 - 9.8f * seconds) / 10);
}

int main() {
    watch_standard_output();
    std::vector<float> times, state, later, later_state;
    for (int i = 0; i < 400; ++i) fly(float(i) / 200, times, state);
    for (int i = 0; i < 8; ++i) fly(0.003f + float(i) / 4, later, later_state); // other times than those it learns from
    samples_in_memory const learnt(times, make_shape(1), state, make_shape(2));
    samples_in_memory const tested(later, make_shape(1), later_state, make_shape(2));

    curve_trainer t{{.learning_rate = 0.01f, .rate = cosine_rate{.steps = 4'000}, .batch = 40, .seed = 1}};
    auto const last = t.train(training_set{learnt, tested}, {.epochs = 400, .test_every = 100});
    std::printf("mean squared error: %.1e, of the test %.1e\n\n   s     height  predicted    speed  predicted\n",
                last.loss, last.test.loss);
    auto const said = t.predict(samples_in_memory(later, make_shape(1))); // no targets
    for (std::size_t i = 0; i < said.size(); ++i)
        std::printf("%4.2f  %7.2f m  %7.2f m  %5.1f m/s  %5.1f m/s\n", double(later[i]),
                    10 * double(later_state[2 * i]), 10 * double(said[i][0]), 10 * double(later_state[2 * i + 1]),
                    10 * double(said[i][1]));
    return last.test.loss < 1e-4 ? 0 : 1;
}
