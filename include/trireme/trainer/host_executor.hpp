// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/fixed_tree.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/collective/proved.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/kernels/clipping.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/pipeline/trace.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/host_rank.hpp>
#include <trireme/trainer/host_samples.hpp>
#include <trireme/trainer/host_stage.hpp>
#include <trireme/trainer/sample_batch.hpp>
#include <trireme/trainer/traced_task.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// A device of the host at work: its part of every step, which is a program.
template<class Model, training_communicator Communicator>
class host_executor : public detail::host_rank<Model, Communicator> {
    using base = detail::host_rank<Model, Communicator>;
    using network = typename Model::network;
    using base::arena_of_activations, base::gradient_slot, base::optimizer_state_of, base::updates_made, base::weights;
    using base::comm_, base::layout_, base::programs_, base::shards_, base::stages_, base::reductions_;
    using base::kernels_, base::squares_, base::beside_, base::ties_;
    using base::measured_pieces, base::pieces;
    using typename base::stage_type, typename base::stored;

public:
    using typename base::T;

    host_executor(Communicator& comm, parallel_layout const& layout, std::size_t batch) : base(comm, layout, batch) {
        losses_.targets =
            reinterpret_cast<typename Model::target*>(arena_of_activations() + stages_[0].blocks.first_target());
    }

    /// Takes this device's part of what the network has, and goes on with the steps of another trainer.
    void take(numbers_to_take<T> const& from) {
        base::take(from);
        if (from.goes_on) steps_ = from.steps;
    }

    /// The data that the next collectives work for, in the group of all devices, and in that of a stage.
    void works_on(collective_subject const& everywhere, collective_subject const& in_stage) {
        comm_.works_on(everywhere);
        if (layout_.stages > 1) beside_.replicas().works_on(in_stage);
    }

    /// Writes down from now on which tasks are done, and when, in seconds since `origin`.
    void trace_into(task_log& log, std::chrono::steady_clock::time_point origin) noexcept { clock_ = {&log, origin}; }

    /// One step on a batch. Every device of the group calls it with the same samples.
    template<class Faults, class Options>
    void step(sample_batch<T> const& batch, Options const& options) {
        auto const start = clock::now();
        [[maybe_unused]] auto const computing = kernels_.begin();
        batch_ = batch;
        seed_ = options.seed;
        for (auto& s : stages_) s.tree = {};
        updating_ = 0;
        comm_.at_training_step(++steps_);
        auto const now = detail::options_of_step(options, steps_ - 1);
        auto const update = [&](stage_type const& s, range slice) { this->template update<Faults>(s, slice, now); };
        auto const samples_of = [&](std::size_t micro_batch) {
            return part(batch.indices.size(), shards_.begin + micro_batch, layout_.shards());
        };
        auto const& program = programs_.step();
        auto const list = program.list(role());
        auto const tail = list.begin() + program.tail[role()];
        for (auto t = list.begin(); t != tail; ++t) {
            auto const done = traced(*t, steps_);
            on_micro_batch<Faults>(program, *t, samples_of, shards_.begin + t->micro_batch);
        }
        auto const before_reduce = clock::now();
        Faults::at(fault_point::reduce, comm_.rank(), steps_);
        tell_of_losses();
        if (layout_.reproducible() && layout_.replicas == 1)
            for (auto& s : stages_) s.tree.finish(merging(s)); // else the blocks of the tree are added with others'
        bool lost = false; // asked as soon as all is added: two infinities, or one times 0, are no number
        auto const added =
            std::find_if(tail, list.end(), [](auto const& t) { return t.kind != task_kind::collective; });
        for (auto t = tail; t != list.end(); ++t) {
            auto const done = traced(*t, steps_);
            if (t == added) lost = is_lost();
            if (t->kind == task_kind::update) {
                for (auto const& s : stages_)
                    if (!lost) update(s, s.slice);
            } else if (t->kind == task_kind::measure)
                measure(now);
            else if (t->kind == task_kind::add_tied)
                ties_.add();
            else if (t->kind == task_kind::copy_tied)
                ties_.copy();
            else if (layout_.reproducible())
                add_gradients(
                    *t, [&](stage_type const& s) { return add_in_fixed_tree(layout_.shards(), s.numbers.elements); },
                    update);
            else
                add_gradients(*t, [](stage_type const&) { return detail::adder<op::sum>{}; }, update);
        }
        if constexpr (detail::counts_updates<typename Model::optimizer>)
            if (!(layout_.shared_weights ? is_lost() : lost)) ++*updates_made();
        auto const end = clock::now();
        times_.synchronisation += seconds(before_reduce, end) - updating_;
        times_.step += seconds(start, end);
    }

    /// Losses and right answers of this replica's shards of a batch, or outputs, left by its last stage; no gradient.
    /// Every device calls it.
    template<class Faults>
    void evaluate(sample_batch<T> const& batch) {
        auto const before = beside_.pulled();
        [[maybe_unused]] auto const computing = kernels_.begin();
        batch_ = batch;
        auto const& program = programs_.evaluation();
        auto const together = static_cast<std::size_t>(program.shape.micro_batches);
        for (auto shard = shards_.begin; shard < shards_.end; ++shard) {
            if (is_last() && batch.outputs == nullptr) batch.losses[shard] = 0, batch.correct[shard] = 0;
            auto const mine = part(batch.indices.size(), shard, layout_.shards());
            auto const& blocks = stages_[0].blocks;
            auto const most =
                Model::at_once || blocks.is_stage() ? Model::template pass<>::places_for(blocks.samples) : mine.size();
            for (auto begin = mine.begin; begin < mine.end; begin += together * most) {
                auto const samples_of = [&](std::size_t micro_batch) {
                    auto const first = std::min(begin + micro_batch * most, mine.end);
                    return range{first, std::min(first + most, mine.end)};
                };
                for (auto const& t : program.list(role())) {
                    auto const done = traced(t, 0);
                    on_micro_batch<Faults>(program, t, samples_of, shard);
                }
            }
        }
        evaluated_ += beside_.pulled() - before;
    }

    step_program const& program() const noexcept { return programs_.step(); } ///< of its replica
    int role() const noexcept { return layout_.role_of(comm_.rank()); }
    /// True if one of its stages is the network's last.
    bool is_last() const noexcept {
        return std::ranges::any_of(stages_, [](stage_type const& s) { return s.last; });
    }

    /// Steps begun, those before the training went on included.
    std::uint64_t steps() const noexcept { return steps_; }
    /// The traffic that this device has read from others in its steps.
    traffic wire() const noexcept { return beside_.pulled() - evaluated_; }

    /// The norm of the last step's gradient, before it was clipped.
    double gradient_norm() const noexcept { return gradient_norm_; }

    /// f(i) for the losses that it has found in a step: the losses of a batch are those of its shards, and behind them,
    /// for each row that adds to the loss, what it has added.
    template<class F>
    void for_losses(F const& f) const {
        for (auto shard = shards_.begin; shard < shards_.end; ++shard) {
            if (is_last()) f(shard);
            for (auto const& s : stages_)
                s.for_terms([&](std::size_t term) { f((1 + term) * layout_.shards() + shard); });
        }
    }

    step_times const& times() const noexcept { return times_; }
    void reset_times() noexcept { times_ = {}; }

private:
    using clock = std::chrono::steady_clock;
    using losses_type = typename Model::template pass<>::losses_type;

    static double seconds(clock::time_point a, clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    auto traced(step_task const& t, std::uint64_t step) const {
        return detail::traced_task(clock_, [&]() -> timed_task {
            return {comm_.rank(), step, t.kind, program().stage(role(), t.chunk), counted_by(t), 0, 0};
        });
    }

    // ---- micro-batches ----

    /// A task that belongs to a micro-batch of a shard. `samples_of(m)`: those of a micro-batch.
    template<class Faults, class Samples>
    void on_micro_batch([[maybe_unused]] step_program const& program, step_task const& t, Samples const& samples_of,
                        std::size_t shard) {
        if constexpr (Model::staged) {
            if (t.kind == task_kind::move) {
                auto const start = clock::now();
                beside_.move(program, t, samples_of);
                times_.synchronisation += seconds(start, clock::now());
                return;
            }
            beside_.wait_for_places(program, t);
        }
        compute<Faults>(t, samples_of(t.micro_batch), shard);
    }

    /// A task that computes, on the samples `mine` of the batch.
    template<class Faults>
    void compute(step_task const& t, range mine, std::size_t shard) {
        bool const trains = gives_weights(t.kind), evaluates = t.kind == task_kind::evaluate;
        auto& s = stages_[t.chunk];
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
            auto const pass = s.template pass<Lanes>(arena_of_activations(), numbers, place, t, some.begin,
                                                     detail::with_lanes<Lanes>(kernels_.policy(), lanes),
                                                     is_scored(s) ? &losses_ : nullptr);
            auto const granule = [&](std::size_t team) {
                return Model::at_once ? here : here.subspan(team * Lanes, std::min(Lanes, here.size() - team * Lanes));
            };
            sample_prefetch fetch(batch_.samples->inputs(), next_to_gather<Lanes>(s, mine, some));
            auto const fetch_next = [&fetch](std::size_t) { fetch(); };
            auto const exchange = [&](std::size_t i) { add_over_devices(pass.kept(), i); };
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
        if (trains && layout_.reproducible()) s.tree.push({shard, shard + 1}, merging(s));
    }

    /// The numbers that a task works with. The gradients of a micro-batch are added to one slot for all, in their
    /// order, or, where a tree adds them, to one of their own.
    detail::model_numbers<T> numbers_for(stage_type& s, step_task const& t) {
        bool const trees = layout_.reproducible();
        return s.numbers_for(t, weights(s), gradient_slot(s, trees ? s.tree.depth() : 0), trees || t.micro_batch == 0,
                             arena_of_activations());
    }
    auto merging(stage_type const& s) {
        return [this, &s](std::size_t i, std::size_t j) {
            detail::add_into<T>(gradient_slot(s, i), gradient_slot(s, j), s.numbers.elements);
        };
    }

    /// f(lane_count<N>, samples) for what goes through the rows one behind the other: a granule, or all samples at once
    /// where layers or kernels need them.
    template<class F>
    static void for_passes(task_kind kind, std::size_t samples, F const& f) {
        constexpr auto lanes = Model::template pass<>::lanes;
        if constexpr (!Model::whole_shard)
            for_granules<typename Model::kernels, T, Model::template pass<>::narrows>(range{0, samples}, f);
        else if (Model::at_once || kind != task_kind::evaluate)
            f(lane_count<lanes>{}, range{0, samples});
        else
            for (std::size_t at = 0; at < samples; at += lanes)
                f(lane_count<lanes>{}, range{at, std::min(at + lanes, samples)});
    }

    /// Samples of the micro-batch behind `some`, which are brought near meanwhile.
    template<std::size_t Lanes>
    std::span<std::uint32_t const> next_to_gather(stage_type const& s, range mine, range some) const {
        if (Model::whole_shard || !s.first()) return {};
        auto const at = mine.begin + some.end;
        return batch_.indices.subspan(at, std::min(Lanes, mine.end - at));
    }
    template<std::size_t Lanes>
    void gather_inputs(std::span<std::uint32_t const> samples, bool trains, std::size_t lanes, stored* to) {
        auto const start = clock::now();
        host_samples<Model>::template gather_inputs<Lanes>(batch_.samples->inputs(), samples,
                                                           {seed_, trains ? steps_ : 0}, lanes, to);
        times_.data += seconds(start, clock::now());
    }
    /// True where the samples of the batch have their losses.
    bool is_scored(stage_type const& s) const noexcept { return s.last && batch_.outputs == nullptr; }

    // ---- between devices ----

    /// Adds the numbers of the network's `exchange`-th exchange, which layers keep.
    void add_over_devices([[maybe_unused]] T* kept, [[maybe_unused]] std::size_t exchange) {
        if constexpr (network::exchanges.count != 0) {
            if (layout_.replicas == 1) return;
            auto const start = clock::now();
            auto const& numbers = network::exchanges[exchange];
            run_schedule<T>(comm_, collective::all_reduce,
                            proved_schedule<direct, collective::all_reduce>(comm_.size()),
                            std::span<T>(kept + numbers.first, numbers.elements));
            times_.synchronisation += seconds(start, clock::now());
        }
    }

    /// A reduction that updates what it has completed.
    template<class Add, class Update>
    struct add_then_update {
        Add add;
        Update const& update;
        stage_type const& stage;
        bool updates;
        bytes_t operator()(reduction_view<T> const& v) const {
            auto const bytes = add(v);
            if (updates) update(stage, range{v.begin, v.begin + v.elements});
            return bytes;
        }
        std::size_t blocks(int rank, int ranks) const { return detail::blocks_of(add, rank, ranks); }
        std::size_t between_blocks() const { return detail::between_blocks(add); }
    };

    /// Adds the gradients of all replicas, by what `add_of` gives for a stage; shared weights are updated on the way,
    /// when the own slice is complete.
    template<class AddOf, class Update>
    void add_gradients(step_task const& t, AddOf const& add_of, Update const& update) {
        for (std::size_t i = t.first; i < t.end; ++i) {
            auto const& s = stages_[i / layout_.reductions()];
            auto const& [elements, steps] = reductions_[i];
            run_schedule<T>(beside_.replicas(), layout_.goal(), steps,
                            std::span<T>(gradient_slot(s, 0) + elements.begin, elements.size()),
                            add_then_update<decltype(add_of(s)), Update>{add_of(s), update, s, t.updates});
        }
    }

    /// A loss that is not finite leaves a NaN where the gradients begin, in all stages of its replica, and their sum
    /// takes it to all replicas: then no device updates. A gradient that is not finite becomes infinite there, so that
    /// no sum makes a NaN of it. Costs a look at the losses, and a sum over the stages.
    void tell_of_losses() {
        bool finite = true;
        for_losses([&](std::size_t at) { finite &= std::isfinite(batch_.losses[at]); });
        if constexpr (Model::staged)
            if (layout_.stages > 1) {
                std::span const lost(static_cast<double*>(squares_.data) + measured_pieces, 1);
                lost[0] = finite ? 0 : 1;
                run_schedule<double>(beside_.roles(), collective::all_reduce,
                                     proved_schedule<direct, collective::all_reduce>(layout_.stages), lost);
                finite = lost[0] == 0;
            }
        for (auto const& s : stages_)
            for (std::size_t i = 0; s.numbers.elements != 0 && i < std::max<std::size_t>(s.tree.depth(), 1); ++i)
                if (T& first = *gradient_slot(s, i); !finite || !std::isfinite(first))
                    first = finite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
    }
    bool is_lost() const noexcept {
        return std::ranges::any_of(stages_, [this](stage_type const& s) {
            return s.numbers.elements != 0 && std::isnan(*gradient_slot(s, 0));
        });
    }

    /// The norm of the whole gradient, and the factor that clips it. Stages add their sums to those of the others,
    /// which are zero where they have their own.
    template<class Options>
    void measure([[maybe_unused]] Options const& options) {
        if constexpr (Model::clips) {
            auto const start = clock::now();
            std::span const sums(static_cast<double*>(squares_.data), pieces);
            std::fill(sums.begin(), sums.end(), 0.0);
            for (auto const& s : stages_)
                for_each_gradient_piece<network>(
                    s.numbers.rows, [&](std::size_t piece, std::size_t first, std::size_t n) {
                        sums[piece] = sum_of_squares(typename Model::sample_kernels{},
                                                     gradient_slot(s, 0) + (first - s.numbers.first_parameter), n);
                    });
            updating_ += seconds(start, clock::now());
            if constexpr (Model::staged)
                if (layout_.stages > 1)
                    run_schedule<double>(beside_.roles(), collective::all_reduce,
                                         proved_schedule<direct, collective::all_reduce>(layout_.stages), sums);
            double sum = 0;
            for (auto const of_piece : sums) sum += of_piece;
            gradient_norm_ = std::sqrt(sum);
            clipping_ = static_cast<T>(clipping_factor(gradient_norm_, static_cast<double>(options.max_norm.value)));
        }
    }

    template<class Faults, class Options>
    void update(stage_type const& s, range slice, Options const& options) {
        auto const start = clock::now();
        Faults::at(fault_point::update, comm_.rank(), steps_);
        s.update(slice, weights(s), gradient_slot(s, 0), optimizer_state_of(s), clipping_, layout_.updates,
                 updates_made(), options);
        updating_ += seconds(start, clock::now());
    }

    // of the step that is being done
    sample_batch<T> batch_;
    losses_type losses_; ///< of the last stage
    std::uint64_t seed_ = 0;
    double updating_ = 0; ///< seconds, those of measuring included
    double gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
    T clipping_ = 1; ///< the factor of the gradients

    detail::task_clock clock_;
    std::uint64_t steps_ = 0;
    traffic evaluated_;
    step_times times_;
};

} // namespace trireme::inline TRIREME_ISA
