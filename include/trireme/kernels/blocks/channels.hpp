// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>

// Two numbers of each channel, added up over all samples of a shard in two launches. `gather`: the samples are cut into
// parts; a block takes one part of one channel, or of some whose values lie side by side, and leaves two numbers per
// channel in the workspace. `agree`: 32 threads per channel put the parts together. Both in an order that the sizes
// alone decide.
// Values: samples x C x positions, or channels last: then every position is taken for a sample of its own, with one
// value of each channel. Only the first `count` samples of the staged shard count.
//
// The sums are a struct with
//
//     using geometry = ...;              // a channel_geometry
//     using value = ...;                 // as values lie in memory
//     using number = ...;                // of the sums
//     static constexpr u32 inputs = ..., at_once = ...; // values that a thread loads of a channel before it adds them
//     value const* from[inputs];
//     using coefficients = ...;          // of a channel
//     template<u32 N> void find(coefficients (&of)[N], std::size_t channel) const; // of N channels, side by side
//     channel_sums<number> of(number const (&in)[inputs][at_once], u32 n, coefficients const&) const;
//                                        // of n values, n <= at_once; the others are 0
//     static void join(channel_sums<number>&, channel_sums<number> const& other, joint<number> const&);
//     void finish(channel_sums<number> const& all, u32 count, u32 channel, staged_shard const&) const;
namespace trireme::blocks {

/// Two numbers of a channel.
template<class Number>
struct channel_sums {
    Number first, second;
};

/// The weights of two groups of values that are joined.
template<class Number>
struct joint {
    Number share;  ///< of the second group
    Number factor; ///< n m / (n + m)

    TRIREME_HOST_DEVICE joint(u32 n, u32 m) {
        share = n == m ? Number(0.5) : static_cast<Number>(m) / static_cast<Number>(n + m); // divisions are slow
        factor = static_cast<Number>(n) * share;
    }
};

/// The sums of `count` values of a channel.
template<class What>
struct counted_sums {
    channel_sums<typename What::number> sums;
    u32 count;

    TRIREME_HOST_DEVICE void join(counted_sums const& other) {
        What::join(sums, other.sums, {count, other.count});
        count += other.count;
    }
};

/// Threads join their sums in rounds: of `members` threads an eighth goes on after each.
constexpr u32 sums_at_once = 8;
TRIREME_HOST_DEVICE constexpr u32 joiners(u32 members, int rounds) noexcept {
    for (; rounds > 0; --rounds) members = divide_up(members, sums_at_once);
    return members;
}
/// Rounds until one thread has all.
constexpr int rounds_of(u32 members) noexcept {
    int k = 0;
    while (joiners(members, k) > 1) ++k;
    return k;
}

template<class What>
TRIREME_HOST_DEVICE counted_sums<What> joined(counted_sums<What> (&some)[sums_at_once]) {
    for (u32 apart = 1; apart < sums_at_once; apart *= 2)
        for (u32 i = 0; i < sums_at_once; i += 2 * apart) some[i].join(some[i + apart]);
    return some[0];
}
/// One round of thread m: it joins the sums of every `left`-th of `before` threads to its own. The sums of two
/// neighbours are `step` apart.
template<class What>
TRIREME_HOST_DEVICE void join_members(counted_sums<What>* of, u32 m, u32 before, u32 left, u32 step) {
    counted_sums<What> some[sums_at_once];
    for (u32 j = 0; j < sums_at_once; ++j)
        some[j] = m + j * left < before ? of[(m + j * left) * step] : counted_sums<What>{};
    of[m * step] = joined(some);
}

/// The division of channels among the threads of a block. A warp reads values that lie side by side: so where a channel
/// has few positions, several channels share a block, and a thread takes eight channels last, which are 16 bytes of
/// bf16.
template<class G>
struct channel_split {
    static constexpr u32 channels = G::channels, threads = 256;
    static constexpr u32 positions = G::channels_last ? 1 : G::positions;
    static constexpr u32 of_sample = G::channels_last ? G::positions : 1; ///< what is taken for samples here
    static constexpr bool alone = positions >= 32;
    static constexpr u32 lanes = G::channels_last && channels % 8 == 0 ? 8 : 1; ///< channels of a thread
    static constexpr u32 columns = alone ? 1 : evened(channels / lanes, 32 / positions);
    static constexpr u32 of_block = columns * lanes; ///< channels
    static constexpr u32 width = alone ? threads : columns * positions;
    static constexpr u32 groups = threads / width;
    static constexpr u32 members = alone ? threads : groups * positions; ///< threads of a channel
    static constexpr u32 blocks = divide_up(channels, of_block);         ///< of one part

    u32 channel, column, member; ///< the first of the thread's channels
    bool idle;

    TRIREME_HOST_DEVICE static u32 samples(staged_shard const& about) { return about.count * of_sample; }

    TRIREME_HOST_DEVICE explicit channel_split(block_place at) {
        u32 const in = at.thread % width, group = at.thread / width;
        column = alone ? 0 : in / positions;
        member = alone ? at.thread : group * positions + in % positions;
        channel = at.block % blocks * of_block + column * lanes;
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
    using number = typename What::number;
    using counted = counted_sums<What>;
    using row = values_at_once<typename What::value, split::lanes>;
    static constexpr u32 threads = split::threads, lanes = split::lanes, at_once = What::at_once;
    static constexpr int rounds = rounds_of(split::members), phase_count = 1 + rounds;
    /// Of a lane: some more where there is room, for the banks of shared memory.
    static constexpr u32 slots = threads + (sizeof(number) <= sizeof(float) ? 8 : 0);
    struct shared {
        counted of[lanes][slots]; // [member][column]
    };
    using own = nothing_kept;

    What what;
    channel_sums<number>* partials;
    staged_shard const* about;
    u32 samples_of_part;
    bool aligned; ///< rows are, to what one instruction moves

    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const part_number = at.block / split::blocks;
        if (k == 0) {
            split const here(at);
            if (here.idle) return;
            if (aligned)
                walk<true>(here, part_number, s);
            else
                walk<false>(here, part_number, s);
            return;
        }
        u32 const before = joiners(split::members, k - 1), left = joiners(split::members, k);
        for (u32 i = at.thread; i < left * split::of_block; i += threads) {
            u32 const in_block = i % split::of_block, member = i / split::of_block;
            u32 const column = in_block % split::columns, lane = in_block / split::columns;
            u32 const channel = at.block % split::blocks * split::of_block + column * lanes + lane;
            if (channel >= split::channels) continue;
            counted* const of = s.of[lane] + column;
            join_members(of, member, before, left, split::columns);
            if (k == rounds) partials[std::size_t{part_number} * split::channels + channel] = of->sums;
        }
    }

private:
    template<bool Aligned>
    TRIREME_HOST_DEVICE void walk(split const& here, u32 part_number, shared& s) const {
        constexpr u32 positions = split::positions, step = split::members;
        u32 const values = samples_in_part(part_number, samples_of_part, split::samples(*about)) * positions;
        std::size_t const base = std::size_t{part_number} * samples_of_part * split::channels * positions +
                                 std::size_t{here.channel} * positions;
        channel_sums<number> sums[lanes]{};
        typename What::coefficients by[lanes];
        what.find(by, here.channel);
        u32 i = here.member, count = 0;
        for (; i + (at_once - 1) * step < values; i += at_once * step) turn<Aligned>(sums, count, by, base, i, at_once);
        if (i < values) turn<Aligned>(sums, count, by, base, i, divide_up(values - i, step));
        for (u32 lane = 0; lane < lanes; ++lane)
            s.of[lane][here.member * split::columns + here.column] = {sums[lane], count};
    }
    /// Adds n values of each of the thread's channels, which are all loaded before the first is used.
    template<bool Aligned>
    TRIREME_HOST_DEVICE void turn(channel_sums<number> (&sums)[lanes], u32& count,
                                  typename What::coefficients const (&by)[lanes], std::size_t base, u32 first,
                                  u32 n) const {
        constexpr u32 positions = split::positions;
        constexpr std::size_t sample_size = std::size_t{split::channels} * positions;
        row rows[What::inputs][at_once];
        for (u32 j = 0; j < at_once; ++j) {
            u32 const i = first + j * split::members, sample = i / positions;
            std::size_t const place = base + sample * sample_size + (i - sample * positions);
            for (u32 k = 0; k < What::inputs; ++k) {
                rows[k][j] = {};
                if (j >= n) continue;
                if constexpr (Aligned)
                    rows[k][j].load(what.from[k] + place);
                else
                    rows[k][j].load_some(what.from[k] + place, lanes);
            }
        }
        joint<number> const weights(count, n);
        for (u32 lane = 0; lane < lanes; ++lane) {
            number in[What::inputs][at_once];
            for (u32 k = 0; k < What::inputs; ++k)
                for (u32 j = 0; j < at_once; ++j) in[k][j] = static_cast<number>(rows[k][j][lane]);
            What::join(sums[lane], what.of(in, n, by[lane]), weights);
        }
        count += n;
    }
};

/// Puts the parts of each channel together, and does with them what is to be done.
template<class What>
struct agree_channels {
    using split = channel_split<typename What::geometry>;
    using counted = counted_sums<What>;
    static constexpr u32 members = 32, of_block = 8, threads = members * of_block;
    static constexpr u32 most_parts = members * sums_at_once;
    static constexpr int rounds = rounds_of(members), phase_count = 1 + rounds;
    struct shared {
        counted of[threads]; // [member][channel]
    };
    using own = nothing_kept;

    What what;
    channel_sums<typename What::number> const* partials;
    staged_shard const* about;
    u32 samples_of_part, parts;

    u32 blocks() const noexcept { return divide_up(split::channels, of_block); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const member = at.thread / of_block, channel = at.block * of_block + at.thread % of_block;
        if (channel >= split::channels) return;
        if (k == 0) {
            counted some[sums_at_once]; // all on their way at the same time
            for (u32 j = 0; j < sums_at_once; ++j) {
                u32 const p = member + j * members;
                some[j] = {};
                if (p < parts) some[j].sums = partials[std::size_t{p} * split::channels + channel];
            }
            u32 const count = split::samples(*about);
            for (u32 j = 0; j < sums_at_once; ++j)
                some[j].count = samples_in_part(member + j * members, samples_of_part, count) * split::positions;
            s.of[at.thread] = joined(some);
            return;
        }
        u32 const before = joiners(members, k - 1), left = joiners(members, k);
        if (member < left) join_members(s.of + at.thread % of_block, member, before, left, of_block);
        if (k == rounds && member == 0) what.finish(s.of[at.thread].sums, s.of[at.thread].count, channel, *about);
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
    using number = typename What::number;
    constexpr std::size_t bytes = sizeof(channel_sums<number>) * split::channels;
    constexpr std::size_t most_parts = split::alone ? 64 : agree_channels<What>::most_parts;
    constexpr u32 enough_blocks = 1024;
    if (k.samples() == 0) return {};
    workspace_for<number>(k, 2 * split::channels, "adding up", split::channels, "channels");
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
    using program = gather_channels<What>;
    auto const cut = parts_of<What>(k);
    auto* const partials = static_cast<channel_sums<typename What::number>*>(k.scratch().data);
    if (cut.parts == 0) return;
    bool aligned = true;
    for (auto const* const from : what.from) aligned = aligned && program::row::can_move(from);
    k.queue().launch(program{what, partials, k.shard(), cut.samples_of_part, aligned},
                     cut.parts * program::split::blocks);
}
template<class What, class Stream>
void launch_agree(block_kernels<Stream> const& k, What const& what) {
    auto const cut = parts_of<What>(k);
    auto const* const partials = static_cast<channel_sums<typename What::number> const*>(k.scratch().data);
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

/// The total of each channel: what Term makes of its values, one of each of Term::inputs tensors, added up.
template<class G, class T, class Term>
struct total_of_channel {
    using geometry = G;
    using value = T;
    using number = accumulate_t<T>;
    using coefficients = nothing_kept;
    static constexpr u32 inputs = Term::inputs, at_once = 8;

    T const* from[inputs];
    T* totals; ///< gradients
    bool are_new = false;

    template<u32 N>
    TRIREME_HOST_DEVICE void find(coefficients (&)[N], std::size_t) const {}
    TRIREME_HOST_DEVICE channel_sums<number> of(number const (&in)[inputs][at_once], u32 n, coefficients const&) const {
        number sum = 0;
        for (u32 j = 0; j < at_once; ++j) {
            number values[inputs];
            for (u32 k = 0; k < inputs; ++k) values[k] = in[k][j];
            if (j < n) sum += Term::of(values);
        }
        return {sum, 0};
    }
    TRIREME_HOST_DEVICE static void join(channel_sums<number>& to, channel_sums<number> const& other,
                                         joint<number> const&) {
        to.first += other.first;
    }
    TRIREME_HOST_DEVICE void finish(channel_sums<number> const& all, u32, u32 channel, staged_shard const&) const {
        give_gradient(totals[channel], all.first, are_new);
    }
};

/// totals += what Term makes of each channel's values, of the samples that count; the totals are gradients.
template<class Term, class G, class Stream, class T>
void add_channel_totals(block_kernels<Stream> const& k, T const* const (&from)[Term::inputs], T* totals) {
    total_of_channel<G, T, Term> what{{}, totals, k.gradients_are_new()};
    for (u32 i = 0; i < Term::inputs; ++i) what.from[i] = from[i];
    launch_gather(k, what);
    launch_agree(k, what);
}

/// The value itself.
struct value_of_channel {
    static constexpr u32 inputs = 1;
    template<class N>
    TRIREME_HOST_DEVICE static N of(N const (&values)[inputs]) {
        return values[0];
    }
};

/// sums += each channel's values, of the samples that count; the sums are gradients.
template<class G, class Stream, class T>
void add_channel_sums(block_kernels<Stream> const& k, T const* x, T* sums) {
    add_channel_totals<value_of_channel, G>(k, {x}, sums);
}

} // namespace trireme::blocks
