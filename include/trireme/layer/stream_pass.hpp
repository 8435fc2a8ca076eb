// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/layer_calls.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

namespace detail {

/// Whether a unit is an elementwise function that works in place, and whose slope is told by its output.
template<class Chain, std::size_t Unit>
constexpr bool is_plain_function() {
    if constexpr (Unit >= Chain::units) {
        return false;
    } else if constexpr (is_repeat<typename Chain::template layer_type<Unit>>) {
        return false;
    } else {
        constexpr auto const& d = Chain::description_of(Unit);
        return requires { typename Chain::template layer_type<Unit>::function; }
        &&d.in_place && !d.backward_reads_input && d.parameter_count == 0;
    }
}

// A layer and a function are one kernel only where one stands right behind the other in the same chain. Then nobody
// else reads what is between them: what a residual reads twice, it reads through its fork and its branch, and what it
// adds, through its sum, which apply nothing and are no functions; a repeat is a chain of its own. So the function's
// output lies where the layer's does, and the gradient of its input where that of its output does (plan_activations).

/// Whether forward through a unit ends with the function that is the next one, in one kernel.
template<class Chain, std::size_t Unit>
constexpr bool applies_next() {
    if constexpr (Unit >= Chain::units || !is_plain_function<Chain, Unit + 1>())
        return false;
    else if constexpr (is_repeat<typename Chain::template layer_type<Unit>>)
        return false;
    else
        return Chain::description_of(Unit).applies && !Chain::description_of(Unit).backward_reads_output;
}

/// Whether backward through a unit goes on through the function that is the one before, in one kernel.
template<class Chain, std::size_t Unit>
constexpr bool applies_previous() {
    if constexpr (Unit == 0 || Unit >= Chain::units || !is_plain_function<Chain, Unit - 1>())
        return false;
    else if constexpr (is_repeat<typename Chain::template layer_type<Unit>>)
        return false;
    else
        return Chain::description_of(Unit).applies;
}

} // namespace detail

/// What a backward pass does after a layer, if nothing is asked for.
struct nothing_after {
    void operator()(std::size_t) const noexcept {}
};

/// The samples of one rank on their way through a network on an accelerator, all at once: a straight line of kernels,
/// handed to a stream. A function behind a layer is applied by the layer's kernel, in both directions, so that its
/// values are not read and written once more. Gradients by parameters are computed on a second stream, beside backward.
/// Layers that need a whole shard have it from the beginning, and find out on the first stream what they agree on.
template<class Network, accelerator_kernels Kernels, class T>
class stream_pass {
public:
    using event = typename Kernels::stream::event;
    using plan_type = activation_plan<Network::depth>;
    using numbers = detail::model_numbers<T>;

    static constexpr plan_type plan(std::size_t samples) { return plan_activations<Network>(samples, sizeof(T), true); }
    /// Of the arena; what layers keep of a shard lies behind the planned blocks.
    static constexpr std::size_t elements(plan_type const& p) noexcept {
        return p.elements + round_up(Network::kept, cache_line / sizeof(T));
    }

    stream_pass(plan_type const& places, T* arena) noexcept : plan_(places), arena_(arena) {}

    /// Where the samples are put, and where logits are found and their gradient is left.
    T* input() const noexcept { return value(0); }
    T const* output() const noexcept { return value(Network::depth); }
    T* output_gradient() const noexcept { return gradient(Network::depth); }

    /// `statistics`, where there are layers with buffers, must be zero before, or what other shards have left.
    void forward(Kernels const& k, numbers const& model) const {
        detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
            this->template forward_through<Chain, Unit, true>(k, model, row);
        });
    }

    /// Forward outside of training.
    void evaluate(Kernels const& k, numbers const& model) const {
        detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
            this->template forward_through<Chain, Unit, false>(k, model, row);
        });
    }

    /// Adds the gradients by the parameters to the model's, on the stream of `weights`, which waits by means of `ready`
    /// for what it reads. `after(i)` is called when those of layer i have been handed over, from the last layer to the
    /// first. The caller joins the streams. Needs the forward pass just made.
    template<class After = nothing_after>
    void backward(Kernels const& k, Kernels const& weights, event& ready, numbers const& model,
                  After&& after = {}) const {
        detail::for_units<Network, true>(
            0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
                if (row + 1 <= Network::first_trainable) return; // nothing below wants a gradient
                this->template weights_of<Chain, Unit>(k, weights, ready, model, after, row);
                if constexpr (wants_input_gradient<Chain, Unit>())
                    if (row > Network::first_trainable) this->template backward_through<Chain, Unit>(k, model, row);
            });
    }

private:
    template<class Chain, std::size_t Unit>
    using layer_t = typename Chain::template layer_type<Unit>;
    template<class Chain, std::size_t Unit>
    using in_t = typename Chain::template input_of<Unit>;
    template<class Chain, std::size_t Unit>
    using out_t = typename Chain::template output_of<Unit>;

    T* value(std::size_t slot) const noexcept { return arena_ + plan_.value[slot]; }
    T* gradient(std::size_t slot) const noexcept { return arena_ + plan_.gradient[slot]; }
    T const* x(std::size_t row) const noexcept { return value(Network::row(row).from); }

    static T const* parameters(numbers const& model, std::size_t row) noexcept {
        return model.parameters + Network::row(row).first_parameter;
    }
    static T* gradients(numbers const& model, std::size_t row) noexcept {
        return model.gradients + Network::row(row).first_parameter;
    }
    /// Numbers of the step are not in it: those are in the accelerator's memory, where its kernels find them.
    layer_place<T> place(numbers const& model, std::size_t row, T const* other) const noexcept {
        auto const& r = Network::row(row);
        layer_place<T> p;
        p.layer = row;
        p.other = other;
        if (model.buffers != nullptr) p.buffers = model.buffers + r.first_buffer;
        if (model.statistics != nullptr) p.statistics = model.statistics + r.first_buffer;
        p.kept = arena_ + plan_.elements + r.first_kept;
        return p;
    }
    layer_place<T> place(numbers const& model, std::size_t row) const noexcept {
        return place(model, row, Network::row(row).is_sum() ? value(Network::row(row).other) : nullptr);
    }

    /// In training, or in evaluation.
    template<class Chain, std::size_t Unit, bool Training>
    void forward_through(Kernels const& k, numbers const& model, std::size_t row) const {
        constexpr auto const& d = Chain::description_of(Unit);
        if constexpr (!d.view && !detail::applies_next<Chain, Unit - 1>()) {
            if constexpr (Training && d.whole_shard) {
                forward_phase<detail::phase::gather, Chain, Unit>(k, model, row);
                forward_phase<detail::phase::agree, Chain, Unit>(k, model, row);
            }
            if constexpr (detail::applies_next<Chain, Unit>()) {
                using function = typename layer_t<Chain, Unit + 1>::function;
                run_forward<Chain, Unit, Training>(with_function<Kernels, function, T>(k), model, row, row + 2);
            } else {
                run_forward<Chain, Unit, Training>(k, model, row, row + 1);
            }
        }
    }
    // Where a function is applied, the result goes where the function's would.
    template<class Chain, std::size_t Unit, bool Training, class K>
    void run_forward(K const& k, numbers const& model, std::size_t row, std::size_t to) const {
        using layer = layer_t<Chain, Unit>;
        using in = in_t<Chain, Unit>;
        using out = out_t<Chain, Unit>;
        if constexpr (Training)
            detail::run_forward<layer, in, out, 1, K, T>(k, x(row), value(to), parameters(model, row),
                                                         place(model, row));
        else
            detail::run_evaluate<layer, in, out, 1, K, T>(k, x(row), value(to), parameters(model, row),
                                                          place(model, row));
    }
    template<detail::phase What, class Chain, std::size_t Unit>
    void forward_phase(Kernels const& k, numbers const& model, std::size_t row) const {
        detail::run_forward_phase<What, layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, Kernels, T>(
            k, x(row), value(row + 1), parameters(model, row), place(model, row));
    }

    /// Layers that need a whole shard add their gradients when they agree, on `k`'s stream; whoever follows that of
    /// `weights` follows them as well.
    template<class Chain, std::size_t Unit, class After>
    void weights_of(Kernels const& k, Kernels const& weights, event& ready, numbers const& model, After& after,
                    std::size_t row) const {
        constexpr auto const& d = Chain::description_of(Unit);
        using layer = layer_t<Chain, Unit>;
        if constexpr (d.whole_shard) {
            backward_phase<detail::phase::gather, Chain, Unit>(k, model, row);
            backward_phase<detail::phase::agree, Chain, Unit>(k, model, row);
        }
        if constexpr (d.parameter_count > 0) {
            k.queue().record(ready);
            weights.queue().wait(ready);
            detail::run_backward_weights<layer, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, Kernels, T>(
                weights, x(row), value(row + 1), gradient(row + 1), parameters(model, row), gradients(model, row),
                place(model, row));
            after(row);
        }
    }
    template<detail::phase What, class Chain, std::size_t Unit>
    void backward_phase(Kernels const& k, numbers const& model, std::size_t row) const {
        detail::run_backward_phase<What, layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, Kernels, T>(
            k, x(row), value(row + 1), gradient(row + 1), parameters(model, row), gradients(model, row),
            place(model, row));
    }

    /// Whether there is something to compute. In a network without repeats a layer need not have what is never called.
    template<class Chain, std::size_t Unit>
    static constexpr bool wants_input_gradient() {
        using layer = layer_t<Chain, Unit>;
        if constexpr (std::is_base_of_v<Chain, Network> && Chain::first_row(Unit) <= Network::first_trainable)
            return false;
        else if constexpr (std::is_same_v<layer, detail::fork>)
            return true;
        else
            return !Chain::description_of(Unit).view && !detail::is_residual_sum<layer> &&
                   !detail::applies_previous<Chain, Unit + 1>();
    }
    template<class Chain, std::size_t Unit>
    void backward_through(Kernels const& k, numbers const& model, std::size_t row) const {
        if constexpr (std::is_same_v<layer_t<Chain, Unit>, detail::fork>) {
            run_backward_input<Chain, Unit>(k, model, row, row, place(model, row, gradient(Network::row(row).other)));
        } else if constexpr (detail::applies_previous<Chain, Unit>()) {
            // it has no parameters, so that the first layer with some is below it: its gradient, too, is wanted
            using function = typename layer_t<Chain, Unit - 1>::function;
            run_backward_input<Chain, Unit>(with_function<Kernels, function, T>(k, x(row)), model, row, row - 1,
                                            place(model, row));
        } else {
            run_backward_input<Chain, Unit>(k, model, row, row, place(model, row));
        }
    }
    template<class Chain, std::size_t Unit, class K>
    void run_backward_input(K const& k, numbers const& model, std::size_t row, std::size_t to,
                            layer_place<T> const& place) const {
        detail::run_backward_input<layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, K, T>(
            k, x(row), value(row + 1), gradient(row + 1), gradient(to), parameters(model, row), place);
    }

    plan_type plan_;
    T* arena_;
};

} // namespace trireme
