// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/device/host/isa.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// to[i] = (to[i] - mean) * factor for the numbers `some` of a sample of `size`, as double.
TRIREME_NOINLINE inline void apply_standard(number_standard const& by, std::size_t size, range some,
                                            double* to) noexcept {
    auto const sharing = size / by.count;
    for (auto at = some.begin; at < some.end;) {
        auto const c = at / sharing, end = std::min(some.end, (c + 1) * sharing);
        auto const mean = by.means[c], factor = by.factors[c];
        for (; at < end; ++at) to[at - some.begin] = (to[at - some.begin] - mean) * factor;
    }
}

/// to[i] = number some.begin + i of the sample that begins at `sample`, times its scale, as double.
TRIREME_NOINLINE inline void read_from_sample(sample_rows const& rows, std::byte const* sample, range some,
                                              double* to) noexcept {
    if (auto const* const by = rows.standard; by != nullptr) {
        auto stored = rows;
        stored.kind = by->kind;
        stored.scale = by->scale;
        stored.standard = by->before;
        read_from_sample(stored, sample, some, to);
        apply_standard(*by, rows.size(), some, to);
        for (std::size_t i = 0; i < some.size(); ++i)
            to[i] = static_cast<double>(static_cast<float>(to[i])) * by->after;
        return;
    }
    with_number_of(rows.kind, [&]<class N>(N) {
        auto const* const from = reinterpret_cast<N const*>(sample) + some.begin;
        for (std::size_t i = 0; i < some.size(); ++i) to[i] = static_cast<double>(from[i]) * rows.scale;
    });
}

/// A reader of standardised rows has their numbers before the factor `after`, some at a time, so that no sample is too
/// large.
class standardised_rows_reader {
public:
    static constexpr std::size_t block = 256;

    explicit standardised_rows_reader(sample_rows const& rows) noexcept : rows_(rows), by_(*rows.standard) {
        by_.after = 1;
        rows_.standard = &by_;
    }
    standardised_rows_reader(standardised_rows_reader const&) = delete;
    standardised_rows_reader& operator=(standardised_rows_reader const&) = delete;

    /// f(i, number some.begin + i) for the numbers `some` of the sample that begins at `sample`.
    template<class F>
    void read(std::byte const* sample, range some, F const& f) const noexcept {
        double numbers[block];
        for (auto at = some.begin; at < some.end; at += block) {
            range const next{at, std::min(at + block, some.end)};
            read_from_sample(rows_, sample, next, numbers);
            for (std::size_t i = 0; i < next.size(); ++i)
                f(next.begin - some.begin + i, static_cast<float>(numbers[i]));
        }
    }

private:
    sample_rows rows_;
    number_standard by_;
};

/// The numbers of a sample of standardised rows by their index, a block at a time.
class standardised_numbers {
public:
    standardised_numbers(sample_rows const& rows, std::size_t sample) noexcept
        : rows_(rows), sample_(rows.of(sample)), size_(rows.size()) {}

    float operator[](std::size_t number) noexcept {
        if (number - begin_ >= block) fill(number);
        return numbers_[number - begin_];
    }

private:
    static constexpr std::size_t block = standardised_rows_reader::block;

    TRIREME_NOINLINE void fill(std::size_t number) noexcept {
        begin_ = number / block * block;
        rows_.read(sample_, {begin_, std::min(begin_ + block, size_)},
                   [this](std::size_t i, float each) { numbers_[i] = each; });
    }

    standardised_rows_reader rows_;
    std::byte const* sample_;
    std::size_t size_;
    std::size_t begin_ = static_cast<std::size_t>(-1) - block; ///< no number lies in such a block
    float numbers_[block];
};

} // namespace trireme::detail::inline TRIREME_ISA
