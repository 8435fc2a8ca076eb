// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/schedule/pipeline/trace.hpp>
#include <trireme/trainer/sample_batch.hpp>
#include <trireme/trainer/sample_digests.hpp>
#include <trireme/trainer/stream_executor.hpp>
#include <trireme/trainer/stream_log.hpp>
#include <trireme/trainer/stream_waits.hpp>
#include <trireme/trainer/training_state.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::detail {

/// The loops of a process over its accelerators, whatever the model: the caller's thread drives all of them. A step is
/// one graph, over all ranks of the process, captured when the trainer is made and launched once per step; while it
/// runs, the host gathers the samples of the next one, and their copy goes on beside the computation.
template<class Value, accelerator Device, class Transport, class Faults>
class stream_run : public stream_waits<stream_executor<Value, Device, Transport>, Device> {
    using executor = stream_executor<Value, Device, Transport>;
    using waits = stream_waits<executor, Device>;
    using typename waits::rank_type;

protected:
    using waits::executor_, waits::steps_, waits::guarded, waits::wait_for, waits::wait_for_all, waits::compare;

public:
    using T = Value;
    stream_run(stream_run const&) = delete;
    stream_run& operator=(stream_run const&) = delete;

    int first_rank() const noexcept { return executor_->transport.here().first; } ///< of this process

    step_report step() {
        auto const report = guarded([&] {
            work_.number_all();
            begin_work(process_work::step);
            auto const number = ++steps_;
            auto const indices = work_.all();
            work_.set_weight(number, work_.weigh(indices));
            if (indices.size() <= batch_)
                begin(number, indices);
            else
                begin_large(number, indices);
            collect(number);
            return step_report{number, work_.mean_loss(number), indices.size(),
                               executor_->ranks[0]->gradient_norm(static_cast<int>(number % 2))};
        });
        work_.check_convergence(report.step, false);
        return report;
    }

    /// The loss of a step is told when the next one is on its way. One that is not finite ends the epoch.
    void epoch() {
        std::uint64_t told = 0;
        guarded([&] {
            auto const& order = work_.order;
            auto const size = batch_;
            begin_work(process_work::epoch);
            times_ = {0, std::numeric_limits<double>::quiet_NaN(), 0};
            auto const start = clock::now();
            auto const tell = [&](std::size_t b, std::uint64_t number) {
                collect(number);
                executor_->at_rank = first_rank(); // an observer's error is of the rank that calls it
                work_.tell(b, number, first_rank() == 0);
                told = number;
                return work_.is_finite(number);
            };
            auto const batches = order.batches(size);
            for (std::size_t b = 0; b < batches; ++b) {
                auto const indices = order.batch(b, size);
                work_.set_weight(++steps_, work_.weigh(indices));
                begin(steps_, indices);
                if (b != 0 && !tell(b - 1, steps_ - 1)) return collect(steps_);
            }
            if (batches != 0) tell(batches - 1, steps_);
            times_.step = seconds(start, clock::now());
        });
        if (told != 0) work_.check_convergence(told, false);
    }

    void evaluate() {
        guarded([&] {
            work_.number_all();
            begin_work(process_work::evaluation);
            work_.set_weight(work_.weigh(work_.all()));
            executor_->begin();
            auto const together = executor_->evaluated_together();
            for (std::size_t k = 0; k < most_shards(); ++k)
                for_granules_of(k, work_.all(), together, [&](std::size_t q, int slot, auto some, std::size_t) {
                    for (auto& r : executor_->of_replica(q)) stage(*r, slot, some, T{0}, {}, together);
                    enqueue_evaluation(q, slot, k);
                });
            executor_->enqueue_results(0);
            for (auto& r : executor_->ranks) r->compute.record(r->used[0]);
            while (log_.has_noted()) log_evaluation();
            for_results(0, [&](std::size_t shard, sample_score const& s) {
                if (shard < executor_->layout.shards()) // training's terms are behind them
                    work_.set_score(shard, s.loss, static_cast<std::size_t>(s.correct));
            });
        });
    }

    /// The outputs for all samples in use, [sample][value]. The replicas of this process take turns: it needs no other
    /// process but those that have a part of the same one.
    std::vector<T> predict() {
        return guarded([&] {
            work_.number_all();
            auto const size = executor_->model.outputs;
            std::vector<T> all(work_.samples().size() * size);
            auto const together = executor_->evaluated_together(), replicas = executor_->replicas();
            auto const indices = work_.all();
            auto const most = together * executor_->ranks[0]->samples();
            make_room_for_outputs();
            auto const of_replica = [&](std::size_t begin, std::size_t q) {
                auto const first = std::min(begin + q * most, indices.size());
                return indices.subspan(first, std::min(most, indices.size() - first));
            };
            executor_->begin();
            for (std::size_t begin = 0; begin < indices.size(); begin += replicas * most) {
                for (std::size_t q = 0; q < replicas; ++q) {
                    auto const some = of_replica(begin, q);
                    if (some.empty()) continue;
                    for (auto& r : executor_->of_replica(q)) stage(*r, 0, some, T{0}, {}, together);
                    enqueue_evaluation(q, 0, npos);
                }
                for (std::size_t q = 0; q < replicas; ++q) {
                    auto const some = of_replica(begin, q);
                    auto* const last = executor_->find_last(q);
                    if (last == nullptr || some.empty()) continue;
                    wait_for(*last, last->used[0], "a prediction");
                    for (std::size_t i = 0; i < some.size(); ++i)
                        last->read_output(i / last->samples(), i % last->samples(), all.data() + some[i] * size);
                }
            }
            executor_->join();
            wait_for_all("a prediction");
            while (log_.has_noted()) log_evaluation();
            share(all);
            return all;
        });
    }

    /// Of the last epoch: all of it, and the part in which the devices had nothing to do but wait for samples. How long
    /// they add gradients is not measured: it goes on beside the rest.
    step_times const& times() const noexcept { return times_; }

    /// All numbers of a list. Processes that have a replica together call it together.
    std::vector<T> gathered(canonical_list const& list) const {
        std::vector<T> all(executor_->model.size(list));
        for (auto& r : executor_->of_replica(0)) {
            fetch(*r, list.of == canonical_list::optimizer);
            for (auto const& s : r->own())
                std::ranges::copy(r->mirror.numbers_of(list, s),
                                  all.begin() + static_cast<std::ptrdiff_t>(s.numbers.of(list).begin));
        }
        auto* const self = const_cast<stream_run*>(this);
        self->guarded([&] { self->share(all); });
        return all;
    }
    std::uint64_t updates() const {
        auto& r = *executor_->ranks[0];
        fetch(r, true);
        return r.mirror.updates();
    }
    std::uint64_t steps() const noexcept { return steps_; }

    held_numbers<T> held(int rank, int chunk) const {
        auto& r = *executor_->ranks[static_cast<std::size_t>(local(rank))];
        fetch(r, false);
        auto const& s = r.own(chunk);
        return s.held(r.mirror.weights(s));
    }
    /// Gives numbers to all ranks, which keep the others.
    void take(numbers_to_take<T> const& from) {
        guarded([&] {
            for (auto& r : executor_->ranks) {
                store(*r, from.goes_on); // the numbers that do not change
                for (auto const& s : r->own()) r->mirror.take(from, s);
            }
            load(from.goes_on);
            if (from.goes_on) steps_before_ = from.steps - (steps_ - steps_before_), steps_ = from.steps;
        });
    }
    /// The tasks of the steps that have been collected, and of the evaluations, if they are traced. Times are counted
    /// from the first of them.
    std::vector<timed_task> traced() const { return log_.read(); }
    step_program const& program(int rank) const { return executor_->program(local(rank)); }
    /// Of all steps so far.
    traffic wire(int rank) const {
        auto const t = executor_->moved(local(rank));
        auto const steps = steps_ - steps_before_;
        return {t.messages * steps, t.bytes * steps};
    }

    /// Deviations of the kernels of this process's ranks from what they were asked, each once.
    std::vector<std::string> notes() const {
        std::vector<std::string> all;
        for (auto const& r : executor_->ranks)
            for (auto& note : r->notes())
                if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(std::move(note));
        return all;
    }

protected:
    /// `r`: options of the run. `agreed`: what all processes must have in common.
    TRIREME_COLD stream_run(stream_model<T, Device> const& model, parallel_layout const& layout, std::size_t batch,
                            std::uint64_t seed, training_state& work, auto const& r, std::string const& agreed)
        : waits(std::make_unique<executor>(layout, model, batch, r, agreed), r.deadline), work_(work), batch_(batch),
          seed_(seed), eager_(r.eager.value || !executor_->transport.captures()) {
        if (r.trace.value) log_.begin(executor_->ranks.size());
    }
    ~stream_run() = default;

    /// Prepares all steps, and gives the weights their first values. Called once, when the state of the training is
    /// there.
    void start() {
        guarded([&] {
            executor_->prepare(log_.ranks() != 0);
            warm_up();
            if (executor_->model.trains && !eager_) executor_->capture();
            begin_weights();
        });
    }

    /// Writes the settings of step number `step`, counted from 0: see stream_rank.
    virtual void write_settings(std::uint64_t step, std::byte* to) const = 0;
    virtual float learning_rate() const noexcept = 0;
    /// Gives the weights of a stage their first values.
    virtual void initialise(stream_stage<T> const&, T* weights) const = 0;

private:
    using clock = std::chrono::steady_clock;

    static double seconds(clock::time_point a, clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    /// Everything once, on no samples: libraries choose their algorithms, kernels are loaded, long before they are
    /// needed, and before any rank waits for another in a collective.
    void warm_up() {
        bool const trains = executor_->model.trains;
        for (int slot : {0, 1}) {
            for (auto& r : executor_->ranks) {
                for (std::size_t k = 0; k < r->shards().size(); ++k) r->set_samples(slot, k, {}, {}, T{0});
                r->enqueue_samples(slot, r->shards().size());
            }
            if (trains) executor_->enqueue_step(slot);
            executor_->begin();
            if (!trains) make_room_for_outputs();
            for (std::size_t q = 0; q < executor_->replicas(); ++q)
                executor_->enqueue_evaluation(q, slot, trains ? 0 : npos);
            executor_->enqueue_results(slot);
            for (auto& r : executor_->ranks) r->compute.record(r->used[slot]);
            for_results(slot, [](std::size_t, sample_score const&) {});
        }
    }

    void make_room_for_outputs() {
        for (std::size_t q = 0; q < executor_->replicas(); ++q)
            if (auto* const last = executor_->find_last(q); last != nullptr)
                last->make_room_for_outputs(executor_->evaluated_together());
    }
    /// Numbers that are zero where another process of the replica has them come from there.
    void share(std::vector<T>& numbers) {
        executor_->share(std::as_writable_bytes(std::span(numbers)),
                         [&] { wait_for_all("numbers of other processes"); });
    }

    void begin_weights() {
        for (auto& r : executor_->ranks) {
            for (auto const& s : r->own()) {
                std::fill_n(r->mirror.weights(s), s.numbers.weights, T{0});
                initialise(s, r->mirror.weights(s));
            }
            r->enqueue_clear();
        }
        load();
    }
    /// Copies a rank's numbers to the host, the optimizer's included or not; and those of all ranks back.
    void store(rank_type& r, bool optimizer) {
        r.enqueue_store(optimizer);
        r.compute.record(r.used[0]);
        wait_for(r, r.used[0], "reading the weights");
    }
    void fetch(rank_type& r, bool optimizer) const {
        auto* const self = const_cast<stream_run*>(this);
        self->guarded([&] { self->store(r, optimizer); });
    }
    void load(bool optimizer = false) {
        for (auto& r : executor_->ranks) r->enqueue_load(optimizer);
        wait_for_all("writing the weights");
    }

    // ---- one step ----

    /// Throws mismatch_error unless all processes begin this job, on the samples in use.
    void begin_work(process_work::job job) {
        if (executor_->transport.processes() == 1) return; // nobody compares, so that no sample is read
        auto const& samples = work_.samples();
        compare({job, steps_, work_.epochs, samples.size(), digests_.of(samples), learning_rate()});
    }

    /// With the learning rate of the step that was begun last.
    void set_settings(rank_type& r, int slot) const {
        write_settings(std::max<std::uint64_t>(steps_, 1) - 1, r.settings(slot));
    }

    /// Stages the samples and hands the step over.
    void begin(std::uint64_t number, std::span<std::uint32_t const> indices) {
        [[maybe_unused]] typename Device::range const named("step");
        int const slot = static_cast<int>(number % 2);
        visit_faults(number);
        auto const start = clock::now();
        auto const weight = static_cast<T>(work_.scale_of(number));
        for (auto& r : executor_->ranks) {
            wait_for(*r, r->staged[slot], "copying samples"); // of the step before the last, from the same memory
            set_settings(*r, slot);
            for (std::size_t k = 0; k < r->shards().size(); ++k) {
                auto const mine = part(indices.size(), r->shards().begin + k, executor_->layout.shards());
                r->set_samples(slot, k, work_.samples(), indices.subspan(mine.begin, mine.size()), weight,
                               about(*r, k, number, 0, indices.size()));
            }
            r->enqueue_samples(slot, r->shards().size());
        }
        if (number > 1 && executor_->ranks[0]->used[1 - slot].reached()) times_.data += seconds(start, clock::now());
        if (eager_)
            executor_->enqueue_step(slot);
        else
            executor_->launch(slot);
        for (auto& r : executor_->ranks) r->compute.record(r->used[slot]);
    }

    /// A step on more samples than a batch: granule by granule, without a graph.
    void begin_large(std::uint64_t number, std::span<std::uint32_t const> indices) {
        visit_faults(number);
        int const result = static_cast<int>(number % 2); // the slot where results and times are looked for
        auto const weight = static_cast<T>(work_.scale_of(number));
        executor_->begin();
        for (std::size_t k = 0; k < most_shards(); ++k) {
            for (auto& r : executor_->ranks)
                if (k < r->shards().size()) {
                    executor_->begin_shard(*r);
                    executor_->stamp_shard(*r, result, k, false);
                }
            for_granules_of(k, indices, 1, [&](std::size_t q, int slot, auto some, std::size_t first) {
                auto& r = *executor_->of_replica(q)[0];
                stage(r, slot, some, weight, about(r, k, number, first, indices.size()));
                executor_->enqueue_granule(r, slot, k);
            });
            for (auto& r : executor_->ranks)
                if (k < r->shards().size()) {
                    executor_->end_shard(*r, k);
                    executor_->stamp_shard(*r, result, k, true);
                }
        }
        for (auto& r : executor_->ranks) stage(*r, result, {}, T{0}); // its numbers are these
        executor_->end_step(result);
        for (auto& r : executor_->ranks) r->compute.record(r->used[result]);
    }

    /// Data about a rank's k-th shard that kernels need, in a step on `samples`.
    staged_shard about(rank_type const& r, std::size_t k, std::uint64_t number, std::size_t first,
                       std::size_t samples) const {
        auto const shard = r.shards().begin + k;
        auto const mine = part(samples, shard, executor_->layout.shards());
        return {0,      static_cast<std::uint32_t>(shard),
                first,  seed_,
                number, static_cast<double>(mine.size()) / static_cast<double>(samples),
                samples};
    }

    /// Stages samples of a rank in the first granules of a slot, one after the other; what is left are empty ones.
    void stage(rank_type& r, int slot, std::span<std::uint32_t const> indices, T weight, staged_shard const& about = {},
               std::size_t granules = 1) {
        wait_for(r, r.staged[slot], "copying samples");
        set_settings(r, slot);
        for (std::size_t k = 0; k < granules; ++k) {
            auto const begin = std::min(k * r.samples(), indices.size());
            r.set_samples(slot, k, work_.samples(),
                          indices.subspan(begin, std::min(r.samples(), indices.size() - begin)), weight, about);
        }
        r.enqueue_samples(slot, granules);
    }

    /// The most shards that a rank of this process has.
    std::size_t most_shards() const noexcept {
        std::size_t most = 0;
        for (auto const& r : executor_->ranks) most = std::max(most, r->shards().size());
        return most;
    }

    /// f(replica, slot, indices, first) for the granules of every replica's k-th shard of `indices`, as many
    /// `together`, all replicas' first ones first; the slots take turns. `first`: samples of the shard before the
    /// granule's.
    template<class F>
    void for_granules_of(std::size_t k, std::span<std::uint32_t const> indices, std::size_t together, F&& f) {
        bool some = true;
        for (std::size_t g = 0; some; ++g) {
            int const slot = static_cast<int>((k + g) % 2);
            some = false;
            for (std::size_t q = 0; q < executor_->replicas(); ++q) {
                auto const& r = *executor_->of_replica(q)[0];
                if (k >= r.shards().size()) continue;
                auto const mine = part(indices.size(), r.shards().begin + k, executor_->layout.shards());
                auto const most = together * r.samples(), begin = mine.begin + g * most;
                if (begin >= mine.end) continue;
                f(q, slot, indices.subspan(begin, std::min(most, mine.end - begin)), begin - mine.begin);
                some = true;
            }
        }
    }

    /// Waits for a step, and keeps its losses.
    void collect(std::uint64_t number) {
        for_results(static_cast<int>(number % 2),
                    [&](std::size_t at, sample_score const& s) { work_.set_loss(number, at, s.loss); });
        log_.add(*executor_, number, static_cast<int>(number % 2), {0, log_.ranks()});
    }
    /// Hands over the evaluation of the granules in a slot. If tasks are traced, the times that the slot's last
    /// evaluation has noted are read before.
    void enqueue_evaluation(std::size_t q, int slot, std::size_t shard) {
        while (log_.has_noted({q, slot})) log_evaluation();
        executor_->enqueue_evaluation(q, slot, shard);
        log_.note({q, slot});
    }
    /// Waits for the first evaluation whose times have not been read, and logs its tasks.
    void log_evaluation() {
        auto const [q, slot] = log_.take_noted();
        auto const roles = executor_->of_replica(q).size();
        range const ranks{q * roles, (q + 1) * roles};
        for (auto i = ranks.begin; i < ranks.end; ++i)
            wait_for(*executor_->ranks[i], executor_->ranks[i]->used[slot], "an evaluation");
        log_.add(*executor_, 0, slot, ranks);
    }
    /// f(shard, score) for the shards that are known here: those of this process, or all if the transport shares them.
    /// Behind the shards come, for each row that adds to the loss, its terms of the shards.
    template<class F>
    void for_results(int slot, F&& f) {
        for (auto& r : executor_->ranks) wait_for(*r, r->used[slot], "a step");
        bool const shared = executor_->transport.shares_scores();
        auto const shards = executor_->layout.shards();
        for (auto& r : executor_->ranks) {
            if (!executor_->tells_results(*r)) continue;
            auto const results = r->results(slot);
            auto const known = shared ? range{0, shards} : r->shards();
            auto const tell = [&](std::size_t row) {
                for (auto s = known.begin; s < known.end; ++s) f(row * shards + s, results[row * shards + s]);
            };
            if (shared) {
                for (std::size_t row = 0; row < results.size() / shards; ++row) tell(row);
                continue;
            }
            if (r->has_last()) tell(0);
            for (auto const& stage : r->own()) stage.for_terms([&](std::size_t term) { tell(1 + term); });
        }
    }

    void visit_faults(std::uint64_t number) {
        for (auto const point : {fault_point::forward, fault_point::backward, fault_point::reduce, fault_point::update})
            for (auto const& r : executor_->ranks) {
                executor_->at_rank = r->number;
                Faults::at(point, executor_->at_rank, number);
            }
        executor_->at_rank = first_rank();
    }

    int local(int rank) const {
        int const i = rank - first_rank();
        if (i >= 0 && i < executor_->transport.here().count) return i;
        throw usage_error("device " + std::to_string(rank) + " belongs to another process: ask there");
    }

    training_state& work_;
    std::size_t batch_; ///< the most samples of a step that is staged at once
    std::uint64_t seed_;
    std::uint64_t steps_before_ = 0; ///< those that others have made
    step_times times_;
    stream_log log_;
    sample_digests digests_;
    bool eager_;
};

} // namespace trireme::detail
