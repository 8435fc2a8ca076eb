// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme {

/// An order that leaves value i of samples, or of weights, at its place.
struct order_as_it_is {
    TRIREME_HOST_DEVICE std::size_t place(std::size_t i) const { return i; }
};
/// The first `values` of them are images, or kernels of a convolution, channel by channel, whose channels go last.
struct order_channels_last {
    std::uint32_t channels = 1, positions = 1;
    std::size_t values = 0;

    TRIREME_HOST_DEVICE std::size_t place(std::size_t i) const {
        if (i >= values) return i;
        std::size_t const plane = i / positions, image = plane / channels;
        std::size_t const position = i - plane * positions, channel = plane - image * channels;
        return (image * positions + position) * channels + channel;
    }
};

/// to = from, rounded, n values; `to` in the order given.
template<class T, class A, class Order>
struct rounded_array {
    using value = T;
    T const* from;
    A* to;
    std::size_t n;
    Order order;
    TRIREME_HOST_DEVICE T load(std::size_t i) const { return from[i]; }
    TRIREME_HOST_DEVICE void store(std::size_t i, T x) const {
        to[order.place(i)] = static_cast<A>(static_cast<accumulate_t<A>>(x));
    }
};

/// The losses of many samples, added, and how many of them were told right.
struct sample_score {
    double loss;
    std::uint64_t correct;

    TRIREME_HOST_DEVICE void operator+=(sample_score const& other) {
        loss += other.loss;
        correct += other.correct;
    }
};

} // namespace trireme

namespace trireme::blocks {

/// Staged samples are bytes, to be multiplied by a scale, or numbers of type T; this reads the i-th.
template<class T>
TRIREME_HOST_DEVICE T staged_number(staged_shard const& about, std::byte const* numbers, std::size_t i) {
    if (about.bytes)
        return static_cast<T>(reinterpret_cast<std::uint8_t const*>(numbers)[i]) * static_cast<T>(about.scale);
    return reinterpret_cast<T const*>(numbers)[i];
}

template<class T, class A, class Order>
struct input_value {
    std::byte const* numbers;
    staged_shard const* about;
    A* x;
    Order order;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        x[order.place(i)] = static_cast<A>(staged_number<T>(*about, numbers, i));
    }
};

template<class T, class A>
struct input_token {
    std::byte const* numbers;
    staged_shard const* about;
    A* x;
    u32 tokens;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        bool const counts = i / tokens < about->count;
        x[i] = token_as<A>(counts ? static_cast<u32>(staged_number<T>(*about, numbers, i)) : 0);
    }
};

template<class T, class A, class Order>
struct value_sum {
    T* sum;
    A const* term;
    Order order;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        auto const value = static_cast<accumulate_t<A>>(term[order.place(i)]);
        sum[i] = static_cast<T>(static_cast<accumulate_t<T>>(sum[i]) + value);
    }
};

/// Rounds up to `Most` arrays: a block takes a stretch of one.
template<class Array, u32 Most>
struct rounded_arrays {
    static constexpr u32 threads = 256, stretch = 8 * threads;
    static constexpr int phase_count = 1;
    using shared = nothing_kept;
    using own = nothing_kept;

    Array of[Most];
    u32 count;

    TRIREME_HOST_DEVICE u32 stretches(u32 array) const {
        return static_cast<u32>((of[array].n + stretch - 1) / stretch);
    }
    u32 blocks() const noexcept {
        u32 all = 0;
        for (u32 i = 0; i < count; ++i) all += stretches(i);
        return all;
    }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        u32 array = 0, block = at.block;
        for (; block >= stretches(array); ++array) block -= stretches(array);
        std::size_t const begin = std::size_t{block} * stretch, n = of[array].n;
        copy_in_batches(of[array], begin + at.thread, threads, n - begin < stretch ? n : begin + stretch);
    }
};

template<class T>
struct running_mean {
    T* running;
    T const* now;
    T momentum;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const { running[i] += momentum * (now[i] - running[i]); }
};

struct one_more {
    std::uint64_t* count;
    TRIREME_HOST_DEVICE void operator()(std::size_t) const { ++*count; }
};

/// One block: every thread adds every 256th sample, and then half of the threads the sums of the other half.
template<class T>
struct score_sum {
    using halved = halved_sum<sample_score>;
    static constexpr u32 threads = halved::threads;
    using shared = halved::shared;
    using own = nothing_kept;

    T const* loss;
    int const* correct;
    u32 const* count;
    sample_score* sum;

    TRIREME_HOST_DEVICE int phases() const { return 1 + halved::halvings; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        if (k == 0) {
            sample_score part{0, 0};
            for (u32 i = at.thread, n = *count; i < n; i += threads) {
                part.loss += static_cast<double>(static_cast<accumulate_t<T>>(loss[i]));
                if (correct != nullptr) part.correct += static_cast<std::uint64_t>(correct[i]);
            }
            s.part[at.thread] = part;
            return;
        }
        if (halved::add(k, at, s)) *sum += s.part[0];
    }
};

} // namespace trireme::blocks

namespace trireme {

/// x = the samples' numbers, n of each, which are bytes or values of type T, as `about` says; x in the order given.
template<class T, class Stream, class A, class Order = order_as_it_is>
void convert_inputs(block_kernels<Stream> const& k, staged_shard const* about, std::byte const* numbers, A* x,
                    std::size_t n, Order order = {}) {
    k.each(n * k.samples(), blocks::input_value<T, A, Order>{numbers, about, x, order});
}

/// x = the samples' tokens, n of each, as token_as has them; those of samples that do not count are 0, for what is left
/// of others would be no place in a table.
template<class T, class Stream, class A>
void convert_tokens(block_kernels<Stream> const& k, staged_shard const* about, std::byte const* numbers, A* x,
                    std::size_t n) {
    k.each(n * k.samples(), blocks::input_token<T, A>{numbers, about, x, static_cast<blocks::u32>(n)});
}

/// Adds the scores of the first *count samples to *sum, in double and in an order that *count alone decides. `correct`
/// may be null.
template<class Stream, class T>
void add_scores(block_kernels<Stream> const& k, T const* loss, int const* correct, std::uint32_t const* count,
                sample_score* sum) {
    k.queue().launch(blocks::score_sum<T>{loss, correct, count, sum}, 1);
}

/// sum += term, n values, whatever the number of samples; `term` in the order given.
template<class Stream, class T, class A, class Order = order_as_it_is>
void add_into(block_kernels<Stream> const& k, T* sum, A const* term, std::size_t n, Order order = {}) {
    k.each(n, blocks::value_sum<T, A, Order>{sum, term, order});
}

/// to = from, rounded, of `count` arrays, whatever the number of samples. One launch takes 32 of them.
template<class Stream, class T, class A, class Order>
void round_values(block_kernels<Stream> const& k, rounded_array<T, A, Order> const* arrays, std::size_t count) {
    constexpr blocks::u32 most = 32;
    blocks::rounded_arrays<rounded_array<T, A, Order>, most> program{};
    for (std::size_t i = 0; i < count; ++i) {
        program.of[program.count++] = arrays[i];
        if (program.count < most && i + 1 < count) continue;
        if (program.blocks() != 0) k.queue().launch(program, program.blocks());
        program.count = 0;
    }
}
template<class Stream, class T, class A, class Order = order_as_it_is>
void round_values(block_kernels<Stream> const& k, T const* from, A* to, std::size_t n, Order order = {}) {
    rounded_array<T, A, Order> const one{from, to, n, order};
    round_values(k, &one, 1);
}

/// running += momentum * (now - running), n values, whatever the number of samples: statistics after a step.
template<class Stream, class T>
void update_running(block_kernels<Stream> const& k, T* running, T const* now, T momentum, std::size_t n) {
    k.each(n, blocks::running_mean<T>{running, now, momentum});
}

} // namespace trireme
