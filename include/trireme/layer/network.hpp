// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/layer/chain.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/network_rows.hpp>
#include <trireme/layer/network_rules.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

/// The shape of one sample: `input<1, 28, 28>` is one channel of 28 x 28, `input<100>` a hundred values.
template<std::size_t... N>
struct input {
    using extents = trireme::extents<N...>;
};

/// FLOPs of one sample, by the ways that it goes.
struct pass_flops {
    flops_t forward = 0;          ///< FLOPs of the forward pass
    flops_t backward_input = 0;   ///< FLOPs of the gradients by the layers' inputs
    flops_t backward_weights = 0; ///< FLOPs of the gradients by the parameters
    flops_t again = 0;            ///< FLOPs of a second forward pass, on the way back

    constexpr flops_t total() const noexcept { return forward + backward_input + backward_weights + again; }
};

namespace detail {

/// A network's rows as a value, for code that does not depend on their types.
struct row_list {
    layer_row const* of = nullptr; ///< `depth` rows, and one for the end
    std::size_t depth = 0;
    std::size_t first_trainable = 0; ///< see network

    constexpr layer_row const& row(std::size_t i) const noexcept { return of[i]; }
    /// The shape of one sample's values in a slot.
    constexpr shape const& slot(std::size_t i) const noexcept {
        return i == 0 ? of[0].input : of[i - 1].description.output;
    }
    /// True if backward goes through a row. Without a comparison that is always true for a network whose first row has
    /// weights: compilers warn of it.
    constexpr bool is_trained(std::size_t row) const noexcept { return row + 1 > first_trainable; }
    /// FLOPs of one sample in rows [begin, end).
    constexpr pass_flops flops(range some) const noexcept {
        pass_flops sum;
        for (auto i = some.begin; i < some.end; ++i) {
            auto const& d = of[i].description;
            sum.forward += d.forward_flops;
            if (i >= first_trainable) sum.backward_weights += d.backward_weights_flops;
            if (i > first_trainable) sum.backward_input += d.backward_input_flops;
        }
        return sum;
    }
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

/// The chain of a network's arguments; no layers where it does not begin with an input, so that this mistake is one
/// error.
template<class Input, class... Layers>
struct chain_of_network {
    using type = chain<extents<1>, pack<>>;
};
template<std::size_t... N, class... Layers>
struct chain_of_network<input<N...>, Layers...> {
    using type = chain<extents<N...>, decltype(with_ties(flat_list<Layers...>()))>;
};

template<class T>
inline constexpr bool is_input = false;
template<std::size_t... N>
inline constexpr bool is_input<input<N...>> = true;

} // namespace detail

/// A chain of layers in data order. Every shape is deduced from the input's and checked; naming a network costs
/// nothing, using one (an object, a member) is what compiles the checks. `residual`, `sequential` and `repeat`
/// (layer/combinators.hpp) stand for several layers.
///
/// Layers are counted from 0, as they run. Parameters lie in one arena, layer by layer, tensor by tensor, without gaps:
/// the canonical coordinates in which they are initialised, reduced, updated and saved. Buffers (running statistics)
/// lie in the same order behind them.
template<class Input, class... Layers> // types: hyperbolic_tangent, not the function tanh
struct network : detail::chain_of_network<Input, Layers...>::type {
private:
    using chain = typename detail::chain_of_network<Input, Layers...>::type;

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
    using input_extents = typename chain::template input_of<0>;
    using output_extents = typename chain::template input_of<chain::units>;

    /// Trainable numbers of the whole network.
    static constexpr std::size_t parameters = table.rows[depth].first_parameter;
    /// Numbers that are kept and saved beside them.
    static constexpr std::size_t buffers = table.rows[depth].first_buffer;
    /// Numbers that layers keep of a shard from forward to backward.
    static constexpr std::size_t kept = table.rows[depth].first_kept;
    /// Gradients of rows that compute with the parameters of another one.
    static constexpr std::size_t tied_gradients = table.rows[depth].first_tied;
    /// Rows that add a term to the loss.
    static constexpr std::size_t loss_terms = table.rows[depth].first_term;

    /// The first layer with parameters: backward stops there, for no gradient is needed below it.
    static constexpr std::size_t first_trainable = [] {
        for (std::size_t i = 0; i < depth; ++i)
            if (table.rows[i].description.parameter_count > 0) return i;
        return depth;
    }();
    static constexpr detail::row_list rows{table.rows, depth, first_trainable};
    /// True if backward goes through a row.
    static constexpr bool is_trained(std::size_t row) noexcept { return rows.is_trained(row); }

    /// FLOPs of one sample in rows [begin, end).
    static constexpr pass_flops flops(range some) noexcept { return rows.flops(some); }
    /// FLOPs of one sample's forward pass, and of forward and backward together.
    static constexpr flops_t forward_flops = rows.flops({0, depth}).forward;
    static constexpr flops_t training_flops = rows.flops({0, depth}).total();

    /// True if some layer needs all samples of a shard, or of the batch, at once.
    static constexpr bool whole_shard = some_row([](layer_description const& d) { return d.whole_shard(); });
    static constexpr bool whole_batch = table.rows[depth].first_exchange != 0;
    /// True if its samples are computed one by one, because some layer's fill registers by themselves.
    static constexpr bool sample_by_sample =
        some_row([](layer_description const& d) { return d.execution.sample_by_sample; });

    /// The exchanges of a step, row by row, forward's before backward's; `first` counts from the first number that any
    /// layer keeps. Those of row r begin at row(r).first_exchange.
    static constexpr detail::exchange_list<chain> exchanges{};

    static constexpr bool valid = detail::is_input<Input> && table.refused_at == npos;

    using rule = std::conditional_t<detail::is_input<Input>,
                                    typename detail::network_check<chain, table.refused_at != npos>::type,
                                    network_input_rule<gets<Input>>>;
    static constexpr rule checked{};
};

template<class T>
inline constexpr bool is_network = false;
template<class Input, class... Layers>
inline constexpr bool is_network<network<Input, Layers...>> = true;

} // namespace trireme
