// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/sample_source.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>

namespace trireme {

namespace detail {

/// A range whose numbers stay where they are: a span, or a vector that has a name.
template<class R>
concept numbers_in_memory =
    std::ranges::contiguous_range<R> && std::ranges::borrowed_range<R> && sample_number<std::ranges::range_value_t<R>>;

TRIREME_COLD inline std::size_t samples_in(std::size_t numbers, shape const& of_sample, char const* what) {
    auto const each = of_sample.size();
    if (each == 0 || numbers == 0 || numbers % each != 0)
        throw usage_error(std::to_string(numbers) + " numbers are no " + what + " of samples with " +
                          std::to_string(each) + " each: pass the shape of one sample, and all numbers of each");
    return numbers / each;
}

} // namespace detail

/// Samples in memory of the caller, which stays as it is as long as anybody trains on them: nothing is copied. Numbers
/// of any type of number_kind, sample by sample.
///
///     samples_in_memory const flowers(measured, make_shape(4), species, 3);             // one of 3 classes each
///     samples_in_memory const words(tokens, make_shape(9), tags, make_shape(9), 12);    // one for each of 9 tokens
///     samples_in_memory const curves(times, make_shape(1), positions, make_shape(2));   // two values each
///     samples_in_memory const asked(times, make_shape(1));                               // for predictions
class samples_in_memory {
public:
    /// `labels`: a class in [0, classes) for each sample, or the label that losses are to ignore.
    /// Errors: usage_error if the sizes do not fit together, there is no sample, or a label is neither.
    template<detail::numbers_in_memory X, detail::numbers_in_memory Y>
        requires std::integral<std::ranges::range_value_t<Y>>
    samples_in_memory(X&& inputs, shape const& of_input, Y&& labels, std::size_t classes, int ignored = no_label)
        : samples_in_memory(inputs, of_input, labels, make_shape(1), classes, ignored) {}

    /// `of_labels`: the shape of a sample's labels, each a class in [0, classes) or the label that losses are to
    /// ignore. Errors: usage_error likewise.
    template<detail::numbers_in_memory X, detail::numbers_in_memory Y>
        requires std::integral<std::ranges::range_value_t<Y>>
    samples_in_memory(X&& inputs, shape const& of_input, Y&& labels, shape const& of_labels, std::size_t classes,
                      int ignored = no_label)
        : samples_in_memory(inputs, of_input, labels, of_labels) {
        targets_.classes = classes;
        targets_.ignored = ignored;
        std::size_t i = 0;
        for (auto const each : labels) {
            auto const label = static_cast<std::int64_t>(each);
            if ((label < 0 || static_cast<std::uint64_t>(label) >= classes) &&
                (label != ignored || ignored == no_label))
                throw usage_error("label " + std::to_string(i) + " is " + std::to_string(label) +
                                  ", and labels lie in [0, " + std::to_string(classes) + ")" +
                                  (ignored == no_label ? std::string() : ", or are " + std::to_string(ignored)) +
                                  "; correct it or pass more classes");
            ++i;
        }
    }

    /// `targets`: the values of each sample.
    /// Errors: usage_error if the sizes do not fit together, or there is no sample.
    template<detail::numbers_in_memory X, detail::numbers_in_memory Y>
    samples_in_memory(X&& inputs, shape const& of_input, Y&& targets, shape const& of_target)
        : size_(detail::samples_in(std::ranges::size(inputs), of_input, "inputs")),
          inputs_(rows_of(std::ranges::data(inputs), of_input)),
          targets_(rows_of(std::ranges::data(targets), of_target)) {
        if (auto const n = detail::samples_in(std::ranges::size(targets), of_target, "targets"); n != size_)
            throw usage_error("there are inputs of " + std::to_string(size_) + " samples, and targets of " +
                              std::to_string(n) + ": pass as many");
    }

    /// Samples without targets, for predictions.
    /// Errors: usage_error if the numbers are not those of whole samples, or there is none.
    template<detail::numbers_in_memory X>
    samples_in_memory(X&& inputs, shape const& of_input)
        : size_(detail::samples_in(std::ranges::size(inputs), of_input, "inputs")),
          inputs_(rows_of(std::ranges::data(inputs), of_input)) {}

    std::size_t size() const noexcept { return size_; }
    sample_rows inputs() const noexcept { return inputs_; }
    sample_rows targets() const noexcept { return targets_; }

    /// The samples with their inputs times `factor`.
    samples_in_memory scaled(double factor) const {
        auto part = *this;
        part.inputs_.scale *= factor;
        return part;
    }

private:
    std::size_t size_;
    sample_rows inputs_, targets_;
};

} // namespace trireme
