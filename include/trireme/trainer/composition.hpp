// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/sample_by_sample.hpp>
#include <trireme/layer/host_pass.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/parallel/traffic_by_peer.hpp>
#include <trireme/trainer/channels_last_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace trireme::detail {

/// The places of a stage's samples in the activations of its device, in bytes: see stage_activations.
struct stage_blocks {
    std::size_t frames, slots;       ///< their number
    bytes_t frame, slot, first_slot; ///< the size of each, and where slots begin
    bytes_t in, out, out_gradient;   ///< of a frame: what comes in, what goes out, and the gradient by that
    bytes_t statistics, agreed;      ///< likewise
    bytes_t kept;                    ///< the numbers that layers keep and add over all devices

    template<class Activations>
    static stage_blocks of(Activations const& a, bytes_t each) {
        auto const &value = a.plan.value, &gradient = a.plan.gradient;
        return {a.places.frames,          a.places.slots,
                a.frame * each,           a.slot * each,
                a.first_slot() * each,    value[a.rows.begin] * each,
                value[a.rows.end] * each, gradient[a.rows.end] * each,
                a.statistics * each,      a.agreed * each,
                a.plan.kept * each};
    }

    bytes_t input(std::size_t frame_index) const noexcept { return frame_index * frame + in; }
    bytes_t output(std::size_t frame_index) const noexcept { return frame_index * frame + out; }
    bytes_t output_gradient(std::size_t frame_index) const noexcept { return frame_index * frame + out_gradient; }
    bytes_t outgoing(std::size_t slot_index) const noexcept { return first_slot + slot_index * slot; }
};

/// The values of a model, and of its passes on a kind of device, that its traffic depends on.
struct traffic_values {
    row_list network;
    std::span<layer_exchange const> exchanges;
    std::size_t element_bytes = 0, stored_bytes = 0; ///< of a number of the model, and of an activation
    bool trains = false;
    bool moves_all_places = false; ///< see the pass
    std::size_t (*places_of)(std::size_t samples) = nullptr;

    /// See bytes_across.
    constexpr crossing_bytes bytes_across(std::size_t row, std::size_t samples) const noexcept {
        auto const bytes = places_of(samples) * network.slot(row).size() * stored_bytes;
        return {bytes, row <= network.first_trainable ? 0 : bytes}; // nobody wants that gradient
    }
    /// See traffic_of_step; without what tied rows exchange.
    TRIREME_COLD constexpr void add_step(parallel_layout const& l, std::size_t batch, int rank,
                                         traffic_by_peer& sum) const {
        auto const numbers_of = [&](int stage) {
            return numbers_of_rows(network, element_bytes, l.rows_of(stage, network.depth));
        };
        for (int chunk = 0; trains && chunk < l.chunks(); ++chunk)
            l.traffic_of_rank(
                rank, numbers_of(l.stage_of(rank, chunk)).extent(), element_bytes,
                [&](rank_list const& replicas, traffic const& each) { sum.add_replicas(replicas, each); });
        if (trains && l.replicas > 1 && !exchanges.empty()) // such networks have neither stages nor parts
            for_exchanges(network, {0, network.depth}, task_kind::train, [&](int i) {
                sum.add_sum_over_replicas(exchanges[static_cast<std::size_t>(i)].elements, element_bytes);
            });
        if (l.stages == 1) return;
        auto const shards = l.shards_of_device(rank);
        for (int chunk = 0; chunk < l.chunks(); ++chunk) {
            int const stage = l.stage_of(rank, chunk);
            auto const rows = l.rows_of(stage, network.depth);
            auto const role_of = [&](int other) { // its own, too, where there is no such stage
                return other >= 0 && other < l.stage_count() ? l.place_of(other).role : l.role_of(rank);
            };
            int const before = role_of(stage - 1), behind = role_of(stage + 1);
            for (auto s = shards.begin; s < shards.end; ++s) {
                auto const samples = moves_all_places ? l.most_shard_samples(batch) : part(batch, s, l.shards()).size();
                if (before != l.role_of(rank))
                    sum.add_roles(one_rank(before), traffic{1, bytes_across(rows.begin, samples).values});
                if (trains && behind != l.role_of(rank))
                    sum.add_roles(one_rank(behind), traffic{1, bytes_across(rows.end, samples).gradients});
            }
        }
    }
};
template<class Model, class Pass>
inline constexpr traffic_values traffic_of{
    Model::network::rows,
    std::span(Model::network::exchanges.begin(), Model::network::exchanges.count),
    sizeof(typename Model::value_type),
    sizeof(typename Model::stored_type),
    Model::trains,
    Pass::moves_all_places,
    &Pass::places_of};

} // namespace trireme::detail

namespace trireme::inline TRIREME_ISA {

/// The types that machine code of a training program is instantiated by; the layout is not among them. `Staged`: its
/// network may be cut into stages; without it there is no code for what goes between them. `Clips`: gradients are
/// measured and scaled before they are used. `Compresses`: some gradients travel as bf16. A composition whose loss is
/// no_loss is not trained: it has no gradients.
template<class Network, class Loss, class Optimizer, class Kernels, class T, bool Staged = false, bool Clips = false,
         bool Compresses = false>
struct composition {
    static constexpr bool staged = Staged, clips = Clips, compresses = Compresses, trains = detail::trains_with<Loss>;
    using network = Network;
    using loss = Loss;
    using optimizer = Optimizer;
    using kernels = Kernels;
    using value_type = T;
    using stored_type = stored_t<Kernels, T>; ///< of activations

    template<std::size_t Lanes = Kernels::template lanes<T>>
    using pass = host_pass<Network, Kernels, T, Lanes, Loss>;
    using target = target_t<Loss, typename Network::output_extents, T>; ///< a class, or a value
    static constexpr std::size_t targets = target_extents<Loss, typename Network::output_extents>::size;
    static constexpr bool weighs_samples = detail::weighs_samples<Loss, typename Network::output_extents, T>;

    /// The kernels for the loss and the optimizer.
    using sample_kernels = typename sample_kernels_of<Kernels>::type;
    /// True if the samples of a shard lie in the activation arena all at once: some layer needs them, or the kernels.
    static constexpr bool at_once = takes_all_samples<Kernels>;
    static constexpr bool whole_shard = (trains && Network::whole_shard) || at_once;

    /// The arena of a device with the whole network: see row_numbers.
    static constexpr row_numbers numbers = numbers_of_rows(Network::rows, sizeof(T), {0, Network::depth});
    static constexpr std::size_t first_buffer = numbers.buffers_lie;
    static constexpr std::size_t arena_elements = numbers.elements;

    /// Memory of a device's kernels, beside the activations: what their context asks for.
    static constexpr bytes_t workspace_bytes([[maybe_unused]] std::size_t shard_samples) {
        if constexpr (at_once)
            return round_up<bytes_t>(
                Kernels::context::bytes(detail::lasting_rows<Network>.of, Network::depth, shard_samples), cache_line);
        else
            return 0;
    }
};

/// A stage of a device in its activation arena, which has frames, what lasts within a task, and outgoing slots; offsets
/// are in elements. All stages of a device take turns in them: each is as large as the largest stage needs. A device
/// with the whole network has one frame, with what layers keep of a shard. `Pass`: the way of samples through the rows
/// on this kind of device.
template<class Model, class Pass = typename Model::template pass<>>
struct stage_activations {
    using network = typename Model::network;
    using stored_type = typename Model::stored_type;
    using pass = Pass;

    range rows = {0, network::depth};
    std::size_t samples = 0; ///< the most of a micro-batch
    rank_frames places = {};
    typename pass::plan_type plan = {};
    typename pass::plan_type alone = {};       ///< of samples that go one by one, where granules have several
    std::size_t frame = 0, task = 0, slot = 0; ///< elements of each
    std::size_t targets = 0;                   ///< likewise: those of the samples that the loss takes at once
    std::size_t statistics = 0; ///< at this element of a frame: what forward adds to buffers, till backward takes it
    std::size_t agreed = 0;     ///< likewise: gradients that layers find while they agree, till backward_weights

    /// The first stage of a rank, beside its others.
    TRIREME_COLD constexpr stage_activations(parallel_layout const& l, std::size_t most, int rank)
        : stage_activations(l, most, l.stage_of(rank, 0), frames_of_rank(l, rank)) {
        for (int chunk = 1; chunk < l.chunks(); ++chunk) make_room_for({l, most, l.stage_of(rank, chunk), places});
    }
    /// All stages of a rank. `frames`: those of its program.
    TRIREME_COLD static std::vector<stage_activations> of_rank(parallel_layout const& l, std::size_t most, int rank,
                                                               rank_frames const& frames) {
        std::vector<stage_activations> all;
        for (int chunk = 0; chunk < l.chunks(); ++chunk) all.push_back({l, most, l.stage_of(rank, chunk), frames});
        for (auto& s : all)
            for (auto const& beside : all) s.make_room_for(beside);
        return all;
    }

private:
    constexpr void make_room_for(stage_activations const& beside) noexcept {
        frame = std::max(frame, beside.frame);
        task = std::max(task, beside.task);
        slot = std::max(slot, beside.slot);
        targets = std::max(targets, beside.targets);
    }
    /// A stage by itself.
    TRIREME_COLD constexpr stage_activations(parallel_layout const& l, std::size_t most, int stage,
                                             rank_frames const& frames)
        : samples(most), places(frames) {
        if constexpr (pass::whole_shard)
            plan = pass::plan(samples, l.recomputed);
        else
            plan = pass::plan_one(l.recomputed);
        if constexpr (Model::staged)
            if (l.stages > 1) {
                rows = l.rows_of(stage, network::depth);
                plan = pass::plan_stage(samples, rows, places.halves, l.recomputed);
            }
        frame = statistics = agreed =
            detail::frame_elements<network, typename Model::value_type, stored_type>(plan, rows);
        if (is_stage()) {
            auto const of = [](std::size_t numbers) {
                return round_up(numbers * sizeof(typename Model::value_type), cache_line) / sizeof(stored_type);
            };
            auto const &begin = network::row(rows.begin), &end = network::row(rows.end);
            frame = agreed = statistics + of(end.first_buffer - begin.first_buffer);
            if (places.halves) frame += of(end.first_agreed - begin.first_agreed);
        }
        task = pass::task_elements(plan);
        if constexpr (Model::kernels::template one_by_one<typename Model::value_type> != 0 && !pass::whole_shard) {
            using pass_of_one = typename Model::template pass<1>;
            alone = is_stage() ? plan : pass_of_one::plan_one(l.recomputed);
            task = std::max(task, pass_of_one::task_elements(alone));
        }
        slot = plan.elements - plan.sent;
        if (rows.end == network::depth) targets = pass::target_elements(samples);
        if (l.stages == 1) places.frames = 1;
    }

public:
    /// True if micro-batches go through other stages, too.
    constexpr bool is_stage() const noexcept { return Model::staged && rows.size() != network::depth; }

    constexpr std::size_t elements() const noexcept { return first_target() + targets; }
    constexpr std::size_t first_target() const noexcept { return first_slot() + places.slots * slot; }
    detail::activation_memory<stored_type> memory(stored_type* arena, std::size_t frame_index,
                                                  std::size_t slot_index) const noexcept {
        auto* const tasks = arena + places.frames * frame;
        return {arena + frame_index * frame, tasks, tasks + task + slot_index * slot};
    }
    constexpr std::size_t first_slot() const noexcept { return places.frames * frame + task; }
};

/// The bytes that cross the boundary before a row with a micro-batch of so many samples.
template<class Model, class Pass>
constexpr crossing_bytes bytes_across(std::size_t row, std::size_t samples) noexcept {
    return detail::traffic_of<Model, Pass>.bytes_across(row, samples);
}

/// The traffic of a rank that takes the squares of all other stages' gradients from them: add(role, traffic).
template<class Model, class Add>
constexpr void traffic_of_squares(parallel_layout const& l, int rank, Add const& add) {
    using network = typename Model::network;
    for (int stage = 0; stage < l.stage_count() && Model::clips; ++stage) {
        int const role = l.place_of(stage).role;
        auto const n = gradient_pieces<network>(l.rows_of(stage, network::depth)).size();
        if (role != l.role_of(rank) && n != 0) add(role, traffic{1, n * sizeof(double)});
    }
}

/// Adds the traffic that a rank reads from others in a step on a full batch; without training, in a prediction.
template<class Model, class Pass>
constexpr void traffic_of_step(parallel_layout const& l, std::size_t batch, int rank, detail::traffic_by_peer& sum) {
    detail::traffic_of<Model, Pass>.add_step(l, batch, rank, sum);
    if (l.stages > 1 && Model::trains)
        detail::traffic_of_ties<Model>(l, rank, [&](int role, traffic const& t) { sum.add_roles(one_rank(role), t); });
}

} // namespace trireme::inline TRIREME_ISA

namespace trireme::detail::inline TRIREME_ISA {

/// The kernels of one device: nothing to keep, or what a policy for all samples keeps, and its memory.
template<class Model, class Communicator, bool AtOnce = Model::at_once>
struct kernels_of_device {
    kernels_of_device(Communicator&, memory_area const&, std::size_t) noexcept {}
    typename Model::kernels policy() const noexcept { return {}; }
    int begin() const noexcept { return 0; }
};
template<class Model, class Communicator>
struct kernels_of_device<Model, Communicator, true> {
    arena memory;
    typename Model::kernels::context context;

    kernels_of_device(Communicator& comm, memory_area const& workspace, std::size_t samples)
        : memory(comm.allocate(workspace.total())),
          context(detail::lasting_rows<typename Model::network>.of, Model::network::depth, samples, memory.data) {}
    typename Model::kernels policy() noexcept { return typename Model::kernels(context); }
    auto begin() { return context.begin(); }
};

} // namespace trireme::detail::inline TRIREME_ISA
