// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// ResNet-18 on Fashion-MNIST: a network whose arithmetic is large beside what its devices have to tell each other, so
// that a second device pays under any framework; the lesson is in docs/guide.md, "When does a second device pay?".
//
// Its batch norm takes its statistics per device (per logical shard with --reproducible V), as is usual in
// data-parallel training, or from the whole batch with --synchronised. --save and --load exchange weights with PyTorch,
// by safetensors files whose names are those of the book's module.
//
// With --stages P each replica is a pipeline of P devices, which take turns by --schedule. Statistics are those of a
// micro-batch then: more micro-batches mean fewer images in each, and --batch should grow with them. With the same
// --reproducible V they are those of the same images, and the bits the same, for any number of replicas and stages.
//
// Exit codes: 0; 2 for a wrong flag, missing data or a layout that cannot work; 3 for a failure while it runs.

#include "resnet18.hpp"
#include "epoch_log.hpp"
#include "resnet18_flags.hpp"
#include "stages.hpp"
#include "trace_file.hpp"

#include <trireme/core/exit_code.hpp>
#include <trireme/trainer/progress_bar.hpp>
#include <trireme/weights.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

using namespace trireme;

// Devices, stages and logical shards are left open here, and checked when the trainer is constructed. Statistics of the
// whole batch can be had neither in stages nor with the same bits, so that trainer has no stages and no logical shards.
using per_shard_trainer = trainer<resnet18<batch_norm<per_shard>>, cross_entropy, sgd,
                                  on<mesh<host, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, dynamic>>;
using synchronised_trainer =
    data_parallel_trainer<resnet18<batch_norm<synchronised>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>>;

/// Throws usage_error if --save names a file that cannot be written: before the first epoch, which takes minutes.
void check_save(std::string const& path) {
    auto const folder = std::filesystem::path(path).parent_path();
    std::error_code none;
    bool const is_other = std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none);
    if (!is_other && ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return;
    throw usage_error("--save " + path + ": cannot be written (" +
                      (is_other ? "a folder, pipe or device is there" : std::strerror(errno)) +
                      "); name a file in a folder that exists and is yours");
}

template<class Trainer>
int train(resnet18_flags const& flags) {
    typename Trainer::options options{.learning_rate = flags.learning_rate, .batch = flags.batch, .seed = flags.seed};
    typename Trainer::run_options where{.devices =
                                            flags.devices != 0 ? flags.devices : std::clamp(host::processors(), 1, 2),
                                        .deadline = std::chrono::duration<double>(flags.deadline),
                                        .trace = !flags.trace.empty()};
    if constexpr (Trainer::policies::shards != 0) options.logical_shards = flags.reproducible;
    if constexpr (Trainer::policies::has_stages) {
        where.stages = flags.stages;
        where.micro_batches = flags.micro_batches;
        where.schedule = flags.turns;
    }
    check_options<Trainer>(options, where, flags.schedule);
    if (!flags.save.empty()) check_save(flags.save);
    if (flags.epochs == 0 && (flags.load.empty() || !flags.save.empty()))
        throw usage_error("--epochs 0 tests the weights of --load FILE, and makes none that --save could write");
    auto const layout = Trainer::layout_of(options, where);
    result_file trace("--trace", flags.trace);

    auto data = fashion_mnist::load(flags.data);
    data.train = data.train.take(0, std::min(flags.images, data.train.size()));
    if (flags.batch > data.train.size())
        throw usage_error("--batch " + std::to_string(flags.batch) + ": there are only " +
                          std::to_string(data.train.size()) + " training images; use a batch of at most so many");
    log_file log(flags.log);

    auto const plan = Trainer::plan(options.batch, layout);
    std::printf("%s\n", network_table<typename Trainer::network_type>().c_str());
    std::printf("instruction set %s; %d device%s, batches of %zu\n", instruction_set, plan.devices(),
                plan.devices() == 1 ? "" : "s", flags.batch);
    if (layout.stages > 1)
        std::printf("pipeline of %s; %zu micro-batches, %s: a device waits %.1f%% of a step\n",
                    stages_text(layout).c_str(), layout.shards_of_device(layout.rank_with_most_shards()).size(),
                    flags.schedule.c_str(), 100 * plan.bubble());
    std::printf("per device %s bytes; per step %s bytes between devices, %.1f GFLOP\n",
                with_commas(plan.bytes_per_device()).c_str(), with_commas(plan.wire_bytes_per_step()).c_str(),
                1e-9 * static_cast<double>(plan.flops_per_step()));

    Trainer trainer(options, where);
    if (!flags.load.empty()) {
        load_weights(trainer, flags.load);
        auto const tested = trainer.evaluate(data.test);
        std::printf("%s: loss %.4f, test accuracy %.4f\n", flags.load.c_str(), tested.loss, tested.accuracy);
    }
    progress_bar const progress({.epochs = false}); // their lines are those below
    traced_into(&trace, trainer, [&] {
        for (auto const& epoch : trainer.fit(data, {.epochs = flags.epochs}, progress)) {
            std::printf("epoch %d  loss %.4f  test accuracy %.4f  %.1f images/s  %.1f%% %s\n", epoch.epoch, epoch.loss,
                        epoch.test.accuracy, epoch.samples_per_second, 100 * epoch.sync_share,
                        layout.stages == 1 ? "adding gradients" : "waiting for other devices");
            std::fflush(stdout);
            log.write(flags, layout.strategy.name, trainer, epoch);
            if (!flags.save.empty()) saving([&] { save_weights(trainer, flags.save); });
        }
    });
    return 0;
}

int main(int argc, char** argv) {
    try {
        auto const flags = resnet18_flags::parse(argc, argv);
        if (!flags) return 0;
        return flags->synchronised ? train<synchronised_trainer>(*flags) : train<per_shard_trainer>(*flags);
    } catch (std::exception const& e) {
        auto const code = exit_code::of(e);
        std::fprintf(stderr, "%sresnet18: %s\n", code == exit_code::failure ? "\n" : "", e.what()); // behind a bar
        return code;
    }
}
