// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// LeNet on Fashion-MNIST, for any kind of device: the program. lenet.cpp is its main function, and makes it for threads
// of the host; lenet_mpi.cpp makes it for processes that MPI joins, lenet_gpu.cu for GPUs.

#include "epoch_log.hpp"
#include "lenet_flags.hpp"
#include "stages.hpp"
#include "strategies.hpp"
#include "trace_file.hpp"

#include <trireme/group/launch.hpp>
#include <trireme/trainer/progress_bar.hpp>
#include <trireme/trireme.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

using namespace trireme;

// ---- The composition: one type for every layout that the flags can ask for ------------------------------------------

// clang-format off
using lenet = network<input<1, 28, 28>,
    conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>,
    conv2d<16, kernel<5>>,            sigmoid, avg_pool2d<2>,
    flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;
// clang-format on

// What the flags choose is left open here, and checked when a trainer is constructed instead of by the compiler. It
// costs no speed: a fixed layout runs the very same executor.
template<class Mesh, class... Transport>
using lenet_trainer = trainer<lenet, cross_entropy, sgd, on<Mesh>, reduce_by<chosen_at_run_time>,
                              reproducible<fixed_tree, dynamic>, Transport...>;

template<class Trainer>
typename Trainer::options options_for(lenet_flags const& flags) {
    return {.learning_rate = flags.learning_rate,
            .batch = flags.batch,
            .seed = flags.seed,
            .logical_shards = flags.reproducible};
}

template<class Trainer>
auto run_options_for(lenet_flags const& flags, int devices) {
    typename Trainer::run_options r{.devices = devices,
                                    .strategy = strategy_of(flags.strategy),
                                    .deadline = std::chrono::duration<double>(flags.deadline),
                                    .trace = !flags.trace.empty()};
    if constexpr (Trainer::policies::has_stages) {
        r.stages = flags.stages;
        r.micro_batches = flags.micro_batches;
        r.schedule = flags.turns;
    }
    if constexpr (accelerator<typename Trainer::policies::device>) r.share_devices = flags.share_devices;
    if constexpr (requires { choose_processes(r, flags); }) choose_processes(r, flags);
    return r;
}

template<class Trainer>
auto layout_for(lenet_flags const& flags, int devices) {
    return Trainer::layout_of(options_for<Trainer>(flags), run_options_for<Trainer>(flags, devices));
}

// ---- What is known before the run -----------------------------------------------------------------------------------

template<class Trainer>
void print_setting(lenet_flags const& flags, std::vector<int> const& runs) {
    using Device = typename Trainer::policies::device;
    using kernel_policy = typename Trainer::policies::kernel_policy;
    if constexpr (accelerator<Device>) {
        for (int d = 0; d < Device::count(); ++d)
            std::printf("%s %-2d            %s\n", Device::name, d, Device::describe(d).c_str());
        std::printf("kernels           %s\n", kernel_policy::name);
    } else {
        std::printf("instruction set   %s\n", instruction_set);
        std::printf("processors        %d\n", host::processors());
        std::printf("kernels           %s, %zu images at a time\n", kernel_policy::name,
                    kernel_policy::template lanes<float>);
    }
    std::printf("devices           %d", runs.front());
    if (runs.size() > 1) std::printf(", then %d", runs.back());
    std::printf(" (%s%s)\n", Device::name,
                accelerator<Device>                                                       ? ""
                : std::is_same_v<typename Trainer::policies::transport, thread_transport> ? ": threads of this process"
                                                                                          : ": processes");
    std::printf("gradients added   %s", flags.strategy.c_str());
    if (flags.reproducible != 0) std::printf(", %zu logical shards in a fixed tree", flags.reproducible);
    if (auto const l = layout_for<Trainer>(flags, runs.back()); l.stages > 1) {
        std::printf("\npipeline          %s; %zu micro-batches, %s: a device waits %.1f%% of a step",
                    stages_text(l).c_str(), l.shards_of_device(l.rank_with_most_shards()).size(),
                    flags.schedule.c_str(), 100 * Trainer::plan(flags.batch, l).bubble());
    }
    std::printf("\n\n%s\n", network_table<lenet>().c_str());
}

/// One column per run.
template<class Trainer>
void print_plan(lenet_flags const& flags, std::vector<int> const& runs) {
    std::vector<training_plan> plans;
    std::vector<owned_bytes> fullest; // memory of the device that needs most; the others need less gradient memory
    for (auto const devices : runs) {
        plans.push_back(Trainer::plan(flags.batch, layout_for<Trainer>(flags, devices)));
        fullest.push_back(plans.back().memory());
    }
    auto const row = [&](char const* what, auto value) {
        std::printf("%-36s", what);
        for (std::size_t i = 0; i < plans.size(); ++i)
            std::printf(" %14s", with_commas(value(plans[i], fullest[i])).c_str());
        std::printf("\n");
    };
    std::printf("the plan, for batches of %zu; memory is bytes of the fullest device\n", flags.batch);
    row("devices", [](auto& p, auto&) { return static_cast<bytes_t>(p.devices()); });
    row("parameters", [](auto& p, auto&) { return p.parameters; });
    row("memory: parameters", [](auto&, auto& m) { return m.parameters; });
    row("memory: gradients", [](auto&, auto& m) { return m.gradients; });
    row("memory: optimizer state", [](auto&, auto& m) { return m.optimizer_state; });
    row("memory: activations", [](auto&, auto& m) { return m.activations; });
    row("memory: counters and tables", [](auto&, auto& m) { return m.control; });
    if constexpr (accelerator<typename Trainer::policies::device>) {
        row("memory: samples on their way", [](auto&, auto& m) { return m.staging; });
        row("memory: workspace, at most", [](auto&, auto& m) { return m.workspace; });
    }
    row("memory: total", [](auto&, auto& m) { return m.total(); });
    row("bytes between devices per step", [](auto& p, auto&) { return p.wire_bytes_per_step(); });
    row("FLOPs per step", [](auto& p, auto&) { return p.flops_per_step(); });
}

// ---- The run --------------------------------------------------------------------------------------------------------

/// Trains from the first weights on; returns samples per second, tests excluded.
template<class Trainer>
double train(lenet_flags const& flags, int devices, dataset const& data, log_file& log, result_file* trace) {
    if (flags.stages == 1)
        std::printf("\n%d device%s\n", devices, devices == 1 ? "" : "s");
    else
        std::printf("\n%d x %d devices\n", devices, flags.stages);
    Trainer trainer(options_for<Trainer>(flags), run_options_for<Trainer>(flags, devices));
    for (auto const& note : trainer.notes()) std::printf("note: %s\n", note.c_str());
    progress_bar const progress({.epochs = false}); // their lines are those below
    double seconds = 0, for_data = 0, for_gradients = 0;
    traced_into(trace, trainer, [&] {
        for (auto const& epoch : trainer.fit(data, {.epochs = flags.epochs}, progress)) {
            std::printf("epoch %d  loss %.4f  test accuracy %.4f  %.0f samples/s\n", epoch.epoch, epoch.loss,
                        epoch.test.accuracy, epoch.samples_per_second);
            std::fflush(stdout);
            log.write(flags, flags.strategy, trainer, epoch);
            seconds += epoch.seconds;
            for_data += epoch.data_share * epoch.seconds;
            for_gradients += epoch.sync_share * epoch.seconds;
        }
    });
    std::printf("waiting for data: %.2f%% of the step", 100 * for_data / seconds);
    if (!std::isnan(for_gradients))
        std::printf("; %s: %.1f%%", flags.stages == 1 ? "adding gradients" : "waiting for other devices",
                    100 * for_gradients / seconds);
    std::printf("\n");
    return static_cast<double>(data.train.size()) * flags.epochs / seconds;
}

template<class Trainer>
int run_lenet(lenet_flags const& flags) {
    using Device = typename Trainer::policies::device;
    std::vector<int> runs{1, 2}; // replicas
    if constexpr (accelerator<Device>)
        if (Device::count() < 2 && !flags.share_devices) runs = {1};
    if (flags.devices != 0) runs = {flags.devices};
    for (auto const devices : runs)
        check_options<Trainer>(options_for<Trainer>(flags), run_options_for<Trainer>(flags, devices), flags.schedule);
    result_file trace("--trace", flags.trace);
    auto const data = fashion_mnist::load(flags.data);
    if (flags.batch > data.train.size())
        throw usage_error("--batch " + std::to_string(flags.batch) + ": there are only " +
                          std::to_string(data.train.size()) + " training images; use a batch of at most so many");
    log_file log(flags.log);

    print_setting<Trainer>(flags, runs);
    print_plan<Trainer>(flags, runs);
    std::vector<double> speed;
    for (auto const devices : runs)
        speed.push_back(train<Trainer>(flags, devices, data, log, devices == runs.back() ? &trace : nullptr));
    if (runs.size() > 1)
        std::printf("\n%d devices are %.2f times as fast as %d: %.0f against %.0f samples/s\n", runs.back(),
                    speed.back() / speed.front(), runs.front(), speed.back(), speed.front());
    return 0;
}
