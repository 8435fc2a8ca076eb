// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "flag_values.hpp"

#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/pipeline/csv.hpp>
#include <trireme/schedule/pipeline/named.hpp>

#include <exception>
#include <memory>
#include <string>

// The flags of pipelines, which lenet, resnet18 and step share.

/// The schedule of a name, or that of a file, whose orders `kept` keeps.
inline trireme::schedule_choice schedule_of(std::string const& text,
                                            std::shared_ptr<trireme::schedule_orders const>& kept) {
    if (!text.ends_with(".csv")) return trireme::schedule_named(text);
    kept = std::make_shared<trireme::schedule_orders const>(trireme::read_schedule_csv(text));
    return *kept;
}

inline CLI::Validator name_of_schedule() {
    auto const check = [](std::string const& text) -> std::string {
        try {
            std::shared_ptr<trireme::schedule_orders const> kept;
            schedule_of(text, kept);
            return {};
        } catch (std::exception const& e) { // also of what is in a file
            return e.what();
        }
    };
    return CLI::Validator(check, "");
}

struct stage_options {
    CLI::Option* stages;
    CLI::Option* micro_batches;
};

/// Adds --stages, --micro-batches and --schedule; `by_default` says how many micro-batches there are without the flag.
template<class Flags>
stage_options add_stage_flags(CLI::App& app, Flags& f, std::string const& by_default) {
    stage_options added{};
    added.stages = app.add_option("--stages", f.stages,
                                  "devices of each replica, which share its network's layers: a pipeline; a run has "
                                  "as many devices as replicas x stages")
                       ->check(whole_number(1, trireme::max_roles))
                       ->type_name("P")
                       ->capture_default_str();
    added.micro_batches =
        app.add_option("--micro-batches", f.micro_batches, "of one replica's share of a batch" + by_default)
            ->check(whole_number<std::size_t>(1, trireme::max_logical_shards))
            ->type_name("M");
    app.add_option("--schedule", f.schedule,
                   "how the stages take turns: " + trireme::schedule_names() +
                       "; or a file as PyTorch writes it, NAME.csv")
        ->check(name_of_schedule())
        ->type_name("NAME")
        ->capture_default_str();
    return added;
}

/// Reads the schedule of flags that are parsed. Throws usage_error if one is chosen for no stages.
template<class Flags>
void choose_schedule(CLI::App const& app, Flags& f) {
    refuse_without(app, "--schedule", f.stages > 1, "--stages of 2 or more");
    f.turns = schedule_of(f.schedule, f.orders);
}
