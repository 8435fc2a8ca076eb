// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/layer/summary.hpp>
#include <trireme/optimizer/optimizer.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/pipeline/choice.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace trireme {

namespace detail {

/// A digest of orders that were read: two files may give them one name.
TRIREME_COLD inline std::uint64_t digest_of_orders(schedule_choice const& orders) {
    static_assert(std::has_unique_object_representations_v<scheduled_work>);
    auto const roles = static_cast<std::size_t>(orders.roles);
    std::vector<scheduled_work> lines(roles * orders.lines);
    std::vector<role_order> lists(roles);
    for (std::size_t r = 0; r < roles; ++r) lists[r].tasks = lines.data() + r * orders.lines;
    orders.write(orders.roles, orders.micro_batches, lists.data());
    std::uint64_t digest = 0;
    for (int role = 0; role < orders.roles; ++role) {
        auto const& list = lists[static_cast<std::size_t>(role)];
        for (int chunk = 0; chunk < orders.chunks; ++chunk) {
            int const stage = orders.stage(orders.roles, role, chunk);
            digest = digest_of(std::as_bytes(std::span(&stage, 1)), digest);
        }
        digest = digest_of(std::as_bytes(std::span(list.tasks, static_cast<std::size_t>(list.count))), digest);
    }
    return digest;
}

} // namespace detail

/// Everything that decides a trainer's weights, in words: what the processes of a trainer must agree in before they
/// begin. Parts are separated by "; ", the longest, the network, is last. Options that decide no weight (the deadline)
/// may differ between processes.
template<class Model, class Initialiser, class Options>
std::string agreement(Options const& o, parallel_layout const& l) {
    using network = typename Model::network;
    using optimizer = typename Model::optimizer;
    std::string text = "dp<" + std::to_string(l.replicas) + ">";
    auto const say = [&text](std::string const& part) { text += "; " + part; };
    auto const number = [](auto n) { return std::to_string(n); };
    if (l.stages != 1) {
        say("pp<" + number(l.stages) + ">");
        say(l.schedule.name);
        if (l.schedule.lines != 0) say("orders with digest " + digest_text(detail::digest_of_orders(l.schedule)));
        for (int stage = 1; stage < l.stage_count(); ++stage)
            say("cut before row " + number(l.cut(l.stage_count(), stage).begin));
    }
    for (std::size_t i = 0; i < l.reductions(); ++i) say(l.strategy_of(i).name);
    say(number(l.logical_shards) + " logical shards");
    if (l.micro_batches != 1) say(number(l.micro_batches) + " micro-batches");
    if (l.stages != 1 && l.passes != 1) say("in " + number(l.passes) + " passes");
    if (l.shared_weights) say("weights held once");
    say("batch " + number(o.batch.samples));
    say("seed " + number(o.seed));
    say(optimizer::name);
    optimizer::describe(o, [&](char const* name, auto value) { say(name + (' ' + number_text(value))); });
    for (auto const& run : l.updates)
        if (!run.decays)
            say("no decay of parameters " + number(run.elements.begin) + " to " + number(run.elements.end - 1));
    if constexpr (detail::has_rate<Options>) say(detail::rate_text(o.rate.value));
    if constexpr (Model::clips) say("max_norm " + number_text(o.max_norm.value));
    say(detail::type_name<typename Model::loss>());
    say(detail::type_name<Initialiser>());
    say(detail::type_name<typename Model::value_type>());
    say("kernels " + detail::type_name<typename Model::kernels>()); // with their instruction set
    say(number(network::parameters) + " parameters");
    say(number(network::training_flops) + " FLOPs per sample");
    say(detail::type_name<network>());
    return text;
}

} // namespace trireme
