// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/trainer/replica.hpp>
#include <trireme/trainer/training_state.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// What the devices of one trainer share: replicas, the current data, losses by shard. One engine serves every layout;
/// it is instantiated by the model alone. Devices hold it alive, so that one which is stuck never reads freed memory.
template<class Model, class Options, class Initialiser, class Faults, class Communicator>
class engine : public training_state<typename Model::network, Options> {
    using base = training_state<typename Model::network, Options>;

public:
    using base::images;
    using base::layout;
    using base::options;
    using base::order;
    using T = typename Model::value_type;
    using communicator = Communicator;

    engine(Options const& o, data_parallel_layout const& l)
        : base(o, l), replicas_(static_cast<std::size_t>(l.devices)) {}

    /// Makes the replica of `c`'s device, on that device, so that its memory is near it; all begin with the same
    /// weights.
    void construct(communicator& c) {
        auto mine = std::make_unique<replica<Model, communicator>>(c, layout, options.batch.samples);
        if (auto* const weights = mine->parameters().data(); !mine->parameters().empty()) {
            initialise_parameters<typename Model::network, Initialiser>(weights, options.seed);
            initialise_buffers<typename Model::network>(weights + Model::first_buffer);
        }
        if (layout.reproducible() && !floats_are_default())
            throw usage_error("reproducible needs floats that are rounded to the nearest and keep denormal values, and "
                              "this device's are not: build for a target that has them, or leave out reproducible");
        replicas_[static_cast<std::size_t>(c.rank())] = std::move(mine);
    }

    replica<Model, communicator>& at(int rank) const noexcept { return *replicas_[static_cast<std::size_t>(rank)]; }

    held_numbers<T> held(int rank) const noexcept {
        return {{0, Model::network::depth}, parameters(rank), buffers(rank)};
    }
    /// The weights that a device computes with.
    std::span<T> parameters(int rank) const noexcept { return at(layout.shared_weights ? 0 : rank).parameters(); }

    std::span<T> buffers(int rank) const noexcept {
        return {parameters(rank).data() + Model::first_buffer, Model::network::buffers};
    }

    /// One step on `batch` of the images in use; every device calls it. Returns the number of the step.
    std::uint64_t step(communicator& c, std::span<std::uint32_t const> batch) {
        auto& mine = at(c.rank());
        auto const number = mine.steps() + 1;
        mine.template step<Faults>(c, images(), batch, options, this->losses_of(number));
        return number;
    }

    /// A whole epoch over `order`; every device calls it. `know_losses(number of a step)` says whether this device
    /// knows the losses of all shards after that step: then it sums them. Device 0 tells the observer.
    template<class KnowLosses>
    void epoch(communicator& c, KnowLosses&& know_losses) {
        auto const batches = order.batches(options.batch.samples);
        for (std::size_t b = 0; b < batches; ++b) {
            auto const batch = order.batch(b, options.batch.samples);
            auto const number = step(c, batch);
            if (know_losses(number)) this->tell(b, batch.size(), this->mean_loss(number, batch.size()), c.rank() == 0);
        }
    }

    void evaluate(communicator& c) {
        auto& mine = at(c.rank());
        auto const shards = layout.shards_of_device(c.rank());
        for (auto s = shards.begin; s < shards.end; ++s) {
            auto const score = mine.evaluate(c, images(), part(images().size(), s, layout.shards()));
            this->losses_[s] = score.loss;
            this->correct_[s] = score.correct;
        }
    }

    /// `f(shard, loss)` of a step, for the shards that this device has computed.
    template<class F>
    void for_own_losses(communicator const& c, std::uint64_t number, F&& f) {
        auto const shards = layout.shards_of_device(c.rank());
        for (auto s = shards.begin; s < shards.end; ++s) f(s, this->losses_of(number)[s]);
    }
    /// `f(shard, loss, right answers)` of an evaluation, likewise.
    template<class F>
    void for_own_scores(communicator const& c, F&& f) const {
        auto const shards = layout.shards_of_device(c.rank());
        for (auto s = shards.begin; s < shards.end; ++s) f(s, this->losses_[s], this->correct_[s]);
    }

private:
    std::vector<std::unique_ptr<replica<Model, communicator>>> replicas_;
};

} // namespace trireme::inline TRIREME_ISA
