// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/stage_moves.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/trainer/host_facts.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// True for groups whose ranks can be the stages of a pipeline: they have channels, and can be divided.
template<class C>
inline constexpr bool can_have_stages =
    channelled_communicator<C> && std::constructible_from<C, C const&, int, std::vector<int>>;

inline namespace TRIREME_ISA {

/// Neighbours of a device in a mesh: its replicas, which have the same rows, and the stages of its own replica. A
/// device that has the whole network has replicas only.
/// `Staged`: the composition's; else there is no code for what goes between stages.
template<class Communicator, bool Staged>
class stage_neighbours {
public:
    /// Memory that the moves between stages take from the group.
    static constexpr bytes_t channel_bytes(parallel_layout const& l) noexcept {
        return l.stages == 1 ? 0 : stage_moves<Communicator>::counter_bytes(l.replicas, l.crossings());
    }

    stage_neighbours(Communicator& world, parallel_layout const& l, rank_programs const& programs, arena const& blocks,
                     std::size_t most_samples, detail::host_facts const& model)
        : world_(world), blocks_(blocks), role_(l.role_of(world.rank())), moved_(model.moved) {
        detail::check_no_strategy_of_a_transport(l); // a part of a group has none
        if (l.stages == 1) return;
        pipeline_ = std::make_unique<pipeline>(world, l, programs);
        std::vector<std::vector<detail::stage_blocks>> by_role;
        for (int role = 0; role < l.stages; ++role)
            by_role.push_back(model.stages(l, most_samples, role, programs.frames(l, role)));
        for (int stage = 0; stage < l.stage_count(); ++stage) {
            auto const [role, chunk] = l.place_of(stage);
            pipeline_->by_stage.push_back(by_role[static_cast<std::size_t>(role)][static_cast<std::size_t>(chunk)]);
            pipeline_->rows_end.push_back(l.rows_of(stage, model.network.depth).end);
        }
    }

    /// The group of this device and the others that have the same rows.
    Communicator& replicas() const noexcept { return pipeline_ != nullptr ? pipeline_->replicas : world_; }
    /// The stages of this device's replica.
    Communicator& roles() const noexcept { return pipeline_->roles; }
    /// The traffic that this device has read from others, in all groups.
    traffic pulled() const noexcept {
        auto sum = world_.pulled();
        if (pipeline_ != nullptr) sum += pipeline_->replicas.pulled(), sum += pipeline_->roles.pulled();
        return sum;
    }

    /// Waits until what has been sent from the places that a task writes to has been taken.
    void wait_for_places(step_program const& p, step_task const& t) {
        if (pipeline_ == nullptr) return;
        operation const what{name_of(t.kind), p.schedule, t.micro_batch};
        bool const first = p.stage(role_, t.chunk) == 0;
        if (first && !gives_weights(t.kind) && !gives_input(t.kind))
            pipeline_->moves.wait_until_free(false, t.frame, what);
        if (!first && gives_input(t.kind)) pipeline_->moves.wait_until_free(true, t.slot, what);
    }

    /// Carries out a move of a program. `samples(m)`: those of a micro-batch.
    template<class Samples>
    void move(step_program const& p, step_task const& t, Samples const& samples) {
        bool const trains = p.tail[role_] != p.list(role_).size();
        operation const what{"move", p.schedule, static_cast<int>(&t - p.list(role_).data())};
        pipeline_->moves.run(
            trains ? pipeline_->of_step : pipeline_->of_evaluation, t, what,
            [&](stage_transfer const& m) {
                auto const& stage = stage_at(m.sends ? m.from() : m.to());
                auto const count = samples(m.micro_batch).size();
                auto const across = moved_.bytes_across(pipeline_->rows_end[m.boundary], count);
                auto const lies = m.sends      ? sent_from(stage, m.gradient, m.place)
                                  : m.gradient ? stage.output_gradient(m.place)
                                               : stage.input(m.place);
                return std::span(static_cast<std::byte*>(blocks_.data) + lies,
                                 m.gradient ? across.gradients : across.values);
            },
            [&](stage_transfer const& m, int rank, std::size_t place) {
                return world_.template shared<std::byte>(blocks_, rank) +
                       sent_from(stage_at(m.from()), m.gradient, place);
            });
    }

private:
    static bytes_t sent_from(detail::stage_blocks const& stage, bool gradient, std::size_t place) noexcept {
        return gradient ? stage.outgoing(place) : stage.output(place);
    }
    detail::stage_blocks const& stage_at(int stage) const noexcept {
        return pipeline_->by_stage[static_cast<std::size_t>(stage)];
    }

    struct pipeline {
        Communicator replicas;
        Communicator roles; ///< which measure their gradients together, and tell one another of losses
        stage_moves<Communicator> moves;
        sent_places of_step, of_evaluation;
        std::vector<detail::stage_blocks> by_stage;
        std::vector<std::size_t> rows_end; ///< of each stage

        pipeline(Communicator& world, parallel_layout const& l, rank_programs const& p)
            : replicas(world, 1, along(l, "dp", world.rank())), roles(world, 2, along(l, "pp", world.rank())),
              moves(world, p.step(), l.replicas), of_step(p.step()), of_evaluation(p.evaluation()) {}
        static std::vector<int> along(parallel_layout const& l, char const* axis, int rank) {
            return mesh_group{{l.mesh().find(axis)}}.members(l.mesh(), rank);
        }
    };

    Communicator& world_;
    arena blocks_; ///< of activations
    int role_;
    detail::traffic_values const& moved_;
    std::unique_ptr<pipeline> pipeline_; ///< none where one device has the whole network
};

/// Devices that have no stages: their group cannot, or their mesh does not.
template<class Communicator, bool Staged>
    requires(!can_have_stages<Communicator> || !Staged)
class stage_neighbours<Communicator, Staged> {
public:
    static constexpr bytes_t channel_bytes(parallel_layout const&) noexcept { return 0; }

    stage_neighbours(Communicator& world, parallel_layout const& l, rank_programs const&, arena const&, std::size_t,
                     detail::host_facts const&)
        : world_(world) {
        if (l.stages != 1)
            throw usage_error("stages = " + std::to_string(l.stages) +
                              ": these devices have no pipelines; use one stage, or devices that are threads, or "
                              "processes");
    }
    Communicator& replicas() const noexcept { return world_; }
    traffic pulled() const noexcept { return world_.pulled(); }

private:
    Communicator& world_;
};

} // namespace TRIREME_ISA
} // namespace trireme
