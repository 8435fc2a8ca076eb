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
#include <numeric>
#include <utility>

// Values that follow from those at the same place of other tensors, and from coefficients of their channel. A thread
// moves 16 bytes at a time, and has loads of several on their way, so that a device's memory is busy.
//
// The computation is a struct with
//
//     using value = ...;                     // as values lie in memory
//     static constexpr u32 inputs = ...;
//     value const* from[inputs];             // null: an input of zeros
//     value* to;                             // may be one of the inputs
//     using geometry = ...;                  // a channel_geometry, or without_channels
//     using coefficients = ...;              // of a channel
//     template<u32 N> void find(coefficients (&of)[N], std::size_t channel) const; // of N channels, side by side
//     accumulate_t<value> operator()(accumulate_t<value> const (&in)[inputs], coefficients const&,
//                                    std::size_t first, u32 j) const; // of value first + j
namespace trireme::blocks {

/// The geometry of values whose channel makes no difference; coefficients are nothing_kept.
struct without_channels {};

/// Coefficients for `Width` values side by side of channels with geometry G: one for all, where these lie in one row of
/// an image.
template<class What, class G, u32 Width>
struct coefficients_at_once {
    static constexpr bool in_row = !G::channels_last && G::positions % Width == 0;
    static constexpr bool in_position = G::channels_last && G::channels % Width == 0;
    /// Values so far apart, or a multiple of that, have the same coefficients; 0 if each has to find its own.
    static constexpr std::size_t period = in_position ? G::channels : 0;

    typename What::coefficients all[in_row ? 1 : Width];

    TRIREME_HOST_DEVICE void find(What const& what, std::size_t first, u32 count) {
        if constexpr (in_row || in_position) {
            what.find(all, channel_of_value<G>(first).channel);
        } else {
            for (u32 j = 0; j < Width; ++j) { // behind the last there is no channel
                typename What::coefficients one[1]{};
                if (j < count) what.find(one, channel_of_value<G>(first + j).channel);
                all[j] = one[0];
            }
        }
    }
    TRIREME_HOST_DEVICE typename What::coefficients const& of(u32 j) const { return all[in_row ? 0 : j]; }
};
template<class What, u32 Width>
struct coefficients_at_once<What, without_channels, Width> {
    static constexpr std::size_t period = 1;
    TRIREME_HOST_DEVICE void find(What const&, std::size_t, u32) {}
    TRIREME_HOST_DEVICE typename What::coefficients of(u32) const { return {}; }
};

/// All n values, in any order, by as many blocks as it says or a multiple of that.
template<class What>
struct elementwise_program {
    using value = typename What::value;
    using number = accumulate_t<value>;
    using all = values_at_once<value>;
    using coefficients = coefficients_at_once<What, typename What::geometry, all::count>;
    static constexpr u32 threads = 256, in_flight = What::inputs < 3 ? 4 : 2, enough_blocks = 1024;
    static constexpr std::size_t of_block = std::size_t{threads} * all::count; ///< values in one turn
    static constexpr int phase_count = 1;
    using shared = nothing_kept;
    using own = nothing_kept;

    What what;
    std::size_t n;
    bool whole; ///< every 16 bytes lie on an address that is a multiple of 16, and none has but a part of them

    elementwise_program(What const& work, std::size_t values) : what(work), n(values), whole(values % all::count == 0) {
        for (auto const* const from : what.from) whole = whole && all::can_move(from);
        whole = whole && all::can_move(what.to);
    }
    /// As many as values, 16 bytes per thread; where there are more than enough, a thread goes on with others, of the
    /// same channels if there is a way.
    u32 blocks() const noexcept {
        auto const wanted = static_cast<u32>((n + of_block - 1) / of_block);
        constexpr std::size_t period = coefficients::period;
        constexpr auto unit = static_cast<u32>(period == 0 ? 1 : period / std::gcd(period, of_block));
        return divide_up(wanted < enough_blocks ? wanted : evened(wanted, enough_blocks), unit) * unit;
    }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        if (whole)
            run<true>(at);
        else
            run<false>(at);
    }

private:
    struct inputs_at_once {
        all of[What::inputs];
    };

    /// `Whole`: each 16 bytes are there and aligned. Else one turn follows the other.
    template<bool Whole>
    TRIREME_HOST_DEVICE void run(block_place at) const {
        constexpr u32 turns = Whole ? in_flight : 1;
        std::size_t const step = at.blocks * of_block;
        std::size_t begin = at.block * of_block + at.thread * all::count;
        if (begin >= n) return;
        coefficients by;
        if constexpr (coefficients::period != 0) by.find(what, begin, all::count);
        for (; begin < n; begin += turns * step) {
            inputs_at_once in[turns];
            for (u32 i = 0; i < turns; ++i) load<Whole>(in[i], begin + i * step);
            for (u32 i = 0; i < turns; ++i) give<Whole>(in[i], by, begin + i * step);
        }
    }
    template<bool Whole>
    TRIREME_HOST_DEVICE u32 count_from(std::size_t first) const {
        return !Whole && n - first < all::count ? static_cast<u32>(n - first) : all::count;
    }
    template<bool Whole>
    TRIREME_HOST_DEVICE void load(inputs_at_once& in, std::size_t first) const {
        for (u32 k = 0; k < What::inputs; ++k) {
            in.of[k] = {};
            if (first >= n || what.from[k] == nullptr) continue;
            if constexpr (Whole)
                in.of[k].load(what.from[k] + first);
            else
                in.of[k].load_some(what.from[k] + first, count_from<Whole>(first));
        }
    }
    template<bool Whole>
    TRIREME_HOST_DEVICE void give(inputs_at_once const& in, coefficients& by, std::size_t first) const {
        if (first >= n) return;
        u32 const count = count_from<Whole>(first);
        if constexpr (coefficients::period == 0) by.find(what, first, count);
        all const out = outputs(in, by, first, count, std::make_integer_sequence<u32, all::count>{});
        if constexpr (Whole)
            out.store(what.to + first);
        else
            out.store_some(what.to + first, count);
    }
    /// Every value by a number that the compiler knows, or what was loaded would not stay in registers.
    template<u32... J>
    TRIREME_HOST_DEVICE all outputs(inputs_at_once const& in, coefficients const& by, std::size_t first, u32 count,
                                    std::integer_sequence<u32, J...>) const {
        all out{};
        ((J < count ? out.set(J, value_of(in, by, first, J)) : void()), ...);
        return out;
    }
    TRIREME_HOST_DEVICE value value_of(inputs_at_once const& in, coefficients const& by, std::size_t first,
                                       u32 j) const {
        number of[What::inputs];
        for (u32 k = 0; k < What::inputs; ++k) of[k] = static_cast<number>(in.of[k][j]);
        return static_cast<value>(what(of, by.of(j), first, j));
    }
};

/// All n values of `what`, of all samples.
template<class What, class Stream>
void each_value(block_kernels<Stream> const& k, std::size_t n, What const& what) {
    elementwise_program<What> const program(what, n);
    if (n != 0) k.queue().launch(program, program.blocks());
}

} // namespace trireme::blocks
