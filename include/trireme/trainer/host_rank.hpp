// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/trainer/host_facts.hpp>
#include <trireme/trainer/placed_stage.hpp>
#include <trireme/trainer/stage_neighbours.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// A device of the host between two steps: its memory, which comes from its communicator, its stages of the model, or
/// all of it, and its way to the devices beside it.
template<class T, training_communicator Communicator, bool Staged>
class host_rank {
public:
    host_rank(host_rank const&) = delete;
    host_rank& operator=(host_rank const&) = delete;

    /// The numbers to compute with in the `chunk`-th of its stages: this device's copy, or the one there is.
    held_numbers<T> held(int chunk = 0) const {
        auto const& s = *stages_[static_cast<std::size_t>(chunk)];
        return s.held(weights(s));
    }
    /// The numbers of a list that it has for the `chunk`-th of its stages.
    std::span<T const> numbers_of(canonical_list const& list, int chunk) const {
        if (list.of == canonical_list::parameters) return held(chunk).parameters;
        if (list.of == canonical_list::buffers) return held(chunk).buffers;
        auto const& s = *stages_[static_cast<std::size_t>(chunk)];
        auto const n = list_of(list, s).size();
        return {optimizer_state_of(s) + list.array * n, n};
    }
    /// Updates that its optimizer has counted.
    std::uint64_t updates() const noexcept { return updates_made_ != nullptr ? *updates_made_ : 0; }

protected:
    using stage_type = stage_numbers<T>;
    struct reduction {
        range elements;
        schedule steps;
        bool compresses;
    };

    /// `batch`: the most samples of a step. Its stages follow by `add_stage`.
    TRIREME_COLD host_rank(Communicator& comm, parallel_layout const& layout, std::size_t batch, memory_map const& map,
                           host_facts const& model)
        : comm_(comm), layout_(layout), model_(model), programs_(layout, comm.rank()),
          shards_(layout.shards_of_device(comm.rank())), parameters_(comm.allocate(map.parameters.total())),
          gradients_(comm.allocate(map.gradients.total())),
          state_(comm.allocate(map.optimizer_state.total() + map.updates.total())),
          activations_(comm.allocate(map.activations.total())),
          squares_(map.squares.bytes != 0 ? comm.allocate(map.squares.total()) : arena{}),
          beside_(comm, layout, programs_, activations_, layout.most_shard_samples(batch), model) {
        if (layout.shared_weights && !shares_memory(comm))
            throw usage_error("hold_weights<once> needs devices that write into one memory, which this group's cannot");
        if (map.updates.bytes != 0)
            updates_made_ =
                reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(state_.data) + map.optimizer_state.total());
    }
    ~host_rank() = default;

    /// Takes the device's next stage, which outlives it.
    TRIREME_COLD void add_stage(stage_type& s) {
        stages_.push_back(&s);
        auto const extent = s.numbers.extent();
        for (std::size_t i = 0; i < layout_.reductions(); ++i)
            reductions_.push_back({layout_.reduced_by(i, extent), layout_.reduction(i, extent, sizeof(T)),
                                   layout_.compressed_by(i, extent) != 0});
    }
    /// Throws usage_error where floats would break a promise of the layout.
    TRIREME_COLD void check_floats() const {
        if (layout_.reproducible() && !floats_are_default())
            throw usage_error("reproducible needs floats that are rounded to the nearest and keep denormal values, and "
                              "this device's are not: build for a target that has them, or leave out reproducible");
    }
    /// Takes this device's part of what the network has, where it has a copy of its own, and of the optimizer's
    /// numbers.
    TRIREME_COLD void take(numbers_to_take<T> const& from) {
        for (auto const* s : stages_) {
            if (has_weights() && !from.parameters.empty()) s->take_parameters(from.parameters, weights(*s));
            if (has_weights() && !from.buffers.empty()) s->take_buffers(from.buffers, weights(*s));
            for (std::size_t k = 0; k < from.optimizer.size(); ++k) {
                canonical_list const array{canonical_list::optimizer, k};
                auto const mine = list_of(array, *s);
                std::ranges::copy(from.of(array).subspan(mine.begin, mine.size()),
                                  optimizer_state_of(*s) + k * mine.size());
            }
        }
        if (from.goes_on && updates_made_ != nullptr) *updates_made_ = from.updates;
    }

    T* weights(stage_type const& s) const {
        if constexpr (shared_memory_communicator<Communicator>)
            if (layout_.shared_weights) return beside_.replicas().template shared<T>(parameters_, 0) + s.lies.weights;
        return static_cast<T*>(parameters_.data) + s.lies.weights;
    }
    T* gradient_slot(stage_type const& s, std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data) + s.lies.gradients + i * s.numbers.elements;
    }
    T* optimizer_state_of(stage_type const& s) const noexcept { return static_cast<T*>(state_.data) + s.lies.state; }
    /// False if another device has the only copy.
    bool has_weights() const noexcept { return parameters_.bytes != 0; }

    Communicator& comm_;
    parallel_layout layout_;
    host_facts const& model_;
    rank_programs programs_;
    std::vector<stage_type*> stages_;   ///< of this device
    std::vector<reduction> reductions_; ///< of one step, stage by stage
    range shards_;
    arena parameters_, gradients_, state_, activations_, squares_;
    std::uint64_t* updates_made_ = nullptr; ///< counted behind the optimizer's numbers, if it wants to know
    stage_neighbours<Communicator, Staged> beside_;

private:
    range list_of(canonical_list const& list, stage_type const& s) const {
        return list_at(s.numbers, list, layout_, comm_.rank(), sizeof(T));
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
