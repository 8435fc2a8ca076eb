// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/words.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>

namespace trireme {

template<class... Where>
struct tied_row_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0120: tied<Row> is the layer of an earlier row once more, with the parameters of that row: name a "
        "row before it whose layer has parameters of its own, no running statistics and nothing to agree on "
        "(linear, conv2d), and write tied outside of repeat. Rows are counted from 0, as they run: a residual "
        "has one before its body, one before its shortcut and one for the sum");
};
template<class... Where>
struct tied_input_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0121: tied<Row> computes with the parameters of that row, so it takes an input of the same shape, or, "
        "where that row is an embedding, tokens of its width: change the layers before it");
};

/// The layer of row `Row` once more, with that row's parameters: both rows train them. Rows are counted from 0, as they
/// run; a residual has one before its body, one before its shortcut and one for the sum, a repeat those of each
/// repetition. The parameters are initialised, updated, measured and saved once, as those of row `Row`.
///
/// Tied to an embedding it is the layer that this one's `tied_as` names: tokens (T, Width) get scores (T, Vocabulary),
/// y = x weight^T.
///
/// The two gradients are added when they have been added over all devices, in the order of the rows, so that the bits
/// do not depend on where the rows are: each tied row costs the memory and the wire of one more gradient, which goes
/// with the last reduction. In a pipeline a stage that has not the row itself has a copy of its weights, which are sent
/// there after each update.
template<std::size_t Row>
struct tied {
    static constexpr layer_description describe(shape in) noexcept { return refused(in); }

    template<class Where, class>
    using refusal = tied_row_rule<Where>;
};

namespace detail {

/// The layer that computes in rows tied to one of `Layer`: itself, unless it names another.
template<class Layer>
struct layer_tied_to {
    using type = Layer;
    static constexpr bool is_another = false;
};
template<class Layer>
    requires requires { typename Layer::tied_as; }
struct layer_tied_to<Layer> {
    using type = typename Layer::tied_as;
    static constexpr bool is_another = true;
};

/// A tied layer whose row has been found, one of `Owner`.
template<std::size_t Row, class Owner>
struct tied_layer {
    using written = tied<Row>;
    using owner = Owner;
    using layer = typename layer_tied_to<Owner>::type;
    static constexpr std::size_t row = Row;

    static constexpr layer_description describe(shape in) noexcept { return layer::describe(in); }
};

template<class L>
inline constexpr bool is_tied = false;
template<std::size_t Row>
inline constexpr bool is_tied<tied<Row>> = true;
template<class L>
inline constexpr bool is_tied_layer = false;
template<std::size_t Row, class Owner>
inline constexpr bool is_tied_layer<tied_layer<Row, Owner>> = true;

/// The layer whose functions a unit has.
template<class U>
struct computed_by {
    using type = U;
};
template<std::size_t Row, class Owner>
struct computed_by<tied_layer<Row, Owner>> {
    using type = typename tied_layer<Row, Owner>::layer;
};
template<class U>
using computed_by_t = typename computed_by<U>::type;

} // namespace detail

} // namespace trireme
