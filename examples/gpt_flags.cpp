// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "gpt_flags.hpp"
#include "flag_values.hpp"
#include "stage_flags.hpp"

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>

#include <limits>

std::optional<gpt_flags> gpt_flags::parse(int argc, char const* const* argv) {
    gpt_flags f;
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    CLI::App app("Trains a small transformer on the bytes of a text, and lets it write.", "gpt");
    app.add_option("--text", f.text, "the file that is learnt [default: the Bible of Debian's package bible-kjv]")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--steps", f.steps,
                   "steps of the training, those before --resume included [default: as many as there is time for]")
        ->check(whole_number<std::uint64_t>(1, most))
        ->type_name("N");
    auto* const minutes =
        app.add_option("--minutes", f.minutes,
                       "time of the training; of --steps and --minutes the first ends it [default: 2, none with "
                       "--steps]")
            ->check(number(0.001, 1e6, "number"))
            ->type_name("M");
    app.add_option("--decay-steps", f.decay_steps,
                   "steps in which the learning rate falls to a tenth, as a cosine does")
        ->check(whole_number<std::uint64_t>(200, most))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--batch", f.batch, "windows of the text per step, over all devices")
        ->check(whole_number<std::size_t>(1, 65536))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--devices", f.devices, "replicas of the network")
        ->check(whole_number(1, trireme::max_devices))
        ->type_name("N")
        ->capture_default_str();
    add_stage_flags(app, f, " [default: 4 per device of a pipeline, or its logical shards]");
    add_strategy_flag(app, f);
    add_reproducible_flag(app, f);
    app.add_option("--learning-rate", f.learning_rate, "step size of AdamW, after 100 steps that begin with less")
        ->check(number(1e-6, 1e2, "number"))
        ->type_name("RATE")
        ->default_str("0.001"); // 1e-3f has more digits
    app.add_option("--seed", f.seed, "of the initial weights, the order of the windows, and what is written")
        ->check(whole_number<std::uint64_t>(0, most))
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--characters", f.characters, "how many it writes at the end")
        ->check(whole_number<std::size_t>(0, 100000))
        ->type_name("N")
        ->capture_default_str();
    add_deadline_flag(app, f);
    auto* const save = app.add_option("--save", f.save,
                                      "save the training in this folder when the run ends, by SIGINT or SIGTERM, too")
                           ->check(some_name())
                           ->type_name("FOLDER");
    app.add_option("--every", f.every, "save it also after every so many steps")
        ->check(whole_number<std::uint64_t>(1, most))
        ->type_name("N")
        ->needs(save);
    app.add_option("--resume", f.resume, "go on with the training in this folder, on any devices and stages")
        ->check(some_name())
        ->type_name("FOLDER");
    app.add_option("--log", f.log, "write one JSON object per step to this file; with --resume behind those in it")
        ->check(some_name())
        ->type_name("FILE");
    app.add_option("--trace", f.trace, "write the tasks of the last steps to this file, for ui.perfetto.dev")
        ->check(some_name())
        ->type_name("FILE");
    if (!parse_flags(app, argc, argv)) return {};
    choose_schedule(app, f);
    if (f.steps != 0 && minutes->count() == 0) f.minutes = std::numeric_limits<double>::infinity();
    f.for_each_kept([&](std::string const& name, auto const&) {
        if (app["--" + name]->count() != 0) f.given.insert(name);
    });
    return f;
}
