// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/accelerator.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/trainer/agreement.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/host_run.hpp>
#include <trireme/trainer/stream_rank_of.hpp>
#include <trireme/trainer/stream_run.hpp>
#include <trireme/trainer/training_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme {

/// A trainer's devices if they are accelerators: stream_run drives them, and this class has what depends on the types
/// of the model, its options and its first weights.
template<class Model, class Options, class Initialiser, class Faults, class Device, class Transport>
class accelerator_run final : public detail::stream_run<typename Model::value_type, Device, Transport, Faults> {
    using base = detail::stream_run<typename Model::value_type, Device, Transport, Faults>;
    using rank_type = stream_rank_of<Model, Device, Options>;
    using network = typename Model::network;

public:
    using T = typename Model::value_type;
    using state_type = state_with_options<Model, Options>;

    /// The map of a rank's memory.
    static constexpr memory_map memory(parallel_layout const& l, std::size_t batch, int rank) {
        auto m = rank_type::memory_of(l, batch, rank);
        m.tables.bytes += Transport::relay_bytes(l);
        if constexpr (Model::trains) {
            for (int chunk = 0; chunk < l.chunks(); ++chunk) {
                auto const numbers = numbers_of_stage<network, T>(l, l.stage_of(rank, chunk));
                m.tables.bytes += Transport::table_bytes(l, rank, numbers.extent(), sizeof(T));
            }
            for (auto const& e : network::exchanges)
                m.tables.bytes += Transport::sum_bytes(l.replicas, rank, e.elements, sizeof(T));
        }
        return m;
    }
    static constexpr crossing_bytes crossing(parallel_layout const& l, std::size_t batch, int stage) {
        return bytes_across<Model, typename rank_type::context>(l.rows_of(stage, network::depth).end,
                                                                l.most_shard_samples(batch));
    }
    /// Adds what a rank reads from others in a step.
    static constexpr void moves(parallel_layout const& l, std::size_t batch, int rank, detail::traffic_by_peer& sum) {
        traffic_of_step<Model, typename rank_type::context>(l, batch, rank, sum);
        traffic_of_squares<Model>(l, rank, [&](int role, traffic const& t) { sum.add_roles(one_rank(role), t); });
    }

    accelerator_run(Options const& o, auto const& r, parallel_layout const& layout)
        : base(stream_model_of<Model, Device, Options>, layout, o.batch.samples, o.seed, state_, r,
               agreed_by(o, layout)),
          state_(o, layout) {
        auto const here = this->executor_->transport.here();
        state_.reads_inputs = here.has(layout.place_of(0).role);
        state_.reads_targets = here.has(layout.role_of_last_stage());
        state_.weighs_here = true; // the losses that the transport shares
        this->start();
    }

    state_type& state() noexcept { return state_; }
    state_type const& state() const noexcept { return state_; }

private:
    static std::string agreed_by([[maybe_unused]] Options const& o, [[maybe_unused]] parallel_layout const& l) {
        if constexpr (Transport::has_messages)
            return agreement<Model, Initialiser>(o, l);
        else
            return {};
    }

    void write_settings(std::uint64_t step, std::byte* to) const override {
        rank_type::write_settings(detail::options_of_step(state_.options, step), to);
    }
    float learning_rate() const noexcept override { return state_.options.learning_rate; }
    void initialise(detail::stream_stage<T> const& s, T* weights) const override {
        s.template initialise<network, Initialiser>(weights, state_.options.seed);
    }

    state_type state_;
};

template<accelerator Device>
struct run_on<Device> {
    template<class Model, class Options, class Initialiser, class Faults, class Transport>
    using type = accelerator_run<Model, Options, Initialiser, Faults, Device,
                                 typename Transport::template streams<Device, typename Model::value_type>>;
};

} // namespace trireme
