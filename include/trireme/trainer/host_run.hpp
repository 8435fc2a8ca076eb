// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/device.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/trainer/engine.hpp>
#include <trireme/trainer/replica.hpp>
#include <trireme/trainer/report.hpp>

#include <algorithm>
#include <memory>
#include <span>

namespace trireme {

/// How a trainer drives the devices of a kind: `run_on<Device>::type<Model, Options, Initialiser, Faults, Transport>`.
/// Headers of devices specialise it.
template<class Device>
struct run_on;

inline namespace TRIREME_ISA {

/// A trainer's devices if they are those of the host: threads of a group that all run the engine.
template<class Model, class Options, class Initialiser, class Faults>
class host_run {
    using engine_type = engine<Model, Options, Initialiser, Faults, threads::communicator>;

public:
    using T = typename Model::value_type;

    /// What is where in the memory of a rank.
    static constexpr memory_map memory(data_parallel_layout const& l, std::size_t batch, int rank) {
        return replica<Model, threads::communicator>::memory(l, batch, rank);
    }

    host_run(Options const& o, auto const& r, data_parallel_layout const& layout)
        : engine_((detail::check_no_strategy_of_a_transport(layout), std::make_shared<engine_type>(o, layout))),
          group_(layout.devices, r.deadline) {
        on_every_device([](engine_type& e, threads::communicator& c) { e.construct(c); });
    }

    /// Options, images in use, order, losses.
    engine_type& state() const noexcept { return *engine_; }
    int first_rank() const noexcept { return 0; } ///< of this process
    bool stopped() const noexcept { return group_.stopped(); }

    /// One step on all images in use.
    step_report step() {
        auto& e = *engine_;
        e.number_all();
        on_every_device([](engine_type& en, threads::communicator& c) { en.step(c, en.all()); });
        auto const number = e.at(0).steps();
        return {number, e.mean_loss(number, e.images().size()), e.images().size()};
    }
    void epoch() {
        engine_->at(0).reset_times();
        on_every_device([](engine_type& e, threads::communicator& c) {
            e.epoch(c, [&c](std::uint64_t) { return c.rank() == 0; });
        });
    }
    void evaluate() {
        on_every_device([](engine_type& e, threads::communicator& c) { e.evaluate(c); });
    }
    /// Of device 0, in the last epoch.
    step_times const& times() const noexcept { return engine_->at(0).times(); }

    step_program const& program(int rank) const { return engine_->at(rank).program(); }
    held_numbers<T> held(int rank) const { return engine_->held(rank); }
    void load_parameters(std::span<T const> values) {
        for (int r = 0; r < engine_->layout.devices; ++r)
            std::copy(values.begin(), values.end(), engine_->parameters(r).begin());
    }
    void load_buffers(std::span<T const> values) {
        for (int r = 0; r < engine_->layout.devices; ++r)
            std::copy(values.begin(), values.end(), engine_->buffers(r).begin());
    }
    traffic wire(int rank) const { return group_.at(rank).pulled(); }

private:
    /// Runs a function of (engine, communicator) without captures on every device. Allocates nothing.
    template<class Job>
    void on_every_device(Job) {
        group_.run({engine_, [](void* e, threads::communicator& c) { Job{}(*static_cast<engine_type*>(e), c); }});
    }

    std::shared_ptr<engine_type> engine_;
    threads::group group_;
};

} // namespace TRIREME_ISA

/// How a trainer drives devices of the host that a transport joins; `void`: threads. Headers of transports specialise
/// it.
template<class Transport>
struct host_run_over {
    template<class Model, class Options, class Initialiser, class Faults>
    using type = host_run<Model, Options, Initialiser, Faults>;
};

template<>
struct run_on<host> {
    template<class Model, class Options, class Initialiser, class Faults, class Transport>
    using type = typename host_run_over<Transport>::template type<Model, Options, Initialiser, Faults>;
};

} // namespace trireme
