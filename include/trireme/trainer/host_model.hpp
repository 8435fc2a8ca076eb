// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/fault_points.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/kernels/clipping.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/compressed_gradients.hpp>
#include <trireme/trainer/host_executor.hpp>
#include <trireme/trainer/host_facts.hpp>
#include <trireme/trainer/host_samples.hpp>
#include <trireme/trainer/host_stage.hpp>
#include <trireme/trainer/sample_batch.hpp>
#include <trireme/trainer/tied_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// An executor's model: the code of a device that is instantiated by a composition. It computes and updates, task by
/// task, and has the kernels and the plans of its activations. `Numbers`: what the optimizer takes of the options.
template<class Model, class Numbers, training_communicator Communicator, class Faults>
class host_model final : public host_executor<typename Model::value_type, Communicator, Model::staged, Faults> {
    using base = host_executor<typename Model::value_type, Communicator, Model::staged, Faults>;
    using network = typename Model::network;
    using stored = typename Model::stored_type;
    using placed = host_stage<Model>;
    using ties = tied_rows<Model, Communicator>;
    using losses_type = typename Model::template pass<>::losses_type;
    using base::comm_, base::layout_, base::shards_, base::batch_, base::steps_, base::times_;
    using base::weights, base::gradient_slot, base::seconds;
    using typename base::clock, typename base::stage_type;

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
        m.channels.bytes = stage_neighbours<Communicator, Model::staged>::channel_bytes(l) + ties::channel_bytes(l);
        m.squares.bytes = pieces * sizeof(double) + (l.stages > 1 ? cache_line : 0);
        return m;
    }

    /// Adds what a device reads from others in a step on a full batch.
    static constexpr void moves(parallel_layout const& l, std::size_t batch, int rank, traffic_by_peer& sum) {
        traffic_of_step<Model, typename Model::template pass<>>(l, batch, rank, sum);
        if (l.stages > 1 && Model::trains)
            for (std::size_t const n : {pieces, std::size_t{1}}) // a norm, and whether losses are finite
                if (n != 0) sum.add_sum_over_roles(n, sizeof(double));
    }

    /// `batch`: the most samples of a step.
    TRIREME_COLD host_model(Communicator& comm, parallel_layout const& layout, std::size_t batch, std::uint64_t seed)
        : host_model(comm, layout, batch, seed, memory(layout, batch, comm.rank())) {}

    /// Gives this device's weights their first values.
    template<class Initialiser>
    void begin() {
        if (this->has_weights())
            for (auto const& s : placed_) s.template initialise<network, Initialiser>(weights(s), seed_);
        this->check_floats();
    }

    /// One step on a batch. Every device of the group calls it with the same samples.
    void step(sample_batch<T> const& batch, step_numbers<Numbers> const& now) {
        [[maybe_unused]] auto const computing = kernels_.begin();
        now_ = now;
        this->run_step(batch, now.max_norm);
    }

    /// Losses and right answers of this replica's shards of a batch, or outputs, left by its last stage; no gradient.
    /// Every device calls it.
    void evaluate(sample_batch<T> const& batch) {
        [[maybe_unused]] auto const computing = kernels_.begin();
        auto const& blocks = placed_[0].blocks;
        this->run_evaluation(batch, Model::at_once || blocks.is_stage()
                                        ? Model::template pass<>::places_for(blocks.samples)
                                        : batch.indices.size());
    }

private:
    static constexpr std::size_t pieces = facts_on_host<Model>.pieces;

    TRIREME_COLD host_model(Communicator& comm, parallel_layout const& layout, std::size_t batch, std::uint64_t seed,
                            memory_map const& map)
        : base(comm, layout, batch, map, facts_on_host<Model>), seed_(seed),
          kernels_(comm, map.workspace, layout.most_shard_samples(batch)),
          ties_(comm, layout, this->parameters_, this->gradients_), compressed_(comm, map) {
        auto const activations = stage_activations<Model>::of_rank(
            layout, layout.most_shard_samples(batch), comm.rank(), this->programs_.frames(layout, this->role()));
        placed_.reserve(activations.size());
        for (int chunk = 0; chunk < layout.chunks(); ++chunk)
            this->add_stage(
                placed_.emplace_back(layout, comm.rank(), chunk, activations[static_cast<std::size_t>(chunk)]));
        for (auto const& s : placed_) compressed_.add_stage(layout, s.numbers.extent());
        losses_.targets =
            reinterpret_cast<typename Model::target*>(arena_of_activations() + placed_[0].blocks.first_target());
        if constexpr (Model::at_once) prepare(batch);
    }

    /// Makes the kernels ready for the steps to come: nothing is computed, and no other device's memory is read.
    void prepare(std::size_t batch) {
        [[maybe_unused]] auto const computing = kernels_.begin();
        kernels_.context.prepare(true);
        for (auto const& s : placed_) {
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

    void update(stage_type const& s, range slice) override {
        static_cast<placed const&>(s).update(slice, weights(s), gradient_slot(s, 0), this->optimizer_state_of(s),
                                             this->clipping_, layout_.updates, this->updates_made_, now_);
    }
    void measure_pieces([[maybe_unused]] std::span<double> sums) const override {
        if constexpr (Model::clips)
            for (auto const& s : placed_)
                for_each_gradient_piece<network>(
                    s.numbers.rows, [&](std::size_t piece, std::size_t first, std::size_t n) {
                        sums[piece] = sum_of_squares(typename Model::sample_kernels{},
                                                     gradient_slot(s, 0) + (first - s.numbers.first_parameter), n);
                    });
    }
    void add_compressed(std::size_t i) override {
        compressed_.add(this->beside_.replicas(), this->reductions_[i].steps, i, this->reduced_by(i));
    }
    void scale_errors(T factor) override { compressed_.scale_errors(factor); }
    void add_tied() override { ties_.add(); }
    void copy_tied() override { ties_.copy(); }

    void compute(step_task const& t, range mine, std::size_t shard) override {
        bool const trains = gives_weights(t.kind), evaluates = t.kind == task_kind::evaluate;
        auto& s = placed_[t.chunk];
        auto numbers = numbers_for(s, t);
        double terms[network::loss_terms + 1] = {};
        granule_place place{
            seed_, steps_, static_cast<std::uint32_t>(shard), 0, mine.size(), mine.size(), batch_.indices.size()};
        losses_.weight = static_cast<T>(batch_.scale);
        if (network::loss_terms != 0 && !evaluates) {
            numbers.terms = terms;
            numbers.loss_weight = losses_.weight;
        }
        bool const scores = evaluates && is_scored(s);
        double loss = scores ? batch_.losses[shard] : 0; // of a shard that comes in parts
        losses_.sum = &loss;
        if (scores) losses_.correct = &batch_.correct[shard];
        for_passes(t.kind, mine.size(), [&]<std::size_t Lanes>(lane_count<Lanes>, range const& some) {
            auto const here = batch_.indices.subspan(mine.begin + some.begin, some.size());
            place.first = some.begin;
            place.count = some.size();
            auto const lanes = Model::template pass<Lanes>::lanes_for(some.size());
            auto const pass =
                s.template pass<Lanes>(arena_of_activations(), numbers, place, t, some.begin,
                                       with_lanes<Lanes>(kernels_.policy(), lanes), is_scored(s) ? &losses_ : nullptr);
            auto const granule = [&](std::size_t team) {
                return Model::at_once
                           ? here
                           : some_of(here, team * Model::template pass<Lanes>::most, Model::template pass<Lanes>::most);
            };
            sample_prefetch fetch(batch_.samples->inputs(), next_to_gather<Lanes>(s, mine, some));
            auto const fetch_next = [&fetch](std::size_t) { fetch(); };
            auto const exchange = [&](std::size_t i) { add_exchanged(pass.kept(), i); };
            auto const gather = [&](std::size_t team) {
                comm_.check_stopped();
                if (s.first()) gather_inputs<Lanes>(granule(team), !evaluates, pass.lanes_taken(), pass.input(team));
            };
            auto const gather_for_loss = [&](std::size_t team) {
                if (is_scored(s))
                    host_samples<Model>::template gather_targets<Lanes>(batch_.samples->targets(), granule(team),
                                                                        losses_.targets);
            };
            if (evaluates) {
                pass.evaluate(
                    [&](std::size_t team) {
                        gather(team);
                        gather_for_loss(team);
                    },
                    [&](std::size_t team) {
                        if (!scores && s.last)
                            host_samples<Model>::take_outputs(granule(team), pass.output(team), pass.lanes_taken(),
                                                              batch_.outputs);
                    });
                return;
            }
            if (goes_forward(t.kind)) {
                Faults::at(fault_point::forward, comm_.rank(), steps_);
                pass.forward(gather, fetch_next, exchange);
            }
            if (t.kind == task_kind::forward) return;
            Faults::at(fault_point::backward, comm_.rank(), steps_);
            auto const begin_back = [&](std::size_t team) {
                comm_.check_stopped();
                if (t.kind != task_kind::backward_weights) gather_for_loss(team);
            };
            if constexpr (Model::staged) {
                if (t.kind == task_kind::backward_input) return pass.backward_input(begin_back, fetch_next, exchange);
                if (t.kind == task_kind::backward_weights) return pass.backward_weights(begin_back, fetch_next);
            }
            pass.backward(begin_back, fetch_next, exchange);
        });
        losses_.sum = nullptr;
        if (t.scales || scores) batch_.losses[shard] = loss;
        if (goes_forward(t.kind))
            s.for_terms([&](std::size_t term) { batch_.losses[(1 + term) * layout_.shards() + shard] = terms[term]; });
        if (trains && layout_.reproducible()) s.tree.push({shard, shard + 1}, this->merging(s));
    }

    /// The numbers that a task works with. The gradients of a micro-batch are added to one slot for all, as they come,
    /// or, where a tree adds them, to one of their own.
    model_numbers<T> numbers_for(placed& s, step_task const& t) {
        bool const trees = layout_.reproducible(), fresh = trees || !s.adds;
        s.adds = s.adds || gives_weights(t.kind);
        return s.numbers_for(t, weights(s), gradient_slot(s, trees ? s.tree.depth() : 0), fresh,
                             arena_of_activations());
    }

    /// f(lane_count<N>, samples) for what goes through the rows one behind the other: a granule, or all samples at once
    /// where layers or kernels need them.
    template<class F>
    static void for_passes(task_kind kind, std::size_t samples, F const& f) {
        constexpr auto lanes = Model::template pass<>::lanes;
        if constexpr (!Model::whole_shard)
            for_granules<typename Model::kernels, T, Model::template pass<>::narrows, Model::template pass<>::together>(
                range{0, samples}, f);
        else if (Model::at_once || kind != task_kind::evaluate)
            f(lane_count<lanes>{}, range{0, samples});
        else
            for (std::size_t at = 0; at < samples; at += lanes)
                f(lane_count<lanes>{}, range{at, std::min(at + lanes, samples)});
    }

    /// At most `count` numbers from `first` on.
    static std::span<std::uint32_t const> some_of(std::span<std::uint32_t const> all, std::size_t first,
                                                  std::size_t count) noexcept {
        return all.subspan(first, std::min(count, all.size() - first));
    }
    /// Samples of the micro-batch behind `some`, which are brought near meanwhile.
    template<std::size_t Lanes>
    std::span<std::uint32_t const> next_to_gather(placed const& s, range mine, range some) const {
        if (Model::whole_shard || !s.first()) return {};
        auto const at = mine.begin + some.end;
        return batch_.indices.subspan(at, std::min(Model::template pass<Lanes>::most, mine.end - at));
    }
    template<std::size_t Lanes>
    void gather_inputs(std::span<std::uint32_t const> samples, bool trains, std::size_t lanes, stored* to) {
        auto const start = clock::now();
        host_samples<Model>::template gather_inputs<Lanes>(batch_.samples->inputs(), samples,
                                                           {seed_, trains ? steps_ : 0}, lanes, to);
        times_.data += seconds(start, clock::now());
    }
    /// True where the samples of the batch have their losses.
    bool is_scored(placed const& s) const noexcept { return s.last && batch_.outputs == nullptr; }

    /// Adds the numbers of the network's `exchange`-th exchange, which layers keep, over all devices.
    void add_exchanged([[maybe_unused]] T* kept, [[maybe_unused]] std::size_t exchange) {
        if constexpr (network::exchanges.count != 0) {
            auto const& numbers = network::exchanges[exchange];
            this->add_over_devices({kept + numbers.first, numbers.elements}, exchange);
        }
    }
    stored* arena_of_activations() const noexcept { return static_cast<stored*>(this->activations_.data); }

    std::uint64_t seed_;
    step_numbers<Numbers> now_ = {}; ///< of the step that is being done
    std::vector<placed> placed_;     ///< its stages
    losses_type losses_;             ///< of the last stage
    [[no_unique_address]] kernels_of_device<Model, Communicator> kernels_;
    [[no_unique_address]] ties ties_;
    [[no_unique_address]] compressed_gradients<T, Communicator, Model::compresses> compressed_;
};

} // namespace trireme::detail::inline TRIREME_ISA
