// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/joined_name.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/collective/strategy.hpp>

#include <type_traits>

namespace trireme {

template<class... Where>
struct compressed_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0127: compressed<Wire, Strategy> sends gradients as bf16, by a strategy that has an all-reduce of its "
        "own and is not a transport's: compressed<bf16, ring>");
};

namespace detail {

struct compressed_word {
    static constexpr char const* name = "compressed";
};

template<class Wire, class Strategy>
inline constexpr bool can_compress = false;
template<reduction_strategy Strategy>
inline constexpr bool can_compress<bf16, Strategy> =
    makes<Strategy, collective::all_reduce> && !requires { Strategy::of_a_transport; };

} // namespace detail

/// Gradients travel as bf16, in half the bytes of f32: `reduce_by<compressed<bf16, ring>>`. What rounding takes off a
/// device's gradient is added to its next one (error feedback), so that it is late, and not lost.
///
/// - Memory: an error for each parameter, in the parameters' type, and two bytes to send for each of the largest
///   collective; none on one device. Buffers, as batch_norm has them, travel as they are.
/// - Cost: two passes over the gradients, beside the collective on half of the bytes.
/// - Precision: each of the n - 1 additions of a sum is rounded to bf16, too, and no device keeps that.
/// - Wins: where the link is slow, as between machines. Loses: where ranks share memory.
/// - Deterministic: all ranks hold the same bits. Where clip_norm scales a gradient, the errors are scaled with it. The
///   step after one that is not done, for its loss is not finite, has no errors to add; nor has the first one with
///   weights from elsewhere, a checkpoint's among them.
/// - Source: error feedback is that of Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019.
template<class Wire, class Strategy>
struct compressed {
    static constexpr bool fits = detail::can_compress<Wire, Strategy>;
    using rule = std::conditional_t<fits, no_rule, compressed_rule<gets<Wire>, words::strategy<Strategy>>>;
    static constexpr rule checked{};
    static constexpr char const* name = detail::joined_name<detail::compressed_word, Wire, Strategy>.letters;
    using strategy = std::conditional_t<fits, Strategy, direct>; ///< after a broken rule a stand-in
};

namespace detail {

/// The strategy that makes the schedules of one that may compress.
template<class S>
struct scheduling {
    using type = S;
};
template<class Wire, class Strategy>
struct scheduling<compressed<Wire, Strategy>> {
    using type = typename compressed<Wire, Strategy>::strategy;
};

} // namespace detail
} // namespace trireme
