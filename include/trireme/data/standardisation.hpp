// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/safetensors.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/standardised_numbers.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// Numbers of a sample that share a mean and a deviation.
enum class standardised : bool {
    per_number, ///< each number has its own, as a column of a table
    per_channel ///< those of a channel share one, in images of (channels, height, width)
};

/// A mean and a factor for each number of a sample, or for each channel of an image: standardised inputs have mean 0
/// and deviation 1. Taken from the samples to train with, it is applied to them, to those to test with, and to whatever
/// the network is asked later.
///
///     standardisation const scale(train);
///     t.step(scale(train));
///     t.evaluate(scale(test));
///
///     standardisation const of_colours(photographs, standardised::per_channel); // PyTorch's Normalize(mean, std)
///
/// All is computed in double, sample by sample in order.
class standardisation {
public:
    /// The constructor measures means and deviations of the inputs (those of the population: divided by the number of
    /// samples, per_channel times the values of a channel). A column whose numbers are all the same has factor 1: its
    /// inputs become 0.
    /// Errors: usage_error if there is no sample, a number is not finite, or, per_channel, the samples are no images.
    template<sample_source Source>
    explicit standardisation(Source const& source, standardised of = standardised::per_number) : of_(of) {
        measure(source.inputs(), source.size());
    }

    /// A program that has kept or read means and factors passes them here.
    /// Errors: usage_error if these are not equally many, or not all finite.
    TRIREME_COLD standardisation(std::vector<double> means, std::vector<double> factors,
                                 standardised of = standardised::per_number)
        : means_(std::move(means)), factors_(std::move(factors)), of_(of) {
        if (auto const wrong = fault(); !wrong.empty()) throw usage_error(wrong);
    }

    /// Reads what save() has written, bit for bit.
    /// Errors: data_error with the path, for a file that is missing, damaged, or of another content.
    TRIREME_COLD static standardisation load(std::string const& path) {
        safetensors_file const file(path);
        auto const shape = file.at("mean").shape;
        bool const per_channel = shape.size() == 3 && shape[1] == 1 && shape[2] == 1;
        if (!per_channel && shape.size() != 1)
            throw data_error(path, 0,
                             "the tensor 'mean' has " + std::to_string(shape.size()) +
                                 " dimensions, and that of a standardisation has the shape [numbers] or "
                                 "[channels, 1, 1]: pass a file that standardisation::save has written");
        standardisation made(per_channel ? standardised::per_channel : standardised::per_number);
        made.means_.resize(shape[0]);
        made.factors_.resize(shape[0]);
        file.read("mean", shape, made.means_);
        file.read("factor", shape, made.factors_);
        if (auto const wrong = made.fault(); !wrong.empty()) throw data_error(path, 0, wrong);
        return made;
    }

    /// Writes a safetensors file to keep beside the weights, with the tensors 'mean' and 'factor' of F64, each of shape
    /// [numbers] or [channels, 1, 1]: in PyTorch (x - mean) * factor is what operator() gives. What stood at `path`
    /// stays until all is written. Over processes, one calls it.
    /// Errors: data_error if the file cannot be written.
    TRIREME_COLD void save(std::string const& path) const {
        std::vector<std::size_t> shape{means_.size()};
        if (of_ == standardised::per_channel) shape.insert(shape.end(), {1, 1});
        write_safetensors(path, {{"mean", safetensors_dtype::f64, shape, std::as_bytes(means())},
                                 {"factor", safetensors_dtype::f64, shape, std::as_bytes(factors())}});
    }

    std::span<double const> means() const noexcept { return means_; }
    std::span<double const> factors() const noexcept { return factors_; } ///< 1 / deviation
    standardised of() const noexcept { return of_; }

    /// The samples with the inputs (number - mean) * factor, as float. Targets, and changes of images, stay as they
    /// are; the zeros that a crop brings in are means then. All is copied; where the inputs lie in a mapped file
    /// (map_npy), they are read once, to check them, and the samples become a view with the same bits.
    /// Cost of a view: each number is computed in double whenever it is read, where a copy has floats; read_npy, or
    /// copy_of, where the samples fit into memory.
    /// Errors: usage_error if the samples have another size or other channels, or a number is not finite.
    template<sample_source Source>
    owned_samples operator()(Source const& source) const {
        return standardised_samples(source, detail::class_names_of(source));
    }

private:
    explicit standardisation(standardised of) noexcept : of_(of) {}

    /// A reason why means and factors make no standardisation; empty if they do.
    TRIREME_COLD std::string fault() const {
        if (means_.empty() || means_.size() != factors_.size())
            return std::to_string(means_.size()) + " means and " + std::to_string(factors_.size()) +
                   " factors make no standardisation: pass one of both for each number of a sample" +
                   (of_ == standardised::per_channel ? ", or for each channel" : "");
        for (std::size_t c = 0; c < means_.size(); ++c)
            if (!std::isfinite(means_[c]) || !std::isfinite(factors_[c]))
                return "mean or factor " + std::to_string(c) +
                       " of a standardisation is not finite: pass finite numbers";
        return {};
    }

    /// Means and factors, for numbers as `rows` has them; valid as long as this object.
    detail::number_standard standard_of(sample_rows const& rows) const noexcept {
        return {.kind = rows.kind,
                .scale = rows.scale,
                .before = rows.standard,
                .means = means_.data(),
                .factors = factors_.data(),
                .count = means_.size()};
    }

    TRIREME_COLD owned_samples standardised_samples(sample_set const& source, std::vector<std::string> names) const {
        struct storage {
            std::vector<float> inputs;
            std::vector<std::byte> targets;
        };
        sample_rows const from = source.inputs();
        sample_rows targets = source.targets();
        if (source.holder() != nullptr && (from.data != nullptr ? from : targets).mapped) {
            apply(from, source.size(), [](float) {}, order_of_file(from, source.size()));
            auto inputs = from;
            auto holder = source.holder();
            if (from.data != nullptr) holder = detail::standardised_rows(inputs, standard_of(from), holder);
            targets.beginnings = 1;
            return {std::move(holder), source.size(), inputs, targets, std::move(names)};
        }
        auto numbers = std::make_shared<storage>();
        if (from.data != nullptr) numbers->inputs.reserve(source.size() * from.size());
        apply(from, source.size(), [&](float y) { numbers->inputs.push_back(y); });
        numbers->targets = detail::packed_rows(targets, source.size(), [&](std::size_t i) { return targets.of(i); });
        auto inputs = rows_of(numbers->inputs.data(), from.shape);
        inputs.changes = from.changes;
        return {std::move(numbers), source.size(), inputs, targets, std::move(names)};
    }

    /// The samples in the order in which they lie; empty if that is their own.
    TRIREME_COLD static std::vector<std::uint32_t> order_of_file(sample_rows const& rows, std::size_t samples) {
        std::vector<std::uint32_t> order(rows.places == nullptr ? 0 : samples);
        std::iota(order.begin(), order.end(), std::uint32_t{0});
        std::ranges::sort(order, {}, [&](std::uint32_t sample) { return rows.places[sample]; });
        return order;
    }

    /// Calls f(sample, place of its mean, number) for all numbers, sample by sample, in an order unless it is empty;
    /// `by` changes numbers before.
    template<class F>
    void each_number(sample_rows const& rows, std::size_t samples, F const& f,
                     detail::number_standard const* by = nullptr, std::span<std::uint32_t const> order = {}) const {
        std::vector<double> numbers(rows.size());
        auto const sharing = numbers.size() / means_.size();
        for (std::size_t n = 0; n < samples; ++n) {
            auto const i = order.empty() ? n : order[n];
            detail::read_from_sample(rows, rows.of(i), {0, numbers.size()}, numbers.data());
            if (by != nullptr) detail::apply_standard(*by, numbers.size(), {0, numbers.size()}, numbers.data());
            for (std::size_t c = 0, k = 0; c < means_.size(); ++c)
                for (auto const end = k + sharing; k < end; ++k) f(i, c, numbers[k]);
        }
    }

    [[noreturn]] TRIREME_COLD void fail(std::size_t sample, std::size_t column, char const* what) const {
        throw usage_error((of_ == standardised::per_channel ? "a number of channel " : "number ") +
                          std::to_string(column) + " of sample " + std::to_string(sample) + what);
    }

    TRIREME_COLD void check_images(sample_rows const& rows) const {
        if (of_ == standardised::per_channel && rows.shape.rank != 3)
            throw usage_error("standardised::per_channel: the inputs of the samples have rank " +
                              std::to_string(rows.shape.rank) +
                              ", and images have 3, (channels, height, width): pass their shape as "
                              "make_shape(3, 32, 32), or standardise per_number");
    }

    TRIREME_COLD void measure(sample_rows const& rows, std::size_t samples) {
        if (samples == 0 || rows.data == nullptr || rows.size() == 0)
            throw usage_error("a standardisation is taken from the inputs of samples, and there are none: pass those "
                              "to train with");
        check_images(rows);
        constexpr auto infinity = std::numeric_limits<double>::infinity();
        auto const means = of_ == standardised::per_channel ? rows.shape.extent[0] : rows.size();
        auto const n = static_cast<double>(samples) * static_cast<double>(rows.size() / means);
        means_.assign(means, 0);
        factors_.assign(means, 0);
        std::vector<double> least(means, infinity), most(means, -infinity);
        each_number(rows, samples, [&](std::size_t i, std::size_t c, double x) {
            if (!std::isfinite(x)) fail(i, c, " is not finite: replace it, or leave the sample out");
            means_[c] += x;
            least[c] = std::min(least[c], x);
            most[c] = std::max(most[c], x);
        });
        for (auto& mean : means_) mean /= n;
        each_number(rows, samples,
                    [&](std::size_t, std::size_t c, double x) { factors_[c] += (x - means_[c]) * (x - means_[c]); });
        for (std::size_t c = 0; c < factors_.size(); ++c) {
            if (least[c] == most[c]) { // whatever rounding left
                means_[c] = least[c];
                factors_[c] = 1;
                continue;
            }
            factors_[c] = 1 / std::sqrt(factors_[c] / n);
            if (!std::isfinite(means_[c]) || !std::isfinite(factors_[c]) || factors_[c] == 0)
                fail(0, c, " and those of other samples have no deviation that double can hold: scale the column");
        }
    }

    /// Function `to` gets all numbers of all samples, standardised.
    template<class To>
    void apply(sample_rows const& rows, std::size_t samples, To const& to,
               std::span<std::uint32_t const> order = {}) const {
        if (rows.data == nullptr) return;
        check_fits(rows);
        auto const by = standard_of(rows);
        each_number(
            rows, samples,
            [&](std::size_t i, std::size_t c, double y) {
                if (!(std::abs(y) <= static_cast<double>(std::numeric_limits<float>::max())))
                    fail(i, c, " is not finite, or too large for float when it is standardised: correct it");
                to(static_cast<float>(y));
            },
            &by, order);
    }

    TRIREME_COLD void check_fits(sample_rows const& rows) const {
        check_images(rows);
        if (of_ == standardised::per_channel && rows.shape.extent[0] != means_.size())
            throw usage_error("the samples have " + std::to_string(rows.shape.extent[0]) +
                              " channels, and those that the standardisation was taken from " +
                              std::to_string(means_.size()) + ": pass images with the same channels");
        if (of_ == standardised::per_number && rows.size() != means_.size())
            throw usage_error("the samples have " + std::to_string(rows.size()) +
                              " numbers each, and those that the standardisation was taken from " +
                              std::to_string(means_.size()) + ": pass samples with the same columns");
    }

    std::vector<double> means_, factors_;
    standardised of_ = standardised::per_number;
};

} // namespace trireme
