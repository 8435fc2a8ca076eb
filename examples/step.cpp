// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// One training step of a network in stages, as a value and as it was.
//
// A device does in a step what its program says: a list of tasks that is proved before it runs. This program trains ten
// layers on Fashion-MNIST for some steps and shows one of them, the median: the table of the first replica's tasks, the
// times that the program has if all devices are as fast as one alone, and the times that were measured.
//
//     sh examples/run.sh step --stages 3 --micro-batches 8 --svg step.svg
//
// Exit codes: 0; 2 for a wrong flag, missing data or a layout that cannot work; 3 for a failure while it runs.

#include "stages.hpp"
#include "step_flags.hpp"
#include "trace_file.hpp"

#include <trireme/schedule/pipeline/draw.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace trireme;

namespace {

using ten_layers = network<input<1, 28, 28>, flatten, linear<256>, repeat<8, relu, linear<256>>, relu, linear<10>>;
using staged = trainer<ten_layers, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>>;

/// Seconds per FLOP of one device that trains alone.
double seconds_per_flop(labelled_images const& images) {
    trainer<ten_layers, cross_entropy, sgd> alone({.batch = images.size()});
    double best = 1e9;
    for (int k = 0; k < 6; ++k) {
        auto const begin = std::chrono::steady_clock::now();
        alone.step(images);
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best / static_cast<double>(alone.plan().flops_per_step());
}

/// The times of all tasks, if a device needs so long for a FLOP, and moves take none.
std::vector<timed_task> predicted(staged const& t, std::size_t batch, double per_flop) {
    auto const& l = t.plan().layout;
    std::vector<timed_task> all;
    for (int rank = 0; rank < t.devices(); rank += l.stages) {
        auto const samples = static_cast<double>(batch) / static_cast<double>(l.shards());
        auto const& program = t.program(rank);
        play_step(
            program,
            [&](task_kind kind, int stage) {
                auto const rows = l.stages == 1 ? range{0, ten_layers::depth} : l.cut(l.stage_count(), stage);
                flops_t there = 0, inputs = 0, weights = 0;
                for (auto r = rows.begin; r < rows.end; ++r) {
                    auto const& d = ten_layers::row(r).description;
                    there += d.forward_flops;
                    if (r >= ten_layers::first_trainable) weights += d.backward_weights_flops;
                    if (r > ten_layers::first_trainable) inputs += d.backward_input_flops;
                }
                auto const flops = (goes_forward(kind) ? there : 0) +
                                   (gives_input(kind) || kind == task_kind::train ? inputs : 0) +
                                   (gives_weights(kind) ? weights : 0);
                return samples * static_cast<double>(flops) * per_flop;
            },
            [&](int role, std::size_t task, double begin, double end) {
                auto const& what = program.list(role)[task];
                auto const micro_batch = what.kind == task_kind::move ? what.moves[0].micro_batch : what.micro_batch;
                all.push_back({rank + role, 1, what.kind, program.stage(role, what.chunk), micro_batch, begin, end});
            });
    }
    return all;
}

double span_of(std::vector<timed_task> const& tasks) {
    double begin = tasks.front().begin, end = 0;
    for (auto const& t : tasks) begin = std::min(begin, t.begin), end = std::max(end, t.end);
    return end - begin;
}
/// The part of a step in which a rank computes.
double busy(std::vector<timed_task> const& tasks, int rank) {
    double sum = 0;
    for (auto const& t : tasks)
        if (t.rank == rank && t.kind != task_kind::move && t.kind != task_kind::collective) sum += t.end - t.begin;
    return sum / span_of(tasks);
}

int run(step_flags const& flags) {
    result_file svg("--svg", flags.svg), trace("--trace", flags.trace);
    staged::options const training{.batch = flags.batch};
    staged::run_options where{.devices = flags.devices, .stages = flags.stages, .micro_batches = flags.micro_batches};
    where.schedule = flags.turns;
    where.trace = true;
    check_options<staged>(training, where, flags.schedule);
    auto const images = fashion_mnist::load(flags.data).train.take(0, flags.batch);

    staged t(training, where);
    int const steps = 15;
    traced_into(&trace, t, [&] {
        for (int k = 0; k < steps; ++k) t.step(images);
    });
    std::vector<std::vector<timed_task>> measured(static_cast<std::size_t>(steps));
    for (auto const& task : t.traced()) measured[task.step - 1].push_back(task);
    auto const expected = predicted(t, flags.batch, seconds_per_flop(images));
    measured.erase(measured.begin(), measured.begin() + 3); // the first ones find cold caches
    std::erase_if(measured, [&](auto const& tasks) { return tasks.size() < expected.size(); });
    if (measured.empty())
        throw usage_error("--micro-batches " + std::to_string(flags.micro_batches) + ": no step has left all of its " +
                          std::to_string(expected.size()) + " tasks in the trace; use fewer");
    std::ranges::sort(measured, {}, span_of);
    auto const& median = measured[measured.size() / 2];

    std::printf("%s\n", table_of(t.program(0)).c_str());
    std::printf("%d x %d devices, %zu micro-batches of each replica, %s\n\n", flags.devices, flags.stages,
                flags.micro_batches, flags.schedule.c_str());
    std::printf("%-28s %12s %12s\n", "", "predicted", "measured");
    std::printf("%-28s %9.3f ms %9.3f ms\n", "step", 1e3 * span_of(expected), 1e3 * span_of(median));
    for (int rank = 0; rank < t.devices(); ++rank)
        std::printf("rank %-3d computes             %10.1f %% %10.1f %%\n", rank, 100 * busy(expected, rank),
                    100 * busy(median, rank));
    if (t.devices() > host::processors())
        std::printf("\n%d devices share %d processors: what was measured is longer than it need be.\n", t.devices(),
                    host::processors());
    if (svg.wanted()) {
        drawn_tasks const parts[] = {{"predicted", expected}, {"measured", median}};
        svg.write(step_svg("one step: " + std::to_string(flags.devices) + " x " + std::to_string(flags.stages) +
                               " devices, " + std::to_string(flags.micro_batches) + " micro-batches, " + flags.schedule,
                           parts));
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        auto const flags = step_flags::parse(argc, argv);
        return flags ? run(*flags) : 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "step: %s\n", e.what());
        return exit_code::of(e);
    }
}
