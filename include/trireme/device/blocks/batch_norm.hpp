// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/blocks/channels.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/blocks/support.hpp>
#include <trireme/device/geometry.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>

// Statistics of channels over all samples of a shard: see channels.hpp.
namespace trireme::blocks {

/// Mean and sum of squared differences from it, of each channel. Every thread takes the mean of eight values at a time
/// and joins groups as in Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
/// variances", 1979: values are read once, and nothing cancels.
template<class G, class A, class T>
struct statistics_of_values {
    using geometry = G;
    using number = accumulate_t<T>;
    struct part {
        number first, second; ///< mean, squares
        u32 count;
    };

    A const* x;
    T *kept, *statistics;
    number epsilon;

    TRIREME_HOST_DEVICE void add(part& to, std::size_t const (&places)[8], u32 n, u32) const {
        number value[8], sum = 0, squares = 0;
        for (u32 i = 0; i < 8; ++i)
            if (i < n) value[i] = static_cast<number>(x[places[i]]);
        for (u32 i = 0; i < 8; ++i)
            if (i < n) sum += value[i];
        number const mean = sum / static_cast<number>(n);
        for (u32 i = 0; i < 8; ++i)
            if (i < n) squares += (value[i] - mean) * (value[i] - mean);
        join(to, {mean, squares, n});
    }
    TRIREME_HOST_DEVICE static void join(part& to, part const& other) {
        if (other.count == 0) return;
        u32 const all = to.count + other.count;
        number const apart = other.first - to.first;
        number const share = static_cast<number>(other.count) / static_cast<number>(all);
        to.first += apart * share;
        to.second += other.second + apart * apart * static_cast<number>(to.count) * share;
        to.count = all;
    }
    TRIREME_HOST_DEVICE void finish(part const& all, u32 channel, staged_shard const& about) const {
        double const values = static_cast<double>(all.count);
        number const mean = all.first;
        number const variance = all.count == 0 ? number(0) : static_cast<number>(all.second / values);
        auto const share = static_cast<number>(about.share);
        auto const unbiased = static_cast<number>(values > 1 ? values / (values - 1) : 1.0);
        T &to_mean = statistics[channel], &to_variance = statistics[G::channels + channel];
        to_mean = static_cast<T>(static_cast<number>(to_mean) + share * mean);
        to_variance = static_cast<T>(static_cast<number>(to_variance) + share * variance * unbiased);
        kept[channel] = static_cast<T>(mean);
        kept[G::channels + channel] = static_cast<T>(number(1) / std::sqrt(variance + epsilon));
    }
};

/// Sums of dy and of dy times the normalised x, of each channel.
template<class G, class A, class T>
struct sums_of_gradients {
    using geometry = G;
    using number = accumulate_t<T>;
    struct part {
        number first, second;
        u32 count;
    };

    A const *x, *dy;
    T const* kept; ///< mean, 1 / deviation
    T *means, *dw, *db;

    TRIREME_HOST_DEVICE void add(part& to, std::size_t const (&places)[8], u32 n, u32 channel) const {
        number value[8], gradient[8];
        auto const mean = static_cast<number>(kept[channel]);
        for (u32 i = 0; i < 8; ++i)
            if (i < n) {
                value[i] = static_cast<number>(x[places[i]]);
                gradient[i] = static_cast<number>(dy[places[i]]);
            }
        for (u32 i = 0; i < 8; ++i)
            if (i < n) {
                to.first += gradient[i];
                to.second += gradient[i] * (value[i] - mean);
            }
    }
    TRIREME_HOST_DEVICE static void join(part& to, part const& other) {
        to.first += other.first;
        to.second += other.second;
        to.count += other.count;
    }
    TRIREME_HOST_DEVICE void finish(part const& all, u32 channel, staged_shard const&) const {
        number const with_x = all.second * static_cast<number>(kept[G::channels + channel]);
        dw[channel] = static_cast<T>(static_cast<number>(dw[channel]) + with_x);
        db[channel] = static_cast<T>(static_cast<number>(db[channel]) + all.first);
        auto const values = static_cast<number>(all.count == 0 ? 1 : all.count);
        means[channel] = static_cast<T>(all.first / values);
        means[G::channels + channel] = static_cast<T>(with_x / values);
    }
};

/// Value i of a channel's, normalised.
template<class A, class T>
TRIREME_HOST_DEVICE accumulate_t<T> normalised(A x, T mean, accumulate_t<T> deviation) {
    return (static_cast<accumulate_t<T>>(x) - static_cast<accumulate_t<T>>(mean)) * deviation;
}

/// `Running`: `spread` is the variance of all steps; else 1 / deviation of this one.
template<class G, class F, bool Running, class A, class T>
struct batch_norm_value {
    using number = accumulate_t<T>;
    A const* x;
    T const *mean, *spread, *weight, *bias;
    A* y;
    number epsilon;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        std::size_t const channel = channel_of_value<G>(i).channel;
        number deviation = static_cast<number>(spread[channel]);
        if constexpr (Running) deviation = number(1) / std::sqrt(deviation + epsilon);
        number const apart = normalised(x[i], mean[channel], deviation);
        y[i] =
            static_cast<A>(F::value(static_cast<number>(weight[channel]) * apart + static_cast<number>(bias[channel])));
    }
};

template<class G, class F, class A, class T>
struct batch_norm_gradient {
    using number = accumulate_t<T>;
    A const *x, *dy;
    T const *mean, *deviation, *means, *weight;
    A* dx;
    staged_shard const* about;
    backward_end<F, A> end;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        channel_of_value<G> const at(i);
        std::size_t const channel = at.channel;
        number gradient = 0;
        if (at.sample < channel_split<G>::samples(*about)) {
            auto const each = static_cast<number>(deviation[channel]);
            number const with_x =
                normalised(x[i], mean[channel], each) * static_cast<number>(means[G::channels + channel]);
            number const apart = static_cast<number>(dy[i]) - static_cast<number>(means[channel]) - with_x;
            gradient = end(static_cast<number>(weight[channel]) * each * apart, 0, i);
        }
        dx[i] = static_cast<A>(gradient);
    }
};

} // namespace trireme::blocks

namespace trireme {

// `gather` leaves what it finds in the workspace, and `agree` takes it from there: nothing else may be handed to the
// stream between the two. How many samples count is told by the staged shard; all that there is room for are written.

template<class G, class Stream, class A>
void batch_norm_gather(block_kernels<Stream> const& k, A const* x) {
    blocks::launch_gather(k, blocks::statistics_of_values<G, A, accumulate_t<A>>{x, nullptr, nullptr, {}});
}

/// kept = mean and 1 / sqrt(variance + epsilon), of every channel; adds the mean and the unbiased variance to
/// `statistics`, times the shard's share of the batch.
template<class G, class Stream, class T>
void batch_norm_agree(block_kernels<Stream> const& k, T* kept, T* statistics, double epsilon) {
    using what = blocks::statistics_of_values<G, T, T>;
    blocks::launch_agree(k, what{nullptr, kept, statistics, static_cast<typename what::number>(epsilon)});
}

/// y = weight (x - mean) deviation + bias, of every channel; deviation is 1 / sqrt(variance + epsilon). y may be x.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void batch_norm_forward(block_kernels<Stream> const& k, A const* x, T const* mean, T const* deviation, T const* weight,
                        T const* bias, A* y) {
    k.each(blocks::channel_values<G>(k),
           blocks::batch_norm_value<G, identity_function, false, A, T>{x, mean, deviation, weight, bias, y, {}});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class A, class T>
void batch_norm_forward(with_function<K, F, A> const& k, A const* x, T const* mean, T const* deviation, T const* weight,
                        T const* bias, A* y) {
    k.each(blocks::channel_values<G>(k),
           blocks::batch_norm_value<G, F, false, A, T>{x, mean, deviation, weight, bias, y, {}});
}

/// The same with the variance of all steps so far.
template<class G, class Stream, class A, class T>
void batch_norm_evaluate(block_kernels<Stream> const& k, A const* x, T const* mean, T const* variance, double epsilon,
                         T const* weight, T const* bias, A* y) {
    k.each(blocks::channel_values<G>(k),
           blocks::batch_norm_value<G, identity_function, true, A, T>{x, mean, variance, weight, bias, y,
                                                                      static_cast<accumulate_t<T>>(epsilon)});
}
template<class G, accelerator_kernels K, class F, class A, class T>
void batch_norm_evaluate(with_function<K, F, A> const& k, A const* x, T const* mean, T const* variance, double epsilon,
                         T const* weight, T const* bias, A* y) {
    k.each(blocks::channel_values<G>(k),
           blocks::batch_norm_value<G, F, true, A, T>{x, mean, variance, weight, bias, y,
                                                      static_cast<accumulate_t<T>>(epsilon)});
}

/// kept: mean and 1 / sqrt(variance + epsilon) of every channel.
template<class G, class Stream, class A, class T>
void batch_norm_backward_gather(block_kernels<Stream> const& k, A const* x, A const* dy, T const* kept) {
    blocks::launch_gather(k, blocks::sums_of_gradients<G, A, T>{x, dy, kept, nullptr, nullptr, nullptr});
}

/// means = those of dy and of dy times the normalised x, of every channel; adds the sums to db and dw.
template<class G, class Stream, class T>
void batch_norm_backward_agree(block_kernels<Stream> const& k, T const* kept, T* means, T* dw, T* db) {
    blocks::launch_agree(k, blocks::sums_of_gradients<G, T, T>{nullptr, nullptr, kept, means, dw, db});
}

/// dx = weight deviation (dy - mean of dy - normalised x times mean of dy times it); zero for samples that do not
/// count, for those must not reach the gradients of the layers before. dx may be dy.
template<class G, class Stream, class A, class T>
void batch_norm_backward_input(block_kernels<Stream> const& k, A const* x, A const* dy, T const* mean,
                               T const* deviation, T const* means, T const* weight, A* dx) {
    k.each(blocks::channel_values<G>(k), blocks::batch_norm_gradient<G, identity_function, A, T>{
                                             x, dy, mean, deviation, means, weight, dx, k.shard(), {nullptr}});
}
template<class G, accelerator_kernels K, class F, class A, class T>
void batch_norm_backward_input(with_function<K, F, A> const& k, A const* x, A const* dy, T const* mean,
                               T const* deviation, T const* means, T const* weight, A* dx) {
    k.each(blocks::channel_values<G>(k),
           blocks::batch_norm_gradient<G, F, A, T>{x, dy, mean, deviation, means, weight, dx, k.shard(), {k.input()}});
}

} // namespace trireme
