// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/layer/recomputation.hpp>
#include <trireme/parallel/update_runs.hpp>
#include <trireme/schedule/collective/compressed.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/collective/strategy.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/schedule/pipeline/choice.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// A reduction strategy as a value, made from the type: `strategy_choice s = ring{};`
struct strategy_choice {
    char const* name = direct::name;
    schedule (*all_reduce)(int ranks, levels const& groups,
                           bytes_t bytes) = &made_by<direct>; ///< `bytes` of the buffer

    bool of_a_transport = false; ///< a transport's own: others cannot run it
    bool compresses = false;     ///< gradients travel as bf16, and their errors are kept

    constexpr strategy_choice() = default;
    template<reduction_strategy S>
    constexpr strategy_choice(S) noexcept
        : name(S::name), all_reduce(&made_by<S>), of_a_transport(requires { S::of_a_transport; }), type_(text_of<S>()) {
    }

    template<class Wire, class S>
    constexpr strategy_choice(compressed<Wire, S>) noexcept
        : strategy_choice(typename compressed<Wire, S>::strategy{}) {
        name = compressed<Wire, S>::name;
        compresses = true;
        type_ = text_of<compressed<Wire, S>>();
    }

    template<reduction_strategy S>
    constexpr bool is() const noexcept {
        return type_ == text_of<S>();
    }
    constexpr bool operator==(strategy_choice const& other) const noexcept { return type_ == other.type_; }

private:
    template<class S>
    static constexpr schedule made_by(int ranks, levels const& groups, bytes_t bytes) {
        return schedule_of<S, collective::all_reduce>(ranks, 0, groups, bytes);
    }
    /// Tells types apart in constant expressions; g++ does not compare pointers to functions there under its
    /// sanitizers.
    template<class S>
    static constexpr std::string_view text_of() noexcept {
        return __PRETTY_FUNCTION__;
    }

    std::string_view type_ = text_of<direct>();
};

/// Tensors side by side whose gradients are added by one collective.
struct reduction_bucket {
    range elements = {};           ///< of the parameter arena
    bool named = false;            ///< by a rule of their own; else by the layout's strategy
    strategy_choice strategy = {}; ///< that of the rule
};

/// The arena of a rank, for what cuts it: parameters from `first_parameter` of the network on, then all else. A number
/// stands for the arena of a whole network.
struct arena_extent {
    std::size_t elements = 0;
    std::size_t first_parameter = 0;
    std::size_t parameters = 0; ///< that buckets may lie in

    constexpr arena_extent(std::size_t all) : elements(all), parameters(all) {}
    constexpr arena_extent(std::size_t all, std::size_t first, std::size_t count)
        : elements(all), first_parameter(first), parameters(count) {}
};

/// A layout spreads a step's work and its gradients over devices: the value behind `on<mesh<...>>`, `pipeline<...>`,
/// `reduce_by<...>` and `reproducible<fixed_tree, V>`. One executor runs all of them.
///
/// Ranks are numbered as in the mesh of the axes dp and pp: rank = replica * stages + role.
struct parallel_layout {
    int replicas = 1;               ///< replicas of the model, each with a share of the batch
    strategy_choice strategy = {};  ///< strategy of adding gradients over the replicas
    std::size_t logical_shards = 0; ///< V of fixed_tree; 0: micro-batches, added as the strategy adds
    bool shared_weights = false;    ///< one copy of the weights; each device updates its slice of them
    bool clips = false;             ///< the norm of the gradients is measured before they are used
    bool ties = false;              ///< some rows of the network have their parameters in common
    /// Buckets of tensors with strategies of their own; none: all in one.
    std::span<reduction_bucket const> buckets = {};

    std::span<update_run const> updates = {}; ///< runs of parameters that decay or do not; none: all are updated alike
    recomputed_rows recomputed = {};          ///< rows whose values are dropped, and computed again on the way back

    levels groups = {}; ///< levels of near devices, for strategies that take them; none: as even as it goes

    int stages = 1;                ///< devices of each replica; each has chunks() stages of the network
    std::size_t micro_batches = 1; ///< micro-batches of each replica, if logical shards are none
    int passes = 1;                ///< passes of the schedule, each over as many of a replica's micro-batches
    schedule_choice schedule = {}; ///< order of the stages' work
    range (*cut)(int stages, int stage) = nullptr; ///< the rows of a stage of the network; null: there is one

    constexpr int devices() const noexcept { return replicas * stages; }
    constexpr mesh_value mesh() const { return {{"dp", replicas}, {"pp", stages}}; }
    constexpr int replica_of(int rank) const noexcept { return rank / stages; }
    constexpr int role_of(int rank) const noexcept { return rank % stages; }

    /// Stages of the network on each device, and on all devices of a replica.
    constexpr int chunks() const noexcept { return stages == 1 ? 1 : schedule.chunks; }
    constexpr int stage_count() const noexcept { return stages * chunks(); }
    /// The stage that is a rank's `chunk`-th.
    constexpr int stage_of(int rank, int chunk) const noexcept {
        return stages == 1 ? 0 : schedule.stage(stages, role_of(rank), chunk);
    }
    /// The rows of a stage of a network that has so many.
    constexpr range rows_of(int stage, std::size_t depth) const {
        return stages == 1 ? range{0, depth} : cut(stage_count(), stage);
    }
    /// The place of a stage in a replica.
    struct stage_place {
        int role = 0;
        int chunk = 0;
    };
    constexpr stage_place place_of(int stage) const noexcept {
        for (int role = 0; role < stages; ++role)
            for (int c = 0; c < chunks(); ++c)
                if (stage_of(role, c) == stage) return {role, c};
        return {};
    }
    constexpr int role_of_last_stage() const noexcept { return place_of(stage_count() - 1).role; }
    /// Boundaries between two stages that different devices have.
    constexpr int crossings() const noexcept {
        int n = 0;
        for (int s = 0; s + 1 < stage_count(); ++s) n += place_of(s).role != place_of(s + 1).role ? 1 : 0;
        return n;
    }

    constexpr bool reproducible() const noexcept { return logical_shards != 0; }
    /// Micro-batches of all replicas.
    constexpr std::size_t shards() const noexcept {
        return reproducible() ? logical_shards : static_cast<std::size_t>(replicas) * micro_batches;
    }
    /// The most samples that a shard of a batch has.
    constexpr std::size_t most_shard_samples(std::size_t batch) const noexcept {
        return (batch + shards() - 1) / shards();
    }
    /// Collectives per step, each of a part of the arena.
    constexpr std::size_t reductions() const noexcept { return buckets.empty() ? 1 : buckets.size(); }
    constexpr range reduced_by(std::size_t i, arena_extent const& arena) const noexcept {
        if (buckets.empty()) return {0, arena.elements};
        auto const here = [&](std::size_t element) {
            return std::clamp(element, arena.first_parameter, arena.first_parameter + arena.parameters) -
                   arena.first_parameter;
        };
        bool const last = i + 1 == buckets.size(); // what lies behind the parameters goes with it
        return {here(buckets[i].elements.begin), last ? arena.elements : here(buckets[i].elements.end)};
    }
    constexpr strategy_choice const& strategy_of(std::size_t i) const noexcept {
        return buckets.empty() || !buckets[i].named ? strategy : buckets[i].strategy;
    }
    /// The collective that adds gradients: a reduce-scatter for shared weights, else an all-reduce.
    constexpr collective goal() const noexcept {
        return shared_weights ? collective::reduce_scatter : collective::all_reduce;
    }
    constexpr trireme::schedule reduction(std::size_t i, arena_extent const& arena, std::size_t element_bytes) const {
        return shared_weights ? direct::reduce_scatter(replicas)
                              : strategy_of(i).all_reduce(replicas, groups,
                                                          reduced_by(i, arena).size() * wire_bytes(i, element_bytes));
    }
    /// The cut of what a collective adds, in the form in which it travels.
    constexpr buffer_cut cut_of(std::size_t i, trireme::schedule const& s, arena_extent const& arena,
                                std::size_t element_bytes) const noexcept {
        return {reduced_by(i, arena).size(), wire_bytes(i, element_bytes), s.chunks};
    }
    constexpr bytes_t wire_bytes(std::size_t i, std::size_t element_bytes) const noexcept {
        return strategy_of(i).compresses ? sizeof(bf16) : element_bytes;
    }
    /// Elements of a collective whose gradients are compressed, in whole cache lines of bf16; 0 of another.
    constexpr std::size_t compressed_by(std::size_t i, arena_extent const& arena) const noexcept {
        if (replicas == 1 || !strategy_of(i).compresses) return 0;
        return round_up(reduced_by(i, arena).size(), cache_line / sizeof(bf16));
    }

    /// The part of an arena of `elements` that a device updates.
    constexpr range slice_of_device(int rank, std::size_t elements, std::size_t element_bytes) const noexcept {
        return shared_weights ? chunk_range(elements, replica_of(rank), replicas, element_bytes) : range{0, elements};
    }

    /// The shards that a device computes, and the gradient slots it needs for them.
    constexpr range shards_of_device(int rank) const noexcept {
        return shards_of(replica_of(rank), replicas, shards());
    }
    constexpr std::size_t gradient_slots(int rank) const noexcept {
        return reproducible() ? fixed_tree::slots(shards_of_device(rank)) : 1;
    }
    /// The first rank of the replica with the most shards: the last, for `part` rounds its cuts down.
    constexpr int rank_with_most_shards() const noexcept { return devices() - stages; }

    /// Traffic that `rank` reads from its peers, and writes to them, per step to add the numbers of its arena.
    constexpr traffic traffic_of_rank(int rank, arena_extent const& arena, std::size_t element_bytes) const {
        traffic sum;
        traffic_of_rank(rank, arena, element_bytes, [&](rank_list const& peers, traffic const& each) {
            auto const count = static_cast<std::uint64_t>(peers.count);
            sum += {count * each.messages, count * each.bytes};
        });
        return sum;
    }
    /// The peers of that traffic: add(replicas, traffic with each), several times for one of them.
    template<class Add>
    constexpr void traffic_of_rank(int rank, arena_extent const& arena, std::size_t element_bytes,
                                   Add const& add) const {
        int const replica = replica_of(rank);
        for (std::size_t i = 0; i < reductions(); ++i) {
            auto const s = reduction(i, arena, element_bytes);
            trireme::detail::for_messages(
                s, replica, cut_of(i, s, arena, element_bytes),
                [&](rank_list const& peers, bytes_t bytes) { add(peers, traffic{1, bytes}); });
        }
        for_blocks(rank, arena, element_bytes, [&](int r, bytes_t bytes) { add(one_rank(r), traffic{0, bytes}); });
    }
    /// add(replica, bytes) for what a reduction of the fixed tree reads of a peer beyond a plain one, which reads one
    /// buffer where it reads every block.
    template<class Add>
    constexpr void for_blocks(int rank, arena_extent const& arena, std::size_t element_bytes, Add const& add) const {
        if (!reproducible()) return;
        int const replica = replica_of(rank);
        auto const chunk = chunk_range(arena.elements, replica, replicas, element_bytes).size() * element_bytes;
        for (int r = 0; r < replicas; ++r) {
            if (r == replica) continue;
            auto const blocks = fixed_tree::blocks(shards_of(r, replicas, shards())).depth();
            add(r, (blocks - 1) * chunk);
        }
    }
};

/// Shards that a fixed tree may have: enough for any machine, and the tree's stack stays small.
inline constexpr std::size_t max_logical_shards = 4096;

/// Micro-batches that a replica's share of a batch may be cut into: the tasks of a step number them in 16 bits.
inline constexpr std::size_t max_micro_batches = 65535;

/// Devices that a trainer may have, those of all its processes together. More are a mistake in an option, and proving
/// their schedule would take longer than the run.
inline constexpr int max_devices = 256;

/// Samples of one step, as many as an order of samples can number.
inline constexpr std::size_t max_batch = 0xFFFFFFFF;

namespace detail {

[[noreturn]] TRIREME_COLD inline void refuse_mesh(parallel_layout const& l) {
    auto const stages = "stages = " + std::to_string(l.stages) + ": a pipeline has at ";
    throw usage_error(l.replicas < 1
                          ? "devices = " + std::to_string(l.replicas) + ": a trainer needs at least one device"
                      : l.stages < 1 ? stages + "least one stage"
                                     : stages + "most " + std::to_string(max_roles));
}
/// The mesh of a layout: a program has no room for more roles, and a plan is none of no device. Throws usage_error.
constexpr void check_mesh(parallel_layout const& l) {
    if (l.replicas < 1 || l.stages < 1 || l.stages > max_roles) refuse_mesh(l);
}

[[noreturn]] TRIREME_COLD inline void refuse_micro_batches(parallel_layout const& l) {
    throw usage_error("micro_batches = " + std::to_string(l.micro_batches) +
                      ": a replica's share of a batch is cut into " +
                      (l.micro_batches == 0
                           ? "at least 1"
                           : "at most " + std::to_string(max_micro_batches) + "; take fewer, each with more samples"));
}
/// The micro-batches of a layout: those that are no logical shards are one at least. Throws usage_error.
constexpr void check_micro_batches(parallel_layout const& l) {
    if ((l.micro_batches == 0 && !l.reproducible()) || l.micro_batches > max_micro_batches) refuse_micro_batches(l);
}

/// The numbers of a layout and a batch.
TRIREME_COLD inline void check_numbers(parallel_layout const& l, std::size_t batch) {
    auto const number = [](auto n) { return std::to_string(n); };
    check_mesh(l);
    if (l.replicas > max_devices || l.stages > max_devices || l.devices() > max_devices)
        throw usage_error("devices = " + number(l.replicas) +
                          (l.stages == 1 ? "" : " with stages = " + number(l.stages)) + ": a trainer has at most " +
                          number(max_devices));
    if (batch < 1) throw usage_error("batch = 0: a step needs at least one sample; set the option `batch`");
    if (batch > max_batch)
        throw usage_error("batch = " + number(batch) + ": at most " + number(max_batch) +
                          " samples; was a negative number given?");
    if (batch < static_cast<std::size_t>(l.replicas))
        throw usage_error(
            "batch = " + number(batch) + " on " + number(l.replicas) +
            " devices: a batch needs at least one sample per device; use a larger batch or no more devices than " +
            number(batch));
    check_micro_batches(l);
    if (l.logical_shards > max_logical_shards)
        throw usage_error("logical_shards = " + number(l.logical_shards) + ": at most " + number(max_logical_shards) +
                          " are possible");
    if (l.reproducible() && l.logical_shards < static_cast<std::size_t>(l.replicas))
        throw usage_error("logical_shards = " + number(l.logical_shards) + " on " + number(l.replicas) +
                          " devices: a reproducible step gives every device at least one logical shard; use more "
                          "shards or no more devices than " +
                          number(l.logical_shards));
    if (l.reproducible() && !l.strategy.is<direct>())
        throw usage_error("strategy = " + std::string(l.strategy.name) +
                          " with logical shards: fixed_tree fixes the order of additions, " + l.strategy.name +
                          " would choose another; use the strategy direct, or no logical shards");
}

/// Proves what the layout's gradients are added by.
TRIREME_COLD inline void check_reductions(parallel_layout const& l, arena_extent const& elements,
                                          std::size_t element_bytes) {
    for (std::size_t i = 0; i < l.reductions(); ++i) {
        auto const s = l.reduction(i, elements, element_bytes);
        bool seen = false; // in an earlier bucket
        for (std::size_t k = 0; k < i; ++k) seen = seen || l.reduction(k, elements, element_bytes).same_steps(s);
        if (seen) continue;
        auto const v = verify(l.goal(), s, l.replicas);
        if (v.ok()) continue;
        throw usage_error("strategy " + std::string(s.name) + " on " + std::to_string(l.replicas) + " devices " +
                          describe(v));
    }
}

/// Of a strategy that is chosen when the program runs. Throws usage_error.
TRIREME_COLD inline void check_no_compressing_strategy(strategy_choice const& s) {
    if (s.compresses)
        throw usage_error(std::string("strategy ") + s.name +
                          " is chosen when the program runs, and a trainer has code that compresses gradients only by "
                          "its type: write reduce_by<" +
                          s.name + "> on devices of the host, or choose another strategy");
}

/// For devices whose transport has no strategy of its own. Throws usage_error.
inline void check_no_strategy_of_a_transport(parallel_layout const& l) {
    for (std::size_t i = 0; i < l.reductions(); ++i)
        if (l.strategy_of(i).of_a_transport)
            throw usage_error(std::string("strategy ") + l.strategy_of(i).name +
                              " is the transport's own, and these devices have none: choose another strategy, or "
                              "transport<nccl> or transport<mpi>");
}

} // namespace detail

} // namespace trireme
