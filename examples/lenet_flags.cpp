// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lenet_flags.hpp"
#include "flag_values.hpp"
#include "stage_flags.hpp"

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>

#include <limits>

std::optional<lenet_flags> lenet_flags::parse(int argc, char const* const* argv) {
    lenet_flags f;
    CLI::App app("Trains LeNet on Fashion-MNIST on 1 device, then on 2, and prints the speed-up.", "lenet");
    app.add_option("--epochs", f.epochs, "how often each training image is seen")
        ->check(whole_number(1, 1000000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--batch", f.batch, "images per step, over all devices")
        ->check(whole_number<std::size_t>(1, std::numeric_limits<std::uint32_t>::max()))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--device", f.device, "what computes")
        ->check(CLI::IsMember({"host", "gpu"}))
        ->type_name("KIND")
        ->capture_default_str();
    app.add_flag("--share-devices", f.share_devices, "let devices of the run share a GPU, if there are too few");
    app.add_option("--transport", f.transport, "what joins devices of the host: threads of one process, or MPI")
        ->check(CLI::IsMember({"threads", "mpi"}))
        ->type_name("WAY")
        ->capture_default_str();
    app.add_option("--windows", f.windows, "with mpi: whether processes of a machine share memory")
        ->check(CLI::IsMember({"automatic", "off", "required"}))
        ->type_name("WHEN")
        ->capture_default_str();
    app.add_option("--ranks-per-machine", f.ranks_per_machine,
                   "with mpi: as if a machine had so many [default: as it is]")
        ->check(whole_number(1, 100000))
        ->type_name("N");
    add_deadline_flag(app, f);
    app.add_option(
           "--devices", f.devices,
           "replicas of the network: train on so many only [default: 1, then 2; with --stages 1; with mpi as many as "
           "there are processes for]")
        ->check(whole_number(1, trireme::max_devices))
        ->type_name("N");
    auto const added = add_stage_flags(app, f, " [default: 4 per device of a pipeline, or its logical shards]");
    add_strategy_flag(app, f);
    add_reproducible_flag(app, f);
    app.add_option("--learning-rate", f.learning_rate, "step size of plain SGD")
        ->check(number(1e-6, 1e6, "number"))
        ->type_name("RATE")
        ->default_str("0.9"); // 0.9f has nine digits
    app.add_option("--seed", f.seed, "of the initial weights and the order of the images")
        ->check(whole_number<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--data", f.data, "folder of the four Fashion-MNIST files [default: Debian's package]")
        ->check(some_name())
        ->type_name("DIR");
    app.add_option("--log", f.log, "write one JSON object per epoch and run to this file")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--trace", f.trace, "write the tasks of the last run's devices to this file, for ui.perfetto.dev")
        ->check(some_name())
        ->type_name("FILE");
    if (!parse_flags(app, argc, argv)) return {};
    choose_schedule(app, f);
    refuse_without(app, "--share-devices", f.device == "gpu", "--device gpu");
    for (auto const* flag : {"--windows", "--ranks-per-machine"})
        refuse_without(app, flag, f.transport == "mpi", "--transport mpi");
    if (added.stages->count() != 0 && f.devices == 0 && f.transport != "mpi") f.devices = 1; // one run
    return f;
}
