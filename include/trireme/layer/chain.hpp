// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/network_rows.hpp>
#include <trireme/layer/tied.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme::detail {

// A network as types: which layer a row belongs to, and what a unit's input and output are.

/// The layer of a row that is not the list's end; a repeat that repeats nothing is its own.
template<std::size_t Row, class... U>
constexpr auto layer_at(pack<U...>);
template<std::size_t, class L>
constexpr auto layer_in(pack<L> unit) {
    return unit;
}
template<std::size_t Row, std::size_t N, class... Block>
    requires repeats_something<N, Block...>
constexpr auto layer_in(pack<repeat<N, Block...>>) {
    return layer_at<Row % rows_of_block<Block...>>(flat_list<Block...>());
}
template<std::size_t Row, class... U>
constexpr auto layer_at(pack<U...>) {
    constexpr std::size_t rows[] = {rows_of<U>...};
    constexpr auto unit_and_row = [](std::size_t const* of) {
        range r{0, Row}; // a unit, and what is left to go within it
        while (r.end >= of[r.begin]) r.end -= of[r.begin++];
        return r;
    }(rows);
    return layer_in<unit_and_row.end>(pack<type_at<unit_and_row.begin, U...>>{});
}

/// A unit that begins at a row of the list `Units`: a tied one whose row is there becomes a layer.
template<class U, std::size_t Begin, class Units>
struct unit_in {
    using type = U;
};
template<std::size_t Row, std::size_t Begin, class Units>
    requires(Row < Begin)
struct unit_in<tied<Row>, Begin, Units> {
    using owner = typename only<decltype(layer_at<Row>(Units{}))>::type;
    using type = std::conditional_t<layer<owner> && !is_tied<owner>, tied_layer<Row, owner>, tied<Row>>;
};

template<class... U>
constexpr bool has_ties(pack<U...>) noexcept {
    bool const is[] = {is_tied<U>..., false};
    for (bool const it : is)
        if (it) return true;
    return false;
}
/// The units of a network, in which tied layers know whose parameters they have.
template<class... U>
constexpr auto with_ties(pack<U...> units) {
    if constexpr (!has_ties(pack<U...>{}))
        return units;
    else
        return []<std::size_t... Unit>(std::index_sequence<Unit...>) {
            return pack<typename unit_in<U, first_row_of<U...>(Unit), pack<U...>>::type...>{};
        }(std::index_sequence_for<U...>{});
}

/// The input or output of one row of a chain.
template<class Chain, std::size_t Row, bool Output>
struct extents_of_shape {
    static constexpr shape value = Output ? Chain::table.rows[Row].description.output : Chain::table.rows[Row].input;
    using type = to_extents<value.rank, value.extent[0], value.extent[1], value.extent[2], value.extent[3]>;
};

/// Layers and repeated blocks in a row, from a known shape on: a network, or the block of a repeat.
template<class Extents, class Units>
struct chain;
template<class Extents, class... U>
struct chain<Extents, pack<U...>> {
    using list = pack<U...>;
    /// Layers as they are written, a repeat being one.
    static constexpr std::size_t units = sizeof...(U);
    /// Layers as they run.
    static constexpr std::size_t depth = rows_of_all<pack<U...>>;
    static constexpr network_table<depth> table = make_network_table<depth, pack<U...>>(Extents::shape);

    template<std::size_t Unit>
    using layer_type = type_at<Unit, U...>;

    /// The first row of a unit; that of the end for `units`.
    static constexpr std::size_t first_row(std::size_t unit) noexcept {
        if constexpr (depth == units) return unit;
        return first_row_of<U...>(unit);
    }

    /// Shapes of a unit's input and output as types. `input_of<units>` is the chain's output.
    template<std::size_t Unit>
    using input_of = typename extents_of_shape<chain, first_row(Unit), false>::type;
    template<std::size_t Unit>
    using output_of = typename extents_of_shape<chain, first_row(Unit), true>::type;

    static constexpr layer_row const& row(std::size_t i) noexcept { return table.rows[i]; }
    /// The row whose parameters it computes with.
    static constexpr layer_row const& owner_of(layer_row const& r) noexcept {
        return r.is_tied() ? table.rows[r.tied_to] : r;
    }
    /// Of a unit that is no repeat.
    static constexpr layer_description const& description_of(std::size_t unit) noexcept {
        return table.rows[first_row(unit)].description;
    }
};

/// The block of a repeat, from the shape on that it is given.
template<class U, class In>
struct block_of;
template<std::size_t N, class... Block, class In>
struct block_of<repeat<N, Block...>, In> {
    using type = chain<In, decltype(flat_list<Block...>())>;
};

template<class U>
inline constexpr bool is_repeat = false;
template<std::size_t N, class... Block>
inline constexpr bool is_repeat<repeat<N, Block...>> = true;
template<class U>
inline constexpr bool is_empty_repeat = false;
template<std::size_t N, class... Block>
inline constexpr bool is_empty_repeat<repeat<N, Block...>> = !repeats_something<N, Block...>;

} // namespace trireme::detail
