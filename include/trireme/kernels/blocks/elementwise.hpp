// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

// Values that follow from those at the same place of other tensors, and from their channel. A thread moves 16 bytes at
// a time, and has loads of several on their way, so that a device's memory is busy.
//
// The computation is a struct with
//
//     using value = ...;                     // as values lie in memory
//     static constexpr u32 inputs = ...;
//     value const* from[inputs];             // null: an input of zeros
//     value* to;                             // may be one of the inputs
//     using place = ...;                     // made from the number of a thread's first value
//     accumulate_t<value> operator()(accumulate_t<value> const (&in)[inputs], place const&, u32 j) const; // of value j
namespace trireme::blocks {

/// Values side by side that one instruction moves.
template<class A>
struct alignas(16) values_at_once {
    static constexpr u32 count = 16 / sizeof(A);
    A v[count];
};

/// The first `count` values from there on; the others are 0.
template<class A>
TRIREME_HOST_DEVICE values_at_once<A> load_values(A const* from, u32 count) {
    using all = values_at_once<A>;
    if (count == all::count && reinterpret_cast<std::uintptr_t>(from) % sizeof(all) == 0)
        return *reinterpret_cast<all const*>(from);
    all some{};
    for (u32 j = 0; j < all::count; ++j)
        if (j < count) some.v[j] = from[j];
    return some;
}
template<class A>
TRIREME_HOST_DEVICE void store_values(A* to, values_at_once<A> const& values, u32 count) {
    using all = values_at_once<A>;
    if (count == all::count && reinterpret_cast<std::uintptr_t>(to) % sizeof(all) == 0) {
        *reinterpret_cast<all*>(to) = values;
        return;
    }
    for (u32 j = 0; j < all::count; ++j)
        if (j < count) to[j] = values.v[j];
}

/// Place of values of which only the number matters.
struct any_place {
    std::size_t first;
};

/// Channels of a thread's values, and their samples, which channels last are positions: found once for all of them
/// where they lie in one row of the image, or in one position.
template<class G, class A>
struct place_in_channels {
    static constexpr u32 width = values_at_once<A>::count;
    static constexpr bool in_one = (G::channels_last ? G::channels : G::positions) % width == 0;

    std::size_t first;
    channel_of_value<G> of_first;
    TRIREME_HOST_DEVICE explicit place_in_channels(std::size_t i) : first(i), of_first(i) {}

    TRIREME_HOST_DEVICE std::size_t channel(u32 j) const {
        if constexpr (!in_one)
            return channel_of_value<G>(first + j).channel;
        else
            return of_first.channel + (G::channels_last ? j : 0);
    }
    TRIREME_HOST_DEVICE std::size_t sample(u32 j) const {
        if constexpr (!in_one)
            return channel_of_value<G>(first + j).sample;
        else
            return of_first.sample;
    }
};

/// All n values, in any order, by any number of blocks.
template<class What>
struct elementwise_program {
    using value = typename What::value;
    using number = accumulate_t<value>;
    using all = values_at_once<value>;
    static constexpr u32 threads = 256, in_flight = 2, enough_blocks = 2048;
    static constexpr int phase_count = 1;
    using shared = nothing_kept;
    using own = nothing_kept;

    What what;
    std::size_t n;

    /// As many as values, 16 bytes per thread; where there are more than enough, a thread goes on with others.
    u32 blocks() const noexcept {
        std::size_t const each = std::size_t{threads} * all::count, wanted = (n + each - 1) / each;
        return static_cast<u32>(wanted < enough_blocks ? wanted : enough_blocks);
    }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        std::size_t const step = std::size_t{at.blocks} * threads * all::count;
        std::size_t begin = (std::size_t{at.block} * threads + at.thread) * all::count;
        for (; begin < n; begin += in_flight * step) {
            inputs_at_once now, next;
            load(now, begin);
            if (begin + step < n) load(next, begin + step);
            give(now, begin);
            if (begin + step < n) give(next, begin + step);
        }
    }

private:
    struct inputs_at_once {
        all of[What::inputs];
    };

    TRIREME_HOST_DEVICE u32 count_from(std::size_t first) const {
        return n - first < all::count ? static_cast<u32>(n - first) : all::count;
    }
    TRIREME_HOST_DEVICE void load(inputs_at_once& in, std::size_t first) const {
        for (u32 k = 0; k < What::inputs; ++k)
            in.of[k] = what.from[k] == nullptr ? all{} : load_values(what.from[k] + first, count_from(first));
    }
    TRIREME_HOST_DEVICE void give(inputs_at_once const& in, std::size_t first) const {
        give(in, first, std::make_integer_sequence<u32, all::count>{});
    }
    /// Every value by a number that the compiler knows, or what was loaded would not stay in registers.
    template<u32... J>
    TRIREME_HOST_DEVICE void give(inputs_at_once const& in, std::size_t first, std::integer_sequence<u32, J...>) const {
        typename What::place const at{first};
        u32 const count = count_from(first);
        all out{};
        ((J < count ? give_one(in, at, J, out.v[J]) : void()), ...); // behind the last there is no channel
        store_values(what.to + first, out, count);
    }
    TRIREME_HOST_DEVICE void give_one(inputs_at_once const& in, typename What::place const& at, u32 j,
                                      value& to) const {
        number of[What::inputs];
        for (u32 k = 0; k < What::inputs; ++k) of[k] = static_cast<number>(in.of[k].v[j]);
        to = static_cast<value>(what(of, at, j));
    }
};

/// All n values of `what`, of all samples.
template<class What, class Stream>
void each_value(block_kernels<Stream> const& k, std::size_t n, What const& what) {
    elementwise_program<What> const program{what, n};
    if (n != 0) k.queue().launch(program, program.blocks());
}

} // namespace trireme::blocks
