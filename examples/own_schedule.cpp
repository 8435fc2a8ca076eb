// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pipeline schedule of one's own. The compiler proves it and prices it beside one_f_one_b; a small network is trained
// with it in two stages, and ends with the weights of one device, bit for bit.

#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace trireme;

/// One forward, one backward, but twice as far ahead: a role has something to do while a transfer is on its way.
struct eager {
    static constexpr char const* name = "eager";
    static constexpr int chunks = 1; // stages of each role

    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int n = 0, back = 0, ahead = std::min(2 * (roles - 1 - role), micro_batches);
        for (int m = 0; m < micro_batches; ++m) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(m)};
            if (m >= ahead) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(back++)};
        }
        while (back < micro_batches) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(back++)};
        return n;
    }
};

/// Another order looks as good: all forward, then back from the last micro-batch to the first, whose values are the
/// newest.
struct last_first {
    static constexpr char const* name = "last_first";
    static constexpr int chunks = 1;

    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int const n = gpipe::write(1, micro_batches, 0, out);
        std::reverse(out + micro_batches, out + n);
        return n;
    }
};

// Each of these is a proof: nobody waits for ever, every gradient is added once, no value is overwritten too early.
static_assert(verify(static_step<eager, 2, 8>::program).ok());
static_assert(verify(static_step<eager, 4, 8>::program).ok());
static_assert(verify(static_step<last_first, 4, 8>::program).fault == program_fault::sum_order);

using curve = network<input<1>, linear<32>, hyperbolic_tangent, linear<32>, hyperbolic_tangent, linear<1>>;
template<class... Policies>
using curve_trainer = trainer<curve, mean_squared_error, adam, reproducible<fixed_tree, 8>, Policies...>;
template<class Schedule>
using in_stages = curve_trainer<on<mesh<host, pp<2>>>, pipeline<Schedule, 8>>;

// Gradients are added in one order where bits are promised. The next line without its slashes does not compile:
// constexpr auto never = in_stages<last_first>::plan(batch{64});
// TRI0143: this role adds gradients in another order than that of the micro-batches, so that the bits are not those of
// one device: go back from 0 upwards, or leave out reproducible ... last_first, 8 ... on_role<1> ... at_task<16> ...
// of_micro_batch<7>

/// The constants of a step of 4 roles and 8 micro-batches, in units of a forward task. A transfer takes half of one.
template<class Schedule>
void print_price() {
    constexpr auto& step = static_step<Schedule, 4, 8>::program;
    constexpr stage_times times{.transfer = 0.5};
    constexpr double span = step_span(step, times), bubble = bubble_fraction(step, times);
    std::printf("%-12s %5.1f %8.1f %% %6d\n", Schedule::name, span, 100 * bubble, int{step.frames[0]});
}

int main() {
    std::printf("schedule      span     bubble frames\n");
    print_price<one_f_one_b>();
    print_price<eager>();

    std::vector<float> x, y;
    for (int i = 0; i < 256; ++i) x.push_back(float(i) / 64), y.push_back(std::sin(x.back()));
    samples_in_memory const waves(x, make_shape(1), y, make_shape(1));
    in_stages<eager> two{{.learning_rate = 0.01f, .batch = 64, .seed = 1}};
    curve_trainer<> one{{.learning_rate = 0.01f, .batch = 64, .seed = 1}};
    auto const last = two.train(training_set{waves, waves}, {.epochs = 50, .test_every = 50});
    one.train(training_set{waves, waves}, {.epochs = 50, .test_every = 50});
    bool const same = two.gather_parameters() == one.gather_parameters();
    std::printf("\nloss after 50 epochs in 2 stages: %.1e; the weights are %s\n", last.loss,
                same ? "those of one device, bit for bit" : "not those of one device");
    return same ? 0 : 1;
}
