// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
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
    static void run(K const& k, At const& at, [[maybe_unused]] int phase = 0) {
        tensors<P const> const parameters(at.parameters);
        if constexpr (is_forward(What)) {
            forward_io<P, In, Out, Lanes, K> const io{{at.x}, {at.y}, parameters.at, k, at.place};
            if constexpr (What == row_call::forward_gather)
                Layer::forward_gather(io);
            else if constexpr (What == row_call::forward_agree)
                Layer::forward_agree(io, phase);
            else if constexpr (What == row_call::evaluate && requires { Layer::evaluate(io); })
                Layer::evaluate(io);
            else
                Layer::forward(io);
        } else {
            tensors<P> const gradients(at.gradients);
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

private:
    template<class Q>
    struct tensors {
        Q* at[max_parameter_tensors] = {};
        explicit tensors(Q* first) noexcept {
            for (int k = 0; k < description.parameter_count && first != nullptr; ++k) {
                at[k] = first;
                first += description.parameters[k].shape.size();
            }
        }
    };
};

} // namespace TRIREME_ISA

// ---- forms: what the machine code of a row depends on ----

/// Rows of one form share their functions, wherever they stand. `Applies`: the function that forward ends with;
/// `Through`: that which backward ends with; void if there is none.
template<class Layer, class In, class Out, class Applies, class Through, bool ForwardIsDone, bool InputIsDone>
struct row_form {
    using layer = Layer;
    using input = In;
    using output = Out;
    using applies = Applies;
    using through = Through;
    static constexpr bool forward_is_done = ForwardIsDone;
    static constexpr bool input_is_done = InputIsDone;
};

// Fusing is safe only where the function is the sole reader of the layer's output: right behind it in the same chain.
// Residual inputs and sums are read through fork, branch and sum rows, which are never fused, and a repeat's block is a
// chain of its own. The plan then puts the function's output where the layer's lies, and the gradient by its input
// where that by its output does.

/// Flags of a chain's units: which of them do the work of a function beside them.
template<class Chain>
struct fused_units {
    bool applies_next[Chain::units + 2] = {};     ///< forward ends with the function behind it
    bool through_previous[Chain::units + 2] = {}; ///< backward ends with the function before it

    constexpr explicit fused_units(fusion way) { find(way, typename Chain::list{}); }

private:
    template<class... U>
    constexpr void find(fusion way, pack<U...>) {
        bool const has_function[] = {requires { typename U::function; }..., false};
        bool const repeats[] = {is_repeat<U>..., false};
        auto const is_function = [&](std::size_t unit) { // in place, and its slope is told by its output
            auto const& d = Chain::description_of(unit);
            return has_function[unit] && d.execution.in_place && !d.execution.backward_reads_input &&
                   d.parameter_count == 0;
        };
        for (std::size_t i = 0; i < Chain::units && way != fusion::nothing; ++i) {
            if (repeats[i]) continue;
            auto const& d = Chain::description_of(i);
            bool const both = way == fusion::on_both_sides;
            if (!d.execution.applies) continue;
            applies_next[i] = i + 1 < Chain::units && is_function(i + 1) && !d.execution.backward_reads_output &&
                              (both || d.whole_shard());
            through_previous[i] = both && i > 0 && is_function(i - 1);
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

/// The form of a unit. `Unused`: no row needs the gradient by its input.
template<class Chain, std::size_t Unit, fusion Way, bool Unused>
using form_of = row_form<computed_by_t<typename Chain::template layer_type<Unit>>,
                         typename Chain::template input_of<Unit>, typename Chain::template output_of<Unit>,
                         typename function_at<fused_in<Chain, Way>.applies_next[Unit], Chain, Unit + 1>::type,
                         typename function_at<fused_in<Chain, Way>.through_previous[Unit], Chain, Unit - 1>::type,
                         Unit != 0 && fused_in<Chain, Way>.applies_next[Unit - (Unit != 0)],
                         Unused || (Way == fusion::on_both_sides
                                        ? fused_in<Chain, Way>.through_previous[Unit + 1]
                                        : Unit != 0 && fused_in<Chain, Way>.applies_next[Unit - (Unit != 0)])>;

inline namespace TRIREME_ISA {

/// The functions of a row, by row_call. What they work on is a context's: values and gradients by slot, parameters,
/// kernels.
template<class Context>
struct row_calls {
    using function = void (*)(Context const&, std::size_t row, int phase);
    function of[row_call_count] = {};

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
        Context::way == fusion::behind_agreements && !std::is_void_v<typename Form::applies>;

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
    /// True if a layer is evaluated as it goes forward: then one function does both.
    static constexpr bool evaluates_forward() noexcept {
        using io = forward_io<
            parameter, typename Form::input, typename Form::output, Context::lanes,
            std::remove_cvref_t<decltype(std::declval<Context const&>().template applying<typename Form::applies>(0))>>;
        return !description.adds_to_loss && !requires(io const& f) { layer::evaluate(f); };
    }
    template<row_call What>
    static constexpr typename row_calls<Context>::function function_of() noexcept {
        if constexpr (What == row_call::evaluate && trains_with<typename Context::loss> && evaluates_forward())
            return function_of<row_call::forward>();
        else if constexpr (does(What))
            return &run<What>;
        else
            return [](Context const&, std::size_t, int) {};
    }

    template<row_call What>
    static void run(Context const& c, std::size_t row, [[maybe_unused]] int phase) {
        if constexpr (is_forward(What)) {
            constexpr bool values = What == row_call::forward || What == row_call::evaluate;
            using function = std::conditional_t<values, typename Form::applies, void>;
            bool const again = What == row_call::forward && phase == on_the_way_back;
            if constexpr (What == row_call::forward && description.adds_to_loss) {
                auto at = c.template forward_of<parameter>(row, again);
                at.place.loss = again ? nullptr : c.losses_of_row();
                calls::template run<What>(c.template applying<function>(row), at, phase);
                if (at.place.loss != nullptr) c.add_term(row);
            } else
                calls::template run<What>(c.template applying<function>(row),
                                          c.template forward_of<parameter>(row, again), phase);
        } else {
            if (What == row_call::backward_input && row <= Context::network::first_trainable) return; // nobody wants it
            auto at = c.template backward_of<parameter>(row, row + (begins_with_function ? 2 : 1));
            if constexpr (What == row_call::backward_weights) {
                c.template add_gradients<parameter>(row, at, [](auto const& k, auto const& to) {
                    if constexpr (description.backward.phases == 0)
                        calls::template run<What>(k, to); // else it has agreed
                });
            } else if constexpr (What == row_call::backward_input && !std::is_void_v<typename Form::through>) {
                calls::template run<What>(c.template applying<typename Form::through>(row, at.x), at);
            } else {
                using function = std::conditional_t<begins_with_function, typename Form::applies, void>;
                if constexpr (is_fork) at.place.other = c.gradient(Context::network::row(row).other);
                if constexpr (description.adds_to_loss) at.place.loss_weight = c.loss_weights();
                calls::template run<What>(c.template applying<function>(row), at, phase);
            }
        }
    }
};

/// Writes the rows of a unit, a layer's or a repeated block's, from `to` on.
template<class Context, class Form>
struct unit_calls {
    static constexpr void write(row_calls<Context>* to) { *to = row_functions<Context, Form>::all(); }
};

template<class Context, class Chain, bool Top, std::size_t... Unit>
constexpr void write_calls(row_calls<Context>* to, std::index_sequence<Unit...>) {
    constexpr auto unused = [](std::size_t unit) { // a layer need not have what is never called
        return Top && Chain::first_row(unit) <= Context::network::first_trainable;
    };
    void (*const write[])(row_calls<Context>*) = {
        &unit_calls<Context, form_of<Chain, Unit, Context::way, unused(Unit)>>::write..., nullptr};
    for (std::size_t i = 0; i < sizeof...(Unit); ++i) write[i](to + Chain::first_row(i));
}

template<class Context, std::size_t N, class... Block, class In, class Out, class Applies, class Through, bool Forward,
         bool Input>
struct unit_calls<Context, row_form<repeat<N, Block...>, In, Out, Applies, Through, Forward, Input>> {
    using block = typename block_of<repeat<N, Block...>, In>::type;
    static constexpr void write(row_calls<Context>* to) {
        write_calls<Context, block, false>(to, std::make_index_sequence<block::units>{});
        for (std::size_t i = block::depth; i < N * block::depth; ++i) to[i] = to[i - block::depth];
    }
};

/// The functions of all rows of a context's network, and of the loss, which is the row behind the last, if the context
/// has one: then lose<Backward>() calls it.
template<class Context>
struct row_table {
    using network = typename Context::network;
    row_calls<Context> of[network::depth + 1] = {};
    constexpr row_table() {
        write_calls<Context, network, true>(of, std::make_index_sequence<network::units>{});
        if constexpr (!std::is_void_v<typename Context::loss> && trains_with<typename Context::loss>) {
            auto& last = of[network::depth].of;
            for (auto& call : last) call = [](Context const&, std::size_t, int) {};
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
