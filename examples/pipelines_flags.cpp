// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pipelines_flags.hpp"
#include "flag_values.hpp"

std::optional<pipelines_flags> pipelines_flags::parse(int argc, char const* const* argv) {
    pipelines_flags f;
    CLI::App app("Draws and prices all pipeline schedules that come with Trireme.", "pipelines");
    auto* const stages =
        app.add_option("--stages", f.stages, "devices of the pipeline, which may have several stages each")
            ->check(whole_number(1, f.most_stages))
            ->type_name("P")
            ->capture_default_str();
    auto* const micro_batches = app.add_option("--micro-batches", f.micro_batches, "of a step")
                                    ->check(whole_number(1, f.most_micro_batches))
                                    ->type_name("M")
                                    ->capture_default_str();
    app.add_option("--svg", f.svg,
                   "write a picture of each schedule, and index.md, into this folder, which is made if missing")
        ->check(some_name())
        ->type_name("DIR");
    app.add_option(
           "--csv", f.csv,
           "a schedule of yours, a file as PyTorch writes it: judged, priced and drawn before the others, which "
           "get its numbers of stages and micro-batches")
        ->check(some_name())
        ->type_name("FILE")
        ->excludes(stages)
        ->excludes(micro_batches);
    app.add_option("--write-csv", f.write_csv,
                   "write each schedule as a file for PyTorch into this folder, which is made if missing")
        ->check(some_name())
        ->type_name("DIR");
    if (!parse_flags(app, argc, argv)) return {};
    return f;
}
