// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>

// Two numbers of each channel, added up over all samples of a shard in two launches. `gather`: the samples are cut into
// parts; a block takes one part of one channel, or of a few whose values lie side by side, and leaves two numbers per
// channel in the workspace. `agree`: 32 threads per channel put the parts together. Both in an order that the sizes
// alone decide.
// Values: samples x C x positions, or channels last: then every position is taken for a sample of its own, with one
// value of each channel. Only the first `count` samples of the staged shard count.
//
// What is added up is a struct with
//
//     using geometry = ...;            // a channel_geometry
//     using number = ...;              // of the sums
//     struct part { number first, second; u32 count; };
//     void add(part&, std::size_t const (&places)[8], u32 n, u32 channel) const;    // n of these values
//     static void join(part&, part const&);
//     void finish(part const& all, u32 channel, staged_shard const&) const;
namespace trireme::blocks {

constexpr int halvings_of(u32 n) noexcept {
    int k = 0;
    for (; n > 1; n = divide_up(n, 2)) ++k;
    return k;
}
/// The number of members that are left of N after `k` halvings.
template<u32 N>
TRIREME_HOST_DEVICE constexpr u32 halved(int k) noexcept {
    return (N + (1u << k) - 1) >> k;
}

/// The division of channels among the threads of a block. A warp reads values that lie side by side: so where a channel
/// has few positions, several channels share a block.
template<class G>
struct channel_split {
    static constexpr u32 channels = G::channels, threads = 256;
    static constexpr u32 positions = G::channels_last ? 1 : G::positions;
    static constexpr u32 of_sample = G::channels_last ? G::positions : 1; ///< what is taken for samples here
    static constexpr bool alone = positions >= 32;
    static constexpr u32 columns = alone ? 1 : least(channels, 32 / positions); ///< channels of a block
    static constexpr u32 width = alone ? threads : columns * positions;
    static constexpr u32 groups = threads / width;
    static constexpr u32 members = alone ? threads : groups * positions; ///< threads of a channel
    static constexpr u32 blocks = divide_up(channels, columns);          ///< of one part

    u32 channel, column, member;
    bool idle;

    TRIREME_HOST_DEVICE static u32 samples(staged_shard const& about) { return about.count * of_sample; }

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
        u32 const values = samples_in_part(part_number, samples_of_part, split::samples(*about)) * positions;
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
    using split = channel_split<typename What::geometry>;
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

    u32 blocks() const noexcept { return divide_up(split::channels, channels_of_block); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        constexpr u32 channels = split::channels, positions = split::positions;
        u32 const member = at.thread % members, channel = at.block * channels_of_block + at.thread / members;
        if (channel >= channels) return;
        part& mine = s.of[at.thread];
        if (k == 0) {
            part sum{};
            for (u32 p = member; p < parts; p += members) {
                auto const* const from = partials + 2 * (std::size_t{p} * channels + channel);
                u32 const count = samples_in_part(p, samples_of_part, split::samples(*about)) * positions;
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

/// The division of samples into parts: enough blocks to keep a device busy, none with less than eight values per
/// thread, and no more parts than the workspace has room for.
struct channel_parts {
    u32 parts = 0, samples_of_part = 1;
};
template<class What, class Stream>
channel_parts parts_of(block_kernels<Stream> const& k) {
    using split = channel_split<typename What::geometry>;
    constexpr std::size_t bytes = 2 * sizeof(typename What::number) * split::channels;
    constexpr std::size_t most_parts = split::columns == 1 ? 64 : 256;
    constexpr u32 enough_blocks = 1024;
    if (k.samples() == 0) return {};
    workspace_for<typename What::number>(k, 2 * split::channels, "adding up", split::channels, "channels");
    auto const samples = static_cast<u32>(k.samples()) * split::of_sample;
    std::size_t parts = most(enough_blocks / split::blocks, 1);
    std::size_t const values = std::size_t{samples} * split::positions;
    std::size_t const busy = (values + 8 * split::members - 1) / (8 * split::members);
    for (std::size_t const limit : {most_parts, busy, std::size_t{samples}, k.scratch().bytes / bytes})
        if (limit < parts) parts = limit;
    auto const each = divide_up(samples, static_cast<u32>(parts));
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

/// The channel of value i, and its sample, which channels last is a position.
template<class G>
struct channel_of_value {
    std::size_t sample, channel;
    TRIREME_HOST_DEVICE explicit channel_of_value(std::size_t i) {
        using split = channel_split<G>;
        std::size_t const plane = i / split::positions;
        sample = plane / split::channels;
        channel = plane - sample * split::channels;
    }
};

template<class G, class Stream>
std::size_t channel_values(block_kernels<Stream> const& k) {
    return k.samples() * G::channels * G::positions;
}

/// The sum of each channel's values.
template<class G, class T>
struct sum_of_channel {
    using geometry = G;
    using number = accumulate_t<T>;
    struct part {
        number first, second; ///< the sum, nothing
        u32 count;
    };

    T const* x;
    T* sums;
    bool are_new = false;

    TRIREME_HOST_DEVICE void add(part& to, std::size_t const (&places)[8], u32 n, u32) const {
        number value[8];
        for (u32 i = 0; i < 8; ++i)
            if (i < n) value[i] = static_cast<number>(x[places[i]]);
        for (u32 i = 0; i < 8; ++i)
            if (i < n) to.first += value[i];
    }
    TRIREME_HOST_DEVICE static void join(part& to, part const& other) { to.first += other.first; }
    TRIREME_HOST_DEVICE void finish(part const& all, u32 channel, staged_shard const&) const {
        give_gradient(sums[channel], all.first, are_new);
    }
};

/// sums += each channel's values, of the samples that count; the sums are gradients.
template<class G, class Stream, class T>
void add_channel_sums(block_kernels<Stream> const& k, T const* x, T* sums) {
    sum_of_channel<G, T> const what{x, sums, k.gradients_are_new()};
    launch_gather(k, what);
    launch_agree(k, what);
}

} // namespace trireme::blocks
