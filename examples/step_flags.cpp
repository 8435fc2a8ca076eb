// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "step_flags.hpp"
#include "flag_values.hpp"
#include "stage_flags.hpp"

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>

std::optional<step_flags> step_flags::parse(int argc, char const* const* argv) {
    step_flags f;
    CLI::App app("Trains a network of ten layers in stages, and shows one step: predicted, and measured.", "step");
    app.add_option("--devices", f.devices, "replicas of the network")
        ->check(whole_number(1, trireme::max_devices))
        ->type_name("N")
        ->capture_default_str();
    add_stage_flags(app, f, "").micro_batches->capture_default_str();
    app.add_option("--batch", f.batch, "images per step, over all devices")
        ->check(whole_number<std::size_t>(1, 60000))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--data", f.data, "folder of the four Fashion-MNIST files [default: Debian's package]")
        ->check(some_name())
        ->type_name("DIR");
    app.add_option("--svg", f.svg, "draw the step into this file")->check(some_name())->type_name("FILE");
    app.add_option("--trace", f.trace, "write all tasks to this file, for ui.perfetto.dev")
        ->check(some_name())
        ->type_name("FILE");
    if (!parse_flags(app, argc, argv)) return {};
    choose_schedule(app, f);
    return f;
}
