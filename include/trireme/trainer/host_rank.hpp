// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/host_stage.hpp>
#include <trireme/trainer/stage_neighbours.hpp>
#include <trireme/trainer/tied_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// A device of the host between two steps: its stages of the model, or all of it, its memory, which comes from its
/// communicator, and its way to the devices beside it.
template<class Model, training_communicator Communicator>
class host_rank {
    using network = typename Model::network;

public:
    using T = typename Model::value_type;

    /// The map of a device's memory. `batch`: the most samples of a step; only what takes the samples of a shard at
    /// once minds it, and pipelines.
    static constexpr memory_map memory(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = memory_of_model<Model>(l, rank);
        auto const samples = l.most_shard_samples(batch);
        m.activations.bytes = stage_activations<Model>(l, samples, rank).elements() * sizeof(stored);
        m.workspace.bytes = Model::workspace_bytes(samples);
        m.counters.bytes = Communicator::control_bytes;
        m.channels.bytes = stage_neighbours<Model, Communicator>::channel_bytes(l) + ties::channel_bytes(l);
        m.squares.bytes = measured_pieces * sizeof(double) + (l.stages > 1 ? cache_line : 0);
        return m;
    }

    /// Adds what a device reads from others in a step on a full batch.
    static constexpr void moves(parallel_layout const& l, std::size_t batch, int rank, traffic_by_peer& sum) {
        traffic_of_step<Model, typename Model::template pass<>>(l, batch, rank, sum);
        if (l.stages > 1 && Model::trains)
            for (std::size_t const n : {measured_pieces, std::size_t{1}}) // a norm, and whether losses are finite
                if (n != 0) sum.add_sum_over_roles(n, sizeof(double));
    }

    /// Gives this device's weights their first values.
    template<class Initialiser>
    void begin(std::uint64_t seed) {
        if (has_weights())
            for (auto const& s : stages_) s.template initialise<network, Initialiser>(weights(s), seed);
        if (layout_.reproducible() && !floats_are_default())
            throw usage_error("reproducible needs floats that are rounded to the nearest and keep denormal values, and "
                              "this device's are not: build for a target that has them, or leave out reproducible");
    }

    /// The numbers to compute with in the `chunk`-th of its stages: this device's copy, or the one there is.
    held_numbers<T> held(int chunk = 0) const {
        auto const& s = stages_[static_cast<std::size_t>(chunk)];
        return s.held(weights(s));
    }
    /// The numbers of a list that it has for the `chunk`-th of its stages.
    std::span<T const> numbers_of(canonical_list const& list, int chunk) const {
        if (list.of == canonical_list::parameters) return held(chunk).parameters;
        if (list.of == canonical_list::buffers) return held(chunk).buffers;
        auto const n = list_at<network, T>(list, layout_, comm_.rank(), chunk).size();
        return {optimizer_state_of(stages_[static_cast<std::size_t>(chunk)]) + list.array * n, n};
    }
    /// Takes this device's part of what the network has, where it has a copy of its own, and of the optimizer's
    /// numbers.
    TRIREME_COLD void take(numbers_to_take<T> const& from) {
        for (int chunk = 0; chunk < layout_.chunks(); ++chunk) {
            auto const& s = stages_[static_cast<std::size_t>(chunk)];
            if (has_weights() && !from.parameters.empty()) s.take_parameters(from.parameters, weights(s));
            if (has_weights() && !from.buffers.empty()) s.take_buffers(from.buffers, weights(s));
            for (std::size_t k = 0; k < from.optimizer.size(); ++k) {
                canonical_list const array{canonical_list::optimizer, k};
                auto const mine = list_at<network, T>(array, layout_, comm_.rank(), chunk);
                std::ranges::copy(from.of(array).subspan(mine.begin, mine.size()),
                                  optimizer_state_of(s) + k * mine.size());
            }
        }
        if (auto* const made = updates_made(); from.goes_on && made != nullptr) *made = from.updates;
    }
    /// Updates that its optimizer has counted.
    std::uint64_t updates() const noexcept {
        auto const* const made = updates_made();
        return made != nullptr ? *made : 0;
    }

protected:
    using stored = typename Model::stored_type;
    using stage_type = host_stage<Model>;
    using ties = tied_rows<Model, Communicator>;
    static constexpr std::size_t pieces = gradient_pieces<network>({0, network::depth}).end;
    static constexpr std::size_t measured_pieces = Model::clips ? pieces : 0;
    struct reduction {
        range elements;
        schedule steps;
    };

    host_rank(Communicator& comm, parallel_layout const& layout, std::size_t batch)
        : host_rank(comm, layout, batch, memory(layout, batch, comm.rank())) {}

    T* weights(stage_type const& s) const {
        if constexpr (shared_memory_communicator<Communicator>)
            if (layout_.shared_weights) return beside_.replicas().template shared<T>(parameters_, 0) + s.lies.weights;
        return static_cast<T*>(parameters_.data) + s.lies.weights;
    }
    T* gradient_slot(stage_type const& s, std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data) + s.lies.gradients + i * s.numbers.elements;
    }
    T* optimizer_state_of(stage_type const& s) const noexcept { return static_cast<T*>(state_.data) + s.lies.state; }
    std::uint64_t* updates_made() const noexcept {
        return count_of_updates(counts_updates<typename Model::optimizer>, state_.data, state_.bytes);
    }
    stored* arena_of_activations() const noexcept { return static_cast<stored*>(activations_.data); }
    /// False if another device has the only copy.
    bool has_weights() const noexcept { return parameters_.bytes != 0; }

    Communicator& comm_;
    parallel_layout layout_;
    rank_programs programs_;
    std::vector<stage_type> stages_;    ///< of this device
    std::vector<reduction> reductions_; ///< of one step, stage by stage
    range shards_;
    arena parameters_, gradients_, state_, activations_, squares_;
    [[no_unique_address]] kernels_of_device<Model, Communicator> kernels_;
    stage_neighbours<Model, Communicator> beside_;
    [[no_unique_address]] ties ties_;

private:
    TRIREME_COLD host_rank(Communicator& comm, parallel_layout const& layout, std::size_t batch, memory_map const& map)
        : comm_(comm), layout_(layout), programs_(layout, comm.rank()), shards_(layout.shards_of_device(comm.rank())),
          parameters_(comm.allocate(map.parameters.total())), gradients_(comm.allocate(map.gradients.total())),
          state_(comm.allocate(map.optimizer_state.total() + map.updates.total())),
          activations_(comm.allocate(map.activations.total())),
          squares_(map.squares.bytes != 0 ? comm.allocate(map.squares.total()) : arena{}),
          kernels_(comm, map.workspace, layout.most_shard_samples(batch)),
          beside_(comm, layout, programs_, activations_, layout.most_shard_samples(batch)),
          ties_(comm, layout, parameters_, gradients_) {
        if (layout.shared_weights && !shares_memory(comm))
            throw usage_error("hold_weights<once> needs devices that write into one memory, which this group's cannot");
        auto const activations =
            stage_activations<Model>::of_rank(layout, layout.most_shard_samples(batch), comm.rank(),
                                              programs_.frames(layout, layout.role_of(comm.rank())));
        stages_.reserve(activations.size());
        for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
            auto const& s =
                stages_.emplace_back(layout, comm.rank(), chunk, activations[static_cast<std::size_t>(chunk)]);
            auto const extent = s.numbers.extent();
            for (std::size_t i = 0; i < layout.reductions(); ++i)
                reductions_.push_back({layout.reduced_by(i, extent), layout.reduction(i, extent, sizeof(T))});
        }
        if constexpr (Model::at_once) prepare(batch);
    }

    /// Makes the kernels ready for the steps to come: nothing is computed, and no other device's memory is read.
    void prepare(std::size_t batch) {
        [[maybe_unused]] auto const computing = kernels_.begin();
        kernels_.context.prepare(true);
        for (auto const& s : stages_) {
            T* const zeros = Model::trains ? gradient_slot(s, 0) : weights(s);
            auto const numbers = s.numbers_in(zeros, zeros);
            std::size_t before = 0;
            for (auto shard = shards_.begin; shard < shards_.end; ++shard) {
                auto const count = part(batch, shard, layout_.shards()).size();
                if (count == before) continue;
                before = count;
                granule_place const place{0, 0, static_cast<std::uint32_t>(shard), 0, count, count, batch};
                auto const pass =
                    s.template pass<1>(arena_of_activations(), numbers, place, step_task{}, 0, kernels_.policy());
                if constexpr (Model::trains) {
                    pass.forward();
                    pass.backward();
                } else {
                    pass.evaluate();
                }
            }
        }
        kernels_.context.prepare(false);
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
