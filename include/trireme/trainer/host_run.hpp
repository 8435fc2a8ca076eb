// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/device.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/trainer/agreement.hpp>
#include <trireme/trainer/host_devices.hpp>
#include <trireme/trainer/host_model.hpp>
#include <trireme/trainer/report.hpp>
#include <trireme/trainer/training_state.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// Ways in which a trainer drives the devices of a kind: `run_on<Device>::type<Model, Options, Initialiser, Faults,
/// Transport>`. Headers of devices specialise it.
template<class Device>
struct run_on;

inline namespace TRIREME_ISA {

/// Devices that are threads of this process.
class thread_ranks {
public:
    using communicator = threads::communicator;
    static constexpr bool of_one_process = true; ///< else each process has one rank, and a trainer of its own

    template<class RunOptions, class Agreed>
    thread_ranks(RunOptions const& r, parallel_layout const& l, Agreed const&)
        : group_((detail::check_no_strategy_of_a_transport(l), l.devices()), r.deadline) {}

    bool stopped() const noexcept { return group_.stopped(); }
    int first() const noexcept { return 0; }

    /// Runs a function of (state, communicator) without captures on every device, which holds the state alive.
    /// Allocates nothing.
    template<class State, class Job>
    void run(std::shared_ptr<State> const& state, Job) {
        run_job(state, [](void* s, communicator& c) { Job{}(*static_cast<State*>(s), c); });
    }

private:
    template<class State>
    TRIREME_NOINLINE void run_job(std::shared_ptr<State> const& state, void (*job)(void*, communicator&)) {
        group_.run({state, job});
    }

    threads::group group_;
};

/// Devices that are processes, each with a trainer of its own: SPMD, the same calls in all of them. `Group` joins them:
/// made of the option `processes`, the number of devices, the deadline and the agreement, it has this rank's
/// communicator (`own`), runs functions on it (`run`), and knows which ranks are `near`.
template<class Group>
class process_ranks {
public:
    using communicator = typename Group::communicator;
    static constexpr bool of_one_process = false;

    /// `agreed()`: what all processes must have in common.
    template<class RunOptions, class Agreed>
    process_ranks(RunOptions const& r, parallel_layout const& l, Agreed const& agreed)
        : group_(r.processes.value, l.devices(), r.deadline, agreed()) {}

    bool stopped() const noexcept { return group_.failed(); } // else the next call tells why
    int first() const noexcept { return group_.rank(); }
    levels near() const noexcept { return group_.near(); }

    template<class State, class Job>
    void run(std::shared_ptr<State> const& state, Job job) {
        group_.run([&](communicator& c) { job(*state, c); });
    }

private:
    mutable Group group_;
};

/// A trainer on devices of the host, which `Ranks` joins: each runs its executor. One instantiation serves every
/// layout.
template<class Model, class Options, class Initialiser, class Faults, class Ranks>
class host_run : public detail::host_devices<typename Model::value_type, Ranks, Model::staged, Faults> {
    using base = detail::host_devices<typename Model::value_type, Ranks, Model::staged, Faults>;
    using network = typename Model::network;
    using typename base::communicator;
    using numbers =
        decltype(Model::optimizer::template numbers<typename Model::value_type>(std::declval<Options const&>()));
    using executor = detail::host_model<Model, numbers, communicator, Faults>;
    using base::of_one_process, base::ranks_, base::own;

public:
    using T = typename Model::value_type;
    using base::first_rank;
    using state_type = state_with_options<Model, Options>;

    /// The map of a rank's memory.
    static constexpr memory_map memory(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = executor::memory(l, batch, rank);
        if (!of_one_process) // losses with what rows add to them, or with right answers
            m.scores.bytes = sizeof(double) * ((1 + std::max<std::size_t>(network::loss_terms, 1)) * l.shards() +
                                               (Model::weighs_samples ? 2 : 0));
        return m;
    }
    /// Adds to `sum` the traffic that a rank reads from others in a step on a full batch.
    static constexpr void moves(parallel_layout const& l, std::size_t batch, int rank, detail::traffic_by_peer& sum) {
        executor::moves(l, batch, rank, sum);
    }

    static constexpr crossing_bytes crossing(parallel_layout const& l, std::size_t batch, int stage) {
        return bytes_across<Model, typename Model::template pass<>>(l.rows_of(stage, network::depth).end,
                                                                    l.most_shard_samples(batch));
    }

    TRIREME_COLD host_run(Options const& o, auto const& r, parallel_layout const& layout)
        : base(r, layout, [&] { return agreement<Model, Initialiser>(o, layout); }) {
        this->devices_ = std::make_shared<shared>(o, near_ones(layout));
        auto& s = all();
        if constexpr (!of_one_process) {
            s.reads_inputs = layout.role_of(first_rank()) == layout.place_of(0).role;
            s.reads_targets = layout.role_of(first_rank()) == layout.role_of_last_stage();
        }
        if (r.trace.value)
            for (int k = 0; k < (of_one_process ? layout.devices() : 1); ++k)
                s.logs.push_back(std::make_unique<task_log>());
        on_every_device([](shared& here, communicator& c) { here.construct(c); });
        made_ = true;
    }

    state_type& state() const noexcept { return all(); }

    /// One step on all samples in use.
    step_report step() {
        auto& s = all();
        s.number_all();
        work_on_samples();
        on_every_device([](shared& here, communicator& c) { here.step(c, here.all()); });
        auto const number = own().steps();
        check_convergence();
        return {number, s.mean_loss(number), s.samples().size(), own().gradient_norm()};
    }
    void epoch() {
        own().reset_times();
        work_on_samples();
        on_every_device([](shared& s, communicator& c) { s.epoch(c); });
        check_convergence();
    }
    void evaluate() {
        all().number_all();
        work_on_samples();
        on_every_device([](shared& s, communicator& c) { s.evaluate(c); });
    }
    /// The outputs for all samples in use, [sample][value].
    std::vector<T> predict() {
        auto& s = all();
        s.number_all();
        work_on_samples();
        s.outputs.resize(s.samples().size() * s.model.outputs);
        on_every_device([](shared& here, communicator& c) { here.predict(c); });
        auto found = std::exchange(s.outputs, {});
        if constexpr (!of_one_process) this->gather_outputs(found, s.samples().size());
        return found;
    }
    void take(numbers_to_take<T> const& from) { this->give(from, all().options.learning_rate); }

private:
    struct shared : state_type, base::shared_devices {
        using devices = typename base::shared_devices;
        using devices::at;
        using state_type::layout;
        using state_type::options;
        using state_type::samples;

        TRIREME_COLD shared(Options const& o, parallel_layout const& l)
            : state_type(o, l), devices(state_type::layout, detail::facts_on_host<Model>) {}

        /// Makes the executor of `c`'s device, on that device, so that its memory is near it.
        TRIREME_COLD void construct(communicator& c) {
            auto made = std::make_unique<executor>(c, layout, options.batch.samples, options.seed);
            made->template begin<Initialiser>();
            this->add(c, std::move(made), memory(layout, options.batch.samples, c.rank()).scores.total());
        }

        executor& of(communicator& c) const noexcept { return static_cast<executor&>(this->at(c.rank())); }

        /// One step on some of the samples in use; every device calls it. Returns its number.
        std::uint64_t step(communicator& c, std::span<std::uint32_t const> indices) {
            auto& e = of(c);
            auto const number = e.steps() + 1;
            auto weight = this->weigh(indices);
            e.step({&samples(), indices, this->losses_of(number), nullptr, weight.scale()},
                   detail::step_numbers_of<Model>(detail::options_of_step(options, number - 1)));
            if constexpr (!of_one_process)
                this->share(c, std::span(this->losses_of(number), this->losses_of_step()), {}, weight);
            if (!of_one_process || c.rank() == 0) this->set_weight(number, weight);
            return number;
        }

        /// A whole epoch over `order`; every device calls it. Who knows all losses of a step, sums them; device 0 tells
        /// the observer.
        void epoch(communicator& c) {
            auto const batches = this->order.batches(options.batch.samples);
            for (std::size_t b = 0; b < batches; ++b) {
                auto const indices = this->order.batch(b, options.batch.samples);
                auto const number = step(c, indices);
                if (!of_one_process || c.rank() == 0) this->tell(b, number, c.rank() == 0);
                if (!this->is_finite(number)) return; // on all devices
            }
        }

        void evaluate(communicator& c) {
            of(c).evaluate({&samples(), this->all(), this->losses_.data(), this->correct_.data()});
            if (of_one_process && c.rank() != 0) return;
            auto weight = this->weigh(this->all());
            if constexpr (!of_one_process)
                this->share(c, std::span(this->losses_).first(layout.shards()), this->correct_, weight);
            this->set_weight(weight);
        }

        void predict(communicator& c) {
            of(c).evaluate({&samples(), this->all(), nullptr, nullptr, 0, this->outputs.data()});
        }
    };

    void check_convergence() {
        auto& s = all(); // devices that update on the way have done so
        s.check_convergence(own().steps(), !s.layout.shared_weights || s.layout.replicas == 1);
    }

    template<class Job>
    void on_every_device(Job) {
        try {
            ranks_.run(this->devices_,
                       [](typename base::shared_devices& s, communicator& c) { Job()(static_cast<shared&>(s), c); });
        } catch (deadline_error const& e) {
            if (!of_one_process || !made_) throw;
            throw this->with_task(e);
        }
    }

    parallel_layout near_ones(parallel_layout l) const {
        if constexpr (!of_one_process)
            if (l.groups.count == 0 && ranks_.near().count != 0 && l.stages == 1) {
                l.groups = ranks_.near();
                detail::check_reductions(l, Model::arena_elements, sizeof(T)); // others than the compiler has seen
            }
        return l;
    }

    /// The samples in use and the learning rate become what all ranks must have in common in the next collectives; of
    /// stages whose ranks have but a part of the samples, that part is what those of one stage have in common.
    void work_on_samples() {
        if constexpr (!of_one_process) {
            auto& s = all();
            if (s.layout.devices() == 1) return; // no other rank compares, so that no sample is read
            collective_subject const here = {"samples", s.samples().size(), s.digests.of(s.samples()).both(),
                                             s.options.learning_rate};
            auto everywhere = here;
            if (s.layout.stages > 1 && !s.samples().has_both()) everywhere.digest = 0;
            own().works_on(everywhere, here);
        }
    }

    shared& all() const noexcept { return static_cast<shared&>(*this->devices_); }

    bool made_ = false; ///< all executors are there
};

} // namespace TRIREME_ISA

template<>
struct run_on<host> {
    template<class Model, class Options, class Initialiser, class Faults, class Transport>
    using type = host_run<Model, Options, Initialiser, Faults, typename Transport::template ranks<Model::staged>>;
};

} // namespace trireme
