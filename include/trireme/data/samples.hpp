// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/digest.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/samples_in_memory.hpp>
#include <trireme/data/standardised_numbers.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

namespace detail {

/// Means and factors of a standard, and the holder of the rows that it is for.
struct kept_standard {
    std::shared_ptr<void const> rows;
    std::vector<double> means, factors;
    number_standard standard;
};

/// Makes `rows` rows as the standard has them. The result keeps copies of its means and factors, and `holder`.
TRIREME_COLD inline std::shared_ptr<void const> standardised_rows(sample_rows& rows, number_standard const& standard,
                                                                  std::shared_ptr<void const> holder) {
    auto kept = std::make_shared<kept_standard>();
    kept->rows = std::move(holder);
    kept->means.assign(standard.means, standard.means + standard.count);
    kept->factors.assign(standard.factors, standard.factors + standard.count);
    kept->standard = standard;
    kept->standard.means = kept->means.data();
    kept->standard.factors = kept->factors.data();
    std::uint64_t const about[] = {
        static_cast<std::uint64_t>(standard.stored()), standard.count, std::bit_cast<std::uint64_t>(standard.scale),
        standard.before == nullptr ? 0 : standard.before->digest, std::bit_cast<std::uint64_t>(standard.after)};
    auto const digest = digest_of(std::as_bytes(std::span(kept->means)), digest_of(std::as_bytes(std::span(about))));
    kept->standard.digest = digest_of(std::as_bytes(std::span(kept->factors)), digest);
    rows.kind = number_kind::f32;
    rows.scale = 1;
    rows.beginnings = 1;
    rows.standard = &kept->standard;
    return kept;
}

} // namespace detail

/// Samples that own their numbers: those that readers of files return. The content never changes.
///
/// A value like a pointer: copies and parts share one storage, which lives as long as any of them.
///
///     owned_samples const flowers(std::move(lengths), make_shape(4), std::move(species), 3);
class owned_samples {
public:
    /// No samples at all.
    owned_samples() = default;

    /// Numbers in vectors, sample by sample, and a class in [0, classes) for each sample. `class_names` is empty or has
    /// a name for each class.
    /// Errors: usage_error as for samples_in_memory, or if there are more or fewer names than classes.
    template<sample_number X, sample_number Y, detail::number_of_classes Classes>
        requires std::integral<Y>
    owned_samples(std::vector<X> inputs, shape const& of_input, std::vector<Y> labels, Classes classes,
                  std::vector<std::string> class_names = {}) {
        auto numbers = std::make_shared<storage<X, Y> const>(storage<X, Y>{std::move(inputs), std::move(labels)});
        samples_in_memory const view(numbers->inputs, of_input, numbers->targets, classes);
        *this = owned_samples(numbers, view.size(), view.inputs(), view.targets(), std::move(class_names));
    }

    /// Numbers in vectors, sample by sample, and labels of this shape for each: classes in [0, classes), or the label
    /// that losses are to ignore.
    /// Errors: usage_error as for samples_in_memory.
    template<sample_number X, sample_number Y, detail::number_of_classes Classes>
        requires std::integral<Y>
    owned_samples(std::vector<X> inputs, shape const& of_input, std::vector<Y> labels, shape const& of_labels,
                  Classes classes, int ignored = no_label) {
        auto numbers = std::make_shared<storage<X, Y> const>(storage<X, Y>{std::move(inputs), std::move(labels)});
        samples_in_memory const view(numbers->inputs, of_input, numbers->targets, of_labels,
                                     static_cast<std::size_t>(classes), ignored);
        *this = owned_samples(numbers, view.size(), view.inputs(), view.targets());
    }

    /// Numbers in vectors, sample by sample: the inputs of each, and the values that a network is to give for it.
    /// Errors: usage_error as for samples_in_memory.
    template<sample_number X, sample_number Y>
    owned_samples(std::vector<X> inputs, shape const& of_input, std::vector<Y> targets, shape const& of_target) {
        auto numbers = std::make_shared<storage<X, Y> const>(storage<X, Y>{std::move(inputs), std::move(targets)});
        samples_in_memory const view(numbers->inputs, of_input, numbers->targets, of_target);
        *this = owned_samples(numbers, view.size(), view.inputs(), view.targets());
    }

    /// Numbers in vectors, sample by sample, without targets, for predictions.
    /// Errors: usage_error as for samples_in_memory.
    template<sample_number X>
    owned_samples(std::vector<X> inputs, shape const& of_input) {
        auto numbers = std::make_shared<std::vector<X> const>(std::move(inputs));
        samples_in_memory const view(*numbers, of_input);
        *this = owned_samples(numbers, view.size(), view.inputs(), view.targets());
    }

    /// The compiler refuses numbers of other types, TRI0148.
    template<class X>
        requires(!sample_number<X>)
    owned_samples(std::vector<X> const&, shape const&) {
        static constexpr detail::sample_number_rule_of<X> checked{};
        static_cast<void>(checked);
    }
    template<class X, class Y>
        requires(!sample_number<X> || !sample_number<Y>)
    owned_samples(std::vector<X> const&, shape const&, std::vector<Y> const&, detail::any_argument,
                  detail::any_argument = {}, detail::any_argument = {}) {
        static constexpr detail::sample_number_rule_of<X, Y> checked{};
        static_cast<void>(checked);
    }

    /// Rows of any memory, which `holder` keeps where it is and as it is. The caller has checked the labels.
    /// Errors: usage_error if there are more or fewer names than classes.
    TRIREME_COLD owned_samples(std::shared_ptr<void const> holder, std::size_t size, sample_rows const& inputs,
                               sample_rows const& targets, std::vector<std::string> class_names = {})
        : holder_(std::move(holder)), size_(size), inputs_(inputs), targets_(targets) {
        if (class_names.empty()) return;
        if (class_names.size() != targets.classes)
            throw usage_error(std::to_string(class_names.size()) + " names were passed for " +
                              std::to_string(targets.classes) + " classes: pass a name for each class, or none");
        class_names_ = std::make_shared<std::vector<std::string> const>(std::move(class_names));
    }

    std::size_t size() const noexcept { return size_; }
    sample_rows inputs() const noexcept { return inputs_; }
    sample_rows targets() const noexcept { return targets_; }
    std::shared_ptr<void const> holder() const noexcept { return holder_; }

    /// Classes of the targets; 0 if the targets are values.
    std::size_t classes() const noexcept { return targets_.classes; }

    /// Names of the classes, in the order of their numbers; empty if nobody gave any. Valid as long as any copy.
    std::span<std::string const> class_names() const noexcept {
        if (class_names_ == nullptr) return {};
        return *class_names_;
    }

    /// A set that shares these numbers, with inputs times `factor`.
    owned_samples scaled(double factor) const {
        auto part = *this;
        if (inputs_.standard == nullptr) {
            part.inputs_.scale *= factor;
        } else {
            auto standard = *inputs_.standard;
            standard.after *= factor;
            part.holder_ = detail::standardised_rows(part.inputs_, standard, holder_);
        }
        return part;
    }

    /// The `count` samples from `first` on, sharing this storage.
    /// Errors: usage_error if they are not all in the set.
    owned_samples take(std::size_t first, std::size_t count) const {
        if (first > size_ || count > size_ - first)
            throw usage_error("samples " + std::to_string(first) + " and the " + std::to_string(count) +
                              " from there on are not all in this set of " + std::to_string(size_) +
                              "; take fewer, or from further ahead");
        auto part = *this;
        part.size_ = count;
        part.inputs_ = inputs_.behind(first);
        part.targets_ = targets_.behind(first);
        return part;
    }

private:
    template<class X, class Y>
    struct storage {
        std::vector<X> inputs;
        std::vector<Y> targets;
    };

    std::shared_ptr<void const> holder_;
    std::size_t size_ = 0;
    sample_rows inputs_, targets_;
    std::shared_ptr<std::vector<std::string> const> class_names_;
};

namespace detail {

/// Copies rows like `rows` that begin at from(0) ... from(count - 1), one behind the other; `rows` then describes the
/// copy. Returns nothing if there are none.
template<class From>
TRIREME_COLD std::vector<std::byte> packed_rows(sample_rows& rows, std::size_t count, From const& from) {
    std::vector<std::byte> bytes;
    if (rows.data == nullptr) return bytes;
    auto const size = rows.size(), each = rows.standard == nullptr ? rows.bytes() : size * sizeof(float);
    bytes.resize(count * each);
    if (rows.standard == nullptr) {
        for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * each, from(i), each);
    } else {
        standardised_rows_reader const numbers(rows);
        for (std::size_t i = 0; i < count; ++i) {
            auto* const to = reinterpret_cast<float*>(bytes.data() + i * each);
            numbers.read(from(i), {0, size}, [to](std::size_t k, float number) { to[k] = number; });
        }
        rows.scale = rows.standard->after;
        rows.standard = nullptr;
    }
    rows.data = bytes.data();
    rows.stride = each;
    rows.beginnings = 1;
    rows.mapped = false;
    rows.places = nullptr;
    return bytes;
}

template<class Source>
std::vector<std::string> class_names_of(Source const& source) {
    if constexpr (requires { std::span<std::string const>(source.class_names()); }) {
        std::span<std::string const> const names = source.class_names();
        return {names.begin(), names.end()};
    } else {
        return {};
    }
}

} // namespace detail

/// Copies some samples of a source, in this order, into memory of their own. Each of `which` is below source.size().
/// Numbers, shapes, scale and names of classes stay as they are.
template<sample_source Source>
owned_samples copy_of(Source const& source, std::span<std::uint32_t const> which) {
    sample_rows inputs = source.inputs(), targets = source.targets();
    struct storage {
        std::vector<std::byte> inputs, targets;
    };
    auto numbers = std::make_shared<storage>();
    numbers->inputs = detail::packed_rows(inputs, which.size(), [&](std::size_t i) { return inputs.of(which[i]); });
    numbers->targets = detail::packed_rows(targets, which.size(), [&](std::size_t i) { return targets.of(which[i]); });
    return {std::move(numbers), which.size(), inputs, targets, detail::class_names_of(source)};
}

} // namespace trireme
