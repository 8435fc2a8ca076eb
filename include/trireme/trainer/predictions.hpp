// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/summary.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// Outputs of a network for some samples, in their order. A value: it holds its numbers.
template<class T>
class predictions {
public:
    /// `values`: [sample][value of the output]. `classes`: 0 where the outputs are no scores of classes.
    predictions(std::vector<T> values, trireme::shape const& of_sample, std::size_t classes)
        : predictions(std::move(values), of_sample, output_meaning{classes}) {}
    predictions(std::vector<T> values, trireme::shape const& of_sample, output_meaning meaning)
        : values_(std::move(values)), shape_(of_sample), meaning_(meaning) {}

    std::size_t size() const noexcept { return values_.size() / shape_.size(); } ///< samples
    trireme::shape const& shape() const noexcept { return shape_; }              ///< of one sample's output
    output_meaning meaning() const noexcept { return meaning_; }
    /// Classes of which a sample, or each of its tokens, has one: two where it has one logit. 0 if there are none.
    std::size_t classes() const noexcept { return has_one_logit() ? 2 : meaning_.classes; }

    /// The output for sample `i` < size(), as long as this lives.
    std::span<T const> operator[](std::size_t i) const& noexcept {
        return std::span(values_).subspan(i * shape_.size(), shape_.size());
    }
    std::vector<T> operator[](std::size_t i) && {
        auto const all = std::span(values_).subspan(i * shape_.size(), shape_.size());
        return {all.begin(), all.end()};
    }
    /// All outputs, [sample][value], as long as this lives.
    std::span<T const> values() const& noexcept { return values_; }
    std::vector<T> values() && noexcept { return std::move(values_); }

    /// The class with the largest score: the first of several; a NaN is the largest. Of sample i, or, where a sample's
    /// tokens have scores each, of token i, counted through all samples. Of one logit: 1 if it is above 0, else 0.
    /// Errors: usage_error if the outputs are no scores of classes, or logits of several labels.
    std::size_t class_of(std::size_t i) const {
        check_classes();
        return answer_of(i);
    }
    std::vector<std::size_t> all_classes() const {
        check_classes();
        std::vector<std::size_t> all;
        all.reserve(answers());
        for (std::size_t i = 0; i < answers(); ++i) all.push_back(answer_of(i));
        return all;
    }
    /// The probability of each class, [sample][class], or [sample][token][class]: softmax of the scores; or that of
    /// each logit's label, [sample][value]: 1 / (1 + exp(-x)). Nothing overflows on the way.
    /// Errors: usage_error if the outputs are values.
    std::vector<T> probabilities() const {
        if (!meaning_.logistic) check_classes();
        std::vector<T> all(values_.size());
        if (meaning_.logistic) {
            for (std::size_t i = 0; i < all.size(); ++i) {
                T const x = values_[i], e = std::exp(x > 0 ? -x : x);
                all[i] = (x > 0 ? T(1) : e) / (1 + e);
            }
            return all;
        }
        for (std::size_t i = 0; i < answers(); ++i) {
            auto const scores = scores_of(i);
            T const most = scores[largest(scores)];
            T* const to = all.data() + i * scores.size();
            T sum = 0;
            for (std::size_t c = 0; c < scores.size(); ++c) sum += to[c] = std::exp(scores[c] - most);
            for (std::size_t c = 0; c < scores.size(); ++c) to[c] /= sum;
        }
        return all;
    }

private:
    bool has_one_logit() const noexcept { return meaning_.logistic && shape_.size() == 1; }
    std::size_t values_of_answer() const noexcept { return meaning_.logistic ? 1 : meaning_.classes; }
    std::size_t answers() const noexcept { return values_.size() / values_of_answer(); }
    std::span<T const> scores_of(std::size_t i) const {
        if (i >= answers())
            throw usage_error("prediction " + std::to_string(i) + " of " + std::to_string(answers()) +
                              " was asked for: they are counted from 0");
        return std::span(values_).subspan(i * values_of_answer(), values_of_answer());
    }
    std::size_t answer_of(std::size_t i) const {
        auto const scores = scores_of(i);
        return meaning_.logistic ? (scores[0] > 0 ? 1 : 0) : largest(scores);
    }
    static std::size_t largest(std::span<T const> scores) noexcept {
        std::size_t best = 0;
        for (std::size_t c = 1; c < scores.size(); ++c)
            if (scores[c] > scores[best] || (std::isnan(scores[c]) && !std::isnan(scores[best]))) best = c;
        return best;
    }
    TRIREME_COLD void check_classes() const {
        if (classes() != 0) return;
        if (meaning_.logistic)
            throw usage_error("classes of predictions whose samples have " + detail::to_string(shape_) +
                              " logits, each of a label by itself: a sample has any number of these labels, so read "
                              "probabilities(), one for each label");
        throw usage_error("classes of predictions whose samples have " + detail::to_string(shape_) +
                          " values, none of them the score of a class: train with a loss for classes, such as "
                          "cross_entropy, or read the values");
    }

    std::vector<T> values_;
    trireme::shape shape_;
    output_meaning meaning_;
};

namespace detail {

/// Throws usage_error unless so many values of a sample can have this meaning.
TRIREME_COLD inline void check_meaning(output_meaning const& m, std::size_t values) {
    if (m.classes != 0 && (m.logistic || values % m.classes != 0))
        throw usage_error("an output of " + std::to_string(values) + " values is said to have " +
                          (m.logistic ? "logits and " : "scores of ") + std::to_string(m.classes) +
                          " classes: logits have none, and classes divide the values");
}

/// Copies the output of a sample, whose value k lies at from[k * apart]; or, where images lie channels last, wherever
/// it lies then.
template<class Out, class Stored, class T>
void copy_output(Stored const* from, std::size_t apart, bool channels_last, T* to) {
    constexpr auto out = Out::shape;
    std::size_t const channels = out.rank == 3 && channels_last ? out.extent[0] : 1, places = out.size() / channels;
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t p = 0; p < places; ++p) to[c * places + p] = static_cast<T>(from[(p * channels + c) * apart]);
}

} // namespace detail
} // namespace trireme
