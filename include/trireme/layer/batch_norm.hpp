// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/geometry.hpp>
#include <trireme/layer/layer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace trireme {

/// Arguments of batch_norm: its statistics are of the samples of one logical shard (those of one device, unless the
/// trainer is reproducible), or of the whole batch, for which the devices exchange 4 numbers per channel and step.
struct per_shard {};
struct synchronised {};

template<class... Where>
struct batch_norm_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0063: batch_norm<scope> takes per_shard or synchronised, and an input with channels: an image "
                  "(channels, height, width) or a list of values");
};

/// Batch normalisation: y = weight (x - mean) / sqrt(variance + 1e-5) + bias, for each channel, with mean and (biased)
/// variance of this step's samples. Evaluation takes running ones, in which each step has a weight of 0.1.
///
/// Input and output (C, H, W), or (C). Parameters: weight (C), beginning at 1, bias (C), at 0. Buffers: running_mean
/// (C), running_var (C, unbiased). Names, momentum and epsilon are PyTorch's.
/// Running statistics are the mean over the shards, each with the weight of its samples, so that they, too, do not
/// depend on the number of devices.
/// A channel needs two values: on a list of values, or an image of 1 x 1, a trainer refuses shards of one sample.
/// Cost: three passes over the values forward, three backward; 4 C numbers are kept.
/// Source: Ioffe and Szegedy, "Batch normalization", 2015.
template<class Scope = per_shard>
struct batch_norm {
    static constexpr bool usable = std::is_same_v<Scope, per_shard> || std::is_same_v<Scope, synchronised>;
    static constexpr double epsilon = 1e-5;

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable || (in.rank != 1 && in.rank != 3)) return refused(in);
        layer_description d;
        auto const channels = in.extent[0];
        d.output = in;
        d.forward_flops = 6 * in.size();
        d.backward_input_flops = 8 * in.size();
        d.parameter_count = 2;
        d.parameters[0] = {"weight", make_shape(channels), 1, 1, initial::ones};
        d.parameters[1] = {"bias", make_shape(channels), 1, 1, initial::zeros};
        d.buffer_count = 2;
        d.buffers[0] = {"running_mean", make_shape(channels), 1, 1, initial::zeros};
        d.buffers[1] = {"running_var", make_shape(channels), 1, 1, initial::ones};
        d.kept = 4 * channels;
        d.execution.backward_reads_output = false;
        d.execution.in_place = true;
        d.execution.applies = true;
        if (in.size() == channels) d.least_samples = 2; // a single value less its mean is 0, whatever it was
        d.forward.phases = d.backward.phases = 1;
        if (std::is_same_v<Scope, synchronised>) {
            d.forward = {3, {{0, channels}, {channels, channels}}};
            d.backward = {2, {{2 * channels, 2 * channels}}};
        }
        return d;
    }

    // Kept per channel: mean and 1 / sqrt(variance + epsilon) (first the sum of squared differences from the mean), and
    // backward the sums of dy and of dy times the normalised x, later their means. What is agreed on is computed where
    // it lies: on an accelerator by its kernels, which find the number of samples there as well.

    static void forward_gather(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        auto const& at = io.place.granule;
        if constexpr (remote<io_t>)
            batch_norm_gather<g>(io.policy, io.x.data);
        else
            batch_norm_gather<g, io_t::lanes>(io.policy, io.x.data, at.count, at.first, io.place.kept,
                                              io.place.kept + g::channels);
    }

    static void forward_agree(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        if constexpr (!remote<io_t>) {
            agree_on_statistics(io, phase);
        } else if constexpr (!whole_batch<io_t>) {
            batch_norm_agree<g>(io.policy, io.place.kept, io.place.statistics, epsilon);
        } else {
            if (phase == 0) batch_norm_agree_on_mean<g>(io.policy, io.place.kept);
            if (phase == 1) batch_norm_agree_on_variance<g>(io.policy, io.place.kept);
            if (phase == 2) batch_norm_agreed<g>(io.policy, io.place.kept, io.place.statistics, epsilon);
        }
    }

    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        batch_norm_forward<g, io_t::lanes>(io.policy, io.x.data, io.place.kept, io.place.kept + g::channels,
                                           io.parameter(0), io.parameter(1), io.y.data);
    }

    static void evaluate(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using T = typename io_t::value_type;
        using g = geometry<io_t>;
        T const *const mean = io.place.buffers, *const variance = mean + g::channels;
        if constexpr (remote<io_t>) {
            batch_norm_evaluate<g>(io.policy, io.x.data, mean, variance, epsilon, io.parameter(0), io.parameter(1),
                                   io.y.data);
        } else {
            T deviation[g::channels];
            for (std::size_t c = 0; c < g::channels; ++c)
                deviation[c] = T(1) / std::sqrt(variance[c] + static_cast<T>(epsilon));
            batch_norm_forward<g, io_t::lanes>(io.policy, io.x.data, mean, static_cast<T const*>(deviation),
                                               io.parameter(0), io.parameter(1), io.y.data);
        }
    }

    static void backward_gather(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        auto* const kept = io.place.kept;
        if constexpr (remote<io_t>)
            batch_norm_backward_gather<g>(io.policy, io.x.data, io.dy.data, kept);
        else if constexpr (applies<io_t>)
            batch_norm_backward_gather<g>(io.policy, io.x.data, io.dy.data, kept, kept + g::channels, io.parameter(0),
                                          io.parameter(1), kept + 2 * g::channels);
        else
            batch_norm_backward_gather<g, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.place.granule.count,
                                                       io.place.granule.first, kept, kept + g::channels,
                                                       kept + 2 * g::channels);
    }

    static void backward_agree(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        auto* const sums = io.place.kept + 2 * g::channels;
        if constexpr (!remote<io_t>) {
            agree_on_gradients(io, phase);
        } else if constexpr (!whole_batch<io_t>) {
            batch_norm_backward_agree<g>(io.policy, io.place.kept, sums, io.gradient(0), io.gradient(1));
        } else {
            if (phase == 0)
                batch_norm_backward_agree_on_sums<g>(io.policy, io.place.kept, sums, io.gradient(0), io.gradient(1));
            else
                batch_norm_backward_agreed<g>(io.policy, sums);
        }
    }

    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        auto* const kept = io.place.kept;
        auto *const deviation = kept + g::channels, *const means = kept + 2 * g::channels;
        if constexpr (remote<io_t>)
            batch_norm_backward_input<g>(io.policy, io.x.data, io.dy.data, kept, deviation, means, io.parameter(0),
                                         io.dx.data);
        else if constexpr (applies<io_t>)
            batch_norm_backward_input<g>(io.policy, io.x.data, io.dy.data, kept, deviation, means, io.parameter(0),
                                         io.parameter(1), io.dx.data);
        else
            batch_norm_backward_input<g, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.place.granule.count, kept,
                                                      deviation, means, io.parameter(0), io.dx.data);
    }

    template<class Where, class In>
    using refusal = batch_norm_rule<Where, gets<rank<In::rank>>>;

private:
    static void agree_on_statistics(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using T = typename io_t::value_type;
        constexpr auto channels = geometry<io_t>::channels, positions = geometry<io_t>::positions;
        auto const& at = io.place.granule;
        T* const mean = io.place.kept;
        T* const variance = mean + channels;
        auto const share = static_cast<T>(at.share());
        if (phase == 0) {
            auto const values = static_cast<double>(at.samples * positions);
            if (at.samples == 0) std::fill_n(mean, 2 * channels, T(0)); // a short batch need not reach all shards
            for (std::size_t c = 0; c < channels && at.samples != 0; ++c)
                variance[c] = static_cast<T>(variance[c] / values);
        }
        if constexpr (whole_batch<io_t>) {           // of several means that of all, and the variances around it
            T* const own_mean = variance + channels; // backward has no use for its place yet
            for (std::size_t c = 0; c < channels && phase == 0; ++c) {
                own_mean[c] = mean[c];
                mean[c] *= share;
            }
            for (std::size_t c = 0; c < channels && phase == 1; ++c) {
                auto const apart = own_mean[c] - mean[c];
                variance[c] = share * (variance[c] + apart * apart);
            }
            if (phase != 2) return;
        }
        auto const values = static_cast<double>((whole_batch<io_t> ? at.batch : at.samples) * positions);
        auto const unbiased = static_cast<T>(values > 1 ? values / (values - 1) : 1.0);
        for (std::size_t c = 0; c < channels; ++c) {
            io.place.statistics[c] += share * mean[c];
            io.place.statistics[channels + c] += share * variance[c] * unbiased;
            variance[c] = T(1) / std::sqrt(variance[c] + static_cast<T>(epsilon));
        }
    }

    static void agree_on_gradients(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using T = typename io_t::value_type;
        constexpr auto channels = geometry<io_t>::channels, positions = geometry<io_t>::positions;
        T* const sums = io.place.kept + 2 * channels; // of dy, and of dy times the normalised x
        auto const& at = io.place.granule;
        if (phase == 0) {
            if (at.samples == 0) std::fill_n(sums, 2 * channels, T(0));
            for (std::size_t c = 0; c < channels; ++c) {
                io.gradient(0)[c] += sums[channels + c];
                io.gradient(1)[c] += sums[c];
            }
            if (whole_batch<io_t>) return;
        }
        auto const samples = whole_batch<io_t> ? at.batch : at.samples;
        auto const values = static_cast<double>(samples * positions);
        for (std::size_t i = 0; i < 2 * channels && samples != 0; ++i) sums[i] = static_cast<T>(sums[i] / values);
    }

    /// Whether its kernels also apply a function to what they write, on the host.
    template<class Io>
    static constexpr bool applies = requires { typename Io::kernels::function; };
    template<class Io>
    static constexpr bool remote = accelerator_kernels<typename Io::kernels>;
    template<class Io>
    static constexpr bool whole_batch = describe(Io::input::shape).whole_batch();
    template<class Io>
    using geometry = channel_geometry<Io::input::shape.extent[0], Io::input::size / Io::input::shape.extent[0],
                                      keeps_channels_last<typename Io::kernels>>;
};

} // namespace trireme
