// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/stages.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/trainer/least_samples.hpp>
#include <trireme/trainer/options.hpp>
#include <trireme/trainer/policies.hpp>
#include <trireme/trainer/trainer_rules.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

namespace trireme::detail::inline TRIREME_ISA {

/// The layouts that trainers of one type have: what their policies fix, their options say, and nobody has said.
/// `Model`: the composition.
template<class Model, class Policies>
struct trainer_layouts {
    using network = typename Model::network;
    using loss = typename Model::loss;
    using value_type = typename Model::value_type;

    /// Makes the layout of the options, and of what the type fixes. `micro_batches`: 0 if the options say none.
    template<class Schedule>
    static constexpr parallel_layout make(int replicas, strategy_choice const& strategy, std::size_t shards,
                                          [[maybe_unused]] int stages, [[maybe_unused]] std::size_t micro_batches,
                                          [[maybe_unused]] Schedule const& schedule) {
        parallel_layout l{.replicas = replicas,
                          .strategy = strategy,
                          .logical_shards = shards,
                          .shared_weights = Policies::shared_weights,
                          .clips = Policies::clips,
                          .ties = Model::trains && network::tied_gradients != 0,
                          .buckets = buckets(),
                          .updates = updates(),
                          .passes = Policies::accumulation::parts};
        if constexpr (Policies::has_stages) {
            l.stages = Policies::stages == dynamic ? stages : Policies::stages;
            if constexpr (Policies::micro_batches != dynamic)
                l.micro_batches = static_cast<std::size_t>(Policies::micro_batches);
            else
                l.micro_batches = micro_batches;
            if constexpr (Policies::schedule_is_named)
                l.schedule = typename Policies::pipelining::schedule{};
            else
                l.schedule = schedule.value;
            int const usual = l.schedule.micro_batches != 0 ? l.schedule.micro_batches : 4 * l.stages;
            if (l.micro_batches == 0 && !l.reproducible())
                l.micro_batches = static_cast<std::size_t>(l.stages > 1 ? usual * l.passes : l.passes);
            l.cut = &Policies::cut::template rows<network>;
        } else if (!l.reproducible()) {
            l.micro_batches = static_cast<std::size_t>(l.passes);
        }
        constexpr bool granules_wait = Policies::on_host && Model::whole_shard && !Model::at_once;
        l.recomputed = Policies::recomputation::template rows<
            network, Policies::on_host ? weight_gradients::at_once : weight_gradients::beside,
            granules_wait ? way_of_samples::one_behind_the_other : way_of_samples::together>(l.stages);
        return l;
    }

    /// False if the compiler finds that the step is none: of one stage, or of a schedule that it knows. Numbers that
    /// options give have a stand-in: more than one replica do what two do, and one device takes shard after shard.
    template<class Rule>
    static constexpr bool makes_a_step() {
        if constexpr (!std::is_same_v<Rule, no_rule> || (Policies::has_stages && !Policies::steps_proved)) {
            return true; // something else is wrong, or the constructor proves it
        } else {
            constexpr bool is_open = Policies::replicas == dynamic;
            constexpr int fewest = is_open ? 1 : Policies::replicas, most_replicas = is_open ? 2 : Policies::replicas;
            constexpr std::size_t most_shards = 8; // they are alike, and the compiler takes time for each
            constexpr auto shards = Policies::shards < 0 ? 0 : static_cast<std::size_t>(Policies::shards);
            for (int replicas = fewest; replicas <= most_replicas; ++replicas) {
                auto const l = make(replicas, {}, Policies::has_stages ? shards : std::min(shards, most_shards), 0, 0,
                                    typename option_fields<Policies>::schedule{});
                if (!trireme::makes_a_step(l, Policies::transport::moves)) return false;
            }
            return true;
        }
    }

    /// The plan of a layout that `Run` executes, which is cut as the type says if it does not say how. Throws
    /// usage_error if it has no device, no micro-batch, or more stages than the trainer's mesh, a pipeline or the
    /// network.
    template<class Run>
    static constexpr training_plan plan(batch b, parallel_layout const& layout) {
        check_mesh(layout);
        check_micro_batches(layout);
        training_plan p;
        p.layout = layout;
        if constexpr (Policies::has_stages) {
            check_cut(layout, limits());
            if (p.layout.cut == nullptr) p.layout.cut = &Policies::cut::template rows<network>;
        } else if (layout.stages != 1) {
            refuse_stages_without_pipeline(layout);
        }
        p.parameters = network::parameters;
        p.arena_elements = Model::arena_elements;
        p.element_bytes = sizeof(value_type);
        p.forward_flops = network::forward_flops;
        p.trains = Model::trains;
        p.training_flops = network::forward_flops;
        if constexpr (Model::trains)
            p.training_flops = network::training_flops + loss::describe(network::output_extents::shape).flops;
        p.batch = b;
        p.buffers = network::buffers;
        p.flops_of = [](parallel_layout const& l, int stage) {
            auto const rows = l.rows_of(stage, network::depth);
            auto sum = network::flops(rows);
            if constexpr (!Model::trains) sum = {.forward = sum.forward};
            if (!l.recomputed.empty())
                sum.again = flops_again(network::rows, rows, l.recomputed, l.stages == 1, frames_of_rank(l, 0).halves,
                                        !Policies::on_host);
            return sum;
        };
        p.numbers = [](parallel_layout const& l, int stage) {
            return numbers_of_stage<network, value_type>(l, stage).extent();
        };
        p.exchanged = [](std::size_t i) {
            std::size_t n = 0, elements = 0;
            if constexpr (Model::trains)
                for_exchanges(network::rows, {0, network::depth}, task_kind::train, [&](int exchange) {
                    if (n++ == i) elements = network::exchanges.of[exchange].elements;
                });
            return elements;
        };
        p.crossing = &Run::crossing;
        p.map = &Run::memory;
        p.moves = &Run::moves;
        p.tied = [](parallel_layout const& l, int rank, int role) {
            traffic sum;
            traffic_of_ties<Model>(l, rank, [&](int other, traffic const& t) {
                if (other == role) sum += t;
            });
            return sum;
        };
        return p;
    }

    /// Throws usage_error for a layout that cannot work, as far as the compiler has not proved that it does.
    static void check(parallel_layout const& layout, std::size_t batch) {
        check_numbers(layout, batch);
        if constexpr (Policies::strategy_is_chosen) check_no_compressing_strategy(layout.strategy);
        if constexpr (Policies::has_stages) {
            check_stages(layout, limits());
            if constexpr (!Policies::steps_proved) prove_steps(layout, Policies::transport::moves);
        }
        if constexpr (Model::trains) check_least_samples<network>(layout, batch, sample_count::batch);
        if constexpr (!Policies::proved)
            for (int stage = 0; stage < layout.stage_count(); ++stage)
                check_reductions(layout, numbers_of_stage<network, value_type>(layout, stage).extent(),
                                 sizeof(value_type));
    }

private:
    /// The stages that the network can be cut into.
    static constexpr stage_limits limits() {
        using cut = typename Policies::cut;
        auto const& segments = segments_of<network>;
        return {std::span(segments.begin).subspan(1, segments.count - 1), cut::stages, &cuts_wrongly<network, cut>};
    }

    /// True if buffers and the gradients of tied rows, which lie behind the parameters, do not travel with these: no
    /// error of a running mean may grow with the steps.
    static constexpr bool leaves_buffers = Policies::compresses && network::buffers + network::tied_gradients != 0;

    /// The buckets of tensors, where tensors have strategies of their own, or buffers have; else none.
    static constexpr std::span<reduction_bucket const> buckets() {
        if constexpr (Policies::tensor_rules::size != 0 || leaves_buffers)
            return std::span(bucket_table::value.buckets).first(bucket_table::value.count);
        else
            return {};
    }
    struct bucket_table {
        using behind = std::conditional_t<leaves_buffers, typename scheduling<typename Policies::strategy>::type, void>;
        using type = typename Policies::tensor_rules::template table<network, value_type, behind>;
        static constexpr type value{Model::arena_elements};
    };

    /// Runs of parameters that are updated alike, where some do not decay.
    static constexpr std::span<update_run const> updates() {
        if constexpr (Policies::undecayed::rules != 0)
            return std::span(update_table::value.runs).first(update_table::value.count);
        else
            return {};
    }
    struct update_table {
        using type = typename Policies::undecayed::template table<network, value_type>;
        static constexpr type value{};
    };
};

} // namespace trireme::detail::inline TRIREME_ISA
