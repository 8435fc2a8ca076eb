// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/layer/cross_entropy.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/optimizer/optimizer.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/stages.hpp>
#include <trireme/schedule/pipeline/rules.hpp>
#include <trireme/schedule/pipeline/verify.hpp>
#include <trireme/trainer/channels_last_rows.hpp>
#include <trireme/trainer/options.hpp>
#include <trireme/trainer/trainer_policies.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace trireme {

// A trainer's network, loss, optimizer and policies must fulfil these rules together.

template<class... Where>
struct trainer_network_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0027: the first argument of trainer is a network<input<...>, layers...>, the "
                  "second its loss, the third its optimizer; policies follow. If they stand so, one of your own lacks "
                  "something: static_assert(optimizer<it>), or loss<it>, says what");
};

template<class... Where>
struct synchronised_bits_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0065: batch_norm<synchronised> takes its statistics from all devices, and their rounding depends "
                  "on how many there are: in a reproducible trainer write batch_norm<per_shard>, or leave out "
                  "reproducible");
};
template<class... Where>
struct flattened_order_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0069: these kernels keep images channels last, so that the values of an image with several channels lie in "
        "another order than this layer, or the loss, expects: behind flatten put a linear, which knows the order, or "
        "take global_avg_pool2d instead of flatten; a loss on an image needs other kernels, and so does a view between "
        "other shapes");
};

template<class... Where>
struct max_norm_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0102: clip_norm takes the largest norm from the options, which are this optimizer's: give its "
                  "options a field `typename Choices::max_norm max_norm = {};`, or leave out clip_norm");
};

template<class... Where>
struct decay_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0112: without_decay is about the option weight_decay, and this optimizer's options have none: "
                  "give them a field `float weight_decay = 0.0f;`, or leave out without_decay");
};

template<class... Where>
struct too_many_stages_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0094: a network has at most as many stages as there are places to cut it: before rows whose input "
        "alone crosses (not inside a residual), with a function in the stage of the layer before it. Use fewer "
        "stages");
};
template<class... Where>
struct cut_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0095: the network cannot be cut so: cut_before names one row less than there are stages, in rising "
        "order, none inside a residual, and none of a function, a flatten, or behind conv2d a batch_norm, right "
        "behind the layer whose values it takes. The words name the rows that a stage can begin with");
};
template<class... Where>
struct stages_without_axis_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0131: pipeline and stages_by are about the stages of a mesh with the axis pp, and this mesh has "
                  "none: write on<mesh<host, dp<1>, pp<2>>>, or leave them out");
};
template<class... Where>
struct open_plan_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0132: the plan of a trainer that leaves something open needs what is chosen: plan(batch, "
                  "layout_of(options, run_options)); or say it in the type: dp<N>, pp<P>, pipeline<schedule, "
                  "MicroBatches>, reduce_by<strategy>, reproducible<fixed_tree, V>");
};
template<class... Where>
struct synchronised_stages_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0096: batch_norm<synchronised> takes its statistics from all samples of a step at once, and the "
        "stages of a pipeline take them in micro-batches: write batch_norm<per_shard>, or leave out the axis pp");
};
template<class... Where>
struct synchronised_parts_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0108: batch_norm<synchronised> takes its statistics from all samples of a step at once, and accumulate "
        "shows it a part of them at a time: write batch_norm<per_shard>, or leave out accumulate");
};
template<class... Where>
struct pipeline_transport_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0133: this transport carries all that one device sends to another in one order, or until it is received, "
        "and "
        "this schedule takes moves in another order than they are sent: choose another schedule, such as one_f_one_b, "
        "or "
        "a transport with a counter or a tag for each boundary between stages, as threads and mpi have. The words name "
        "the role and the number of its task where it goes wrong");
};
template<class... Where>
struct token_kernels_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0125: layers of tokens have no kernels that take all samples of a shard at once on the host, as onednn's "
        "do: leave out kernels<...>");
};
template<class... Where>
struct added_losses_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0137: layers that add to the loss say how much for each sample of a granule, and kernels that take all "
        "samples of a shard at once on the host, as onednn's do, have no such layers: leave out kernels<...>");
};
template<class... Where>
struct narrow_tokens_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0126: a token is a number among the values between layers, and these hold 65536 of them with "
        "precision<bf16>, 2^24 with precision<f32>: take a wider precision, or divide words into more tokens");
};
template<class... Where>
struct recomputed_blocks_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0118: the network has no such block, or too little of it lies between places where the network can be cut. "
        "Copy the block's type from the network: a residual, sequential or repeat, not inside a residual, with all its "
        "layers and at least two; a function or flatten belongs into the block of the layer before it. Or write "
        "recompute<all>");
};
template<class... Where>
struct tied_weights_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0122: tied rows add their gradients before any weight is updated, and hold_weights<once> updates "
                  "a slice as soon as it is added: leave out one of the two");
};
namespace detail {

/// The row that reads the values of an image in the wrong order; the network's depth if the loss does, npos if none
/// does.
template<class Network, class Kernels, class Loss>
constexpr std::size_t misread_row() {
    if constexpr (keeps_channels_last<Kernels>) {
        constexpr auto const& rows = lasting_rows<Network>;
        return rows.misread == npos && rows.image_to_loss && trains_with<Loss> ? Network::depth : rows.misread;
    } else {
        return npos;
    }
}
/// A row as messages name it.
template<std::size_t Row, class Network>
constexpr auto row_at() {
    constexpr std::size_t unit = [] {
        std::size_t u = 0;
        while (Network::first_row(u + 1) <= Row) ++u;
        return u;
    }();
    using layer_t = typename Network::template layer_type<unit>;
    if constexpr (is_residual_sum<layer_t> || is_tied_layer<layer_t>)
        return pack<at_layer<Row, typename layer_t::written>>{};
    else
        return pack<at_layer<Row, layer_t>>{};
}
template<std::size_t Row, class Network>
using row_at_t = typename only<decltype(row_at<Row, Network>())>::type;

template<std::size_t Row, class Network, class Loss>
constexpr auto misread_rule() {
    if constexpr (Row == Network::depth)
        return pack<flattened_order_rule<gets<Loss>, gets<typename Network::output_extents>>>{};
    else
        return pack<flattened_order_rule<row_at_t<Row, Network>>>{};
}

/// The first row with the parameters of another one.
template<class Network>
constexpr std::size_t first_tied_row() {
    std::size_t row = 0;
    while (row < Network::depth && !Network::row(row).is_tied()) ++row;
    return row;
}
/// The first row that needs the whole batch.
template<class Network>
constexpr std::size_t whole_batch_row() {
    std::size_t row = 0;
    while (row < Network::depth && !Network::row(row).description.whole_batch()) ++row;
    return row;
}

/// Tokens, counted from 0, that stored values tell apart: bf16's 16 bits are the number, others hold it as a value.
template<class Stored>
inline constexpr std::size_t most_tokens =
    std::is_same_v<Stored, bf16> ? 65536 : std::size_t{1} << std::numeric_limits<Stored>::digits;
template<class Policies>
inline constexpr std::size_t most_tokens_of =
    most_tokens<stored_t<typename Policies::kernel_policy, typename Policies::dtype::value_type>>;

/// True if a network's vocabulary has more of them.
template<class Network, class Policies>
inline constexpr bool has_wide_tokens = (Network::row(0).description.vocabulary > most_tokens_of<Policies>);

/// A way of cutting a network that cannot be, for so many stages.
template<class Network, class Cut>
constexpr bool cuts_wrongly(int stages) {
    if (Cut::stages == 0) return false;
    if (Cut::stages != static_cast<std::size_t>(stages)) return true;
    for (int s = 1; s < stages; ++s) {
        auto const at = Cut::template rows<Network>(stages, s).begin;
        if (at <= Cut::template rows<Network>(stages, s - 1).begin || at >= Network::depth ||
            !segments_of<Network>.has(at))
            return true;
    }
    return false;
}

/// The rows that a stage of a network can begin with, but for the first, as messages name them.
template<class Network, std::size_t... Place>
rows<segments_of<Network>.begin[Place + 1]...> rows_of_stages(std::index_sequence<Place...>);
template<class Network>
using rows_of_stages_t = decltype(rows_of_stages<Network>(std::make_index_sequence<segments_of<Network>.count - 1>{}));

/// A pipeline's step as the compiler knows it: the schedule, how often it runs, and the order of the gradients.
template<class Schedule, int Stages, int MicroBatches, int Passes, gradient_order Order>
struct known_step {
    static constexpr auto& program = static_step<Schedule, Stages, MicroBatches, 1, 1, Passes>::program;

    /// The verdict on it where a transport carries out the moves.
    template<class Transport>
    static constexpr program_verdict verdict() {
        auto const of_step = verify(program, Transport::moves, Order);
        step_task room[step_capacity(Schedule{}, step_shape{Stages, 2})] = {};
        return of_step.ok() ? verify_evaluation(build_evaluation(Schedule{}, program, room), Transport::moves)
                            : of_step;
    }
    /// As many micro-batches, or the fewest above, of which the schedule makes a training step; 0 if a few per stage
    /// are none.
    static constexpr int least() {
        if constexpr (verify(program, by_counters, Order).ok())
            return MicroBatches;
        else if constexpr (MicroBatches < 4 * Stages * Passes &&
                           is_step_for_compiler<Schedule>(Stages, MicroBatches + Passes))
            return known_step<Schedule, Stages, MicroBatches + Passes, Passes, Order>::least();
        else
            return 0;
    }
};
/// The rule that the program of a pipeline breaks if it is no training step, where the compiler knows the program.
template<class Schedule, int Stages, int MicroBatches, int Passes, gradient_order Order, class Transport>
constexpr auto broken_pipeline_rule() {
    using step = known_step<Schedule, Stages, MicroBatches, Passes, Order>;
    using policy = gets<pipeline<Schedule, MicroBatches>>;
    constexpr auto v = step::template verdict<Transport>();
    if constexpr (v.ok())
        return pack<no_rule>{};
    else if constexpr (step::template verdict<transport_traits>().ok())
        return pack<pipeline_transport_rule<policy, gets<transport<Transport>>, on_role<v.role>, at_task<v.task>>>{};
    else if constexpr (step::least() != 0)
        return pack<few_micro_batches_rule<wants<at_least<std::size_t{step::least()}>>, policy>>{};
    else if constexpr (micro_batch_at(step::program, v) < 0)
        return pack<pipeline_schedule_rule<v.fault, policy, on_role<v.role>, at_task<v.task>>>{};
    else
        return pack<pipeline_schedule_rule<v.fault, policy, on_role<v.role>, at_task<v.task>,
                                           of_micro_batch<micro_batch_at(step::program, v)>>>{};
}

/// The first rule of pipelines that a network breaks.
template<class Network, class Policies>
constexpr auto broken_stages_rule() {
    constexpr int stages = Policies::stages, chunks = Policies::pipelining::schedule::chunks, all = stages * chunks;
    if constexpr (all > 0 && static_cast<std::size_t>(all) > segments_of<Network>.count)
        return pack<too_many_stages_rule<wants<at_most<segments_of<Network>.count>>, gets<typename Policies::mesh>,
                                         gets<typename Policies::pipelining>>>{};
    else if constexpr (all > 0 && cuts_wrongly<Network, typename Policies::cut>(all))
        return pack<cut_rule<gets<stages_by<typename Policies::cut>>, gets<typename Policies::mesh>,
                             wants<rows_of_stages_t<Network>>>>{};
    else if constexpr (Network::whole_batch)
        return pack<
            synchronised_stages_rule<row_at_t<whole_batch_row<Network>(), Network>, gets<typename Policies::mesh>>>{};
    else if constexpr (Policies::steps_proved)
        return broken_pipeline_rule<typename Policies::pipelining::schedule, stages, Policies::known_micro_batches,
                                    Policies::accumulation::parts,
                                    Policies::shards == 0 ? gradient_order::any : gradient_order::of_micro_batches,
                                    typename Policies::transport>();
    else
        return pack<no_rule>{};
}

/// The first policy about stages; `npos` if there is none, or one that cuts nothing.
template<class Policies, class... P>
constexpr std::size_t policy_of_stages() {
    constexpr auto schedule = find_policy<pipeline_policy, P...>, cut = find_policy<cut_policy, P...>;
    return schedule != npos ? schedule : Policies::cut::stages == 1 ? npos : cut;
}

template<class Optimizer, class Policies>
using options_of_training = typename Optimizer::template options<typename option_fields<Policies>::training>;

/// The first block that a policy recompute names and the network has not; npos if it has all.
template<class Network, class Recompute>
inline constexpr std::size_t missing_block = Recompute::template missing_in<Network>();

template<class Options>
inline constexpr bool has_max_norm = requires(Options o) { o.max_norm.value; };

/// The first rule that a trainer breaks; the network's own mistakes come first.
template<class Network, class Loss, class Optimizer, class... Policies>
constexpr auto broken_trainer_rule() {
    if constexpr (!is_network<Network> || !loss<Loss> || !optimizer<Optimizer>)
        return pack<trainer_network_rule<gets<Network>, gets<Loss>, gets<Optimizer>>>{};
    else if constexpr (!Network::valid)
        return pack<typename Network::rule>{};
    else if constexpr (!Loss::describe(Network::output_extents::shape).accepts)
        return pack<typename Loss::template refusal<typename Network::output_extents>>{};
    else if constexpr (!std::is_same_v<broken_policy_rule_t<Policies...>, no_rule>)
        return pack<broken_policy_rule_t<Policies...>>{};
    else if constexpr (misread_row<Network, typename trainer_policies<Policies...>::kernel_policy, Loss>() != npos)
        return misread_rule<misread_row<Network, typename trainer_policies<Policies...>::kernel_policy, Loss>(),
                            Network, Loss>();
    else if constexpr (goes_sample_by_sample<Network, Loss> &&
                       takes_all_samples<typename trainer_policies<Policies...>::kernel_policy>)
        return pack<token_kernels_rule<gets<kernels<typename trainer_policies<Policies...>::kernel_policy>>>>{};
    else if constexpr (Network::loss_terms != 0 &&
                       takes_all_samples<typename trainer_policies<Policies...>::kernel_policy>)
        return pack<added_losses_rule<gets<kernels<typename trainer_policies<Policies...>::kernel_policy>>>>{};
    else if constexpr (has_wide_tokens<Network, trainer_policies<Policies...>>)
        return pack<
            narrow_tokens_rule<row_at_t<0, Network>, wants<at_most<most_tokens_of<trainer_policies<Policies...>>>>,
                               gets<precision<typename trainer_policies<Policies...>::dtype>>>>{};
    else if constexpr (Network::whole_batch && trainer_policies<Policies...>::shards != 0)
        return pack<synchronised_bits_rule<row_at_t<whole_batch_row<Network>(), Network>,
                                           gets<typename trainer_policies<Policies...>::reproducibility>>>{};
    else if constexpr (trainer_policies<Policies...>::clips &&
                       !has_max_norm<options_of_training<Optimizer, trainer_policies<Policies...>>>)
        return pack<max_norm_rule<gets<Optimizer>>>{};
    else if constexpr (trainer_policies<Policies...>::undecayed::rules != 0 &&
                       !has_weight_decay<options_of_training<Optimizer, trainer_policies<Policies...>>>)
        return pack<decay_rule<gets<Optimizer>, gets<typename trainer_policies<Policies...>::undecayed>>>{};
    else if constexpr (Network::whole_batch && trainer_policies<Policies...>::accumulation::parts > 1)
        return pack<synchronised_parts_rule<row_at_t<whole_batch_row<Network>(), Network>,
                                            gets<typename trainer_policies<Policies...>::accumulation>>>{};
    else if constexpr (trains_with<Loss> && Network::tied_gradients != 0 &&
                       trainer_policies<Policies...>::shared_weights)
        return pack<tied_weights_rule<row_at_t<first_tied_row<Network>(), Network>, gets<hold_weights<once>>>>{};
    else if constexpr (missing_block<Network, typename trainer_policies<Policies...>::recomputation> != npos)
        return pack<recomputed_blocks_rule<gets<typename trainer_policies<Policies...>::recomputation::template block<
            missing_block<Network, typename trainer_policies<Policies...>::recomputation>>>>>{};
    else if constexpr (trainer_policies<Policies...>::has_stages)
        return broken_stages_rule<Network, trainer_policies<Policies...>>();
    else if constexpr (policy_of_stages<trainer_policies<Policies...>, Policies...>() != npos)
        return pack<stages_without_axis_rule<
            gets<type_at<policy_of_stages<trainer_policies<Policies...>, Policies...>(), Policies...>>,
            gets<typename trainer_policies<Policies...>::mesh>>>{};
    else
        return pack<no_rule>{};
}

/// Throws usage_error if a call was given another number of values than the network has.
TRIREME_COLD inline void check_count(char const* call, std::size_t given, std::size_t of_network, char const* kind) {
    if (given != of_network)
        throw usage_error(std::string(call) + " was given " + std::to_string(given) + " values, the network has " +
                          std::to_string(of_network) + kind);
}

/// The stages that a layout asks a network for, as messages name them.
TRIREME_COLD inline std::string wanted_stages(parallel_layout const& l) {
    return "stages = " + std::to_string(l.stages) +
           (l.chunks() == 1 ? std::string()
                            : ", each in " + std::to_string(l.chunks()) + " by the schedule " + l.schedule.name);
}
[[noreturn]] TRIREME_COLD inline void refuse_stages(parallel_layout const& l, std::size_t segments) {
    throw usage_error(wanted_stages(l) + ": this network can be cut at " + std::to_string(segments - 1) +
                      " places, into at most " + std::to_string(segments) +
                      " stages (not inside a residual, and a function stays with the layer before it)");
}
[[noreturn]] TRIREME_COLD inline void refuse_stages_without_pipeline(parallel_layout const& l) {
    throw usage_error(wanted_stages(l) + ": this trainer's mesh has no axis pp, so that each replica is one device; "
                                         "name a mesh that has it, on<mesh<host, dp<dynamic>, pp<dynamic>>>");
}

/// The stages that a network can be cut into, whatever its type.
struct stage_limits {
    std::span<std::size_t const> begins; ///< rows that a stage can begin with, but for the first
    std::size_t of_cut = 0;              ///< those that a policy's cut makes; 0 for any number
    bool (*cuts_wrongly)(int stages) = nullptr;
};

[[noreturn]] TRIREME_COLD inline void refuse_cut(parallel_layout const& l, stage_limits const& limits) {
    std::string rows;
    for (auto const row : limits.begins) rows += (rows.empty() ? "" : ", ") + std::to_string(row);
    throw usage_error(wanted_stages(l) + ": cut_before makes " + std::to_string(limits.of_cut) +
                      " stages, of rows that a stage can begin with, in rising order: some of " + rows);
}
/// The stages of a layout are stages that a network can be cut into. Throws usage_error.
constexpr void check_cut(parallel_layout const& l, stage_limits const& limits) {
    if (static_cast<std::size_t>(l.stage_count()) > limits.begins.size() + 1)
        refuse_stages(l, limits.begins.size() + 1);
    if (l.stages != 1 && limits.cuts_wrongly(l.stage_count())) refuse_cut(l, limits);
}

/// The logical shards that all replicas and passes divide, next to those of a layout.
inline std::size_t fitting_shards(parallel_layout const& l) noexcept {
    auto const of_all = static_cast<std::size_t>(l.passes) * static_cast<std::size_t>(l.replicas);
    auto const more = round_up(l.logical_shards, of_all);
    return more <= max_logical_shards ? more : more - of_all;
}

/// The rules of pipelines, for layouts that the compiler does not know. Throws usage_error.
TRIREME_COLD inline void check_stages(parallel_layout const& l, stage_limits const& limits) {
    auto const number = [](auto n) { return std::to_string(n); };
    if (l.reproducible() && l.micro_batches != 0 &&
        l.micro_batches * static_cast<std::size_t>(l.replicas) != l.logical_shards) {
        auto const share = l.logical_shards / static_cast<std::size_t>(l.replicas);
        bool const even = share * static_cast<std::size_t>(l.replicas) == l.logical_shards;
        throw usage_error("micro_batches = " + number(l.micro_batches) + " of " + number(l.replicas) +
                          (l.replicas == 1 ? " replica" : " replicas") + " with logical_shards = " +
                          number(l.logical_shards) + ": a replica's micro-batches are its logical shards; " +
                          (even ? "set it to " + number(share) + ", or leave it out" : "leave it out"));
    }
    if (l.stages == 1) return;
    if (l.schedule.roles != 0 && l.schedule.roles != l.stages)
        throw usage_error("stages = " + number(l.stages) + ": the schedule " + l.schedule.name + " was read for " +
                          number(l.schedule.roles) + " devices of each replica; set it to " + number(l.schedule.roles));
    auto const parts = static_cast<std::size_t>(l.passes);
    for (int const rank : {0, l.rank_with_most_shards()}) // replicas have as many logical shards, or one less
        if (auto const n = l.shards_of_device(rank).size(); n % parts != 0)
            throw usage_error("micro_batches = " + number(n) + " with accumulate<" + number(parts) +
                              ">: the schedule runs " + number(parts) + " times, each over as many micro-batches; " +
                              (l.reproducible() ? "set logical_shards to " + number(fitting_shards(l))
                                                : "take " + number(round_up(n, parts))));
        else if (auto const of = static_cast<std::size_t>(l.schedule.micro_batches); of != 0 && n != of * parts)
            throw usage_error(
                "micro_batches = " + number(n) + ": the schedule " + l.schedule.name + " was read for " + number(of) +
                (parts == 1 ? "" : ", and runs " + number(parts) + " times") + "; " +
                (l.reproducible() ? "set logical_shards to " + number(of * parts * static_cast<std::size_t>(l.replicas))
                                  : "set it to " + number(of * parts)));
    check_cut(l, limits);
}

// ---- errors of a trainer's calls, as usage_error ----

[[noreturn]] TRIREME_COLD inline void refuse_rank(int rank, int devices) {
    throw usage_error("device " + std::to_string(rank) + " was asked for, this trainer has " + std::to_string(devices));
}
[[noreturn]] TRIREME_COLD inline void refuse_second_use() {
    throw usage_error("this trainer is in use by another of its calls: an observer may look at the report it is "
                      "given, and evaluate, step and the rest wait for the end of the epoch; another thread needs a "
                      "trainer of its own, or a lock");
}
[[noreturn]] TRIREME_COLD inline void refuse_stopped() {
    throw usage_error("this trainer was stopped by an earlier error on a device: construct a new one");
}

} // namespace detail

} // namespace trireme
