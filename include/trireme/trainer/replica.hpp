// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/fixed_tree.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/layer/granule_pass.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/plan.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// What a training program is made of, without the layout: the types that machine code is instantiated by.
template<class Network, class Loss, class Optimizer, class Kernels, class T>
struct model {
    using network = Network;
    using loss = Loss;
    using optimizer = Optimizer;
    using kernels = Kernels;
    using value_type = T;

    template<std::size_t Lanes>
    using pass = granule_pass<Network, Kernels, T, Lanes>;
    using output = typename Network::output_extents;

    /// Elements of the activation arena: one granule, or one sample where samples go one by one.
    static constexpr std::size_t activation_elements = std::max(
        pass<Kernels::template lanes<T>>::plan.elements, one_by_one<Kernels, T> == 0 ? 0 : pass<1>::plan.elements);

    /// Elements of the parameter arena: all parameters, padded to whole cache lines.
    static constexpr std::size_t arena_elements = round_up(Network::parameters, cache_line / sizeof(T));
};

/// Seconds that one device has spent, and where.
struct step_times {
    double step = 0;
    double synchronisation = 0; ///< adding gradients, waiting for others included
    double data = 0;            ///< gathering samples
};

/// One device's copy of the model, or its part of the one copy, and its part of every step. All of its memory comes
/// from its communicator.
template<class Model, training_communicator Communicator>
class replica {
public:
    using T = typename Model::value_type;

    replica(Communicator& comm, data_parallel_layout const& layout)
        : layout_(layout), shards_(layout.shards_of_device(comm.rank())),
          slice_(layout.slice_of_device(comm.rank(), Model::arena_elements, sizeof(T))),
          parameters_(comm.allocate(layout.shared_weights && comm.rank() != 0 ? 0 : Model::arena_elements * sizeof(T))),
          gradients_(comm.allocate(Model::arena_elements * sizeof(T) * layout.gradient_slots(comm.rank()))),
          state_(comm.allocate(slice_.size() * sizeof(T) * Model::optimizer::state_per_parameter)),
          activations_(comm.allocate(Model::activation_elements * sizeof(T))) {
        if (layout.shared_weights && !shares_memory(comm))
            throw usage_error("hold_weights<once> needs devices that write into one memory, which this group's cannot");
        for (std::size_t i = 0; i < layout.reductions(); ++i)
            reductions_.push_back(
                {layout.reduced_by(i, Model::arena_elements), layout.reduction(i, Model::arena_elements, sizeof(T))});
    }

    /// This device's copy of the weights; none where device 0 has the only one.
    std::span<T> parameters() const noexcept {
        return {static_cast<T*>(parameters_.data), parameters_.bytes == 0 ? 0 : Model::network::parameters};
    }

    /// The weights to compute with: this device's copy, or the one there is.
    std::span<T> weights(Communicator const& comm) const {
        if constexpr (shared_memory_communicator<Communicator>)
            if (layout_.shared_weights) return {comm.template shared<T>(parameters_, 0), Model::network::parameters};
        return parameters();
    }

    /// One step on the samples `indices` of `images`, the whole batch: this device computes its own shards of it.
    /// Writes each shard's sum of losses to losses[shard]. Every device of the group calls it with the same arguments.
    template<class Faults, class Options>
    void step(Communicator& comm, labelled_images const& images, std::span<std::uint32_t const> indices,
              Options const& options, double* losses) {
        auto const start = clock::now();
        auto const number = ++steps_;
        comm.at_training_step(number);
        T* const weights = this->weights(comm).data();
        auto const batch_weight = static_cast<T>(1.0 / static_cast<double>(indices.size()));
        fixed_tree::stack tree;
        auto const merge = [this](std::size_t i, std::size_t j) {
            detail::add_into<T>(gradient_slot(i), gradient_slot(j), Model::arena_elements);
        };

        for (auto shard = shards_.begin; shard < shards_.end; ++shard) {
            auto* const gradients = gradient_slot(tree.depth());
            std::memset(gradients, 0, Model::arena_elements * sizeof(T));
            auto const mine = part(indices.size(), shard, layout_.shards());
            double loss = 0;
            for_granules<typename Model::kernels, T>(
                mine, [&]<std::size_t Lanes>(lane_count<Lanes>, range const& some) {
                    comm.check_stopped();
                    auto const next = indices.subspan(some.end, std::min(Lanes, mine.end - some.end));
                    loss += granule<Lanes, Faults>(comm, images, indices.subspan(some.begin, some.size()), next,
                                                   weights, batch_weight, gradients, number);
                });
            losses[shard] = loss;
            tree.push({shard, shard + 1}, merge);
        }

        auto const before_reduce = clock::now();
        double updating = 0;
        auto const update = [&](range slice) {
            auto const start_of_update = clock::now();
            Faults::at(fault_point::update, comm.rank(), number);
            Model::optimizer::update(typename Model::kernels{}, weights + slice.begin, gradient_slot(0) + slice.begin,
                                     static_cast<T*>(state_.data), slice.size(),
                                     Model::optimizer::template numbers<T>(options));
            updating = seconds(start_of_update, clock::now());
        };
        Faults::at(fault_point::reduce, comm.rank(), number);
        if (comm.size() == 1)
            tree.finish(merge);
        else if (layout_.reproducible())
            add_gradients(comm, add_in_fixed_tree(layout_.shards(), Model::arena_elements), update);
        else
            add_gradients(comm, detail::adder<op::sum>{}, update);
        if (comm.size() == 1 || !layout_.shared_weights) update(slice_);
        auto const end = clock::now();
        times_.synchronisation += seconds(before_reduce, end) - updating;
        times_.step += seconds(start, end);
    }

    /// Losses and right answers on the samples [begin, end) of `images`; no gradient.
    struct score {
        double loss = 0;
        std::size_t correct = 0;
    };
    score evaluate(Communicator& comm, labelled_images const& images, range samples) {
        score sum;
        T const* const weights = this->weights(comm).data();
        for_granules<typename Model::kernels, T>(samples, [&]<std::size_t Lanes>(lane_count<Lanes>, range const& some) {
            comm.check_stopped();
            std::uint32_t indices[Lanes];
            int labels[Lanes], correct[Lanes];
            T loss[Lanes];
            for (std::size_t i = 0; i < some.size(); ++i) indices[i] = static_cast<std::uint32_t>(some.begin + i);
            typename Model::template pass<Lanes> const pass(static_cast<T*>(activations_.data));
            gather_images<Lanes>(images, std::span<std::uint32_t const>(indices, some.size()), pixel_scale,
                                 pass.input(), labels);
            pass.forward(weights);
            Model::loss::template evaluate<typename Model::output, Lanes>(typename Model::kernels{}, pass.output(),
                                                                          labels, loss, correct);
            for (std::size_t i = 0; i < some.size(); ++i) {
                sum.loss += static_cast<double>(loss[i]);
                sum.correct += static_cast<std::size_t>(correct[i]);
            }
        });
        return sum;
    }

    /// Steps begun since construction.
    std::uint64_t steps() const noexcept { return steps_; }

    step_times const& times() const noexcept { return times_; }
    void reset_times() noexcept { times_ = {}; }

private:
    using clock = std::chrono::steady_clock;
    static constexpr T pixel_scale = T{1} / T{255};

    static double seconds(clock::time_point a, clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    /// A reduction that updates what it has completed.
    template<class Add, class Update>
    struct add_then_update {
        Add const& add;
        Update const& update;
        bool updates;
        bytes_t operator()(reduction_view<T> const& v) const {
            auto const bytes = add(v);
            if (updates) update(range{v.begin, v.begin + v.elements});
            return bytes;
        }
        std::size_t blocks(int rank, int ranks) const { return detail::blocks_of(add, rank, ranks); }
        std::size_t between_blocks() const { return detail::between_blocks(add); }
    };

    /// Adds the gradients of all devices; shared weights are updated on the way, when the own slice is complete.
    template<class Add, class Update>
    void add_gradients(Communicator& comm, Add const& add, Update const& update) {
        for (auto const& r : reductions_)
            run_schedule<T>(comm, layout_.goal(), r.steps,
                            std::span<T>(gradient_slot(0) + r.elements.begin, r.elements.size()),
                            add_then_update<Add, Update>{add, update, layout_.shared_weights});
    }

    T* gradient_slot(std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data) + i * Model::arena_elements;
    }

    /// Forward, loss and backward of up to `Lanes` samples; returns the sum of their losses. `next` comes after them.
    template<std::size_t Lanes, class Faults>
    double granule(Communicator& comm, labelled_images const& images, std::span<std::uint32_t const> samples,
                   std::span<std::uint32_t const> next, T const* parameters, T batch_weight, T* gradients,
                   std::uint64_t number) {
        int labels[Lanes];
        T weight[Lanes], loss[Lanes];
        typename Model::template pass<Lanes> const pass(static_cast<T*>(activations_.data));

        auto const start = clock::now();
        gather_images<Lanes>(images, samples, pixel_scale, pass.input(), labels);
        times_.data += seconds(start, clock::now());
        for (std::size_t lane = 0; lane < Lanes; ++lane) weight[lane] = lane < samples.size() ? batch_weight : T{0};

        Faults::at(fault_point::forward, comm.rank(), number);
        image_prefetch fetch_next(images, next);
        pass.forward(parameters, fetch_next);
        Model::loss::template gradient<typename Model::output, Lanes>(typename Model::kernels{}, pass.output(), labels,
                                                                      weight, pass.output_gradient(), loss);
        Faults::at(fault_point::backward, comm.rank(), number);
        pass.backward(parameters, gradients, fetch_next);

        double sum = 0;
        for (std::size_t lane = 0; lane < samples.size(); ++lane) sum += static_cast<double>(loss[lane]);
        return sum;
    }

    struct reduction {
        range elements;
        schedule steps;
    };

    data_parallel_layout layout_;
    std::vector<reduction> reductions_; ///< those of one step
    range shards_;
    range slice_; ///< of the weights, updated by this device
    arena parameters_;
    arena gradients_;
    arena state_;
    arena activations_;
    std::uint64_t steps_ = 0;
    step_times times_;
};

} // namespace trireme::inline TRIREME_ISA
