// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/data/augmented.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/predictions.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::inline TRIREME_ISA {

/// The ways between the rows of a sample source and the memory of a device of the host: granules with their lanes
/// innermost, or, for kernels that take all samples at once, one sample behind the other, images channels last.
template<class Model>
struct host_samples {
    using network = typename Model::network;
    using T = typename Model::value_type;
    using stored = typename Model::stored_type;

    /// `drawn`: the step of a training, whose images may be changed. `lanes`: those of the granule.
    template<std::size_t Lanes>
    static void gather_inputs(sample_rows const& rows, std::span<std::uint32_t const> samples,
                              detail::drawn_changes const& drawn, std::size_t lanes, stored* to) {
        if (drawn.step != 0 && rows.changes.any()) return gather_changed(rows, samples, drawn, lanes, to);
        if constexpr (Model::at_once) {
            constexpr auto in = network::input_extents::shape;
            for (std::size_t i = 0; i < samples.size(); ++i)
                gather_channels_last<T>(rows, samples[i], in.rank == 3 ? in.extent[0] : 1, to + i * in.size());
        } else if constexpr (Lanes == 1) {
            for (std::size_t i = 0; i < samples.size(); ++i)
                gather_samples<1>(rows, samples.subspan(i, 1), to + i * rows.size());
        } else if (lanes == Lanes) {
            gather_samples<Lanes>(rows, samples, to);
        } else {
            for (std::size_t lane = 0; lane < lanes; ++lane)
                detail::scatter_numbers<T>(rows, samples[std::min(lane, samples.size() - 1)], {0, rows.size()},
                                           to + lane, lanes);
        }
    }
    TRIREME_COLD static void gather_changed(sample_rows const& rows, std::span<std::uint32_t const> samples,
                                            detail::drawn_changes const& drawn, std::size_t lanes, stored* to) {
        auto const channels = rows.shape.extent[0], places = rows.size() / channels;
        auto const scale = static_cast<T>(rows.scale);
        for (std::size_t i = 0; i < (Model::at_once || lanes == 1 ? samples.size() : lanes); ++i) {
            auto const sample = samples[i < samples.size() ? i : samples.size() - 1];
            if constexpr (Model::at_once)
                detail::scatter_changed<T>(rows, sample, drawn, scale, to + i * rows.size(), 1, channels);
            else
                detail::scatter_changed<T>(rows, sample, drawn, scale, to + i * (lanes == 1 ? rows.size() : 1),
                                           places * lanes, lanes);
        }
    }
    /// The targets of the samples that the loss takes next.
    template<std::size_t Lanes>
    static void gather_targets(sample_rows const& rows, std::span<std::uint32_t const> samples,
                               typename Model::target* to) {
        if constexpr (Model::at_once || Lanes == 1)
            for (std::size_t i = 0; i < samples.size(); ++i)
                gather_samples<1>(rows, samples.subspan(i, 1), to + i * Model::targets);
        else
            gather_samples<Lanes>(rows, samples, to);
    }
    /// The outputs of some samples, which lie in granules of `lanes`, go to all[sample * size].
    static void take_outputs(std::span<std::uint32_t const> samples, stored const* from, std::size_t lanes, T* all) {
        using out = typename network::output_extents;
        for (std::size_t i = 0; i < samples.size(); ++i)
            detail::copy_output<out>(from + i * (Model::at_once || lanes == 1 ? out::size : 1),
                                     Model::at_once ? 1 : lanes, Model::at_once, all + samples[i] * out::size);
    }
};

} // namespace trireme::inline TRIREME_ISA
