// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// A mean and a factor for each number of a sample: standardised inputs have mean 0 and deviation 1. Taken from the
/// samples to train with, it is applied to them, to those to test with, and to whatever the network is asked later.
///
///     standardisation const scale(train);
///     t.step(scale(train));
///     t.evaluate(scale(test));
///
/// All is computed in double, sample by sample in order.
class standardisation {
public:
    /// The constructor measures means and deviations of the inputs (those of the population: divided by the number of
    /// samples). A column whose numbers are all the same has factor 1: its inputs become 0.
    /// Errors: usage_error if there is no sample, or a number is not finite.
    template<sample_source Source>
    explicit standardisation(Source const& source) {
        measure(source.inputs(), source.size());
    }

    /// A program that has kept means and factors passes them here.
    /// Errors: usage_error if these are not equally many, or not all finite.
    TRIREME_COLD standardisation(std::vector<double> means, std::vector<double> factors)
        : means_(std::move(means)), factors_(std::move(factors)) {
        if (means_.empty() || means_.size() != factors_.size())
            throw usage_error(std::to_string(means_.size()) + " means and " + std::to_string(factors_.size()) +
                              " factors make no standardisation: pass one of both for each number of a sample");
        for (std::size_t c = 0; c < means_.size(); ++c)
            if (!std::isfinite(means_[c]) || !std::isfinite(factors_[c]))
                throw usage_error("mean or factor " + std::to_string(c) +
                                  " of a standardisation is not finite: pass finite numbers");
    }

    std::span<double const> means() const noexcept { return means_; }
    std::span<double const> factors() const noexcept { return factors_; } ///< 1 / deviation

    /// A copy of the samples, whose inputs are (number - mean) * factor, as float. Targets, and changes of images, stay
    /// as they are; the zeros that a crop brings in are means then.
    /// Errors: usage_error if the samples have another size, or a number is not finite.
    template<sample_source Source>
    owned_samples operator()(Source const& source) const {
        struct storage {
            std::vector<float> inputs;
            std::vector<std::byte> targets;
        };
        auto numbers = std::make_shared<storage>();
        sample_rows const from = source.inputs();
        numbers->inputs = applied(from, source.size());
        sample_rows targets = source.targets();
        numbers->targets = detail::packed_rows(targets, source.size(), [&](std::size_t i) { return targets.of(i); });
        auto inputs = rows_of(numbers->inputs.data(), from.shape);
        inputs.changes = from.changes;
        return {std::move(numbers), source.size(), inputs, targets, detail::class_names_of(source)};
    }

private:
    /// The numbers of a sample, whatever their type: what works on them is compiled once.
    TRIREME_COLD static void read(sample_rows const& rows, std::size_t sample, std::vector<double>& to) {
        with_number_of(rows.kind, [&]<class N>(N) {
            auto const* const from = reinterpret_cast<N const*>(rows.of(sample));
            for (std::size_t c = 0; c < to.size(); ++c) to[c] = static_cast<double>(from[c]) * rows.scale;
        });
    }
    /// Calls f(sample, column, number) for all numbers, sample by sample.
    template<class F>
    static void each_number(sample_rows const& rows, std::size_t samples, F const& f) {
        std::vector<double> numbers(rows.size());
        for (std::size_t i = 0; i < samples; ++i) {
            read(rows, i, numbers);
            for (std::size_t c = 0; c < numbers.size(); ++c) f(i, c, numbers[c]);
        }
    }

    [[noreturn]] TRIREME_COLD static void fail(std::size_t sample, std::size_t column, char const* what) {
        throw usage_error("number " + std::to_string(column) + " of sample " + std::to_string(sample) + what);
    }

    TRIREME_COLD void measure(sample_rows const& rows, std::size_t samples) {
        if (samples == 0 || rows.data == nullptr || rows.size() == 0)
            throw usage_error("a standardisation is taken from the inputs of samples, and there are none: pass those "
                              "to train with");
        constexpr auto infinity = std::numeric_limits<double>::infinity();
        auto const n = static_cast<double>(samples);
        means_.assign(rows.size(), 0);
        factors_.assign(rows.size(), 0);
        std::vector<double> least(rows.size(), infinity), most(rows.size(), -infinity);
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

    TRIREME_COLD std::vector<float> applied(sample_rows const& rows, std::size_t samples) const {
        if (rows.data != nullptr && rows.size() != means_.size())
            throw usage_error("the samples have " + std::to_string(rows.size()) +
                              " numbers each, and those that the standardisation was taken from " +
                              std::to_string(means_.size()) + ": pass samples with the same columns");
        std::vector<float> out;
        if (rows.data == nullptr) return out;
        out.reserve(samples * means_.size());
        each_number(rows, samples, [&](std::size_t i, std::size_t c, double x) {
            auto const y = (x - means_[c]) * factors_[c];
            if (!(std::abs(y) <= static_cast<double>(std::numeric_limits<float>::max())))
                fail(i, c, " is not finite, or too large for float when it is standardised: correct it");
            out.push_back(static_cast<float>(y));
        });
        return out;
    }

    std::vector<double> means_, factors_;
};

} // namespace trireme
