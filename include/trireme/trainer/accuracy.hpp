// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/trainer/predictions.hpp>
#include <trireme/trainer/training_state.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

namespace detail {

/// Throws usage_error unless these are predictions of classes for these samples. The target of a logit may be a value.
template<class T>
TRIREME_COLD void check_scored(predictions<T> const& said, sample_set const& samples) {
    auto const number = [](std::size_t n) { return std::to_string(n); };
    if (said.size() != samples.size())
        throw usage_error("predictions of " + number(said.size()) + " samples were compared with the labels of " +
                          number(samples.size()) + ": pass the samples that were predicted");
    auto const& targets = samples.targets();
    bool const logistic = said.meaning().logistic;
    if (logistic && said.classes() == 0) static_cast<void>(said.class_of(0)); // says why there is none
    if (targets.data == nullptr || (targets.classes == 0 && !logistic))
        throw usage_error("predictions are compared with labels, one class for each sample, and these samples have "
                          "none: pass samples with labels");
    if (said.classes() < targets.classes)
        throw usage_error("predictions of " + number(said.classes()) + " classes were compared with labels of " +
                          number(targets.classes) +
                          ": pass the samples that were predicted, by a network with as many "
                          "outputs");
    std::size_t const labels = said.shape().size() / (logistic ? 1 : said.classes());
    if (targets.size() != labels)
        throw usage_error("predictions of " + to_string(said.shape()) + " values for each sample are scores of " +
                          number(labels) + " labels, and each sample has " + number(targets.size()) +
                          ": pass the samples that were predicted");
    if (targets.classes != 0) check_labels(targets, samples.size(), targets.ignored);
}

/// f(i, label) for the i-th label of all, of a sample or of a token, but for those that losses are to leave out. Where
/// targets are values, a label is 0 or 1: the one that the target is next to.
template<class F>
void for_each_label(sample_set const& samples, F const& f) {
    auto const& targets = samples.targets();
    if (targets.classes == 0) {
        for_each_number(targets, samples.size(),
                        [&](std::size_t i, std::size_t, double target) { f(i, std::size_t{target > 0.5 ? 1u : 0u}); });
        return;
    }
    std::vector<int> labels(targets.size());
    for (std::size_t s = 0; s < samples.size(); ++s) {
        auto const index = static_cast<std::uint32_t>(s);
        gather_samples<1>(targets, std::span(&index, 1), labels.data());
        for (std::size_t k = 0; k < labels.size(); ++k)
            if (labels[k] != targets.ignored) f(s * labels.size() + k, static_cast<std::size_t>(labels[k]));
    }
}

} // namespace detail

/// The share of samples, or of their tokens, whose label is among the `k` classes with the largest scores. Of equal
/// scores the first classes are the larger ones; a NaN is the largest. Labels that are to be ignored are left out. One
/// logit is compared with a label of 0 or 1, or with a target that is a value, above 1/2 or not.
/// Errors: usage_error if samples, classes or `k` do not fit.
template<class T>
double top_k_accuracy(predictions<T> const& said, sample_set const& samples, std::size_t k) {
    detail::check_scored(said, samples);
    if (k == 0 || k > said.classes())
        throw usage_error("k = " + std::to_string(k) + ": it must be at least 1, and at most the " +
                          std::to_string(said.classes()) + " classes");
    std::size_t right = 0, counted = 0;
    detail::for_each_label(samples, [&](std::size_t i, std::size_t own) {
        ++counted;
        if (said.meaning().logistic) {
            right += k == 2 || said.class_of(i) == own ? 1 : 0;
            return;
        }
        auto const scores = said.values().subspan(i * said.classes(), said.classes());
        std::size_t above = 0;
        for (std::size_t c = 0; c < scores.size(); ++c) {
            bool const nan = std::isnan(scores[c]), own_nan = std::isnan(scores[own]);
            bool const equal = scores[c] == scores[own] || (nan && own_nan);
            above += c != own && (equal ? c < own : nan || (!own_nan && scores[c] > scores[own])) ? 1 : 0;
        }
        right += above < k ? 1 : 0;
    });
    return counted == 0 ? 0 : static_cast<double>(right) / static_cast<double>(counted);
}

/// A confusion matrix counts how often samples of a class, or tokens, were taken for each class: [label][class with the
/// largest score]. Labels that are to be ignored are left out; weights of classes change nothing. Of one logit it has 2
/// rows and 2 columns.
class confusion_matrix {
public:
    /// Errors: usage_error if samples or classes do not fit.
    template<class T>
    confusion_matrix(predictions<T> const& said, sample_set const& samples)
        : classes_((detail::check_scored(said, samples), said.classes())), counts_(classes_ * classes_) {
        detail::for_each_label(
            samples, [&](std::size_t i, std::size_t label) { ++counts_[label * classes_ + said.class_of(i)]; });
    }

    std::size_t classes() const noexcept { return classes_; }
    std::size_t operator()(std::size_t label, std::size_t taken_for) const noexcept {
        return counts_[label * classes_ + taken_for];
    }
    /// [label][class].
    std::span<std::size_t const> counts() const noexcept { return counts_; }

    /// Right answers among the samples of a class; among those that were taken for it; and among all. 0 of none.
    double recall(std::size_t label) const noexcept {
        std::size_t all = 0;
        for (std::size_t c = 0; c < classes_; ++c) all += (*this)(label, c);
        return share((*this)(label, label), all);
    }
    double precision(std::size_t label) const noexcept {
        std::size_t all = 0;
        for (std::size_t c = 0; c < classes_; ++c) all += (*this)(c, label);
        return share((*this)(label, label), all);
    }
    double accuracy() const noexcept {
        std::size_t right = 0, all = 0;
        for (std::size_t c = 0; c < classes_; ++c) right += (*this)(c, c);
        for (auto const n : counts_) all += n;
        return share(right, all);
    }

private:
    static double share(std::size_t part, std::size_t all) noexcept {
        return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
    }

    std::size_t classes_;
    std::vector<std::size_t> counts_;
};

} // namespace trireme
