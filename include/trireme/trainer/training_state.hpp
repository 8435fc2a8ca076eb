// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/sampler.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/trainer/report.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// What a trainer works on, whatever its devices: options, layout, the images in use and their order, the losses and
/// right answers of every shard.
template<class Network, class Options>
class training_state {
public:
    training_state(Options const& o, parallel_layout const& l)
        : options(o), layout(l), losses_(2 * l.shards()), correct_(l.shards()) {}

    /// Throws usage_error for images that the network cannot take.
    static void check(labelled_images const& images) {
        constexpr auto in = Network::input_extents::shape;
        auto const number = [](std::size_t n) { return std::to_string(n); };
        if (images.size() == 0) throw usage_error("the data set is empty: a step needs at least one sample");
        bool const fits = in.rank == 3 ? in == make_shape(images.channels(), images.height(), images.width())
                                       : in.size() == images.values_per_image();
        if (!fits && in.rank == 3 && in.extent[0] != images.channels() && in.extent[1] == images.height() &&
            in.extent[2] == images.width())
            throw usage_error("the network's input has " + number(in.extent[0]) + " channels of " +
                              number(in.extent[1]) + " x " + number(in.extent[2]) +
                              ", and labelled_images are grey, of one channel: write input<1, " + number(in.extent[1]) +
                              ", " + number(in.extent[2]) + ">; there are no colour images yet");
        if (!fits && in.size() == images.values_per_image())
            throw usage_error("the images are " + number(images.channels()) + " x " + number(images.height()) + " x " +
                              number(images.width()) +
                              ", the network's input is not, though it has as many values: write "
                              "the input<...> of the network in the shape of the images");
        if (!fits)
            throw usage_error("the images have " + number(images.values_per_image()) +
                              " values each, the network's input " + number(in.size()) +
                              ": the input<...> of the network must be the shape of the images");
        if (images.classes() > outputs)
            throw usage_error("the data set has " + number(images.classes()) + " classes, the network " +
                              number(outputs) + " outputs: end the network with linear<" + number(images.classes()) +
                              ">");
    }
    /// The samples of the next job. Throws usage_error for images that the network cannot take.
    void use(labelled_images const& images) {
        check(images);
        images_ = images;
    }

    /// All images in use, in their order, as one batch: what `step` of the trainer trains on. Allocates only for more
    /// images than ever before, and then for a batch of the options, too.
    void number_all() {
        if (all_.capacity() < images_.size()) all_.reserve(std::max(images_.size(), options.batch.samples));
        while (all_.size() < images_.size()) all_.push_back(static_cast<std::uint32_t>(all_.size()));
    }
    std::span<std::uint32_t const> all() const noexcept { return std::span(all_).first(images_.size()); }

    labelled_images const& images() const noexcept { return images_; }

    /// The mean loss of step `number` over `samples`, once its losses are there and before those of step number + 2.
    /// Shards are added in their fixed tree, so that the figure is as reproducible as the weights.
    double mean_loss(std::uint64_t number, std::size_t samples) {
        return with_default_floats([&] {
            return in_fixed_tree([&](std::size_t s) { return losses_of(number)[s]; }) / static_cast<double>(samples);
        });
    }

    evaluation evaluated() const {
        std::size_t correct = 0;
        for (auto const n : correct_) correct += n;
        return with_default_floats([&]() -> evaluation {
            auto const n = static_cast<double>(images_.size());
            return {in_fixed_tree([&](std::size_t s) { return losses_[s]; }) / n, static_cast<double>(correct) / n,
                    images_.size()};
        });
    }

    /// For who finds the losses elsewhere and brings them here.
    void set_loss(std::uint64_t number, std::size_t shard, double loss) noexcept { losses_of(number)[shard] = loss; }
    void set_score(std::size_t shard, double loss, std::size_t correct) noexcept {
        losses_[shard] = loss;
        correct_[shard] = correct;
    }

    /// Tells the loss of a step of the epoch, its `b`-th.
    void tell(std::size_t b, std::size_t samples, double loss, bool observed = true) {
        loss_sum += loss * static_cast<double>(samples);
        if (observed && observer != nullptr) observer(observer_state, b, loss);
    }

    Options options;
    parallel_layout const layout;
    epoch_order order{0, 0};
    std::uint32_t epochs = 0; ///< begun since construction
    double loss_sum = 0;      ///< over the samples of the current epoch
    void (*observer)(void* state, std::size_t batch, double loss) = nullptr;
    void* observer_state = nullptr;

protected:
    static constexpr std::size_t outputs = Network::output_extents::size;

    /// A place per shard. Losses of two steps are kept: a device may be one step ahead of who reads them, never two.
    double* losses_of(std::uint64_t number) noexcept { return losses_.data() + (number % 2) * layout.shards(); }

    std::vector<double> losses_;
    std::vector<std::size_t> correct_;

private:
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

    std::vector<std::uint32_t> all_; ///< 0, 1, 2, ...
    labelled_images images_;
};

} // namespace trireme
