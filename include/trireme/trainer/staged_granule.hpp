// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/data/augmented.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/trainer/model_facts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace trireme::detail {

/// The samples that a rank computes at once, as they are staged: what they are (staged_shard), targets and weights in
/// the loss for the last stage, or all where rows add to the loss, inputs for the first; each begins on a cache line.
/// Inputs are bytes, or as wide as parameters: there is room for these, and what is copied is what is there.
template<class T>
struct staged_granule {
    std::size_t samples;
    std::size_t values;          ///< of a sample's input
    std::size_t wanted;          ///< targets of a sample
    bool classes, terms_of_loss; ///< these are classes; rows add to the loss
    bool first, last;

    constexpr staged_granule(model_facts const& facts, parallel_layout const& l, std::size_t most, int rank)
        : samples(most), values(facts.inputs), wanted(facts.targets), classes(facts.classes),
          terms_of_loss(facts.loss_terms != 0), first(l.role_of(rank) == l.place_of(0).role),
          last(l.role_of(rank) == l.role_of_last_stage()) {}

    constexpr std::size_t targets() const noexcept { return cache_line; }
    constexpr std::size_t weights() const noexcept {
        return targets() + scored() * round_up(samples * wanted * (classes ? sizeof(int) : sizeof(T)), cache_line);
    }
    constexpr std::size_t inputs() const noexcept {
        return weights() + weighed() * round_up(samples * sizeof(T), cache_line);
    }
    constexpr std::size_t bytes() const noexcept { return inputs() + (first ? input_bytes(sizeof(T)) : 0); }
    /// Of inputs, each number so wide.
    constexpr std::size_t input_bytes(std::size_t of_number) const noexcept {
        return round_up(samples * values * of_number, cache_line);
    }

    /// Kernels leave of each sample, beside the staged, its loss, and whether it was right.
    constexpr std::size_t correct() const noexcept { return round_up(samples * sizeof(T), cache_line); }
    /// And rows that add to the loss, one after the other, their terms.
    constexpr std::size_t terms() const noexcept {
        return scored() * (correct() + round_up(samples * sizeof(int), cache_line));
    }
    constexpr std::size_t loss_bytes() const noexcept {
        return terms() + (terms_of_loss ? round_up(samples * sizeof(T), cache_line) : 0);
    }

    /// Writes the samples of a batch at these indices, and what they are, but for their number and kind. Fewer than
    /// there is room for: the last one fills the room, and weighs nothing there; what an earlier batch has left may be
    /// no number, and so would 0 times that be. Returns the bytes from the beginning that hold something.
    std::size_t fill(std::byte* to, sample_set const& set, std::span<std::uint32_t const> indices, T weight,
                     staged_shard about) const {
        auto const& rows = set.inputs();
        about.count = static_cast<std::uint32_t>(indices.size());
        about.scale = rows.scale;
        about.bytes = rows.kind == number_kind::u8;
        std::memcpy(to, &about, sizeof about);
        for (std::size_t i = 0; first && i < indices.size(); ++i) {
            if (about.step != 0 && rows.changes.any())
                fill_changed(to + inputs(), rows, indices[i], about, i);
            else if (about.bytes)
                std::memcpy(to + inputs() + i * values, rows.of(indices[i]), values);
            else
                gather_samples<1>(rows, indices.subspan(i, 1), reinterpret_cast<T*>(to + inputs()) + i * values);
        }
        std::size_t const of_number = about.bytes ? 1 : sizeof(T);
        if (first) repeat_last(to + inputs(), indices.size(), values * of_number);
        if (last && set.targets().data != nullptr) { // predictions need none
            if (classes)
                fill_targets(reinterpret_cast<int*>(to + targets()), set.targets(), indices);
            else
                fill_targets(reinterpret_cast<T*>(to + targets()), set.targets(), indices);
        }
        if (weighed() != 0) {
            auto* const each = reinterpret_cast<T*>(to + weights());
            std::fill_n(each, indices.size(), weight);
            std::fill_n(each + indices.size(), samples - indices.size(), T{0});
        }
        return inputs() + (first ? input_bytes(of_number) : 0);
    }

private:
    template<class Target>
    void fill_targets(Target* to, sample_rows const& rows, std::span<std::uint32_t const> indices) const {
        for (std::size_t i = 0; i < indices.size(); ++i)
            gather_samples<1>(rows, indices.subspan(i, 1), to + i * wanted);
        repeat_last(reinterpret_cast<std::byte*>(to), indices.size(), wanted * sizeof(Target));
    }
    /// Of no sample the room is zeroed.
    void repeat_last(std::byte* to, std::size_t filled, std::size_t bytes) const {
        if (filled == 0) std::memset(to, 0, samples * bytes);
        for (std::size_t i = filled; i != 0 && i < samples; ++i)
            std::memcpy(to + i * bytes, to + (filled - 1) * bytes, bytes);
    }
    TRIREME_COLD void fill_changed(std::byte* to, sample_rows const& rows, std::uint32_t sample,
                                   staged_shard const& about, std::size_t i) const {
        drawn_changes const drawn{about.seed, about.step};
        auto const places = rows.shape.extent[1] * rows.shape.extent[2];
        if (about.bytes)
            scatter_changed(rows, sample, drawn, std::uint8_t{1}, reinterpret_cast<std::uint8_t*>(to) + i * values,
                            places, 1);
        else
            scatter_changed(rows, sample, drawn, static_cast<T>(rows.scale), reinterpret_cast<T*>(to) + i * values,
                            places, 1);
    }
    constexpr std::size_t scored() const noexcept { return last ? 1 : 0; }
    constexpr std::size_t weighed() const noexcept { return last || terms_of_loss ? 1 : 0; }
};

} // namespace trireme::detail
