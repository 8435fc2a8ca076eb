// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/batch_norm_numbers.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/layer.hpp>

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
    using itself = batch_norm; ///< does work of its neighbours, see description_in_row

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
        d.execution.applies = d.execution.adds = d.execution.subtracts_means = true;
        if (in.size() == channels) d.least_samples = 2; // a single value less its mean is 0, whatever it was
        d.forward.phases = d.backward.phases = 1;
        if (std::is_same_v<Scope, synchronised>) {
            d.forward = {3, {{0, channels}, {channels, channels}}};
            d.backward = {2, {{2 * channels, 2 * channels}}};
        }
        return d;
    }

    static void forward_gather(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        batch_norm_gather<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, numbers(io));
    }
    static void forward_agree(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        batch_norm_agree<geometry<io_t>, whole_batch<io_t>>(io.policy, numbers(io), phase);
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        batch_norm_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, numbers(io), io.y.data);
    }
    static void evaluate(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        using g = geometry<io_t>;
        typename io_t::value_type const* const running_mean = io.place.buffers;
        batch_norm_evaluate<g, io_t::lanes>(io.policy, io.x.data, running_mean, running_mean + g::channels, numbers(io),
                                            io.y.data);
    }

    static void backward_gather(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        batch_norm_backward_gather<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, numbers(io));
    }
    static void backward_agree(auto const& io, int phase) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        auto n = numbers(io);
        n.weight_gradient = io.gradient(0);
        n.bias_gradient = io.gradient(1);
        batch_norm_backward_agree<geometry<io_t>, whole_batch<io_t>>(io.policy, n, phase);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        batch_norm_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, numbers(io),
                                                               io.dx.data);
    }

    template<class Where, class In>
    using refusal = batch_norm_rule<Where, gets<rank<In::rank>>>;

private:
    template<class Io>
    static batch_norm_numbers<typename Io::value_type> numbers(Io const& io) {
        auto* const kept = io.place.kept;
        constexpr auto channels = geometry<Io>::channels;
        return {.granule = io.place.granule,
                .mean = kept,
                .deviation = kept + channels,
                .sums = kept + 2 * channels,
                .weight = io.parameter(0),
                .bias = io.parameter(1),
                .statistics = io.place.statistics,
                .left_out = io.place.left_out,
                .epsilon = epsilon};
    }
    template<class Io>
    static constexpr bool whole_batch = describe(Io::input::shape).whole_batch();
    template<class Io>
    using geometry = channel_geometry<Io::input::shape.extent[0], Io::input::size / Io::input::shape.extent[0],
                                      keeps_channels_last<typename Io::kernels>>;
};

} // namespace trireme
