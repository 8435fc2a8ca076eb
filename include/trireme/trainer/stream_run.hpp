// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/left_behind.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/trainer/host_run.hpp>
#include <trireme/trainer/stream_machine.hpp>
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

namespace trireme {

/// A trainer's devices if they are accelerators: the caller's thread drives all of them. A step is one graph, over all
/// ranks of the process, captured when the trainer is made and launched once per step; while it runs, the host gathers
/// the samples of the next one, and their copy goes on beside the computation.
template<class Model, class Options, class Initialiser, class Faults, class Device, class Transport>
class stream_run {
public:
    using T = typename Model::value_type;
    using state_type = training_state<typename Model::network, Options>;

    static constexpr memory_map memory(parallel_layout const& l, std::size_t batch, int rank) {
        return machine::memory(l, batch, rank);
    }
    /// What a rank reads from others in a step.
    static constexpr traffic moves(parallel_layout const& l, std::size_t, int rank) {
        auto sum = l.traffic_of_rank(rank, Model::arena_elements, sizeof(T));
        for (auto const& e : Model::network::exchanges)
            if (l.replicas > 1) sum += traffic_of(direct::all_reduce(l.replicas), rank, e.elements, sizeof(T));
        return sum;
    }

    stream_run(Options const& o, auto const& r, parallel_layout const& layout)
        : work_(o, layout), m_(new machine(work_.layout, o, r)), deadline_(r.deadline),
          eager_(r.eager.value || !m_->transport.captures()) {
        try {
            guarded([&] {
                m_->prepare();
                warm_up();
                if (!eager_) m_->capture();
                begin_weights();
            });
        } catch (...) {
            settle();
            throw;
        }
    }

    stream_run(stream_run const&) = delete;
    stream_run& operator=(stream_run const&) = delete;
    ~stream_run() { settle(); }

    state_type& state() noexcept { return work_; }
    state_type const& state() const noexcept { return work_; }
    int first_rank() const noexcept { return m_->transport.first_rank(); } ///< of this process
    bool stopped() const noexcept { return stopped_; }

    step_report step() {
        return guarded([&] {
            work_.number_all();
            auto const number = ++steps_;
            auto const indices = work_.all();
            if (indices.size() <= work_.options.batch.samples)
                begin(number, indices);
            else
                begin_large(number, indices);
            collect(number);
            return step_report{number, work_.mean_loss(number, indices.size()), indices.size()};
        });
    }

    /// The loss of a step is told when the next one is on its way.
    void epoch() {
        guarded([&] {
            auto const& order = work_.order;
            auto const size = work_.options.batch.samples;
            times_ = {0, std::numeric_limits<double>::quiet_NaN(), 0};
            auto const start = clock::now();
            auto const tell = [&](std::size_t b, std::uint64_t number) {
                collect(number);
                auto const samples = order.batch(b, size).size();
                work_.tell(b, samples, work_.mean_loss(number, samples));
            };
            auto const batches = order.batches(size);
            for (std::size_t b = 0; b < batches; ++b) {
                begin(++steps_, order.batch(b, size));
                if (b != 0) tell(b - 1, steps_ - 1);
            }
            if (batches != 0) tell(batches - 1, steps_);
            times_.step = seconds(start, clock::now());
        });
    }

    void evaluate() {
        guarded([&] {
            work_.number_all();
            for (auto& r : m_->replicas) {
                r->begin_step();
                r->join();
            }
            for (std::size_t k = 0; k < most_shards(); ++k)
                for_granules_of(k, work_.all(), [&](replica& r, int slot, auto some, std::size_t) {
                    stage(r, slot, some, T{0});
                    r.enqueue_evaluation(slot, 0, k);
                });
            m_->transport.enqueue_scores(m_->words, 2 * work_.layout.shards(), m_->compute);
            for (auto& r : m_->replicas) {
                r->enqueue_results(0, r->compute);
                r->compute.record(r->used[0]);
            }
            for_results(0, [&](std::size_t shard, sample_score const& s) {
                work_.set_score(shard, s.loss, static_cast<std::size_t>(s.correct));
            });
        });
    }

    /// Of the last epoch: all of it, and the part in which the devices had nothing to do but wait for samples. How long
    /// they add gradients is not measured: it goes on beside the rest.
    step_times const& times() const noexcept { return times_; }

    std::vector<T> gathered(std::span<T const> held_numbers<T>::* numbers) const {
        auto const values = held(first_rank()).*numbers;
        return {values.begin(), values.end()};
    }
    held_numbers<T> held(int rank) const {
        auto const all = stored(rank);
        return {{0, Model::network::depth},
                all.first(Model::network::parameters),
                all.subspan(Model::first_buffer, Model::network::buffers)};
    }
    void load_parameters(std::span<T const> values) { replace(values, 0); }
    void load_buffers(std::span<T const> values) { replace(values, Model::first_buffer); }
    /// Of all steps so far.
    traffic wire(int rank) const {
        auto const t = m_->transport.moved(local(rank));
        return {t.messages * steps_, t.bytes * steps_};
    }

    /// Deviations of the kernels of this process's ranks from what they were asked, each once.
    std::vector<std::string> notes() const {
        std::vector<std::string> all;
        for (auto const& r : m_->replicas)
            for (auto& note : r->notes())
                if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(std::move(note));
        return all;
    }

private:
    using clock = std::chrono::steady_clock;
    using machine = stream_machine<Model, Device, Options, Transport>;
    using replica = typename machine::replica;
    using event = typename Device::event;

    static double seconds(clock::time_point a, clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    /// Everything once, on no samples: libraries choose their algorithms, kernels are loaded, long before they are
    /// needed, and before any rank waits for another in a collective.
    void warm_up() {
        for (int slot : {0, 1}) {
            for (auto& r : m_->replicas) {
                for (std::size_t k = 0; k < r->shards().size(); ++k) r->set_samples(slot, k, {}, {}, T{0});
                r->enqueue_samples(slot, r->shards().size());
            }
            m_->enqueue_step(slot);
            for (auto& r : m_->replicas) {
                r->enqueue_evaluation(slot, 0, 0);
                r->compute.record(r->used[slot]);
            }
            for_results(slot, [](std::size_t, sample_score const&) {});
        }
    }

    void begin_weights() {
        for (auto& r : m_->replicas) {
            with_default_floats(
                [&] { initialise_parameters<typename Model::network, Initialiser>(r->mirror(), work_.options.seed); });
            std::fill(r->mirror() + Model::network::parameters, r->mirror() + Model::arena_elements, T{0});
            initialise_buffers<typename Model::network>(r->mirror() + Model::first_buffer);
            r->enqueue_clear();
        }
        load();
    }
    /// A rank's parameters and buffers, as they are now.
    std::span<T const> stored(int rank) const {
        auto& r = *m_->replicas[static_cast<std::size_t>(local(rank))];
        return const_cast<stream_run*>(this)->guarded([&]() -> std::span<T const> {
            const_cast<stream_run*>(this)->store(r);
            return {r.mirror(), Model::arena_elements};
        });
    }
    void store(replica& r) {
        r.enqueue_store();
        r.compute.record(r.used[0]);
        wait_for(r, r.used[0], "reading the weights");
    }
    /// Writes to all ranks' parameters or buffers; those of the two that are not asked for stay as they are.
    void replace(std::span<T const> values, std::size_t first) {
        guarded([&] {
            for (auto& r : m_->replicas) {
                if constexpr (Model::network::buffers != 0) store(*r);
                std::copy(values.begin(), values.end(), r->mirror() + first);
            }
            load();
        });
    }
    void load() {
        for (auto& r : m_->replicas) {
            r->enqueue_load();
            r->compute.record(r->used[0]);
        }
        for (auto& r : m_->replicas) wait_for(*r, r->used[0], "writing the weights");
    }

    // ---- one step ----

    static T weight_of(std::size_t samples) noexcept { return static_cast<T>(1.0 / static_cast<double>(samples)); }

    /// Stages the samples and hands the step over.
    void begin(std::uint64_t number, std::span<std::uint32_t const> indices) {
        [[maybe_unused]] typename Device::range const named("step");
        int const slot = static_cast<int>(number % 2);
        visit_faults(number);
        auto const start = clock::now();
        for (auto& r : m_->replicas) {
            wait_for(*r, r->staged[slot], "copying samples"); // of the step before the last, from the same memory
            r->set_numbers(slot, work_.options);
            for (std::size_t k = 0; k < r->shards().size(); ++k) {
                auto const mine = part(indices.size(), r->shards().begin + k, work_.layout.shards());
                r->set_samples(slot, k, work_.images(), indices.subspan(mine.begin, mine.size()),
                               weight_of(indices.size()), about(*r, k, number, 0, indices.size()));
            }
            r->enqueue_samples(slot, r->shards().size());
        }
        if (number > 1 && m_->replicas[0]->used[1 - slot].reached()) times_.data += seconds(start, clock::now());
        if (eager_) {
            m_->enqueue_step(slot);
        } else {
            m_->gather();
            m_->launch(slot);
            m_->spread();
        }
        for (auto& r : m_->replicas) r->compute.record(r->used[slot]);
    }

    /// A step on more samples than a batch: granule by granule, without a graph.
    void begin_large(std::uint64_t number, std::span<std::uint32_t const> indices) {
        visit_faults(number);
        for (auto& r : m_->replicas) r->begin_step();
        for (std::size_t k = 0; k < most_shards(); ++k) {
            for (auto& r : m_->replicas)
                if (k < r->shards().size()) r->begin_shard();
            for_granules_of(k, indices, [&](replica& r, int slot, auto some, std::size_t first) {
                stage(r, slot, some, weight_of(indices.size()), about(r, k, number, first, indices.size()));
                r.enqueue_granule(slot, 0, k);
                r.join();
            });
            for (auto& r : m_->replicas) {
                if (k >= r->shards().size()) continue;
                r->beside.record(r->scored); // a shard without samples has had no granule to do it
                r->join();
                r->end_shard(k);
            }
        }
        int const slot = static_cast<int>(number % 2); // where results are looked for; its numbers are these
        for (auto& r : m_->replicas) stage(*r, slot, {}, T{0});
        m_->gradients_complete();
        m_->enqueue_reductions();
        m_->enqueue_end(slot);
        for (auto& r : m_->replicas) r->compute.record(r->used[slot]);
    }

    /// What kernels need to know of a rank's k-th shard, in a step on `samples`.
    staged_shard about(replica const& r, std::size_t k, std::uint64_t number, std::size_t first,
                       std::size_t samples) const {
        auto const shard = r.shards().begin + k;
        auto const mine = part(samples, shard, work_.layout.shards());
        return {0,      static_cast<std::uint32_t>(shard),
                first,  work_.options.seed,
                number, static_cast<double>(mine.size()) / static_cast<double>(samples),
                samples};
    }

    /// Stages one granule of one rank, in the first place of a slot.
    void stage(replica& r, int slot, std::span<std::uint32_t const> indices, T weight, staged_shard const& about = {}) {
        wait_for(r, r.staged[slot], "copying samples");
        r.set_numbers(slot, work_.options);
        r.set_samples(slot, 0, work_.images(), indices, weight, about);
        r.enqueue_samples(slot, 1);
    }

    /// The most shards that a rank of this process has.
    std::size_t most_shards() const noexcept {
        std::size_t most = 0;
        for (auto const& r : m_->replicas) most = std::max(most, r->shards().size());
        return most;
    }

    /// f(replica, slot, indices, first) for the granules of every rank's k-th shard of `indices`, all ranks' first ones
    /// first; the slots take turns. `first`: samples of the shard before the granule's.
    template<class F>
    void for_granules_of(std::size_t k, std::span<std::uint32_t const> indices, F&& f) {
        bool some = true;
        for (std::size_t g = 0; some; ++g) {
            int const slot = static_cast<int>((k + g) % 2);
            some = false;
            for (auto& r : m_->replicas) {
                if (k >= r->shards().size()) continue;
                auto const mine = part(indices.size(), r->shards().begin + k, work_.layout.shards());
                auto const begin = mine.begin + g * r->samples();
                if (begin >= mine.end) continue;
                f(*r, slot, indices.subspan(begin, std::min(r->samples(), mine.end - begin)), begin - mine.begin);
                r->compute.record(r->used[slot]);
                some = true;
            }
        }
    }

    /// Waits for a step, and keeps its losses.
    void collect(std::uint64_t number) {
        for_results(static_cast<int>(number % 2),
                    [&](std::size_t shard, sample_score const& s) { work_.set_loss(number, shard, s.loss); });
    }

    /// f(shard, score) for the shards that are known here: those of this process, or all if the transport shares them.
    template<class F>
    void for_results(int slot, F&& f) {
        for (auto& r : m_->replicas) wait_for(*r, r->used[slot], "a step");
        bool const shared = m_->transport.local_ranks() != work_.layout.replicas;
        for (auto& r : m_->replicas) {
            auto const results = r->results(slot);
            auto const known = shared ? range{0, results.size()} : r->shards();
            for (auto s = known.begin; s < known.end; ++s) f(s, results[s]);
            if (shared) return;
        }
    }

    // ---- waiting and failing ----

    /// Memory may be freed when nothing is under way any more; else it is left behind, for freeing it would wait for a
    /// device that does not answer.
    void settle() noexcept {
        if (m_ != nullptr && !idle()) leave_behind(std::move(m_));
    }
    bool idle() const noexcept {
        bool all = !stalled_;
        for (auto& r : m_->replicas)
            for (auto* const s : {&r->copies, &r->compute, &r->beside, &r->exchange}) try {
                    event done(s->device());
                    s->record(done);
                    all = all && await(done, deadline::in(deadline_));
                } catch (...) { // a device that has failed has nothing to do any more
                }
        return all;
    }

    void wait_for(replica& r, event& e, char const* what) {
        m_->at_rank = m_->rank_of(r);
        auto const limit = deadline::in(deadline_);
        while (!await(
            e, deadline::in(std::min<std::chrono::duration<double>>(limit.left(), std::chrono::milliseconds(20))))) {
            m_->transport.check();
            if (limit.passed()) late(r, what);
        }
    }

    [[noreturn]] TRIREME_COLD void late(replica& r, char const* what) {
        m_->transport.abandon();
        int const rank = m_->rank_of(r);
        throw deadline_error(rank, "device " + std::to_string(rank) + " (" + Device::name + " " +
                                       std::to_string(m_->transport.device_of(rank - m_->transport.first_rank())) +
                                       ") did not finish within the deadline of " + seconds_text(deadline_) +
                                       " s: " + what + ", training step " + std::to_string(steps_) +
                                       "; if it is only slow, raise the option `deadline`");
    }

    void visit_faults(std::uint64_t number) {
        for (auto const point : {fault_point::forward, fault_point::backward, fault_point::reduce, fault_point::update})
            for (int i = 0; i < m_->transport.local_ranks(); ++i) {
                m_->at_rank = m_->transport.first_rank() + i;
                Faults::at(point, m_->at_rank, number);
            }
        m_->at_rank = m_->transport.first_rank();
    }

    /// Runs `f`; what it throws stops the trainer, and reaches the caller with the device's name.
    template<class F>
    auto guarded(F&& f) -> decltype(f()) {
        try {
            return f();
        } catch (deadline_error const&) {
            stopped_ = stalled_ = true;
            throw;
        } catch (device_error const&) {
            stopped_ = true;
            throw;
        } catch (usage_error const&) { // of what the caller asked for, unless it comes out of a step
            if (steps_ == 0) throw;
            stopped_ = true;
            throw device_error(m_->at_rank, std::current_exception(), message_of(std::current_exception()));
        } catch (...) {
            stopped_ = true;
            throw device_error(m_->at_rank, std::current_exception(), message_of(std::current_exception()));
        }
    }
    TRIREME_COLD static std::string message_of(std::exception_ptr e) {
        try {
            std::rethrow_exception(std::move(e));
        } catch (std::exception const& known) {
            return known.what();
        } catch (...) {
            return "an exception that is not derived from std::exception";
        }
    }

    int local(int rank) const {
        int const i = rank - m_->transport.first_rank();
        if (i >= 0 && i < m_->transport.local_ranks()) return i;
        throw usage_error("device " + std::to_string(rank) + " belongs to another process: ask there");
    }

    state_type work_;
    std::unique_ptr<machine> m_;
    std::chrono::duration<double> deadline_;
    std::uint64_t steps_ = 0;
    step_times times_;
    bool eager_;
    bool stopped_ = false;
    bool stalled_ = false;
};

template<accelerator Device>
struct run_on<Device> {
    template<class Model, class Options, class Initialiser, class Faults, class Transport>
    using type = stream_run<Model, Options, Initialiser, Faults, Device,
                            typename stream_transport<Transport, Device>::template type<typename Model::value_type>>;
};

} // namespace trireme
