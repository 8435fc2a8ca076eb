// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/layer/few_tokens.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme {

namespace detail {

/// The calls of a row. The last four are for layers that agree on something, and `..._agree` has phases; that of
/// `forward` is 0, or `on_the_way_back`, where a row's values are computed again.
enum class row_call : unsigned char {
    forward,
    evaluate,
    backward_weights,
    backward_input,
    forward_gather,
    forward_agree,
    backward_gather,
    backward_agree
};
inline constexpr std::size_t row_call_count = 8;
inline constexpr int on_the_way_back = 1;
constexpr bool is_forward(row_call c) noexcept {
    return c == row_call::forward || c == row_call::evaluate || c == row_call::forward_gather ||
           c == row_call::forward_agree;
}

// ---- one call of one layer ----

/// Pointers to all that the calls of a layer read and write.
template<class P, class Stored>
struct layer_operands {
    Stored const* x = nullptr;
    Stored* y = nullptr;
    Stored const* dy = nullptr;
    Stored* dx = nullptr;
    P const* parameters = nullptr; ///< of its first tensor
    P* gradients = nullptr;
    layer_place<P, Stored> place = {};
};

inline namespace TRIREME_ISA {

/// The functions of a layer, from pointers to the views that it sees. `P`: as what it takes its parameters.
template<class Layer, class In, class Out, std::size_t Lanes, class P>
struct layer_calls {
    static constexpr layer_description description = Layer::describe(In::shape);

    template<row_call What, class K, class At>
    static void run(K const& k, At const& at, int phase = 0) {
        if constexpr (goes_alone<Layer, K>) {
            auto [alone, each] = std::pair(k, at);
            alone.together = each.place.granule.count = 1;
            for (std::size_t i = 0; i < k.together; ++i, next_sample<In, Out>(each, description.saved_bytes))
                run_together<What>(alone, each, phase);
        } else {
            run_together<What>(k, at, phase);
        }
    }

private:
    template<row_call What, class K, class At>
    static void run_together(K const& k, At const& at, [[maybe_unused]] int phase) {
        tensors<P const> const parameters(at.parameters, at.place.bias_cancels);
        if constexpr (is_forward(What)) {
            forward_io<P, In, Out, Lanes, K> const io{{at.x}, {at.y}, parameters.at, k, at.place};
            if constexpr (What == row_call::forward_gather)
                Layer::forward_gather(io);
            else if constexpr (What == row_call::forward_agree)
                Layer::forward_agree(io, phase);
            else if constexpr (What == row_call::evaluate)
                evaluate(io);
            else
                Layer::forward(io);
        } else {
            tensors<P> const gradients(at.gradients, at.place.bias_cancels);
            backward_io<P, In, Out, Lanes, K> const io{{at.x},        {at.y},       {at.dy}, {at.dx},
                                                       parameters.at, gradients.at, k,       at.place};
            if constexpr (What == row_call::backward_gather)
                Layer::backward_gather(io);
            else if constexpr (What == row_call::backward_agree)
                Layer::backward_agree(io, phase);
            else if constexpr (What == row_call::backward_weights)
                Layer::backward_weights(io);
            else
                Layer::backward_input(io);
        }
    }
    template<class Io>
    static void evaluate(Io const& io) {
        if constexpr (evaluate_of<Layer, Io>::is_own)
            Layer::evaluate(io);
        else
            Layer::forward(io);
    }
    template<class Q>
    struct tensors {
        Q* at[max_parameter_tensors] = {};
        tensors(Q* first, [[maybe_unused]] bool bias_cancels) noexcept {
            for (int k = 0; k < description.parameter_count && first != nullptr; ++k) {
                at[k] = first;
                first += description.parameters[k].shape.size();
            }
            if constexpr (description.channel_bias >= 0)
                if (bias_cancels) at[description.channel_bias] = nullptr;
        }
    };
};

} // namespace TRIREME_ISA

// ---- forms: what the machine code of a row depends on ----

/// Rows of one form share their functions, wherever they stand. `Applies`: the function that forward ends with;
/// `Through`: that which backward ends with; void if there is none. `Sum`: not 0 where forward adds the other term of
/// the residual sum so many rows behind, and writes what that gives. `InputIsDone`: of a repeat, the backward of its
/// last row.
template<class Layer, class In, class Out, class Applies, class Through, std::size_t Sum, bool ForwardIsDone,
         bool InputIsDone>
struct row_form {
    using layer = Layer;
    using input = In;
    using output = Out;
    using applies = Applies;
    using through = Through;
    static constexpr std::size_t sum = Sum;
    static constexpr bool forward_is_done = ForwardIsDone;
    static constexpr bool input_is_done = InputIsDone;
};

// Fusing a function is safe only where it is the sole reader of the layer's output: right behind it in the same chain.
// The sole reader of what the body of a residual without a shortcut gives is the sum, and likewise of what a shortcut
// gives. The plan puts a function's output where the layer's lies, and the gradient by its input where that by its
// output does. On the way back the row behind a function multiplies by its slope, also from one round of a repeat to
// the next; behind a layer that agrees on something, this layer does, which can compute the function again from what it
// has kept.

/// Flags of a chain's units that are no repeats: which of them do the work of those beside them.
template<class Chain>
struct fused_units {
    bool applies_next[Chain::units + 2] = {};  ///< forward ends with the function behind it
    bool begins_next[Chain::units + 2] = {};   ///< and backward begins with that function
    std::size_t sum_behind[Chain::units] = {}; ///< forward adds and writes what the sum so many units behind does
    bool summed[Chain::units + 2] = {};        ///< a sum that another unit computes
    bool takes_slope[Chain::units + 2] = {};   ///< backward can end with the function before it
    bool open[Chain::units + 2] = {};          ///< a function that leaves its backward to the row behind it

    constexpr explicit fused_units(fusion way) { find(way, typename Chain::list{}); }

private:
    template<class... U>
    constexpr void find(fusion way, pack<U...>) {
        bool const has_function[] = {(names_itself<U> && requires { typename U::function; })..., false};
        bool const repeats[] = {is_repeat<U>..., false};
        bool const sums[] = {is_residual_sum<U>..., false, false};
        bool const branches[] = {std::is_same_v<U, branch>..., false};
        auto const is_function = [&](std::size_t unit) { // in place, and its slope is told by its output
            auto const& d = Chain::description_of(unit);
            return has_function[unit] && d.execution.in_place && !d.execution.backward_reads_input &&
                   d.parameter_count == 0;
        };
        bool const both = way == fusion::on_both_sides;
        for (std::size_t i = 0; i < Chain::units && way != fusion::nothing; ++i) {
            if (repeats[i]) continue;
            auto const& d = Chain::description_of(i);
            applies_next[i] = d.execution.applies && !d.execution.view && i + 1 < Chain::units && is_function(i + 1) &&
                              !d.execution.backward_reads_output && (both || d.whole_shard());
            begins_next[i] = applies_next[i] && d.whole_shard();
            takes_slope[i] = both && d.execution.applies && !sums[i];
            open[i] = both && is_function(i) && !(i > 0 && begins_next[i - 1]);
            auto const sum = i + 1 + (branches[i + 1] ? 1 : 0);
            if (both && d.execution.adds && sums[sum]) {
                sum_behind[i] = sum - i;
                summed[sum] = true;
            }
        }
    }
};

/// The fused units of a chain for kernels that fuse so.
template<class Chain, fusion Way>
inline constexpr fused_units<Chain> fused_in{Way};

template<bool Is, class Chain, std::size_t Unit>
struct function_at {
    using type = void;
};
template<class Chain, std::size_t Unit>
struct function_at<true, Chain, Unit> {
    using type = typename Chain::template layer_type<Unit>::function;
};

/// True if backward of a unit's first row can end with the function before it.
template<class Chain, fusion Way, std::size_t Unit>
constexpr bool takes_slope() noexcept {
    if constexpr (Way != fusion::on_both_sides || Unit >= Chain::units) {
        return false;
    } else {
        using unit = typename Chain::template layer_type<Unit>;
        if constexpr (is_empty_repeat<unit>)
            return false;
        else if constexpr (is_repeat<unit>)
            return takes_slope<typename block_of<unit, typename Chain::template input_of<Unit>>::type, Way, 0>();
        else
            return fused_in<Chain, Way>.takes_slope[Unit];
    }
}

/// The function of a unit's last row, if that leaves its backward to the row behind it; else void.
template<class Chain, fusion Way, std::size_t Unit>
struct open_function {
    using type = typename function_at<fused_in<Chain, Way>.open[Unit], Chain, Unit>::type;
};
template<class Chain, fusion Way, std::size_t Unit>
    requires(is_repeat<typename Chain::template layer_type<Unit>>)
struct open_function<Chain, Way, Unit> {
    using type = void;
};
template<class Chain, std::size_t Unit>
    requires(is_repeat<typename Chain::template layer_type<Unit>> &&
             !is_empty_repeat<typename Chain::template layer_type<Unit>>)
struct open_function<Chain, fusion::on_both_sides, Unit> {
    using block =
        typename block_of<typename Chain::template layer_type<Unit>, typename Chain::template input_of<Unit>>::type;
    using type = typename open_function<block, fusion::on_both_sides, block::units - 1>::type;
};

/// The function of a chain's last row; likewise.
template<class Chain, fusion Way>
struct open_function_of_last : open_function<Chain, Way, Chain::units - 1> {};
template<class Chain, fusion Way>
    requires(Chain::units == 0)
struct open_function_of_last<Chain, Way> {
    using type = void;
};

/// Edges of a chain: the function before its first row that this multiplies by the slope of, and
/// whether the row behind its last one does the backward of that.
template<class Before = void, bool LastIsDone = false>
struct chain_edges {
    using before = Before;
    static constexpr bool last_is_done = LastIsDone;
};

/// The function before a unit by whose slope it multiplies.
template<class Chain, fusion Way, std::size_t Unit, class Edges>
struct through_at {
    using type = typename std::conditional_t<takes_slope<Chain, Way, Unit>(), open_function<Chain, Way, Unit - 1>,
                                             function_at<false, Chain, Unit>>::type;
};
template<class Chain, fusion Way, class Edges>
struct through_at<Chain, Way, 0, Edges> {
    using type = typename Edges::before;
};

/// True if other rows do the backward of a unit's last row.
template<class Chain, fusion Way, std::size_t Unit, class Edges>
constexpr bool input_is_done() noexcept {
    constexpr auto const& fused = fused_in<Chain, Way>;
    if constexpr (Unit != 0)
        if (fused.begins_next[Unit - 1]) return true;
    if constexpr (std::is_void_v<typename open_function<Chain, Way, Unit>::type>)
        return false;
    else if constexpr (Unit + 1 < Chain::units)
        return takes_slope<Chain, Way, Unit + 1>();
    else
        return Edges::last_is_done;
}

/// The form of a unit. `Unused`: no row needs the gradient by its input.
template<class Chain, std::size_t Unit, fusion Way, bool Unused, class Edges>
struct form_at {
    using unit = typename Chain::template layer_type<Unit>;
    static constexpr auto const& fused = fused_in<Chain, Way>;
    /// The unit behind which a function is applied.
    static constexpr std::size_t end = Unit + fused.sum_behind[Unit];
    static constexpr bool done = fused.summed[Unit] || (Unit != 0 && fused.applies_next[Unit - (Unit != 0)]);
    using type =
        row_form<computed_by_t<unit>, typename Chain::template input_of<Unit>, typename Chain::template output_of<Unit>,
                 typename function_at<fused.applies_next[end], Chain, end + 1>::type,
                 typename through_at<Chain, Way, Unit, Edges>::type, fused.sum_behind[Unit], done,
                 (Unused && !is_repeat<unit>) || input_is_done<Chain, Way, Unit, Edges>()>;
};
template<class Chain, std::size_t Unit, fusion Way, bool Unused, class Edges>
using form_of = typename form_at<Chain, Unit, Way, Unused, Edges>::type;

inline namespace TRIREME_ISA {

/// The functions of a row, by row_call. What they work on is a context's: values and gradients by slot, parameters,
/// kernels.
template<class Context>
struct row_calls {
    using function = void (*)(Context const&, std::size_t row, int phase);
    function of[row_call_count] = {};

    static void nothing(Context const&, std::size_t, int) {}
    void operator()(row_call what, Context const& c, std::size_t row, int phase = 0) const {
        of[static_cast<std::size_t>(what)](c, row, phase);
    }
};

template<class Context, class Form>
struct row_functions {
    static constexpr row_calls<Context> all() noexcept {
        if constexpr (!trains_with<typename Context::loss>) {
            row_calls<Context> calls;
            for (auto& call : calls.of) call = function_of<row_call::evaluate>();
            return calls;
        } else
            return {{function_of<row_call::forward>(), function_of<row_call::evaluate>(),
                     function_of<row_call::backward_weights>(), function_of<row_call::backward_input>(),
                     function_of<row_call::forward_gather>(), function_of<row_call::forward_agree>(),
                     function_of<row_call::backward_gather>(), function_of<row_call::backward_agree>()}};
    }

private:
    using layer = typename Form::layer;
    static constexpr layer_description description = layer::describe(Form::input::shape);
    using parameter = typename Context::template parameter_type<description.execution.parameters_as_values>;
    using calls = layer_calls<layer, typename Form::input, typename Form::output, Context::lanes, parameter>;
    static constexpr bool is_fork = std::is_same_v<layer, fork>;

    /// Backward begins with the function behind the row: its dy is the gradient by that function's output. That
    /// gradient is still there, for the plan keeps it at least until the row's own.
    static constexpr bool begins_with_function =
        description.whole_shard() && Form::sum == 0 && !std::is_void_v<typename Form::applies>;

    static constexpr bool does(row_call what) noexcept {
        auto const& d = description;
        switch (what) {
        case row_call::forward:
        case row_call::evaluate:
            return !d.execution.view && !Form::forward_is_done;
        case row_call::backward_weights:
            return d.parameter_count > 0;
        case row_call::backward_input:
            return !Form::input_is_done && (is_fork || !(d.execution.view || is_residual_sum<layer>));
        case row_call::forward_gather:
        case row_call::forward_agree:
            return d.forward.phases != 0;
        default:
            return d.backward.phases != 0;
        }
    }
    /// True if a layer is evaluated as it goes forward: then one function does both. Biases may cancel in training
    /// alone.
    static constexpr bool evaluates_forward() noexcept {
        using kernels =
            std::remove_cvref_t<decltype(std::declval<Context const&>().template applying<typename Form::applies>(0))>;
        using io = forward_io<parameter, typename Form::input, typename Form::output, Context::lanes, kernels>;
        constexpr bool leaves_out = Context::leaves_out_biases && description.channel_bias >= 0;
        return !leaves_out && !description.adds_to_loss && !evaluate_of<layer, io>::is_own;
    }
    template<row_call What>
    static constexpr typename row_calls<Context>::function function_of() noexcept {
        if constexpr (What == row_call::evaluate && trains_with<typename Context::loss> && evaluates_forward())
            return function_of<row_call::forward>();
        else if constexpr (does(What))
            return &run<What>;
        else
            return &row_calls<Context>::nothing;
    }

    template<row_call What>
    static void run(Context const& c, std::size_t row, [[maybe_unused]] int phase) {
        if constexpr (is_forward(What)) {
            constexpr bool values = What == row_call::forward || What == row_call::evaluate;
            using function = std::conditional_t<values, typename Form::applies, void>;
            bool const again = What == row_call::forward && phase == on_the_way_back;
            auto at = c.template forward_of<parameter>(row, again);
            if constexpr (What == row_call::evaluate) at.place.bias_cancels = false; // running statistics are given
            if constexpr (What == row_call::forward && description.adds_to_loss)
                at.place.loss = again ? nullptr : c.losses_of_row();
            if constexpr (values && Form::sum != 0) {
                auto const sum = c.template forward_of<parameter>(row + Form::sum, again);
                bool const first = Context::network::row(row + Form::sum).from == row + 1;
                at.y = sum.y;
                calls::template run<What>(c.adding(c.template applying<function>(row), first ? sum.place.other : sum.x),
                                          at, phase);
            } else {
                calls::template run<What>(c.template applying<function>(row), at, phase);
            }
            if constexpr (What == row_call::forward && description.adds_to_loss)
                if (at.place.loss != nullptr) c.add_term(row);
        } else {
            if (What == row_call::backward_input && row <= Context::network::first_trainable) return; // nobody wants it
            auto at = c.template backward_of<parameter>(row, row + (begins_with_function ? 2 : 1));
            if constexpr (What == row_call::backward_weights) {
                c.template add_gradients<parameter>(row, at, [](auto const& k, auto const& to) {
                    if constexpr (description.backward.phases == 0)
                        calls::template run<What>(k, to); // else it has agreed
                });
            } else {
                using function = std::conditional_t<begins_with_function, typename Form::applies, void>;
                using through = std::conditional_t<What == row_call::backward_input, typename Form::through, void>;
                if constexpr (is_fork) at.place.other = c.gradient(Context::network::row(row).other);
                if constexpr (description.adds_to_loss) at.place.loss_weight = c.loss_weights();
                calls::template run<What>(c.template going_back<function, through>(row, at.x), at, phase);
            }
        }
    }
};

/// Writes the rows of a unit, a layer's or a repeated block's, from `to` on.
template<class Context, class Form>
struct unit_calls {
    static constexpr void write(row_calls<Context>* to) { *to = row_functions<Context, Form>::all(); }
};

template<class Context, class Chain, bool Top, class Edges, std::size_t... Unit>
constexpr void write_calls(row_calls<Context>* to, std::index_sequence<Unit...>) {
    constexpr auto unused = [](std::size_t unit) { // a layer need not have what is never called
        return Top && Chain::first_row(unit) <= Context::network::first_trainable;
    };
    void (*const write[])(row_calls<Context>*) = {
        &unit_calls<Context, form_of<Chain, Unit, Context::way, unused(Unit), Edges>>::write..., nullptr};
    for (std::size_t i = 0; i < sizeof...(Unit); ++i) write[i](to + Chain::first_row(i));
}

/// Rounds of a repeat differ at their edges: the first follows what is before the repeat, the last one precedes what is
/// behind it, and all others follow and precede the block itself.
template<class Context, std::size_t N, class... Block, class In, class Out, class Applies, class Through,
         std::size_t Sum, bool Forward, bool Input>
struct unit_calls<Context, row_form<repeat<N, Block...>, In, Out, Applies, Through, Sum, Forward, Input>> {
    using block = typename block_of<repeat<N, Block...>, In>::type;
    static constexpr bool takes = takes_slope<block, Context::way, 0>();
    using last_function = typename open_function_of_last<block, Context::way>::type;
    static constexpr bool joined = N > 1 && takes && !std::is_void_v<last_function>;
    using between = std::conditional_t<joined, last_function, void>;

    template<class Before, bool LastIsDone>
    static constexpr void write_round(row_calls<Context>* to) {
        write_calls<Context, block, false, chain_edges<Before, LastIsDone>>(to,
                                                                            std::make_index_sequence<block::units>{});
    }
    static constexpr void write(row_calls<Context>* to) {
        write_round<Through, N == 1 ? Input : joined>(to);
        if constexpr (N > 1) {
            if constexpr (std::is_same_v<Through, between> && Input == joined) {
                copy(to, 1, N);
            } else {
                if constexpr (N > 2) {
                    write_round<between, joined>(to + block::depth);
                    copy(to, 2, N - 1);
                }
                write_round<between, Input>(to + (N - 1) * block::depth);
            }
        }
    }

private:
    /// Rounds [begin, end) are as the one before them.
    static constexpr void copy(row_calls<Context>* to, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin * block::depth; i < end * block::depth; ++i) to[i] = to[i - block::depth];
    }
};

/// The functions of all rows of a context's network, and of the loss, which is the row behind the last, if the context
/// has one: then lose<Backward>() calls it.
template<class Context>
struct row_table {
    using network = typename Context::network;
    row_calls<Context> of[network::depth + 1] = {};
    constexpr row_table() {
        write_calls<Context, network, true, chain_edges<>>(of, std::make_index_sequence<network::units>{});
        if constexpr (!std::is_void_v<typename Context::loss> && trains_with<typename Context::loss>) {
            auto& last = of[network::depth].of;
            for (auto& call : last) call = &row_calls<Context>::nothing;
            last[static_cast<std::size_t>(row_call::evaluate)] = &lose<false>;
            last[static_cast<std::size_t>(row_call::backward_input)] = &lose<true>;
        }
    }
    constexpr row_calls<Context> const& operator[](std::size_t row) const noexcept { return of[row]; }

private:
    template<bool Backward>
    static void lose(Context const& c, std::size_t, int) {
        c.template lose<Backward>();
    }
};
template<class Context>
inline constexpr row_table<Context> rows_of_context{};

} // namespace TRIREME_ISA
} // namespace detail
} // namespace trireme
