// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/fixed_tree.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/collective/proved.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/gather_channels_last.hpp>
#include <trireme/device/host/all_samples.hpp>
#include <trireme/layer/channels_last.hpp>
#include <trireme/layer/host_pass.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/collective/direct.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
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
    using stored_type = stored_t<Kernels, T>; ///< of activations

    template<std::size_t Lanes = Kernels::template lanes<T>>
    using pass = host_pass<Network, Kernels, T, Lanes>;
    using output = typename Network::output_extents;

    /// The kernels for the loss and the optimizer.
    using sample_kernels = typename sample_kernels_of<Kernels>::type;
    /// Whether the samples of a shard lie in the activation arena all at once: some layer needs them, or the kernels.
    static constexpr bool at_once = takes_all_samples<Kernels>;
    static constexpr bool whole_shard = Network::whole_shard || at_once;

    /// Elements of the activation arena: one granule, or one sample where samples go one by one; or all samples of a
    /// shard.
    static constexpr std::size_t activation_elements(std::size_t shard_samples) {
        if constexpr (whole_shard)
            return pass<>::elements(pass<>::plan(shard_samples));
        else
            return std::max(pass<>::elements(pass<>::one),
                            one_by_one<Kernels, T> == 0 ? 0 : pass<1>::elements(pass<1>::one));
    }

    /// The parameter arena: all parameters, then all buffers, each padded to whole cache lines. Gradients lie in one of
    /// the same form, with what this step adds to the buffers in their place.
    static constexpr std::size_t first_buffer = round_up(Network::parameters, cache_line / sizeof(T));
    static constexpr std::size_t arena_elements = first_buffer + round_up(Network::buffers, cache_line / sizeof(T));

    /// Memory of a device's kernels, beside the activations: what their context asks for.
    static constexpr bytes_t workspace_bytes([[maybe_unused]] std::size_t shard_samples) {
        if constexpr (at_once)
            return round_up<bytes_t>(Kernels::context::bytes(rows<>.of, Network::depth, shard_samples), cache_line);
        else
            return 0;
    }
    template<int = 0>
    static constexpr channels_last_rows<Network> rows{};
};

} // namespace trireme::inline TRIREME_ISA

namespace trireme::detail::inline TRIREME_ISA {

/// What the kernels of one device work with: nothing, or what a policy for all samples keeps, and its memory.
template<class Model, class Communicator, bool AtOnce = Model::at_once>
struct kernels_of_device {
    kernels_of_device(Communicator&, memory_area const&, std::size_t) noexcept {}
    typename Model::kernels policy() const noexcept { return {}; }
    int begin() const noexcept { return 0; }
};
template<class Model, class Communicator>
struct kernels_of_device<Model, Communicator, true> {
    arena memory;
    typename Model::kernels::context context;

    kernels_of_device(Communicator& comm, memory_area const& workspace, std::size_t samples)
        : memory(comm.allocate(workspace.total())),
          context(Model::template rows<>.of, Model::network::depth, samples, memory.data) {}
    typename Model::kernels policy() noexcept { return typename Model::kernels(context); }
    auto begin() { return context.begin(); }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

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

    /// `batch`: the most samples of a step; only what takes the samples of a shard at once minds it.
    replica(Communicator& comm, data_parallel_layout const& layout, std::size_t batch)
        : replica(comm, layout, batch, memory(layout, batch, comm.rank())) {}

    /// What is where in the memory of a device.
    static constexpr memory_map memory(data_parallel_layout const& l, std::size_t batch, int rank) {
        auto m = memory_of_model<Model>(l, rank);
        auto const samples = l.most_shard_samples(batch);
        m.activations.bytes = Model::activation_elements(samples) * sizeof(typename Model::stored_type);
        m.workspace.bytes = Model::workspace_bytes(samples);
        m.counters.bytes = Communicator::control_bytes;
        return m;
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

    /// This device's copy of the buffers, or the one there is.
    std::span<T> buffers(Communicator const& comm) const {
        return {weights(comm).data() + Model::first_buffer, Model::network::buffers};
    }

    /// One step on the samples `indices` of `images`, the whole batch: this device computes its own shards of it.
    /// Writes each shard's sum of losses to losses[shard]. Every device of the group calls it with the same arguments.
    template<class Faults, class Options>
    void step(Communicator& comm, labelled_images const& images, std::span<std::uint32_t const> indices,
              Options const& options, double* losses) {
        auto const start = clock::now();
        auto const number = ++steps_;
        [[maybe_unused]] auto const computing = kernels_.begin();
        comm.at_training_step(number);
        T* const weights = this->weights(comm).data();
        fixed_tree::stack tree;
        auto const merge = [this](std::size_t i, std::size_t j) {
            detail::add_into<T>(gradient_slot(i), gradient_slot(j), Model::arena_elements);
        };

        auto const train = [&](std::size_t shard) {
            auto* const gradients = gradient_slot(tree.depth());
            std::memset(gradients, 0, Model::arena_elements * sizeof(T));
            auto const mine = part(indices.size(), shard, layout_.shards());
            detail::model_numbers<T> const numbers{weights, gradients, weights + Model::first_buffer,
                                                   gradients + Model::first_buffer};
            granule_place const place{options.seed, number,        static_cast<std::uint32_t>(shard), 0, mine.size(),
                                      mine.size(),  indices.size()};
            losses[shard] = add_shard<Faults>(comm, images, indices, mine, numbers, place);
            tree.push({shard, shard + 1}, merge);
        };
        double updating = 0;
        auto const update = [&](range slice) {
            auto const start_of_update = clock::now();
            Faults::at(fault_point::update, comm.rank(), number);
            auto const trained = std::min(slice.end, Model::network::parameters);
            if (slice.begin < trained)
                Model::optimizer::update(typename Model::sample_kernels{}, weights + slice.begin,
                                         gradient_slot(0) + slice.begin, static_cast<T*>(state_.data),
                                         trained - slice.begin, Model::optimizer::template numbers<T>(options));
            auto const buffered = std::min(slice.end, Model::first_buffer + Model::network::buffers);
            for (auto i = std::max(slice.begin, Model::first_buffer); i < buffered; ++i)
                weights[i] += static_cast<T>(statistics_momentum) * (gradient_slot(0)[i] - weights[i]);
            updating = seconds(start_of_update, clock::now());
        };
        auto const list = program_.get().list(0);
        auto const tail = list.begin() + program_.get().tail[0];
        for (auto t = list.begin(); t != tail; ++t) train(shards_.begin + t->micro_batch);
        auto const before_reduce = clock::now();
        Faults::at(fault_point::reduce, comm.rank(), number);
        if (comm.size() == 1) tree.finish(merge); // else the blocks of the tree are added with those of others
        for (auto t = tail; t != list.end(); ++t)
            if (t->kind == task_kind::update)
                update(slice_);
            else if (layout_.reproducible())
                add_gradients(comm, *t, add_in_fixed_tree(layout_.shards(), Model::arena_elements), update);
            else
                add_gradients(comm, *t, detail::adder<op::sum>{}, update);
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
        T* const weights = this->weights(comm).data();
        detail::model_numbers<T> const numbers{weights, nullptr, weights + Model::first_buffer};
        if constexpr (Model::at_once)
            return evaluate_at_once(comm, images, samples, numbers);
        else
            return evaluate_granules(comm, images, samples, numbers);
    }

    /// What this device does in a step.
    step_program const& program() const noexcept { return program_.get(); }

    /// Steps begun since construction.
    std::uint64_t steps() const noexcept { return steps_; }

    step_times const& times() const noexcept { return times_; }
    void reset_times() noexcept { times_ = {}; }

private:
    replica(Communicator& comm, data_parallel_layout const& layout, std::size_t batch, memory_map const& map)
        : layout_(layout), program_(layout, comm.rank()), shards_(layout.shards_of_device(comm.rank())),
          slice_(layout.slice_of_device(comm.rank(), Model::arena_elements, sizeof(T))),
          parameters_(comm.allocate(map.parameters.total())), gradients_(comm.allocate(map.gradients.total())),
          state_(comm.allocate(map.optimizer_state.total())), activations_(comm.allocate(map.activations.total())),
          places_(layout.most_shard_samples(batch)), kernels_(comm, map.workspace, layout.most_shard_samples(batch)) {
        if (layout.shared_weights && !shares_memory(comm))
            throw usage_error("hold_weights<once> needs devices that write into one memory, which this group's cannot");
        for (std::size_t i = 0; i < layout.reductions(); ++i)
            reductions_.push_back(
                {layout.reduced_by(i, Model::arena_elements), layout.reduction(i, Model::arena_elements, sizeof(T))});
        if constexpr (Model::at_once) prepare(batch);
    }

    using clock = std::chrono::steady_clock;
    static constexpr T pixel_scale = T{1} / T{255};

    static double seconds(clock::time_point a, clock::time_point b) {
        return std::chrono::duration<double>(b - a).count();
    }

    score evaluate_granules(Communicator& comm, labelled_images const& images, range samples,
                            detail::model_numbers<T> const& numbers) {
        score sum;
        for_granules_of(samples, [&]<std::size_t Lanes>(lane_count<Lanes>, range const& some) {
            comm.check_stopped();
            std::uint32_t indices[Lanes];
            int labels[Lanes], correct[Lanes];
            T loss[Lanes];
            auto const n = some.size();
            for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<std::uint32_t>(some.begin + i);
            auto const pass = this->template pass<Lanes>(numbers, {0, 0, 0, 0, n, n, n});
            gather_images<Lanes>(images, std::span<std::uint32_t const>(indices, n), pixel_scale, pass.input(), labels);
            pass.evaluate();
            Model::loss::template evaluate<typename Model::output, Lanes>(typename Model::sample_kernels{},
                                                                          pass.output(), labels, loss, correct);
            for (std::size_t i = 0; i < n; ++i) {
                sum.loss += static_cast<double>(loss[i]);
                sum.correct += static_cast<std::size_t>(correct[i]);
            }
        });
        return sum;
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
    void add_gradients(Communicator& comm, step_task const& t, Add const& add, Update const& update) {
        for (std::size_t i = t.first; i < t.end; ++i)
            run_schedule<T>(
                comm, layout_.goal(), reductions_[i].steps,
                std::span<T>(gradient_slot(0) + reductions_[i].elements.begin, reductions_[i].elements.size()),
                add_then_update<Add, Update>{add, update, t.updates});
    }

    T* gradient_slot(std::size_t i) const noexcept {
        return static_cast<T*>(gradients_.data) + i * Model::arena_elements;
    }

    /// Adds the gradients of a shard, the samples `mine` of the step's `indices`; returns the sum of its losses.
    template<class Faults>
    double add_shard(Communicator& comm, labelled_images const& images, std::span<std::uint32_t const> indices,
                     range mine, detail::model_numbers<T> const& numbers, granule_place const& shard) {
        if constexpr (Model::whole_shard) {
            return add_at_once<Faults>(comm, images, indices.subspan(mine.begin, mine.size()), numbers, shard);
        } else {
            double loss = 0;
            for_granules_of(mine, [&]<std::size_t Lanes>(lane_count<Lanes>, range const& some) {
                comm.check_stopped();
                auto const next = indices.subspan(some.end, std::min(Lanes, mine.end - some.end));
                auto place = shard;
                place.first = some.begin - mine.begin;
                place.count = some.size();
                loss += add_granule<Lanes, Faults>(comm, images, indices.subspan(some.begin, some.size()), next,
                                                   numbers, place);
            });
            return loss;
        }
    }

    /// Forward, loss and backward of up to `Lanes` samples; returns the sum of their losses. `next` comes after them.
    template<std::size_t Lanes, class Faults>
    double add_granule(Communicator& comm, labelled_images const& images, std::span<std::uint32_t const> samples,
                       std::span<std::uint32_t const> next, detail::model_numbers<T> const& numbers,
                       granule_place const& place) {
        int labels[Lanes];
        auto const pass = this->template pass<Lanes>(numbers, place);

        auto const start = clock::now();
        gather_images<Lanes>(images, samples, pixel_scale, pass.input(), labels);
        times_.data += seconds(start, clock::now());

        Faults::at(fault_point::forward, comm.rank(), place.step);
        image_prefetch fetch(images, next);
        auto const fetch_next = [&fetch](std::size_t) { fetch(); };
        pass.forward(nothing_beside{}, fetch_next);
        auto const loss = loss_of<Lanes>(pass.output(), labels, place, pass.output_gradient());
        Faults::at(fault_point::backward, comm.rank(), place.step);
        pass.backward(nothing_beside{}, fetch_next);
        return loss;
    }

    /// The same for all samples of a shard at once.
    template<class Faults>
    double add_at_once(Communicator& comm, labelled_images const& images, std::span<std::uint32_t const> samples,
                       detail::model_numbers<T> const& numbers, granule_place const& shard) {
        constexpr auto lanes = Model::template pass<>::lanes;
        auto const pass = this->template pass<lanes>(numbers, shard);
        auto const exchange = [&](std::size_t i) { add_over_devices(comm, pass.kept(), i); };
        auto const granule = [&](std::size_t g) {
            return samples.subspan(g * lanes, std::min(lanes, samples.size() - g * lanes));
        };
        double loss = 0;
        Faults::at(fault_point::forward, comm.rank(), shard.step);
        auto const begin = [&](std::size_t g) {
            comm.check_stopped();
            auto const start = clock::now();
            if constexpr (Model::at_once) {
                gather_all(images, samples.size(), [&](std::size_t i) { return samples[i]; }, pass.input(g));
            } else {
                int labels[lanes];
                gather_images<lanes>(images, granule(g), pixel_scale, pass.input(g), labels);
            }
            times_.data += seconds(start, clock::now());
        };
        pass.forward(begin, nothing_beside{}, exchange);
        Faults::at(fault_point::backward, comm.rank(), shard.step);
        auto const begin_back = [&](std::size_t g) {
            comm.check_stopped();
            int labels[lanes];
            auto place = shard;
            if constexpr (Model::at_once) {
                place.count = 1;
                for (std::size_t i = 0; i < samples.size(); ++i) {
                    labels[0] = static_cast<int>(images.label(samples[i]));
                    auto const at = i * Model::output::size;
                    numbers_of_sample output(pass.output(g) + at), gradient;
                    loss += loss_of<1>(output.at, labels, place, gradient.at);
                    gradient.store(pass.output_gradient(g) + at);
                }
            } else {
                place.count = granule(g).size();
                for (std::size_t lane = 0; lane < lanes; ++lane)
                    labels[lane] = static_cast<int>(images.label(granule(g)[std::min(lane, place.count - 1)]));
                loss += loss_of<lanes>(pass.output(g), labels, place, pass.output_gradient(g));
            }
        };
        pass.backward(begin_back, nothing_beside{}, exchange);
        return loss;
    }

    /// The way of samples through the network: of one granule, or, where their values lie side by side, of a shard.
    template<std::size_t Lanes>
    auto pass(detail::model_numbers<T> const& numbers, granule_place const& samples) noexcept {
        using pass_type = typename Model::template pass<Lanes>;
        auto* const arena = static_cast<typename Model::stored_type*>(activations_.data);
        if constexpr (Model::whole_shard)
            return pass_type(places_.plan, arena, numbers, samples, kernels_.policy());
        else
            return pass_type(pass_type::one, arena, numbers, samples, kernels_.policy());
    }

    /// See for_granules; where values of a shard lie side by side, none goes alone.
    template<class F>
    static void for_granules_of(range samples, F&& f) {
        if constexpr (!Model::whole_shard) {
            for_granules<typename Model::kernels, T>(samples, f);
        } else {
            constexpr auto lanes = Model::template pass<>::lanes;
            for (auto at = samples.begin; at < samples.end; at += lanes)
                f(lane_count<lanes>{}, range{at, std::min(at + lanes, samples.end)});
        }
    }

    /// All samples for kernels that take them so: sample i is image index(i).
    template<class Index>
    static void gather_all(labelled_images const& images, std::size_t samples, Index const& index,
                           typename Model::stored_type* to) {
        constexpr auto in = Model::network::input_extents::shape;
        for (std::size_t i = 0; i < samples; ++i)
            gather_channels_last<in.rank == 3 ? in.extent[0] : 1>(images, index(i), pixel_scale, to + i * in.size());
    }

    /// Evaluates as many samples at a time as there is room for.
    score evaluate_at_once(Communicator& comm, labelled_images const& images, range samples,
                           detail::model_numbers<T> const& numbers) {
        score sum;
        [[maybe_unused]] auto const computing = kernels_.begin();
        for (auto at = samples.begin; at < samples.end; at += places_.samples) {
            comm.check_stopped();
            auto const count = std::min(places_.samples, samples.end - at);
            auto const pass = this->template pass<1>(numbers, {0, 0, 0, 0, count, count, count});
            gather_all(images, count, [at](std::size_t i) { return at + i; }, pass.input());
            pass.evaluate();
            for (std::size_t i = 0; i < count; ++i) {
                int const label = static_cast<int>(images.label(at + i));
                int correct = 0;
                T loss{};
                numbers_of_sample const output(pass.output() + i * Model::output::size);
                Model::loss::template evaluate<typename Model::output, 1>(typename Model::sample_kernels{}, output.at,
                                                                          &label, &loss, &correct);
                sum.loss += static_cast<double>(loss);
                sum.correct += static_cast<std::size_t>(correct);
            }
        }
        return sum;
    }

    /// What the network says of a sample, as numbers that the loss reckons with.
    struct numbers_of_sample {
        T at[Model::output::size];

        numbers_of_sample() = default;
        explicit numbers_of_sample(typename Model::stored_type const* from) noexcept {
            for (std::size_t i = 0; i < Model::output::size; ++i) at[i] = static_cast<T>(from[i]);
        }
        void store(typename Model::stored_type* to) const noexcept {
            for (std::size_t i = 0; i < Model::output::size; ++i)
                to[i] = static_cast<typename Model::stored_type>(at[i]);
        }
    };

    /// Makes the kernels ready for the steps to come: nothing is computed, and no other device's memory is read.
    void prepare(std::size_t batch) {
        T* const zeros = gradient_slot(0);
        detail::model_numbers<T> const numbers{zeros, zeros, zeros + Model::first_buffer, zeros + Model::first_buffer};
        [[maybe_unused]] auto const computing = kernels_.begin();
        kernels_.context.prepare(true);
        std::size_t before = 0;
        for (auto shard = shards_.begin; shard < shards_.end; ++shard) {
            auto const count = part(batch, shard, layout_.shards()).size();
            if (count == before) continue;
            before = count;
            granule_place const place{0, 0, static_cast<std::uint32_t>(shard), 0, count, count, batch};
            auto const pass = this->template pass<1>(numbers, place);
            pass.forward();
            pass.backward();
        }
        kernels_.context.prepare(false);
    }

    /// Losses of a granule, and the gradients of its outputs; the sum of those that count.
    template<std::size_t Lanes>
    static double loss_of(T const* output, int const* labels, granule_place const& place, T* output_gradient) {
        T weight[Lanes], loss[Lanes];
        auto const each = static_cast<T>(1.0 / static_cast<double>(place.batch));
        for (std::size_t lane = 0; lane < Lanes; ++lane) weight[lane] = lane < place.count ? each : T{0};
        Model::loss::template gradient<typename Model::output, Lanes>(typename Model::sample_kernels{}, output, labels,
                                                                      weight, output_gradient, loss);
        double sum = 0;
        for (std::size_t lane = 0; lane < place.count; ++lane) sum += static_cast<double>(loss[lane]);
        return sum;
    }

    /// The network's `exchange`-th exchange of the numbers that layers keep.
    void add_over_devices(Communicator& comm, T* kept, std::size_t exchange) {
        if (comm.size() == 1) return;
        auto const start = clock::now();
        auto const& numbers = Model::network::exchanges[exchange];
        run_schedule<T>(comm, collective::all_reduce, proved_schedule<direct, collective::all_reduce>(comm.size()),
                        std::span<T>(kept + numbers.first, numbers.elements));
        times_.synchronisation += seconds(start, clock::now());
    }

    /// Where a whole shard's values lie.
    struct no_places {
        explicit no_places(std::size_t) noexcept {}
    };
    struct whole_places {
        explicit whole_places(std::size_t most) : samples(most), plan(Model::template pass<>::plan(most)) {}
        std::size_t samples;
        typename Model::template pass<>::plan_type plan;
    };

    struct reduction {
        range elements;
        schedule steps;
    };

    data_parallel_layout layout_;
    rank_program program_;
    std::vector<reduction> reductions_; ///< those of one step
    range shards_;
    range slice_; ///< of the weights, updated by this device
    arena parameters_;
    arena gradients_;
    arena state_;
    arena activations_;
    [[no_unique_address]] std::conditional_t<Model::whole_shard, whole_places, no_places> places_;
    [[no_unique_address]] detail::kernels_of_device<Model, Communicator> kernels_;
    std::uint64_t steps_ = 0;
    step_times times_;
};

} // namespace trireme::inline TRIREME_ISA
