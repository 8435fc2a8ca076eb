// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/tied.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme {

/// The shape of one sample: `input<1, 28, 28>` is one channel of 28 x 28, `input<100>` a hundred values.
template<std::size_t... N>
struct input {
    using extents = trireme::extents<N...>;
};

template<class... Where>
struct network_layer_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0018: this is no layer: a layer has `static constexpr layer_description "
                  "describe(shape)` (layer/layer.hpp); the first argument of network is input<...>");
};

/// FLOPs of one sample, by the ways that it goes.
struct pass_flops {
    flops_t forward = 0;
    flops_t backward_input = 0;
    flops_t backward_weights = 0;
    flops_t again = 0; ///< forward a second time, on the way back

    constexpr flops_t total() const noexcept { return forward + backward_input + backward_weights + again; }
};

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

    constexpr bool is_tied() const noexcept { return tied_to != npos; }
    /// Parameter tensors that are initialised, updated and saved as this row's.
    constexpr int own_tensors() const noexcept { return is_tied() ? 0 : description.parameter_count; }

    /// Parts of a residual.
    constexpr bool is_fork() const noexcept { return other != npos && description.execution.view; }
    constexpr bool is_sum() const noexcept { return other != npos && !description.execution.view; }
};

namespace detail {

constexpr pass_flops flops_of_rows(layer_row const* rows, std::size_t first_trainable, range some) noexcept {
    pass_flops sum;
    for (auto i = some.begin; i < some.end; ++i) {
        auto const& d = rows[i].description;
        sum.forward += d.forward_flops;
        if (i >= first_trainable) sum.backward_weights += d.backward_weights_flops;
        if (i > first_trainable) sum.backward_input += d.backward_input_flops;
    }
    return sum;
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
    std::size_t count = 0, parameters = 0, buffers = 0, kept = 0, exchanges = 0, agreed = 0, tied = 0;
    std::size_t refused_at = npos; ///< the first row that does not accept its input
    std::size_t open_count = 0;

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
    }
};

template<class U>
struct unit_rows {
    static constexpr void write(row_writer& to) {
        if constexpr (layer<U>) {
            auto const d = U::describe(to.now);
            bool const misplaced = d.vocabulary != 0 && to.count != 0; // only the network's input is known to be tokens
            to.add(forgets_parameters<U>(d) || misplaced ? refused(to.now) : d);
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
        auto const d = tied_layer<Row, Owner>::describe(to.now);
        bool const takes =
            layer_tied_to<Owner>::is_another ? d.has_parameters_of(owner.description) : owner.input == to.now;
        to.add(can_share(owner) && takes ? d : refused(to.now), Row);
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
            auto& row = to.add(model.description);
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

template<class Chain, bool Refused>
struct network_check {
    using type = no_rule;
};

template<class Chain>
struct exchange_list {
    static constexpr std::size_t count = Chain::table.rows[Chain::depth].first_exchange;
    layer_exchange of[count + 1] = {};

    constexpr exchange_list() noexcept {
        std::size_t n = 0;
        for (std::size_t i = 0; i < Chain::depth; ++i)
            for (auto const* way : {&Chain::row(i).description.forward, &Chain::row(i).description.backward})
                for (int k = 0; k < way->exchanges(); ++k)
                    of[n++] = {Chain::row(i).first_kept + way->after[k].first, way->after[k].elements};
    }
    constexpr layer_exchange const* begin() const noexcept { return of; }
    constexpr layer_exchange const* end() const noexcept { return of + count; }
    constexpr layer_exchange const& operator[](std::size_t i) const noexcept { return of[i]; }
};

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
        if constexpr (block::table.refused_at != npos)
            return unit_rule<refused_unit<block>(), block, Before + row>();
        else
            return pack<repeat_rule<where, wants<in>, gets<typename block::template input_of<block::units>>>>{};
    } else if constexpr (is_residual_sum<layer_t>) {
        using second = typename extents_of_shape<Chain, row - 1, true>::type;
        return pack<residual_rule<at_layer<Before + row, typename layer_t::written>, wants<in>, gets<second>>>{};
    } else if constexpr (is_tied_layer<layer_t>) {
        using tied_where = at_layer<Before + row, typename layer_t::written>;
        if constexpr (unit_rows<layer_t>::can_share(Chain::row(layer_t::row)))
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
    else if constexpr (forgets_parameters<layer_t>(layer_t::describe(in::shape)))
        return pack<untrained_parameters_rule<where>>{};
    else
        return pack<typename layer_t::template refusal<where, in>>{};
}
template<class Chain>
struct network_check<Chain, true> {
    using type = typename only<decltype(unit_rule<refused_unit<Chain>(), Chain>())>::type;
};

} // namespace detail

/// A chain of layers in data order. Every shape is deduced from the input's and checked; naming a network costs
/// nothing, using one (an object, a member) is what compiles the checks. `residual`, `sequential` and `repeat`
/// (layer/combinators.hpp) stand for several layers.
///
/// Layers are counted from 0, as they run. Parameters lie in one arena, layer by layer, tensor by tensor, without gaps:
/// the canonical coordinates in which they are initialised, reduced, updated and saved. Buffers (running statistics)
/// lie in the same order behind them.
template<class Input, class... Layers> // types: hyperbolic_tangent, not the function tanh
struct network : detail::chain<typename Input::extents, decltype(detail::with_ties(detail::flat_list<Layers...>()))> {
private:
    using chain = detail::chain<typename Input::extents, decltype(detail::with_ties(detail::flat_list<Layers...>()))>;

    /// True if `holds` is true of some row's description.
    template<class Holds>
    static constexpr bool some_row(Holds const& holds) noexcept {
        for (std::size_t i = 0; i < chain::depth; ++i)
            if (holds(chain::table.rows[i].description)) return true;
        return false;
    }

public:
    using chain::depth;
    using chain::table;
    using input_extents = typename Input::extents;
    using output_extents = typename chain::template input_of<chain::units>;

    /// Trainable numbers of the whole network.
    static constexpr std::size_t parameters = table.rows[depth].first_parameter;
    /// Numbers that are kept and saved beside them.
    static constexpr std::size_t buffers = table.rows[depth].first_buffer;
    /// Numbers that layers keep of a shard from forward to backward.
    static constexpr std::size_t kept = table.rows[depth].first_kept;
    /// Gradients of rows that compute with the parameters of another one.
    static constexpr std::size_t tied_gradients = table.rows[depth].first_tied;

    /// The first layer with parameters: backward stops there, for no gradient is needed below it.
    static constexpr std::size_t first_trainable = [] {
        for (std::size_t i = 0; i < depth; ++i)
            if (table.rows[i].description.parameter_count > 0) return i;
        return depth;
    }();

    /// FLOPs of one sample in rows [begin, end).
    static constexpr pass_flops flops(range rows) noexcept {
        return detail::flops_of_rows(table.rows, first_trainable, rows);
    }
    /// FLOPs of one sample's forward pass, and of forward and backward together.
    static constexpr flops_t forward_flops = detail::flops_of_rows(table.rows, first_trainable, {0, depth}).forward;
    static constexpr flops_t training_flops = detail::flops_of_rows(table.rows, first_trainable, {0, depth}).total();

    /// True if some layer needs all samples of a shard, or of the batch, at once.
    static constexpr bool whole_shard = some_row([](layer_description const& d) { return d.whole_shard(); });
    static constexpr bool whole_batch = table.rows[depth].first_exchange != 0;
    /// True if its samples are computed one by one, because some layer's fill registers by themselves.
    static constexpr bool sample_by_sample =
        some_row([](layer_description const& d) { return d.execution.sample_by_sample; });

    /// The exchanges of a step, row by row, forward's before backward's; `first` counts from the first number that any
    /// layer keeps. Those of row r begin at row(r).first_exchange.
    static constexpr detail::exchange_list<chain> exchanges{};

    static constexpr bool valid = table.refused_at == npos;

    using rule = typename detail::network_check<chain, !valid>::type;
    static constexpr rule checked{};
};

template<class T>
inline constexpr bool is_network = false;
template<class Input, class... Layers>
inline constexpr bool is_network<network<Input, Layers...>> = true;

} // namespace trireme
