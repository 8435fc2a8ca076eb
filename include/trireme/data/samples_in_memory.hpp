// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/words.hpp>
#include <trireme/data/sample_source.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ranges>
#include <string>
#include <type_traits>

namespace trireme {

template<class... Where>
struct sample_number_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0148: samples consist of float, double or integers of 8 to 64 bits, side by side in a "
                  "std::vector, a std::span or an array, and labels are such integers: copy numbers of other types, as "
                  "bool or long double, into a std::vector of one of these, and pass pointers as std::span(pointer, "
                  "count)");
};

template<class... Where>
struct samples_stay_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0156: samples in memory copy no numbers, and these would be gone at once: name the vector and "
                  "keep it as long as the samples, or give them to owned_samples, which keeps them");
};

namespace detail {

/// Numbers side by side.
template<class R>
concept numbers_side_by_side = std::ranges::contiguous_range<R> && sample_number<std::ranges::range_value_t<R>>;

/// A range whose numbers stay where they are: a span, or a vector that has a name.
template<class R>
concept numbers_in_memory = numbers_side_by_side<R> && std::ranges::borrowed_range<R>;

/// A range whose numbers go with it: a vector without a name.
template<class R>
concept numbers_without_name = numbers_side_by_side<R> && !std::ranges::borrowed_range<R>;

/// The type of a range's elements; any other type is itself.
template<class R>
struct refused_element {
    using type = R;
};
template<std::ranges::range R>
struct refused_element<R> {
    using type = std::ranges::range_value_t<R>;
};

/// A number of classes. Braces have no such type, and are a shape.
template<class N>
concept number_of_classes = std::convertible_to<N, std::size_t>;

/// Numbers that samples cannot consist of: those of a range by their type, and those behind a pointer.
template<class R>
concept other_numbers = std::is_pointer_v<std::remove_cvref_t<R>> ||
                        (std::ranges::range<R> && !sample_number<typename refused_element<R>::type>);

/// An argument of a call that is refused; it may stand in braces.
struct any_argument {
    template<class... T>
    constexpr any_argument(T&&...) noexcept {}
};

template<class... R>
using sample_number_rule_of = sample_number_rule<gets<typename refused_element<std::remove_cvref_t<R>>::type>...>;

/// A whole number of any type; those above 2^63 - 1 become that.
template<std::integral N>
constexpr std::int64_t with_sign(N number) noexcept {
    if constexpr (std::unsigned_integral<N>)
        return static_cast<std::int64_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::int64_t>::max()));
    else
        return number;
}

TRIREME_COLD inline std::size_t samples_in(std::size_t numbers, shape const& of_sample, char const* what) {
    auto const each = of_sample.size();
    if (each == 0 || numbers == 0 || numbers % each != 0)
        throw usage_error(std::to_string(numbers) + " numbers are no " + what + " of samples with " +
                          std::to_string(each) + " each: pass the shape of one sample, and all numbers of each");
    return numbers / each;
}

} // namespace detail

/// Samples in memory of the caller, which stays as it is as long as anybody trains on them: nothing is copied. Numbers
/// of any type of number_kind, sample by sample. A network computes with them in its own type: float holds each whole
/// number up to 2^24, and larger ones rounded to the nearest.
///
///     samples_in_memory const flowers(measured, make_shape(4), species, 3);             // one of 3 classes each
///     samples_in_memory const words(tokens, make_shape(9), tags, make_shape(9), 12);    // one for each of 9 tokens
///     samples_in_memory const curves(times, make_shape(1), positions, make_shape(2));   // two values each
///     samples_in_memory const asked(times, make_shape(1));                               // for predictions
class samples_in_memory {
public:
    /// `labels`: a class in [0, classes) for each sample, or the label that losses are to ignore.
    /// Errors: usage_error if the sizes do not fit together, there is no sample, or a label is neither.
    template<detail::numbers_in_memory X, detail::numbers_in_memory Y, detail::number_of_classes Classes>
        requires std::integral<std::ranges::range_value_t<Y>>
    samples_in_memory(X&& inputs, shape const& of_input, Y&& labels, Classes classes, int ignored = no_label)
        : samples_in_memory(inputs, of_input, labels, make_shape(1), static_cast<std::size_t>(classes), ignored) {}

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
            auto const label = detail::with_sign(each);
            if ((label < 0 || static_cast<std::uint64_t>(label) >= classes) &&
                (label != ignored || ignored == no_label))
                throw usage_error("label " + std::to_string(i) + " is " + std::to_string(each) +
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

    /// The compiler refuses numbers of other types, TRI0148, and those that nothing holds, TRI0156.
    template<class X>
        requires detail::other_numbers<X>
    samples_in_memory(X&&, shape const&) : size_(0) {
        static constexpr detail::sample_number_rule_of<X> checked{};
        static_cast<void>(checked);
    }
    template<class X, class Y>
        requires(detail::other_numbers<X> || detail::other_numbers<Y>)
    samples_in_memory(X&&, shape const&, Y&&, detail::any_argument, detail::any_argument = {},
                      detail::any_argument = {})
        : size_(0) {
        static constexpr detail::sample_number_rule_of<X, Y> checked{};
        static_cast<void>(checked);
    }
    template<detail::numbers_in_memory X, detail::numbers_in_memory Y, detail::number_of_classes Classes>
        requires std::floating_point<std::ranges::range_value_t<Y>>
    samples_in_memory(X&&, shape const&, Y&&, Classes, int = no_label) : size_(0) {
        static constexpr detail::sample_number_rule_of<X, Y> checked{};
        static_cast<void>(checked);
    }

    template<detail::numbers_without_name X>
    samples_in_memory(X&&, shape const&) : size_(0) {
        static constexpr samples_stay_rule<gets<X>> checked{};
        static_cast<void>(checked);
    }
    template<detail::numbers_side_by_side X, detail::numbers_side_by_side Y>
        requires(detail::numbers_without_name<X> || detail::numbers_without_name<Y>)
    samples_in_memory(X&&, shape const&, Y&&, detail::any_argument, detail::any_argument = {},
                      detail::any_argument = {})
        : size_(0) {
        static constexpr samples_stay_rule<gets<X>, gets<Y>> checked{};
        static_cast<void>(checked);
    }

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
