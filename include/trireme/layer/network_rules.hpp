// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/words.hpp>
#include <trireme/layer/chain.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/network_rows.hpp>
#include <trireme/layer/tied.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

template<class... Where>
struct network_layer_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0018: this is no layer: a layer has `static constexpr layer_description "
                  "describe(shape)` (layer/layer.hpp); the first argument of network is input<...>");
};

template<class... Where>
struct network_input_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0130: the first argument of network is the shape of a sample, and the layers "
                  "follow: network<input<1, 28, 28>, flatten, linear<10>>");
};

template<class... Where>
struct token_place_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0151: this layer takes tokens, numbers below its `vocabulary`, and what other layers give are "
                  "values: put it first, right behind input<...>, and outside of repeat, or give it `tied_as`, a layer "
                  "of values that computes in rows tied to it");
};

namespace detail {

/// The first unit that does not accept its input.
template<class Chain>
constexpr std::size_t refused_unit() noexcept {
    std::size_t unit = 0;
    while (Chain::first_row(unit + 1) <= Chain::table.refused_at) ++unit;
    return unit;
}

/// `Before`: rows of the network before the chain, if that is the block of a repeat.
template<std::size_t Unit, class Chain, std::size_t Before = 0>
constexpr auto unit_rule() {
    using layer_t = typename Chain::template layer_type<Unit>;
    using in = typename Chain::template input_of<Unit>;
    constexpr std::size_t row = Chain::first_row(Unit);
    using where = at_layer<Before + row, layer_t>;
    if constexpr (is_empty_repeat<layer_t>) {
        return pack<repeat_count_rule<where>>{};
    } else if constexpr (is_repeat<layer_t>) {
        using block = typename block_of<layer_t, in>::type;
        constexpr bool same_shape =
            block::template input_of<block::units>::shape == in::shape; // else it is not the second round's place
        if constexpr (block::table.refused_at != npos)
            return unit_rule<refused_unit<block>(), block, Before + row>();
        else if constexpr (block::row(0).description.vocabulary != 0 && (Before + row != 0 || same_shape))
            return pack<
                token_place_rule<at_layer<Before + row != 0 ? Before + row : block::depth,
                                          typename only<decltype(layer_at<0>(typename block::list{}))>::type>>>{};
        else
            return pack<repeat_rule<where, wants<in>, gets<typename block::template input_of<block::units>>>>{};
    } else if constexpr (is_residual_sum<layer_t>) {
        using second = typename extents_of_shape<Chain, row - 1, true>::type;
        return pack<residual_rule<at_layer<Before + row, typename layer_t::written>, wants<in>, gets<second>>>{};
    } else if constexpr (is_tied_layer<layer_t>) {
        using tied_where = at_layer<Before + row, typename layer_t::written>;
        constexpr auto d = layer_t::describe(in::shape);
        if constexpr (!is_possible(d, in::shape))
            return pack<description_rule<tied_where>>{};
        else if constexpr (d.vocabulary != 0)
            return pack<token_place_rule<tied_where>>{};
        else if constexpr (unit_rows<layer_t>::can_share(Chain::row(layer_t::row)))
            return pack<
                tied_input_rule<tied_where,
                                wants<typename extents_of_shape<
                                    Chain, layer_t::row, layer_tied_to<typename layer_t::owner>::is_another>::type>,
                                gets<in>>>{};
        else if constexpr (is_residual_sum<typename layer_t::owner>)
            return pack<tied_row_rule<tied_where, gets<typename layer_t::owner::written>>>{};
        else if constexpr (std::is_same_v<typename layer_t::owner, fork> ||
                           std::is_same_v<typename layer_t::owner, branch>)
            return pack<tied_row_rule<tied_where>>{};
        else
            return pack<tied_row_rule<tied_where, gets<typename layer_t::owner>>>{};
    } else if constexpr (!layer<layer_t>)
        return pack<network_layer_rule<where>>{};
    else if constexpr (!is_possible(layer_t::describe(in::shape), in::shape))
        return pack<description_rule<where>>{};
    else if constexpr (forgets_parameters<layer_t>(layer_t::describe(in::shape)))
        return pack<untrained_parameters_rule<where>>{};
    else if constexpr (layer_t::describe(in::shape).accepts) // but not in this row
        return pack<token_place_rule<where>>{};
    else
        return pack<typename layer_t::template refusal<where, in>>{};
}

/// The rule that a chain breaks, if one of its units is refused.
template<class Chain, bool Refused>
struct network_check {
    using type = no_rule;
};
template<class Chain>
struct network_check<Chain, true> {
    using type = typename only<decltype(unit_rule<refused_unit<Chain>(), Chain>())>::type;
};

} // namespace detail
} // namespace trireme
