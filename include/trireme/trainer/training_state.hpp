// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/no_label.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/sampler.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/summary.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/trainer/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trireme {

namespace detail {

/// f(sample, k, number k of its row, times the rows' scale), for the rows of `samples` samples.
template<class F>
void for_each_number(sample_rows const& rows, std::size_t samples, F const& f) {
    for (std::size_t i = 0; i < samples; ++i)
        for (std::size_t k = 0; k < rows.size(); ++k)
            f(i, k, with_number_of(rows.kind, [&]<class N>(N number) {
                  std::memcpy(&number, rows.of(i) + k * sizeof(N), sizeof(N));
                  return static_cast<double>(number) * rows.scale;
              }));
}

/// Throws usage_error for a label of `samples` samples that is neither a class nor `ignored`: kernels take it for a
/// place. Makers of samples have looked at theirs; sources of a program's own may not have.
TRIREME_COLD inline void check_labels(sample_rows const& rows, std::size_t samples, int ignored) {
    for_each_number(rows, samples, [&](std::size_t i, std::size_t, double label) {
        if (label >= 0 && label < static_cast<double>(rows.classes) && label == std::floor(label)) return;
        if (label == ignored && ignored != no_label) return;
        throw usage_error("the label of sample " + std::to_string(i) + " is " + number_text(label) +
                          ", and the source of the samples promises labels that are whole numbers in [0, " +
                          std::to_string(rows.classes) + ")" +
                          (ignored == no_label ? std::string() : ", or " + std::to_string(ignored)) +
                          ": correct it, or let targets() tell more classes");
    });
}

/// The largest probability as float arithmetic may give it: 255 * (1 / 255.0f).
inline constexpr double largest_probability = 1 + static_cast<double>(std::numeric_limits<float>::epsilon());

/// True if all numbers of a row are from 0 to 1. A loop without branches: rows may be as long as images.
inline bool are_probabilities(sample_rows const& rows, std::size_t sample) {
    return with_number_of(rows.kind, [&]<class N>(N number) {
        auto const* const from = rows.of(sample);
        auto const n = rows.size();
        double const scale = rows.scale;
        unsigned others = 0;
        for (std::size_t k = 0; k < n; ++k) {
            std::memcpy(&number, from + k * sizeof(N), sizeof(N));
            double const p = static_cast<double>(number) * scale;
            others |= (p >= 0 ? 0u : 1u) | (p <= largest_probability ? 0u : 1u);
        }
        return others == 0;
    });
}

/// Throws usage_error for targets of logits that are no probabilities: the loss would have no lower bound.
TRIREME_COLD inline void check_probabilities(sample_rows const& rows, std::size_t samples, std::string (*loss)()) {
    if (rows.standard != nullptr)
        throw usage_error("the targets are standardised, and " + loss() +
                          " takes 0, 1 or a probability: leave out the standardisation");
    for (std::size_t i = 0; i < samples; ++i) {
        if (are_probabilities(rows, i)) continue;
        for_each_number(rows.behind(i), 1, [&](std::size_t, std::size_t k, double target) {
            if (target >= 0 && target <= largest_probability) return;
            throw usage_error("target " + std::to_string(k) + " of sample " + std::to_string(i) + " is " +
                              number_text(target) + ", and " + loss() +
                              " takes 0, 1 or a probability: correct it, give bytes as floats up to 1, or take a "
                              "loss for values");
        });
    }
}

/// Throws usage_error for inputs that are not tokens of a network's vocabulary: kernels take them for places.
TRIREME_COLD inline void check_tokens(sample_rows const& rows, std::size_t samples, std::size_t vocabulary) {
    if (rows.standard != nullptr)
        throw usage_error("the inputs are standardised, and the network begins with embedding, which takes tokens as "
                          "they are: leave out the standardisation");
    if (rows.scale != 1)
        throw usage_error(
            "the inputs are scaled by " + number_text(rows.scale) +
            ", and the network begins with embedding, which takes tokens as they are: leave out the scale");
    for_each_number(rows, samples, [&](std::size_t i, std::size_t k, double token) {
        if (token >= 0 && token < static_cast<double>(vocabulary) && token == std::floor(token)) return;
        throw usage_error("token " + std::to_string(k) + " of sample " + std::to_string(i) + " is " +
                          number_text(token) + ", and the vocabulary of the network's embedding has " +
                          std::to_string(vocabulary) + " tokens, counted from 0: " +
                          (token >= 0 && token == std::floor(token)
                               ? "write embedding<" + number_text(token + 1) + ", width> or correct the data"
                               : std::string("tokens are whole numbers from 0; correct the data")));
    });
}

/// A contract says what a network and its loss take of samples, and what these weigh.
struct sample_contract {
    shape input, output;
    std::size_t vocabulary = 0; ///< of tokens, if the inputs are tokens
    std::size_t loss_terms = 0; ///< rows that add to the loss
    loss_description loss = {};
    std::string (*loss_name)() = nullptr;
    /// The weight of some samples, which their targets say; null where all samples weigh alike.
    batch_weight (*weigh)(sample_rows const& targets, std::span<std::uint32_t const> indices) = nullptr;
};

/// A loss's weights of some samples, added in their order, so that every rank finds the same sum. `T`: of targets that
/// are values. Devices weigh at the same time: targets that have no room on the stack get memory once per thread.
template<class Loss, class Output, class T>
batch_weight weight_of_samples(sample_rows const& targets, std::span<std::uint32_t const> indices) {
    using target = target_t<Loss, Output, T>;
    constexpr std::size_t size = target_extents<Loss, Output>::size, most_bytes = std::size_t{1} << 16;
    auto const weight = [&](target* of_sample) {
        return with_default_floats([&] {
            batch_weight w;
            for (std::size_t i = 0; i < indices.size(); ++i) {
                gather_samples<1>(targets, indices.subspan(i, 1), of_sample);
                add_weight<Loss, Output>(of_sample, w);
            }
            return w;
        });
    };
    if constexpr (size * sizeof(target) <= most_bytes) {
        target of_sample[size];
        return weight(of_sample);
    } else {
        thread_local std::vector<target> of_sample(size);
        return weight(of_sample.data());
    }
}

template<class Network, class Loss, class T>
constexpr sample_contract make_contract() noexcept {
    using output = typename Network::output_extents;
    sample_contract c = {.input = Network::input_extents::shape,
                         .output = output::shape,
                         .vocabulary = Network::row(0).description.vocabulary,
                         .loss_terms = Network::loss_terms,
                         .loss = Loss::describe(output::shape),
                         .loss_name = &type_name<Loss>};
    if constexpr (weighs_samples<Loss, output, T>) c.weigh = &weight_of_samples<Loss, output, T>;
    return c;
}
template<class Network, class Loss, class T>
inline constexpr sample_contract contract_of = make_contract<Network, Loss, T>();

} // namespace detail

/// The state of a trainer, whatever its devices and its network: layout, the samples in use and their order, the losses
/// and right answers of every shard.
class training_state {
public:
    /// `most_samples`: of a batch of the options.
    training_state(detail::sample_contract const& contract, parallel_layout const& l, std::size_t most_samples)
        : layout(l), contract_(contract), most_samples_(most_samples), losses_(2 * losses_of_step()),
          correct_(l.shards()) {}

    /// Throws usage_error for samples that the network or the loss cannot take. Predictions need no targets.
    void check(sample_set const& samples, bool targets = true) const {
        if (samples.size() == 0)
            throw usage_error("the data set is empty: a step, an evaluation and a prediction need at least one sample");
        if (samples.size() > std::numeric_limits<std::uint32_t>::max())
            throw usage_error(number(samples.size()) +
                              " samples do not fit the 32-bit indices of a step, an evaluation or a prediction: pass "
                              "them in parts");
        check_inputs(samples.inputs(), samples.size());
        if (targets) check_targets(samples.targets(), samples.size());
    }
    /// The samples of the next job. Throws usage_error likewise.
    void use(sample_set const& samples, bool targets = true) {
        check(samples, targets);
        samples_ = targets ? samples : samples.without_targets(); // which nobody has looked at
    }

    /// Throws usage_error if a step on all samples in use has no memory for them. `whole_shard`: layers or kernels take
    /// those of a shard all at once, as stages do with a micro-batch.
    TRIREME_COLD void check_step(bool whole_shard) const {
        if ((whole_shard || layout.stages > 1) && samples_.size() > most_samples_)
            throw usage_error("a step on " + number(samples_.size()) + " samples, the option batch is " +
                              number(most_samples_) +
                              ": these layers or kernels take the samples of a step all at once (batch_norm, onednn), "
                              "as stages do with a micro-batch, and have memory for a batch; give the trainer a larger "
                              "batch");
    }
    /// Throws usage_error for an epoch of fewer samples than replicas.
    TRIREME_COLD void check_epoch(std::size_t samples) const {
        if (samples < static_cast<std::size_t>(layout.replicas))
            throw usage_error("the data set has " + number(samples) + " samples for " +
                              std::to_string(layout.replicas) + " devices: it needs at least one per device");
    }

    /// All samples in use, in their order, as one batch: what `step` of the trainer trains on. Allocates only for more
    /// samples than ever before, and then for a batch of the options, too.
    void number_all() {
        if (all_.capacity() < samples_.size()) all_.reserve(std::max(samples_.size(), most_samples_));
        while (all_.size() < samples_.size()) all_.push_back(static_cast<std::uint32_t>(all_.size()));
    }
    std::span<std::uint32_t const> all() const noexcept { return std::span(all_).first(samples_.size()); }

    sample_set const& samples() const noexcept { return samples_; }

    /// Weight of the batch of these samples in use, 0 where this process has no targets that weigh them.
    batch_weight weigh(std::span<std::uint32_t const> indices) const {
        if (contract_.weigh == nullptr)
            return {static_cast<double>(indices.size()), indices.size() * contract_.loss.targets.size()};
        auto const& targets = samples_.targets();
        return targets.data == nullptr ? batch_weight{} : contract_.weigh(targets, indices);
    }
    /// Keeps the weight of the batch of step `number`, or of the samples of an evaluation.
    void set_weight(std::uint64_t number, batch_weight const& w) noexcept { weights_[number % 2] = w; }
    void set_weight(batch_weight const& w) noexcept { weights_[2] = w; }
    double scale_of(std::uint64_t number) const noexcept { return weights_[number % 2].scale(); }

    /// The mean loss of step `number`, once its losses are there and before those of step number + 2. Shards are added
    /// in their fixed tree, so that the figure is as reproducible as the weights.
    double mean_loss(std::uint64_t number) {
        return with_default_floats([&] {
            double sum = 0;
            for (std::size_t row = 0; row <= contract_.loss_terms; ++row)
                sum += in_fixed_tree([&](std::size_t s) { return losses_of(number)[row * layout.shards() + s]; });
            return weights_[number % 2].mean(sum);
        });
    }

    /// False if the loss of some shard in step `number` is no finite number; every rank may ask when it has ended.
    bool is_finite(std::uint64_t number) {
        return std::ranges::all_of(std::span(losses_of(number), losses_of_step()),
                                   [](double loss) { return std::isfinite(loss); });
    }
    /// Throws divergence_error if the loss of the last step was no finite number.
    void check_convergence(std::uint64_t number, bool intact) {
        if (!is_finite(number)) throw divergence_error(number, mean_loss(number), intact);
    }

    /// Right answers are counted among the targets that count; the accuracy of values is NaN.
    evaluation evaluated() const {
        std::size_t correct = 0;
        for (auto const n : correct_) correct += n;
        return with_default_floats([&]() -> evaluation {
            auto const& w = weights_[2];
            return {w.mean(in_fixed_tree([&](std::size_t s) { return losses_[s]; })),
                    !contract_.loss.has_answers() ? std::numeric_limits<double>::quiet_NaN()
                    : w.targets == 0              ? 0
                                                  : static_cast<double>(correct) / static_cast<double>(w.targets),
                    samples_.size()};
        });
    }

    /// For who finds the losses elsewhere and brings them here.
    void set_loss(std::uint64_t number, std::size_t at, double loss) noexcept { losses_of(number)[at] = loss; }
    void set_score(std::size_t shard, double loss, std::size_t correct) noexcept {
        losses_[shard] = loss;
        correct_[shard] = correct;
    }

    void begin_epoch() noexcept { loss_sum_ = weight_sum_ = 0; }
    /// Mean loss of the epoch's samples.
    double epoch_loss() const {
        return with_default_floats([&] { return batch_weight{weight_sum_, 0}.mean(loss_sum_); });
    }
    /// Tells the loss of step `number`, the epoch's `b`-th.
    void tell(std::size_t b, std::uint64_t number, bool observed = true) {
        double const loss = mean_loss(number), weight = weights_[number % 2].sum;
        loss_sum_ += loss * weight;
        weight_sum_ += weight;
        if (observed && observer != nullptr) observer(observer_state, b, loss);
    }

    parallel_layout const layout;
    epoch_order order{0, 0};
    std::uint32_t epochs = 0; ///< begun since construction
    void (*observer)(void* state, std::size_t batch, double loss) = nullptr;
    void* observer_state = nullptr;
    bool reads_inputs = true, reads_targets = true; ///< whether any rank of this process does: of a first, a last stage
    bool weighs_here = false;                       ///< this process weighs the losses, whatever stages it has

protected:
    /// A place per shard, and behind them one per shard for each row that adds to the loss. Losses of two steps are
    /// kept: a device may be one step ahead of who reads them, never two.
    std::size_t losses_of_step() const noexcept { return (1 + contract_.loss_terms) * layout.shards(); }
    double* losses_of(std::uint64_t number) noexcept { return losses_.data() + (number % 2) * losses_of_step(); }

    detail::sample_contract const contract_;
    std::size_t const most_samples_; ///< of a batch
    std::vector<double> losses_;
    std::vector<std::size_t> correct_;
    batch_weight weights_[3];              ///< of two steps, and of an evaluation
    double loss_sum_ = 0, weight_sum_ = 0; ///< of the samples of the current epoch

private:
    static std::string number(std::size_t n) { return std::to_string(n); }

    TRIREME_COLD void check_inputs(sample_rows const& rows, std::size_t samples) const {
        auto const& in = contract_.input;
        if (rows.data == nullptr) {
            if (!reads_inputs) return;
            throw usage_error("the samples have no inputs, and the network's first layers are in this process: give "
                              "it a source whose inputs() are there");
        }
        if (in.rank == 3 ? in == rows.shape : in.size() == rows.size()) {
            if (contract_.vocabulary != 0) detail::check_tokens(rows, samples, contract_.vocabulary);
            return;
        }
        if (contract_.vocabulary != 0)
            throw usage_error("each sample is a window of " + number(rows.size()) +
                              " tokens, and the network's context is " + number(in.size()) + ": make windows of " +
                              number(in.size()) + " tokens, or write input<" + number(rows.size()) +
                              ">, in gpt_sizes .context = " + number(rows.size()));
        auto const samples_are = "the samples are " + detail::to_string(rows.shape);
        if (in.rank == 3 && rows.shape.rank == 3 && in.extent[1] == rows.shape.extent[1] &&
            in.extent[2] == rows.shape.extent[2])
            throw usage_error("the network's input has " + number(in.extent[0]) + " channels of " +
                              number(in.extent[1]) + " x " + number(in.extent[2]) + ", and the samples have " +
                              number(rows.shape.extent[0]) + ": write input<" + number(rows.shape.extent[0]) + ", " +
                              number(in.extent[1]) + ", " + number(in.extent[2]) + ">");
        if (in.size() == rows.size())
            throw usage_error(samples_are + ", the network's input is " + detail::to_string(in) +
                              ", though it has as many values: write the input<...> of the network in the shape of "
                              "the samples");
        throw usage_error("each sample is " + detail::to_string(rows.shape) + ", " + number(rows.size()) +
                          " values, the network's input has " + number(in.size()) +
                          ": the input<...> of the network must have as many values as a sample");
    }
    TRIREME_COLD void check_targets(sample_rows const& rows, std::size_t samples) const {
        auto const& wants = contract_.loss;
        auto const of_loss = contract_.loss_name;
        if (rows.data == nullptr) {
            bool const weighs = contract_.weigh != nullptr && (contract_.loss_terms != 0 || weighs_here);
            if (weighs && !reads_targets)
                throw usage_error(std::string("the samples have no targets, which weigh ") +
                                  (weighs_here ? "the losses" : "what layers add to the loss") +
                                  " in this process: give it a source whose targets() are there");
            if (!reads_targets) return;
            throw usage_error("the samples have no targets, and " + of_loss() +
                              " wants them: pass labels and the number of classes, or values, or give a source whose "
                              "targets() are there");
        }
        if (wants.classes != 0 && rows.classes == 0)
            throw usage_error("the targets of the samples are values, and " + of_loss() +
                              " wants classes: pass labels and the number of classes, or take a loss for values");
        if (wants.classes == 0 && rows.classes != 0)
            throw usage_error("the targets of the samples are classes, and " + of_loss() +
                              " wants values: pass values, or take a loss for classes");
        if (rows.classes > wants.classes)
            throw usage_error("the data set has " + number(rows.classes) + " classes, the network " +
                              number(wants.classes) + " outputs: end the network with linear<" + number(rows.classes) +
                              ">");
        if (rows.ignored != no_label && rows.ignored != wants.ignored)
            throw usage_error("samples with the label " + std::to_string(rows.ignored) + " are to be ignored, and " +
                              of_loss() + " ignores " +
                              (wants.ignored == no_label ? std::string("none") : std::to_string(wants.ignored)) +
                              ": write cross_entropy_with<ignoring<" + std::to_string(rows.ignored) + ">>");
        if (rows.size() != wants.targets.size())
            throw usage_error("each sample has " + number(rows.size()) + " targets, and " + of_loss() + " wants " +
                              number(wants.targets.size()) + " for a network whose output is " +
                              detail::to_string(contract_.output));
        if (rows.classes != 0) detail::check_labels(rows, samples, wants.ignored);
        if (wants.logistic) detail::check_probabilities(rows, samples, of_loss);
    }

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
    sample_set samples_;
};

/// The state of a trainer of this composition, with its options.
template<class Model, class Options>
struct state_with_options : training_state {
    Options options;

    state_with_options(Options const& o, parallel_layout const& l)
        : training_state(detail::contract_of<typename Model::network, typename Model::loss, typename Model::value_type>,
                         l, o.batch.samples),
          options(o) {}
};

} // namespace trireme
