// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/joined_name.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/collective/strategy.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace trireme {

/// A strategy of trainers that sends gradients in numbers of another type: they are rounded to `wire`, added as
/// `strategy` says, and widened again. It keeps `state_per_element` numbers of each gradient from step to step.
template<class S>
concept compressing_strategy = detail::named_strategy<S> && std::default_initializable<S> && requires {
    typename S::wire;
    typename S::strategy;
    { S::state_per_element } -> std::convertible_to<std::size_t>;
};

template<class... Where>
struct compressed_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0127: compressed<Wire, Strategy> sends gradients as bf16, by a strategy whose additions are the "
                  "library's: compressed<bf16, ring>");
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

template<class Wire, class Strategy, bool Fits>
struct compressed_check {
    using type = no_rule;
};
template<class Wire, class Strategy>
struct compressed_check<Wire, Strategy, false> {
    using type = compressed_rule<gets<Wire>, strategy<Strategy>>;
};

/// The strategy that makes the schedules of one that may compress.
template<class S>
struct scheduling {
    using type = S;
};
template<compressing_strategy S>
struct scheduling<S> {
    using type = typename S::strategy;
};

} // namespace detail

/// Gradients travel as bf16, in half the bytes of f32: `reduce_by<compressed<bf16, ring>>`. What rounding takes off a
/// rank's gradient is added to its next one (error feedback), so that over many steps nothing is lost.
///
/// - Memory: of each gradient what is kept, in the gradient's type, and two bytes that travel; none on one device.
/// - Cost: two passes over the gradients, beside the collective on half of the bytes.
/// - Precision: the additions of `Strategy` are rounded to bf16, too, and that is not fed back: `direct` rounds a sum
///   once, `ring` once for each further rank.
/// - Wins: where the link is slow, as between machines. Loses: where ranks share memory.
/// - Deterministic: all ranks hold the same bits. A step that is not done, for its loss is not finite, and a training
///   that takes weights from elsewhere, a checkpoint among them, begin without what was kept.
/// - Source: error feedback is that of Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019.
template<class Wire, class Strategy>
struct compressed {
    static constexpr bool fits = detail::can_compress<Wire, Strategy>;
    using rule = typename detail::compressed_check<Wire, Strategy, fits>::type;
    static constexpr rule checked{};
    static constexpr char const* name = detail::joined_name<detail::compressed_word, Wire, Strategy>.letters;

    // after a broken rule stand-ins keep the rest valid
    using wire = std::conditional_t<fits, Wire, bf16>;
    using strategy = std::conditional_t<fits, Strategy, direct>;
    static constexpr std::size_t state_per_element = 1;
};

} // namespace trireme
