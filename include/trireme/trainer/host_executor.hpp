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
#include <trireme/kernels/clipping.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/pipeline/trace.hpp>
#include <trireme/trainer/host_rank.hpp>
#include <trireme/trainer/sample_batch.hpp>
#include <trireme/trainer/traced_task.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// A device of the host at work: its part of every step, which is a program. It serves all models of one value type;
/// what depends on the types of a model its host_model does, task by task.
template<class T, training_communicator Communicator, bool Staged, class Faults>
class host_executor : public detail::host_rank<T, Communicator, Staged> {
    using base = detail::host_rank<T, Communicator, Staged>;

public:
    // Of a defaulted destructor clang asks whether it is constexpr, and compiles all virtual functions for that: those
    // of a model, where only its plan is asked.
    virtual ~host_executor() {}

    /// Takes this device's part of what the network has, and goes on with the steps of another trainer.
    void take(numbers_to_take<T> const& from) {
        base::take(from);
        if (!from.parameters.empty()) scale_errors(T{0});
        if (from.goes_on) steps_ = from.steps;
    }

    /// The data that the next collectives work for, in the group of all devices, and in that of a stage.
    void works_on(collective_subject const& everywhere, collective_subject const& in_stage) {
        comm_.works_on(everywhere);
        if (layout_.stages > 1) beside_.replicas().works_on(in_stage);
    }

    /// Writes down from now on which tasks are done, and when, in seconds since `origin`.
    void trace_into(task_log& log, std::chrono::steady_clock::time_point origin) noexcept { clock_ = {&log, origin}; }

    step_program const& program() const noexcept { return programs_.step(); } ///< of its replica
    int role() const noexcept { return layout_.role_of(comm_.rank()); }
    /// True if one of its stages is the network's last.
    bool is_last() const noexcept {
        return std::ranges::any_of(stages_, [](auto const* s) { return s->last; });
    }

    /// The task at hand and its step in words, or the step that is complete, for messages: other threads may ask for
    /// it.
    TRIREME_COLD std::string last_task() const {
        auto const at = doing_.get();
        if (!at.begun) return "no task yet";
        auto const& program = at.step == 0 ? programs_.evaluation() : programs_.step();
        if (at.task < program.list(role()).size()) return words_for_task(program, at);
        return "no task since " + (at.step == 0 ? "an evaluation" : "training step " + std::to_string(at.step));
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
            for (auto const* s : stages_)
                s->for_terms([&](std::size_t term) { f((1 + term) * layout_.shards() + shard); });
        }
    }

    step_times const& times() const noexcept { return times_; }
    void reset_times() noexcept { times_ = {}; }

protected:
    using base::comm_, base::layout_, base::model_, base::programs_, base::shards_, base::stages_, base::reductions_;
    using base::gradient_slot, base::squares_, base::beside_, base::updates_made_;
    using typename base::stage_type;
    using clock = std::chrono::steady_clock;
    using base::base;

    static double seconds(clock::time_point a, clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    // ---- what its model does ----

    /// A task that computes, on the samples `mine` of the batch.
    virtual void compute(step_task const& t, range mine, std::size_t shard) = 0;
    /// Updates a slice of a stage's numbers.
    virtual void update(stage_type const& s, range slice) = 0;
    /// The squares of the gradient's pieces in its stages, each at its number.
    virtual void measure_pieces(std::span<double> sums) const = 0;
    /// Adds the gradients of the `i`-th collective, which compresses, over all replicas.
    virtual void add_compressed(std::size_t i) = 0;
    /// Scales what the rounding of gradients has left for the next step, as the gradients themselves; 0 forgets it, and
    /// so does a factor that is no number.
    virtual void scale_errors(T factor) = 0;
    /// Tied rows: see tied_rows.
    virtual void add_tied() = 0;
    virtual void copy_tied() = 0;

    // ---- what it does around that ----

    /// `max_norm`: the largest norm of a gradient that is not clipped.
    void run_step(sample_batch<T> const& batch, double max_norm) {
        auto const start = clock::now();
        batch_ = batch;
        for (auto* s : stages_) s->tree = {}, s->adds = false;
        updating_ = 0;
        comm_.at_training_step(++steps_);
        auto const update_slice = [this](stage_type const& s, range slice) { time_update(s, slice); };
        auto const samples_of = [&](std::size_t micro_batch) {
            return part(batch.indices.size(), shards_.begin + micro_batch, layout_.shards());
        };
        auto const& program = programs_.step();
        auto const list = program.list(role());
        std::size_t const tail = program.tail[role()];
        for_tasks(program, {0, tail}, steps_,
                  [&](step_task const& t) { on_micro_batch(program, t, samples_of, shards_.begin + t.micro_batch); });
        auto const before_reduce = clock::now();
        Faults::at(fault_point::reduce, comm_.rank(), steps_);
        tell_of_losses();
        if (layout_.reproducible() && layout_.replicas == 1)
            for (auto* s : stages_) s->tree.finish(merging(*s)); // else the blocks of the tree are added with others'
        bool lost = false; // asked as soon as all is added: two infinities, or one times 0, are no number
        auto added = tail;
        while (added < list.size() && list[added].kind == task_kind::collective) ++added;
        for_tasks(program, {tail, list.size()}, steps_, [&](step_task const& t) {
            if (&t == list.data() + added && (lost = is_lost())) scale_errors(T{0});
            if (t.kind == task_kind::update) {
                for (auto const* s : stages_)
                    if (!lost) update_slice(*s, s->slice);
            } else if (t.kind == task_kind::measure)
                measure(max_norm);
            else if (t.kind == task_kind::add_tied)
                add_tied();
            else if (t.kind == task_kind::copy_tied)
                copy_tied();
            else if (layout_.reproducible())
                add_gradients(
                    t, [&](stage_type const& s) { return add_in_fixed_tree(layout_.shards(), s.numbers.elements); },
                    update_slice);
            else
                add_gradients(t, [](stage_type const&) { return detail::adder<op::sum>{}; }, update_slice);
        });
        if (updates_made_ != nullptr && has_gradients() && !(layout_.shared_weights ? is_lost() : lost))
            ++*updates_made_;
        auto const end = clock::now();
        times_.synchronisation += seconds(before_reduce, end) - updating_;
        times_.step += seconds(start, end);
    }

    /// `together`: the most samples that its model computes at once.
    void run_evaluation(sample_batch<T> const& batch, std::size_t together) {
        auto const before = beside_.pulled();
        batch_ = batch;
        auto const& program = programs_.evaluation();
        auto const micro_batches = static_cast<std::size_t>(program.shape.micro_batches);
        for (auto shard = shards_.begin; shard < shards_.end; ++shard) {
            if (is_last() && batch.outputs == nullptr) batch.losses[shard] = 0, batch.correct[shard] = 0;
            auto const mine = part(batch.indices.size(), shard, layout_.shards());
            auto const most = std::min(together, mine.size());
            for (auto begin = mine.begin; begin < mine.end; begin += micro_batches * most) {
                auto const samples_of = [&](std::size_t micro_batch) {
                    auto const first = std::min(begin + micro_batch * most, mine.end);
                    return range{first, std::min(first + most, mine.end)};
                };
                for_tasks(program, {0, program.list(role()).size()}, 0,
                          [&](step_task const& t) { on_micro_batch(program, t, samples_of, shard); });
            }
        }
        evaluated_ += beside_.pulled() - before;
    }

    /// The gradients that a collective adds.
    std::span<T> reduced_by(std::size_t i) const noexcept {
        auto const& part = reductions_[i].elements;
        return {gradient_slot(*stages_[i / layout_.reductions()], 0) + part.begin, part.size()};
    }
    /// Adds numbers that layers keep over all devices, in an exchange of the network inside the task at hand.
    void add_over_devices(std::span<T> numbers, std::size_t exchange) {
        if (layout_.replicas == 1) return;
        auto const done = traced(program().list(role())[doing_.get().task], steps_, static_cast<int>(exchange));
        auto const start = clock::now();
        run_schedule<T>(comm_, collective::all_reduce, proved_schedule<direct, collective::all_reduce>(comm_.size()),
                        numbers);
        times_.synchronisation += seconds(start, clock::now());
    }
    /// Adds what the tree of a stage's shards joins.
    auto merging(stage_type const& s) {
        return [this, &s](std::size_t i, std::size_t j) {
            detail::add_into<T>(gradient_slot(s, i), gradient_slot(s, j), s.numbers.elements);
        };
    }

    sample_batch<T> batch_; ///< of the step that is being done
    double updating_ = 0;   ///< seconds, those of measuring included
    double gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
    T clipping_ = 1; ///< the factor of the gradients
    std::uint64_t steps_ = 0;
    step_times times_;

private:
    /// The task that a device has come to, which is the size of its list when all are complete; `step`: 0 in an
    /// evaluation. Step and task are one number, so that no thread reads one of them with the other of another moment.
    class task_at_hand {
    public:
        struct value {
            bool begun;
            std::uint64_t step;
            std::size_t task;
        };
        void set(std::uint64_t step, std::size_t task) noexcept {
            packed_.store(step << task_bits | task, std::memory_order_relaxed);
        }
        value get() const noexcept {
            auto const packed = packed_.load(std::memory_order_relaxed);
            return {packed != none, packed >> task_bits, packed & ((std::uint64_t{1} << task_bits) - 1)};
        }

    private:
        static constexpr int task_bits = 24;
        static constexpr auto none = ~std::uint64_t{0};
        std::atomic<std::uint64_t> packed_{none};
    };

    /// Does tasks of its list, f(t). `step`: 0 in an evaluation.
    template<class F>
    void for_tasks(step_program const& p, range tasks, std::uint64_t step, F const& f) {
        auto const list = p.list(role());
        for (auto i = tasks.begin; i < tasks.end; ++i) {
            // a device that was late stays at the task that it had come to
            comm_.check_stopped();
            doing_.set(step, i);
            in_task(p, [&] {
                if (step != 0) Faults::at(fault_point::task, comm_.rank(), step);
                auto const done = traced(list[i], step);
                f(list[i]);
            });
        }
        if (tasks.end == list.size()) doing_.set(step, list.size());
    }
    /// "backward of micro-batch 1 in stage 0, training step 2".
    TRIREME_COLD std::string words_for_task(step_program const& p, typename task_at_hand::value const& at) const {
        return detail::words_for(p, role(), at.task) +
               (at.step == 0 ? ", evaluation" : ", training step " + std::to_string(at.step));
    }
    /// A part of the task at hand, f(). An error that names no rank gets the rank, the task and the step.
    template<class F>
    void in_task(step_program const& p, F const& f) const {
        try {
            f();
        } catch (group_stopped const&) {
            throw;
        } catch (...) {
            throw_of_rank(comm_.rank(), std::current_exception(), " (" + words_for_task(p, doing_.get()) + ')');
        }
    }

    auto traced(step_task const& t, std::uint64_t step, int exchange = -1) const {
        return detail::traced_task(clock_, [&]() -> timed_task {
            return {comm_.rank(), step, t.kind, program().stage(role(), t.chunk), counted_by(t), 0, 0, 0, exchange};
        });
    }

    /// A task that belongs to a micro-batch of a shard. `samples_of(m)`: those of a micro-batch.
    template<class Samples>
    void on_micro_batch([[maybe_unused]] step_program const& program, step_task const& t, Samples const& samples_of,
                        std::size_t shard) {
        if constexpr (Staged) {
            if (t.kind == task_kind::move) {
                auto const start = clock::now();
                beside_.move(program, t, samples_of);
                times_.synchronisation += seconds(start, clock::now());
                return;
            }
            beside_.wait_for_places(program, t);
        }
        compute(t, samples_of(t.micro_batch), shard);
    }

    // ---- between devices ----

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
            auto const& s = *stages_[i / layout_.reductions()];
            auto const& r = reductions_[i];
            if (r.compresses)
                add_compressed(i);
            else
                run_schedule<T>(beside_.replicas(), layout_.goal(), r.steps, reduced_by(i),
                                add_then_update<decltype(add_of(s)), Update>{add_of(s), update, s, t.updates});
        }
    }

    /// A loss that is not finite leaves a NaN where the gradients begin, in all stages of its replica, and their sum
    /// takes it to all replicas: then no device updates. A gradient that is not finite becomes infinite there, and one
    /// so large that a sum might, so that no sum makes a NaN of them. Costs a look at the losses, and a sum over the
    /// stages.
    void tell_of_losses() {
        bool finite = true;
        for_losses([&](std::size_t at) { finite &= std::isfinite(batch_.losses[at]); });
        if constexpr (Staged)
            if (layout_.stages > 1) {
                std::span const lost(static_cast<double*>(squares_.data) + model_.pieces, 1);
                lost[0] = finite ? 0 : 1;
                run_schedule<double>(beside_.roles(), collective::all_reduce,
                                     proved_schedule<direct, collective::all_reduce>(layout_.stages), lost);
                finite = lost[0] == 0;
            }
        T const most =
            std::numeric_limits<T>::max() / (2 * static_cast<T>(layout_.shards())); // a number for each at most
        for (auto const* s : stages_)
            for (std::size_t i = 0; s->numbers.elements != 0 && i < std::max<std::size_t>(s->tree.depth(), 1); ++i)
                if (T& first = *gradient_slot(*s, i); !finite || !(std::abs(first) <= most))
                    first = finite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
    }
    /// False for stages without parameters: they do not hear that a step is lost, and count no updates.
    bool has_gradients() const noexcept {
        return std::ranges::any_of(stages_, [](auto const* s) { return s->numbers.elements != 0; });
    }
    bool is_lost() const noexcept {
        return std::ranges::any_of(
            stages_, [this](auto const* s) { return s->numbers.elements != 0 && std::isnan(*gradient_slot(*s, 0)); });
    }

    /// The norm of the whole gradient, and the factor that clips it. Stages add their sums to those of the others,
    /// which are zero where they have their own.
    void measure(double max_norm) {
        auto const start = clock::now();
        std::span const sums(static_cast<double*>(squares_.data), model_.pieces);
        std::fill(sums.begin(), sums.end(), 0.0);
        measure_pieces(sums);
        updating_ += seconds(start, clock::now());
        if constexpr (Staged)
            if (layout_.stages > 1)
                run_schedule<double>(beside_.roles(), collective::all_reduce,
                                     proved_schedule<direct, collective::all_reduce>(layout_.stages), sums);
        double sum = 0;
        for (auto const of_piece : sums) sum += of_piece;
        gradient_norm_ = std::sqrt(sum);
        clipping_ = static_cast<T>(clipping_factor(gradient_norm_, max_norm));
        if (clipping_ != 1) scale_errors(clipping_);
    }

    void time_update(stage_type const& s, range slice) {
        auto const start = clock::now();
        in_task(program(), [&] { // a collective that it is a part of tells the others of its error
            Faults::at(fault_point::update, comm_.rank(), steps_);
            update(s, slice);
        });
        updating_ += seconds(start, clock::now());
    }

    task_at_hand doing_;
    detail::task_clock clock_;
    traffic evaluated_;
};

} // namespace trireme::inline TRIREME_ISA
