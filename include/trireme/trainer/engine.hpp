// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/sampler.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/trainer/replica.hpp>
#include <trireme/trainer/report.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// What the devices of one trainer share: replicas, the current data, losses by shard. One engine serves every layout;
/// it is instantiated by the model alone. Devices hold it alive, so that one which is stuck never reads freed memory.
template<class Model, class Options, class Initialiser, class Faults>
class engine {
public:
    using T = typename Model::value_type;
    using communicator = threads::communicator;

    engine(Options const& o, data_parallel_layout const& l)
        : options(o), layout(l), replicas_(static_cast<std::size_t>(l.devices)), losses_(2 * l.shards()),
          correct_(l.shards()) {}

    /// Makes the replica of `c`'s device, on that device, so that its memory is near it; all begin with the same
    /// weights.
    void construct(communicator& c) {
        auto mine = std::make_unique<replica<Model, communicator>>(c, layout);
        if (!mine->parameters().empty())
            initialise_parameters<typename Model::network, Initialiser>(mine->parameters().data(), options.seed);
        replicas_[static_cast<std::size_t>(c.rank())] = std::move(mine);
    }

    replica<Model, communicator>& at(int rank) const noexcept { return *replicas_[static_cast<std::size_t>(rank)]; }

    /// The weights that a device computes with.
    std::span<T> parameters(int rank) const noexcept { return at(layout.shared_weights ? 0 : rank).parameters(); }

    /// The samples of the next job. Refuses images that the network cannot take.
    void use(labelled_images const& images) {
        constexpr auto in = Model::network::input_extents::shape;
        auto const number = [](std::size_t n) { return std::to_string(n); };
        if (images.size() == 0) throw usage_error("the data set is empty: a step needs at least one sample");
        bool const fits = in.rank == 3 ? in == make_shape(images.channels(), images.height(), images.width())
                                       : in.size() == images.values_per_image();
        if (!fits && in.size() == images.values_per_image())
            throw usage_error("the images are " + number(images.channels()) + " x " + number(images.height()) + " x " +
                              number(images.width()) +
                              ", the network's input is not, though it has as many values: write "
                              "the input<...> of the network in the shape of the images");
        if (!fits)
            throw usage_error("the images have " + number(images.values_per_image()) +
                              " values each, the network's input " + number(in.size()) +
                              ": the input<...> of the network must be the shape of the images");
        if (images.classes() > Model::output::size)
            throw usage_error("the data set has " + number(images.classes()) + " classes, the network " +
                              number(Model::output::size) + " outputs: end the network with linear<" +
                              number(images.classes()) + ">");
        images_ = images;
    }

    /// All images in use, in their order, as one batch: what `step` of the trainer trains on. Allocates only for more
    /// images than ever before, and then for a batch of the options, too.
    void number_all() {
        if (all_.capacity() < images_.size()) all_.reserve(std::max(images_.size(), options.batch.samples));
        while (all_.size() < images_.size()) all_.push_back(static_cast<std::uint32_t>(all_.size()));
    }
    std::span<std::uint32_t const> all() const noexcept { return std::span(all_).first(images_.size()); }

    /// One step on `batch` of the images in use; every device calls it. Returns the number of the step.
    std::uint64_t step(communicator& c, std::span<std::uint32_t const> batch) {
        auto& mine = at(c.rank());
        auto const number = mine.steps() + 1;
        mine.template step<Faults>(c, images_, batch, options, losses_of(number));
        return number;
    }

    /// The mean loss of step `number`, for device 0 to ask after it and before its next. Shards are added in their
    /// fixed tree, so that the figure is as reproducible as the weights.
    double mean_loss(std::uint64_t number, std::size_t samples) {
        return in_fixed_tree([&](std::size_t s) { return losses_of(number)[s]; }) / static_cast<double>(samples);
    }

    /// A whole epoch over `order`; every device calls it. Device 0 tells the observer and sums the losses.
    void epoch(communicator& c) {
        auto const batches = order.batches(options.batch.samples);
        for (std::size_t b = 0; b < batches; ++b) {
            auto const batch = order.batch(b, options.batch.samples);
            auto const number = step(c, batch);
            if (c.rank() != 0) continue;
            auto const loss = mean_loss(number, batch.size());
            loss_sum += loss * static_cast<double>(batch.size());
            if (observer != nullptr) observer(observer_state, b, loss);
        }
    }

    void evaluate(communicator& c) {
        auto& mine = at(c.rank());
        auto const shards = layout.shards_of_device(c.rank());
        for (auto s = shards.begin; s < shards.end; ++s) {
            auto const score = mine.evaluate(c, images_, part(images_.size(), s, layout.shards()));
            losses_[s] = score.loss;
            correct_[s] = score.correct;
        }
    }

    evaluation evaluated() const {
        std::size_t correct = 0;
        for (auto const n : correct_) correct += n;
        auto const n = static_cast<double>(images_.size());
        return {in_fixed_tree([&](std::size_t s) { return losses_[s]; }) / n, static_cast<double>(correct) / n,
                images_.size()};
    }

    Options options;
    data_parallel_layout const layout;
    epoch_order order{0, 0};
    std::uint32_t epochs = 0; ///< begun since construction
    double loss_sum = 0;      ///< over the samples of the current epoch
    void (*observer)(void* state, std::size_t batch, double loss) = nullptr;
    void* observer_state = nullptr;

private:
    /// Losses of two steps are kept: a device may be one step ahead of device 0, never two, for no collective ends
    /// before everybody has entered it.
    double* losses_of(std::uint64_t number) noexcept { return losses_.data() + (number % 2) * layout.shards(); }

    template<class Value>
    double in_fixed_tree(Value&& value) const {
        double sums[fixed_tree::max_depth] = {};
        fixed_tree::stack tree;
        auto const merge = [&](std::size_t i, std::size_t j) { sums[i] += sums[j]; };
        for (std::size_t s = 0; s < layout.shards(); ++s) {
            sums[tree.depth()] = value(s);
            tree.push({s, s + 1}, merge);
        }
        tree.finish(merge);
        return sums[0];
    }

    std::vector<std::unique_ptr<replica<Model, communicator>>> replicas_;
    std::vector<std::uint32_t> all_; ///< 0, 1, 2, ...
    std::vector<double> losses_;
    std::vector<std::size_t> correct_;
    labelled_images images_;
};

} // namespace trireme::inline TRIREME_ISA
