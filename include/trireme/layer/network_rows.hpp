// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/tied.hpp>

#include <cstddef>

namespace trireme {

// A network as a table: one row for each layer that runs, written unit by unit.

/// A row of a network, and the places of its values and numbers: one row per layer in the order of their work,
/// repetitions included, and one more for the end. Slot 0 is the network's input, slot i + 1 the output of row i.
struct layer_row {
    layer_description description = {};
    shape input = {};
    std::size_t from = 0;     ///< the slot it reads: that of the row before, but for a residual's second way
    std::size_t other = npos; ///< a second slot: of a sum, its other term; of a fork, where the second way begins
    std::size_t first_parameter = 0; ///< offset in elements of the layer's first tensor in the parameter arena
    std::size_t first_buffer = 0;    ///< of its first buffer, among the buffers
    std::size_t first_kept = 0;      ///< of the numbers it keeps, among those of all layers
    std::size_t first_exchange = 0;  ///< of its exchanges, among those of all layers
    std::size_t first_agreed = 0; ///< of its parameters, among those of layers that agree on something on the way back
    std::size_t tied_to = npos;   ///< the row whose parameters it computes with, if they are not its own
    std::size_t first_tied = 0;   ///< of its gradients, among those of tied rows
    std::size_t first_term = 0;   ///< of its term of the loss, among those of all rows

    constexpr bool is_tied() const noexcept { return tied_to != npos; }
    /// Parameter tensors that are initialised, updated and saved as this row's.
    constexpr int own_tensors() const noexcept { return is_tied() ? 0 : description.parameter_count; }

    /// Parts of a residual.
    constexpr bool is_fork() const noexcept { return other != npos && description.execution.view; }
    constexpr bool is_sum() const noexcept { return other != npos && !description.execution.view; }
};

namespace detail {

/// True if the bias of a row is subtracted again by the row behind it, which reads nothing else, so that on the way to
/// the loss, and back, there is nothing to do with it. What statistics say of the values has it, and evaluation adds
/// it.
constexpr bool bias_cancels(layer_row const& row, layer_row const& behind) noexcept {
    return row.description.channel_bias >= 0 && behind.description.execution.subtracts_means;
}

template<class U>
inline constexpr std::size_t repetitions = 1;
template<std::size_t N, class... Block>
inline constexpr std::size_t repetitions<repeat<N, Block...>> = N;

/// Rows of a unit: a layer, or a repeated block.
template<class U>
inline constexpr std::size_t rows_of = 1;
template<class Units>
inline constexpr std::size_t rows_of_all = 0;
template<class... U>
inline constexpr std::size_t rows_of_all<pack<U...>> = [] {
    std::size_t const rows[] = {rows_of<U>..., 0};
    std::size_t sum = 0;
    for (auto const n : rows) sum += n;
    return sum;
}();
/// The first row of a unit of a list; that of the end for its size.
template<class... U>
constexpr std::size_t first_row_of(std::size_t unit) noexcept {
    constexpr std::size_t rows[] = {rows_of<U>..., 0};
    std::size_t sum = 0;
    for (std::size_t i = 0; i < unit; ++i) sum += rows[i];
    return sum;
}
template<class... Block>
inline constexpr std::size_t rows_of_block = rows_of_all<decltype(flat_list<Block...>())>;
template<std::size_t N, class... Block>
inline constexpr bool repeats_something = N > 0 && rows_of_block<Block...> > 0;
template<std::size_t N, class... Block>
inline constexpr std::size_t rows_of<repeat<N, Block...>> =
    repeats_something<N, Block...> ? N * rows_of_block<Block...> : 1;

/// Writes the rows of a network one after the other.
struct row_writer {
    /// A residual whose second way has not ended yet.
    struct way {
        std::size_t fork = 0, first_end = 0;
        shape first = {};
    };

    layer_row* rows;
    way* open; ///< residuals in residuals
    shape now;
    std::size_t count = 0, parameters = 0, buffers = 0, kept = 0, exchanges = 0, agreed = 0, tied = 0, terms = 0;
    std::size_t refused_at = npos; ///< the first row that does not accept its input
    std::size_t open_count = 0;

    /// Only the first row of a network may take tokens: its input alone is known to be some.
    constexpr bool takes(layer_description const& d) const noexcept { return d.vocabulary == 0 || count == 0; }

    constexpr layer_row& add(layer_description const& d, std::size_t tied_to = npos) {
        end();
        auto& row = rows[count];
        row.description = d;
        row.tied_to = tied_to;
        if (!d.accepts && refused_at == npos) refused_at = count;
        now = d.output;
        (row.is_tied() ? tied : parameters) += d.parameter_elements();
        buffers += d.buffer_elements();
        kept += d.kept;
        exchanges += static_cast<std::size_t>(d.exchanges());
        agreed += d.backward.phases != 0 ? d.parameter_elements() : 0;
        terms += d.adds_to_loss ? 1 : 0;
        ++count;
        return row;
    }
    /// The end so far, and where the next row begins.
    constexpr void end() {
        auto& row = rows[count];
        row.input = now;
        row.from = count;
        row.first_parameter = parameters;
        row.first_buffer = buffers;
        row.first_kept = kept;
        row.first_exchange = exchanges;
        row.first_agreed = agreed;
        row.first_tied = tied;
        row.first_term = terms;
    }
};

/// The part of a layer's description that counts in a row. A layer that derives from another may have functions of its
/// own, which do no work of their neighbours, have none done by them, and add to gradients.
template<class L>
constexpr layer_description description_in_row(layer_description d) noexcept {
    if (names_itself<L>) return d;
    d.channel_bias = -1;
    auto& e = d.execution;
    e.applies = e.adds = e.subtracts_means = e.stores_gradients = false;
    return d;
}

template<class U>
struct unit_rows {
    static constexpr void write(row_writer& to) {
        if constexpr (layer<U>) {
            auto const d = U::describe(to.now);
            bool const right = is_possible(d, to.now) && !forgets_parameters<U>(d) && to.takes(d);
            to.add(right ? description_in_row<U>(d) : refused(to.now));
        } else {
            to.add(refused(to.now));
        }
    }
};
template<>
struct unit_rows<fork> {
    static constexpr void write(row_writer& to) {
        to.open[to.open_count++] = {to.count, 0, {}};
        to.add(fork::describe(to.now));
    }
};
template<>
struct unit_rows<branch> {
    static constexpr void write(row_writer& to) {
        auto& way = to.open[to.open_count - 1];
        way.first_end = to.count;
        way.first = to.now;
        to.now = to.rows[way.fork].input;
        to.add(branch::describe(to.now)).from = to.rows[way.fork].from;
        to.rows[way.fork].other = to.count;
    }
};
template<class Body, class Shortcut>
struct unit_rows<residual_sum<Body, Shortcut>> {
    static constexpr void write(row_writer& to) {
        auto const& way = to.open[--to.open_count];
        auto const second = to.now;
        to.now = way.first;
        auto& row = to.add(second == way.first ? residual_sum<Body, Shortcut>::describe(second) : refused(way.first));
        row.other = row.from;
        row.from = way.first_end;
    }
};

template<std::size_t Row, class Owner>
struct unit_rows<tied_layer<Row, Owner>> {
    static constexpr bool can_share(layer_row const& owner) noexcept {
        auto const& d = owner.description;
        return owner.own_tensors() != 0 && d.buffer_count == 0 && !d.whole_shard();
    }
    static constexpr void write(row_writer& to) {
        auto const& owner = to.rows[Row];
        using layer = typename tied_layer<Row, Owner>::layer;
        auto const d = layer::describe(to.now);
        bool const takes =
            layer_tied_to<Owner>::is_another ? d.has_parameters_of(owner.description) : owner.input == to.now;
        bool const right = can_share(owner) && takes && is_possible(d, to.now) && to.takes(d);
        to.add(right ? description_in_row<layer>(d) : refused(to.now), Row);
    }
};

template<class... U>
constexpr void write_units(pack<U...>, row_writer& to) {
    void (*const write[sizeof...(U) + 1])(row_writer&) = {&unit_rows<U>::write..., nullptr};
    for (std::size_t i = 0; i < sizeof...(U); ++i) write[i](to);
}

template<std::size_t N, class... Block>
struct unit_rows<repeat<N, Block...>> {
    static constexpr void write(row_writer& to) {
        if (!repeats_something<N, Block...>) {
            to.add(refused(to.now));
            return;
        }
        auto const begin = to;
        write_units(flat_list<Block...>(), to);
        if (!(to.now == begin.now) && to.refused_at == npos) to.refused_at = begin.count;
        auto const rows = to.count - begin.count;
        for (std::size_t i = rows; i < N * rows; ++i) {
            auto const& model = to.rows[begin.count + i % rows];
            auto const forward = i / rows * rows;
            auto d = model.description;
            d.accepts = d.accepts && to.takes(d);
            auto& row = to.add(d);
            row.input = model.input;
            row.from = model.from + forward;
            row.other = model.other == npos ? npos : model.other + forward;
        }
    }
};

template<std::size_t Depth>
struct network_table {
    layer_row rows[Depth + 1] = {};
    std::size_t refused_at = npos;
};

template<std::size_t Depth, class Units>
constexpr network_table<Depth> make_network_table(shape in) {
    network_table<Depth> t;
    row_writer::way open[Depth + 1] = {};
    row_writer to{t.rows, open, in};
    write_units(Units{}, to);
    to.end();
    t.refused_at = to.refused_at;
    return t;
}

} // namespace detail
} // namespace trireme
