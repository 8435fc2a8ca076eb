// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/batch_norm_numbers.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/elementwise.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>

// Statistics of channels over all samples of a shard: see channels.hpp.
namespace trireme::blocks {

/// Mean and variance (biased, over `values` numbers) of a channel are known: keeps what the layer wants of them, and
/// adds a shard's share to what becomes running statistics, with what was left out of all values (unless it is null).
/// A shard without samples goes through the layers as zeros: it keeps no deviation, which would multiply them.
template<class G, class T>
TRIREME_HOST_DEVICE void keep_statistics(T* kept, T* statistics, u32 channel, accumulate_t<T> mean,
                                         accumulate_t<T> variance, double values, double share_of_shard,
                                         accumulate_t<T> epsilon, T const* left_out) {
    using number = accumulate_t<T>;
    auto const share = static_cast<number>(share_of_shard);
    auto const unbiased = static_cast<number>(values > 1 ? values / (values - 1) : 1.0);
    T &to_mean = statistics[channel], &to_variance = statistics[G::channels + channel];
    number const moved = left_out == nullptr ? mean : mean + static_cast<number>(left_out[channel]);
    to_mean = static_cast<T>(static_cast<number>(to_mean) + share * moved);
    to_variance = static_cast<T>(static_cast<number>(to_variance) + share * variance * unbiased);
    kept[channel] = static_cast<T>(mean);
    kept[G::channels + channel] = static_cast<T>(values > 0 ? number(1) / std::sqrt(variance + epsilon) : number(0));
}

/// Mean and sum of squared differences from it, of each channel. Every thread takes the mean of eight values at a time
/// and joins groups as in Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
/// variances", 1979: values are read once, and nothing cancels.
/// `Whole`: the batch is spread over several devices, which then have to add their shares.
template<class G, class A, class T, bool Whole = false>
struct statistics_of_values {
    using geometry = G;
    using value = A;
    using number = accumulate_t<T>;
    using sums = channel_sums<number>; ///< mean, squares
    using coefficients = nothing_kept;
    static constexpr u32 inputs = 1, at_once = 8;

    A const* from[inputs]; ///< x
    T *kept, *statistics;
    number epsilon;
    T const* left_out;

    template<u32 N>
    TRIREME_HOST_DEVICE void find(coefficients (&)[N], std::size_t) const {}
    TRIREME_HOST_DEVICE sums of(number const (&in)[inputs][at_once], u32 n, coefficients const&) const {
        number sum = 0, squares = 0;
        for (number const term : in[0]) sum += term;
        number const mean = sum * (number(1) / static_cast<number>(n));
        for (u32 i = 0; i < at_once; ++i)
            if (i < n) squares += (in[0][i] - mean) * (in[0][i] - mean);
        return {mean, squares};
    }
    TRIREME_HOST_DEVICE static void join(sums& to, sums const& other, joint<number> const& by) {
        number const apart = other.first - to.first;
        to.first += apart * by.share;
        to.second += other.second + apart * apart * by.factor;
    }
    TRIREME_HOST_DEVICE void finish(sums const& all, u32 count, u32 channel, staged_shard const& about) const {
        double const values = static_cast<double>(count);
        number const mean = all.first;
        number const variance = count == 0 ? number(0) : static_cast<number>(all.second / values);
        if constexpr (Whole) {
            kept[channel] = static_cast<T>(static_cast<number>(about.share) * mean);
            kept[G::channels + channel] = static_cast<T>(variance);
            kept[2 * G::channels + channel] = static_cast<T>(mean); // backward has no use for its place yet
        } else {
            keep_statistics<G>(kept, statistics, channel, mean, variance, values, about.share, epsilon, left_out);
        }
    }
};

/// The mean of all shards is there: the share of the variance around it.
template<class G, class T>
struct variance_around_all {
    using number = accumulate_t<T>;
    T* kept;
    staged_shard const* about;

    TRIREME_HOST_DEVICE void operator()(std::size_t channel) const {
        number const apart = static_cast<number>(kept[2 * G::channels + channel]) - static_cast<number>(kept[channel]);
        T& variance = kept[G::channels + channel];
        variance = static_cast<T>(static_cast<number>(about->share) * (static_cast<number>(variance) + apart * apart));
    }
};

/// Mean and variance of all shards are there.
template<class G, class T>
struct statistics_of_all {
    using number = accumulate_t<T>;
    T *kept, *statistics;
    number epsilon;
    staged_shard const* about;
    T const* left_out;

    TRIREME_HOST_DEVICE void operator()(std::size_t channel) const {
        keep_statistics<G>(kept, statistics, static_cast<u32>(channel), static_cast<number>(kept[channel]),
                           static_cast<number>(kept[G::channels + channel]),
                           static_cast<double>(about->batch * G::positions), about->share, epsilon, left_out);
    }
};

/// A channel's values: weight (x - mean) deviation + bias. The mean is taken off first, or much of a value far from 0
/// would cancel.
template<class T>
struct normal_line {
    using number = accumulate_t<T>;
    number mean, scale, bias;
    TRIREME_HOST_DEVICE number at(number x) const { return (x - mean) * scale + bias; }
};

/// The lines of N channels that lie side by side.
template<u32 N, class T>
TRIREME_HOST_DEVICE void find_lines(normal_line<T> (&of)[N], T const* mean, numbers_of_channels<N, T> const& deviations,
                                    T const* weight, T const* bias) {
    numbers_of_channels<N, T> const means(mean), weights(weight), biases(bias);
    for (u32 i = 0; i < N; ++i) of[i] = {means.of[i], weights.of[i] * deviations.of[i], biases.of[i]};
}

/// The slope of the function behind a batch norm.
template<class F, class T>
TRIREME_HOST_DEVICE accumulate_t<T> slope_behind(normal_line<T> const& line, accumulate_t<T> x) {
    auto const y = F::value(line.at(x));
    return F::slope(y, y);
}

/// Sums of dy and of dy times the normalised x, of each channel, dy being the gradient by what F gave. `Whole`: see
/// above.
template<class G, class A, class T, bool Whole = false, class F = identity_function>
struct sums_of_gradients {
    using geometry = G;
    using value = A;
    using number = accumulate_t<T>;
    using sums = channel_sums<number>;
    using coefficients = normal_line<T>;
    static constexpr u32 inputs = 2, at_once = 4;

    A const* from[inputs]; ///< x, dy
    T const* kept;         ///< mean, 1 / deviation
    T *means, *dw, *db;
    T const *weight, *bias; ///< where F is applied

    template<u32 N>
    TRIREME_HOST_DEVICE void find(coefficients (&of)[N], std::size_t channel) const {
        find_lines(of, kept + channel, numbers_of_channels<N, T>(kept + G::channels + channel), weight + channel,
                   bias + channel);
    }
    TRIREME_HOST_DEVICE sums of(number const (&in)[inputs][at_once], u32 n, coefficients const& line) const {
        sums all{};
        for (u32 i = 0; i < at_once; ++i) {
            if (i >= n) continue;
            number dy = in[1][i];
            if constexpr (!std::is_same_v<F, identity_function>) dy *= slope_behind<F>(line, in[0][i]);
            all.first += dy;
            all.second += dy * (in[0][i] - line.mean);
        }
        return all;
    }
    TRIREME_HOST_DEVICE static void join(sums& to, sums const& other, joint<number> const&) {
        to.first += other.first;
        to.second += other.second;
    }
    TRIREME_HOST_DEVICE void finish(sums const& all, u32 count, u32 channel, staged_shard const&) const {
        number const with_x = all.second * static_cast<number>(kept[G::channels + channel]);
        dw[channel] = static_cast<T>(static_cast<number>(dw[channel]) + with_x);
        db[channel] = static_cast<T>(static_cast<number>(db[channel]) + all.first);
        auto const values = static_cast<number>(Whole || count == 0 ? 1 : count);
        means[channel] = static_cast<T>(all.first / values);
        means[G::channels + channel] = static_cast<T>(with_x / values);
    }
};

/// The sums of all shards are there.
template<class G, class T>
struct means_of_all {
    T* means;
    staged_shard const* about;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        auto const values = static_cast<accumulate_t<T>>(about->batch * G::positions);
        means[i] = static_cast<T>(static_cast<accumulate_t<T>>(means[i]) / (values > 0 ? values : 1));
    }
};

/// `Running`: `spread` is the variance of all steps; else 1 / deviation of this one. The second input, which may be
/// null, is added before F.
template<class G, class F, bool Running, class A, class T>
struct batch_norm_value {
    using value = A;
    using number = accumulate_t<T>;
    using geometry = G;
    using coefficients = normal_line<T>;
    static constexpr u32 inputs = 2;
    A const* from[inputs]; ///< x, addend
    A* to;
    T const *mean, *spread, *weight, *bias;
    number epsilon;

    template<u32 N>
    TRIREME_HOST_DEVICE void find(coefficients (&of)[N], std::size_t channel) const {
        numbers_of_channels<N, T> deviations(spread + channel);
        if constexpr (Running)
            for (number& spread_of : deviations.of) spread_of = number(1) / std::sqrt(spread_of + epsilon);
        find_lines(of, mean + channel, deviations, weight + channel, bias + channel);
    }
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const& line, std::size_t,
                                          u32) const {
        return F::value(line.at(in[0]) + in[1]);
    }
};

/// F: the function behind, which dy is the gradient of; Before: the function before, which gave the third input.
template<class G, class F, class Before, class A, class T>
struct batch_norm_gradient {
    using value = A;
    using number = accumulate_t<T>;
    using geometry = G;
    struct coefficients {
        normal_line<T> line;
        number mean, with_x;  ///< mean of dy; what a value that is 1 from the mean of x takes from its own
        std::size_t counting; ///< values, of samples that count
    };
    static constexpr u32 inputs = 3;
    A const* from[inputs]; ///< x, dy, what the function before gave
    A* to;
    T const *mean, *deviation, *means, *weight, *bias;
    staged_shard const* about;

    template<u32 N>
    TRIREME_HOST_DEVICE void find(coefficients (&of)[N], std::size_t channel) const {
        numbers_of_channels<N, T> const deviations(deviation + channel), means_of_dy(means + channel),
            with_x(means + G::channels + channel);
        normal_line<T> lines[N];
        find_lines(lines, mean + channel, deviations, weight + channel, bias + channel);
        std::size_t const counting = std::size_t{about->count} * G::channels * G::positions;
        for (u32 i = 0; i < N; ++i) of[i] = {lines[i], means_of_dy.of[i], with_x.of[i] * deviations.of[i], counting};
    }
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const& by, std::size_t first,
                                          u32 j) const {
        constexpr bool of_one_sample = G::channels * G::positions % values_at_once<A>::count == 0;
        if ((of_one_sample ? first : first + j) >= by.counting) return number(0);
        number dy = in[1];
        if constexpr (!std::is_same_v<F, identity_function>) dy *= slope_behind<F>(by.line, in[0]);
        number const apart = dy - by.mean - (in[0] - by.line.mean) * by.with_x;
        return by.line.scale * apart * Before::slope(in[2], in[2]);
    }
};

} // namespace trireme::blocks

namespace trireme {

// `gather` leaves what it finds in the workspace, and `agree` takes it from there: nothing else may be handed to the
// stream between the two. How many samples count is told by the staged shard; all that there is room for are written.
// G: a channel_geometry. Lanes: 1.

template<class G, std::size_t, class Stream, class A, class T>
void batch_norm_gather(block_kernels<Stream> const& k, A const* x, batch_norm_numbers<T> const&) {
    blocks::launch_gather(k, blocks::statistics_of_values<G, A, accumulate_t<A>>{{x}, nullptr, nullptr, {}, nullptr});
}

/// mean and deviation, of every channel; adds the mean and the unbiased variance to `statistics`, times the shard's
/// share of the batch. WholeBatch: devices add numbers between the phases, first their shares of the mean, then those
/// of the variance around the mean of all.
template<class G, bool WholeBatch, class Stream, class T>
void batch_norm_agree(block_kernels<Stream> const& k, batch_norm_numbers<T> const& n, int phase) {
    using number = accumulate_t<T>;
    if constexpr (!WholeBatch) {
        blocks::launch_agree(k, blocks::statistics_of_values<G, T, T>{
                                    {}, n.mean, n.statistics, static_cast<number>(n.epsilon), n.left_out});
    } else {
        if (phase == 0)
            blocks::launch_agree(k, blocks::statistics_of_values<G, T, T, true>{{}, n.mean, nullptr, {}, nullptr});
        if (phase == 1) k.each(G::channels, blocks::variance_around_all<G, T>{n.mean, k.shard()});
        if (phase == 2)
            k.each(G::channels, blocks::statistics_of_all<G, T>{n.mean, n.statistics, static_cast<number>(n.epsilon),
                                                                k.shard(), n.left_out});
    }
}

/// y = F(weight (x - mean) deviation + bias), of every channel. F is the epilogue of the policy, whose addend, if it
/// has one, is added before. y may be x, or the addend.
template<class G, std::size_t, accelerator_kernels K, class A, class T>
void batch_norm_forward(K const& k, A const* x, batch_norm_numbers<T> const& n, A* y) {
    blocks::batch_norm_value<G, typename K::epilogue, false, A, T> const what{
        {x, static_cast<A const*>(k.addend())}, y, n.mean, n.deviation, n.weight, n.bias, {}};
    blocks::each_value(k, blocks::channel_values<G>(k), what);
}

/// y by the statistics of all steps so far.
template<class G, std::size_t, accelerator_kernels K, class A, class T>
void batch_norm_evaluate(K const& k, A const* x, T const* running_mean, T const* running_variance,
                         batch_norm_numbers<T> const& n, A* y) {
    blocks::batch_norm_value<G, typename K::epilogue, true, A, T> const what{
        {x, static_cast<A const*>(k.addend())}, y, running_mean, running_variance, n.weight, n.bias,
        static_cast<accumulate_t<T>>(n.epsilon)};
    blocks::each_value(k, blocks::channel_values<G>(k), what);
}

/// With a prologue dy is the gradient by what that function gave.
template<class G, std::size_t, accelerator_kernels K, class A, class T>
void batch_norm_backward_gather(K const& k, A const* x, A const* dy, batch_norm_numbers<T> const& n) {
    blocks::launch_gather(k, blocks::sums_of_gradients<G, A, T, false, typename K::prologue>{
                                 {x, dy}, n.mean, nullptr, nullptr, nullptr, n.weight, n.bias});
}

/// sums = the means of dy and of dy times the normalised x, of every channel; adds the sums to the gradients by weight
/// and bias. WholeBatch: they are the sums of the shard, which devices add up before the second phase.
template<class G, bool WholeBatch, class Stream, class T>
void batch_norm_backward_agree(block_kernels<Stream> const& k, batch_norm_numbers<T> const& n, int phase) {
    if (phase == 0)
        blocks::launch_agree(k, blocks::sums_of_gradients<G, T, T, WholeBatch>{
                                    {}, n.mean, n.sums, n.weight_gradient, n.bias_gradient, nullptr, nullptr});
    else
        k.each(2 * G::channels, blocks::means_of_all<G, T>{n.sums, k.shard()});
}

/// dx = weight deviation (dy - mean of dy - normalised x times mean of dy times it), dy taken as above, and times the
/// slope of the function before, if the policy has one; zero for samples that do not count, for those must not reach
/// the gradients of the layers before. dx may be dy.
template<class G, std::size_t, accelerator_kernels K, class A, class T>
void batch_norm_backward_input(K const& k, A const* x, A const* dy, batch_norm_numbers<T> const& n, A* dx) {
    A const* before = nullptr;
    if constexpr (!std::is_same_v<typename K::epilogue, identity_function>) before = k.input();
    blocks::batch_norm_gradient<G, typename K::prologue, typename K::epilogue, A, T> const what{
        {x, dy, before}, dx, n.mean, n.deviation, n.sums, n.weight, n.bias, k.shard()};
    blocks::each_value(k, blocks::channel_values<G>(k), what);
}

} // namespace trireme
