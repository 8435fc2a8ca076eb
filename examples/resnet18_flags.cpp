// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "resnet18_flags.hpp"
#include "flag_values.hpp"
#include "stage_flags.hpp"

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>

#include <limits>

std::optional<resnet18_flags> resnet18_flags::parse(int argc, char const* const* argv) {
    resnet18_flags f;
    CLI::App app("Trains ResNet-18 on Fashion-MNIST.", "resnet18");
    app.add_option("--epochs", f.epochs, "how often each training image is seen; 0: only test")
        ->check(whole_number(0, 1000000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--batch", f.batch, "images per step, over all devices")
        ->check(whole_number<std::size_t>(1, 60000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--images", f.images, "train on the first N images only")
        ->check(whole_number<std::size_t>(1, 60000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option(
           "--devices", f.devices,
           "replicas of the network, which share the batch [default: one per processor, at most 2; with --stages 1]")
        ->check(whole_number(1, trireme::max_devices))
        ->type_name("N");
    auto const added = add_stage_flags(app, f,
                                       ", from each of which batch norm takes its own statistics [default: 1, "
                                       "4 per device of a pipeline, or its logical shards]");
    auto* const synchronised =
        app.add_flag("--synchronised", f.synchronised,
                     "batch norm takes its statistics from the whole batch; not with --stages or --micro-batches, "
                     "which never have the batch together");
    add_reproducible_flag(app, f)->excludes(synchronised);
    app.add_option("--learning-rate", f.learning_rate, "step size of plain SGD")
        ->check(number(1e-6, 1e6, "number"))
        ->type_name("RATE")
        ->default_str("0.1"); // 0.1f has nine digits
    app.add_option("--seed", f.seed, "of the initial weights and the order of the images")
        ->check(whole_number<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
        ->type_name("N")
        ->capture_default_str();
    add_deadline_flag(app, f);
    app.add_option("--data", f.data, "folder of the four Fashion-MNIST files [default: Debian's package]")
        ->check(some_name())
        ->type_name("DIR");
    app.add_option("--load", f.load, "begin with the weights of this safetensors file")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--save", f.save, "write the weights to this safetensors file after every epoch")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--log", f.log, "write one JSON object per epoch to this file")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--trace", f.trace, "write the tasks of all devices to this file, for ui.perfetto.dev")
        ->check(some_name())
        ->type_name("FILE");
    if (!parse_flags(app, argc, argv)) return {};
    choose_schedule(app, f);
    if (f.synchronised && (f.stages != 1 || f.micro_batches != 0))
        throw trireme::usage_error(
            std::string("--synchronised with ") + (f.stages != 1 ? "--stages" : "--micro-batches") +
            ": statistics of the whole batch need all its images at once, and these go one micro-batch after the "
            "other; leave out --synchronised, and batch norm takes its statistics per micro-batch");
    if (added.stages->count() != 0 && f.devices == 0) f.devices = 1;
    return f;
}
