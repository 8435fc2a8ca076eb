// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/blocks/support.hpp>
#include <trireme/device/geometry.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>

// Statistics of channels over all samples of a shard, in two launches. `gather`: the samples are cut into parts; a
// block takes one part of one channel, or of a few whose values lie side by side, and leaves two numbers per channel in
// the workspace. `agree`: 32 threads per channel put the parts together. Both in an order that the sizes alone decide.
// x, dy: samples x C x positions. Only the first `count` samples of the staged shard count.
namespace trireme::blocks {

constexpr int halvings_of(u32 n) noexcept {
    int k = 0;
    for (; n > 1; n = divide_up(n, 2)) ++k;
    return k;
}
/// What is left of `n` members after `k` halvings.
template<u32 N>
TRIREME_HOST_DEVICE constexpr u32 halved(int k) noexcept {
    return (N + (1u << k) - 1) >> k;
}

/// How the threads of a block divide channels. A warp reads values that lie side by side: so where a channel has few
/// positions, several channels share a block.
template<class G>
struct channel_split {
    static constexpr u32 channels = G::channels, positions = G::positions, threads = 256;
    static constexpr bool alone = positions >= 32;
    static constexpr u32 columns = alone ? 1 : least(channels, 32 / positions); ///< channels of a block
    static constexpr u32 width = alone ? threads : columns * positions;
    static constexpr u32 groups = threads / width;
    static constexpr u32 members = alone ? threads : groups * positions; ///< threads of a channel
    static constexpr u32 blocks = divide_up(channels, columns);          ///< of one part

    u32 channel, column, member;
    bool idle;

    TRIREME_HOST_DEVICE explicit channel_split(block_place at) {
        u32 const in = at.thread % width, group = at.thread / width;
        column = alone ? 0 : in / positions;
        member = alone ? at.thread : group * positions + in % positions;
        channel = at.block % blocks * columns + column;
        idle = group >= groups || channel >= channels;
    }
};

/// The samples of part `k`, as far as they count.
TRIREME_HOST_DEVICE inline u32 samples_in_part(u32 k, u32 samples_of_part, u32 count) {
    std::size_t const begin = std::size_t{k} * samples_of_part;
    if (begin >= count) return 0;
    u32 const left = count - static_cast<u32>(begin);
    return left < samples_of_part ? left : samples_of_part;
}

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

/// One part of some channels: two numbers each, at [part][channel] of the workspace.
template<class What>
struct gather_channels {
    using split = channel_split<typename What::geometry>;
    using part = typename What::part;
    static constexpr u32 threads = split::threads;
    static constexpr int phase_count = 1 + halvings_of(split::members);
    struct shared {
        part of[split::columns * split::members];
    };
    using own = nothing_kept;

    What what;
    typename What::number* partials;
    staged_shard const* about;
    u32 samples_of_part;

    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        split const here(at);
        if (here.idle) return;
        u32 const part_number = at.block / split::blocks;
        part& mine = s.of[here.column * split::members + here.member];
        if (k == 0) {
            mine = walk(here, part_number);
            return;
        }
        u32 const before = halved<split::members>(k - 1), left = halved<split::members>(k);
        if (here.member + left < before) What::join(mine, (&mine)[left]);
        if (left == 1 && here.member == 0) {
            auto* const to = partials + 2 * (std::size_t{part_number} * split::channels + here.channel);
            to[0] = mine.first;
            to[1] = mine.second;
        }
    }

private:
    TRIREME_HOST_DEVICE part walk(split const& here, u32 part_number) const {
        constexpr u32 positions = split::positions, step = split::members;
        constexpr std::size_t sample_size = std::size_t{split::channels} * positions;
        u32 const values = samples_in_part(part_number, samples_of_part, about->count) * positions;
        std::size_t const base =
            std::size_t{part_number} * samples_of_part * sample_size + std::size_t{here.channel} * positions;
        part sum{};
        for (u32 first = here.member; first < values; first += 8 * step) {
            std::size_t places[8];
            u32 n = 0;
            for (u32 j = 0; j < 8; ++j) {
                u32 const i = first + j * step, sample = i / positions;
                places[j] = base + sample * sample_size + (i - sample * positions);
                n += i < values ? 1 : 0;
            }
            what.add(sum, places, n, here.channel);
        }
        return sum;
    }
};

/// Puts the parts of each channel together, and does with them what is to be done.
template<class What>
struct agree_channels {
    using part = typename What::part;
    using geometry = typename What::geometry;
    static constexpr u32 members = 32, channels_of_block = 8, threads = members * channels_of_block;
    static constexpr int phase_count = 1 + halvings_of(members);
    struct shared {
        part of[threads];
    };
    using own = nothing_kept;

    What what;
    typename What::number const* partials;
    staged_shard const* about;
    u32 samples_of_part, parts;

    u32 blocks() const noexcept { return divide_up(geometry::channels, channels_of_block); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        constexpr u32 channels = geometry::channels, positions = geometry::positions;
        u32 const member = at.thread % members, channel = at.block * channels_of_block + at.thread / members;
        if (channel >= channels) return;
        part& mine = s.of[at.thread];
        if (k == 0) {
            part sum{};
            for (u32 p = member; p < parts; p += members) {
                auto const* const from = partials + 2 * (std::size_t{p} * channels + channel);
                u32 const count = samples_in_part(p, samples_of_part, about->count) * positions;
                What::join(sum, {from[0], from[1], count});
            }
            mine = sum;
            return;
        }
        u32 const left = members >> k;
        if (member < left) What::join(mine, (&mine)[left]);
        if (left == 1 && member == 0) what.finish(mine, channel, *about);
    }
};

/// How the samples are cut: enough blocks to keep a device busy, none with less than eight values per thread, and no
/// more parts than the workspace has room for.
struct channel_parts {
    u32 parts = 0, samples_of_part = 1;
};
template<class What, class Stream>
channel_parts parts_of(block_kernels<Stream> const& k) {
    using split = channel_split<typename What::geometry>;
    constexpr std::size_t bytes = 2 * sizeof(typename What::number) * split::channels, most_parts = 64;
    constexpr u32 enough_blocks = 1024;
    if (k.samples() == 0) return {};
    if (k.scratch().bytes < bytes)
        throw usage_error("batch_norm of " + std::to_string(split::channels) + " channels needs " +
                          std::to_string(bytes) + " bytes of workspace to add up its statistics, and has " +
                          std::to_string(k.scratch().bytes) + "; give the kernels more workspace");
    std::size_t parts = most(enough_blocks / split::blocks, 1);
    std::size_t const busy = (k.samples() * split::positions + 8 * split::members - 1) / (8 * split::members);
    for (std::size_t const limit : {most_parts, busy, k.samples(), k.scratch().bytes / bytes})
        if (limit < parts) parts = limit;
    auto const samples = static_cast<u32>(k.samples()), each = divide_up(samples, static_cast<u32>(parts));
    return {divide_up(samples, each), each};
}
template<class What, class Stream>
void launch_gather(block_kernels<Stream> const& k, What const& what) {
    auto const cut = parts_of<What>(k);
    auto* const partials = static_cast<typename What::number*>(k.scratch().data);
    using split = channel_split<typename What::geometry>;
    if (cut.parts != 0)
        k.queue().launch(gather_channels<What>{what, partials, k.shard(), cut.samples_of_part},
                         cut.parts * split::blocks);
}
template<class What, class Stream>
void launch_agree(block_kernels<Stream> const& k, What const& what) {
    auto const cut = parts_of<What>(k);
    auto const* const partials = static_cast<typename What::number const*>(k.scratch().data);
    agree_channels<What> const program{what, partials, k.shard(), cut.samples_of_part, cut.parts};
    k.queue().launch(program, program.blocks());
}

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
        std::size_t const channel = i / G::positions % G::channels;
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
        std::size_t const plane = i / G::positions, sample = plane / G::channels, channel = plane % G::channels;
        number gradient = 0;
        if (sample < about->count) {
            auto const each = static_cast<number>(deviation[channel]);
            number const with_x =
                normalised(x[i], mean[channel], each) * static_cast<number>(means[G::channels + channel]);
            number const apart = static_cast<number>(dy[i]) - static_cast<number>(means[channel]) - with_x;
            gradient = end(static_cast<number>(weight[channel]) * each * apart, 0, i);
        }
        dx[i] = static_cast<A>(gradient);
    }
};

template<class G, class Stream>
std::size_t channel_values(block_kernels<Stream> const& k) {
    return k.samples() * G::channels * G::positions;
}

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
