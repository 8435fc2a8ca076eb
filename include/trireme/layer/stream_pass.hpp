// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/blocks/samples.hpp>
#include <trireme/device/kernel_policy.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/channels_last.hpp>
#include <trireme/layer/fused_functions.hpp>
#include <trireme/layer/layer_calls.hpp>
#include <trireme/layer/layer_sums.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace trireme {

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
    using stored_type = stored_t<Kernels, T>; ///< of what lies in the slots

    /// Whether values are narrower than parameters. Layers whose kernels multiply by their parameters then take them
    /// from a copy of the parameters that is as narrow, and their gradients are widened when they are added.
    static constexpr bool narrow = !std::is_same_v<stored_type, T>;

    struct numbers : detail::model_numbers<T> {
        stored_type const* narrow_parameters = nullptr;
        stored_type* narrow_gradients = nullptr; ///< of one layer at a time
    };

    static constexpr plan_type plan(std::size_t samples) {
        return plan_activations<Network>(samples, sizeof(stored_type), true);
    }
    /// Of the arena; what layers keep of a shard lies behind the planned blocks.
    static constexpr std::size_t elements(plan_type const& p) noexcept {
        return p.elements + round_up(Network::kept * sizeof(T) / sizeof(stored_type), cache_line / sizeof(stored_type));
    }
    /// The most parameters of a layer that takes them from the narrow copy.
    static constexpr std::size_t narrow_gradients() noexcept {
        std::size_t most = 0;
        for (std::size_t row = 0; row < Network::depth && narrow; ++row) {
            auto const& d = Network::row(row).description;
            if (d.parameters_as_values && d.parameter_elements() > most) most = d.parameter_elements();
        }
        return most;
    }

    /// Where the samples' values go, and the parameters of a row that takes them as values.
    static constexpr auto input_order(std::size_t samples) noexcept {
        if constexpr (images_last) {
            return order_of(Network::row(0).input, samples * Network::row(0).input.size());
        } else {
            static_cast<void>(samples);
            return order_as_it_is{};
        }
    }
    static constexpr auto parameter_order(std::size_t row) noexcept {
        if constexpr (images_last) {
            auto const& weights = rows.of[row].weights;
            if (weights.rank == 4)
                return order_of(make_shape(weights.extent[1], weights.extent[2], weights.extent[3]), weights.size());
            return order_of(rows.of[row].viewed, weights.size());
        } else {
            static_cast<void>(row);
            return order_as_it_is{};
        }
    }

    /// Alignment of narrow tensors: the widest reads of libraries' products want it.
    static constexpr std::size_t narrow_alignment = 256;

    /// Offset of a row's parameters in the narrow copy; of `depth`: the copy's size.
    static constexpr std::size_t narrow_place(std::size_t row) noexcept {
        std::size_t place = 0;
        for (std::size_t i = 0; i < row; ++i) {
            auto const& d = Network::row(i).description;
            if (d.parameters_as_values)
                place += round_up(d.parameter_elements(), narrow_alignment / sizeof(stored_type));
        }
        return place;
    }

    /// Makes the narrow copy of those parameters that are taken as values.
    static void narrow_parameters(Kernels const& k, T const* from, stored_type* to) {
        for (std::size_t row = 0; row < Network::depth; ++row) {
            auto const& r = Network::row(row);
            if (r.description.parameters_as_values)
                round_values(k, from + r.first_parameter, to + narrow_place(row), r.description.parameter_elements(),
                             parameter_order(row));
        }
    }

    stream_pass(plan_type const& places, stored_type* arena) noexcept : plan_(places), arena_(arena) {}

    /// Where the samples are put, and where logits are found and their gradient is left.
    stored_type* input() const noexcept { return value(0); }
    stored_type const* output() const noexcept { return value(Network::depth); }
    stored_type* output_gradient() const noexcept { return gradient(Network::depth); }

    /// A rank's part in a pass that several ranks may make together.
    struct lane {
        stream_pass const* pass;
        Kernels k, weights;
        event* ready;
        numbers model;
    };

    /// Of one rank, or of all ranks of this process, layer by layer: where layers add numbers over all devices,
    /// `exchange(i)` hands over the i-th of layer_sums, between what comes before it and what comes after it on every
    /// rank. `statistics`, where there are layers with buffers, must be zero before, or what other shards have left.
    template<class Exchange = nothing_after>
    static void forward(std::span<lane const> lanes, Exchange&& exchange = {}) {
        detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
            constexpr auto const& d = Chain::description_of(Unit);
            if constexpr (!d.whole_batch()) {
                for (auto const& l : lanes) l.pass->template forward_through<Chain, Unit, true>(l.k, l.model, row);
            } else {
                for (auto const& l : lanes) l.pass->template forward_statistics<Chain, Unit>(l.k, l.model, row);
                [&]<std::size_t... Call>(std::index_sequence<Call...>) {
                    (after_exchange<Call, Chain, Unit, true>(lanes, exchange, layer_sums<Network>::first_of(row), row),
                     ...);
                }(std::make_index_sequence<d.forward_sums>{});
                for (auto const& l : lanes) l.pass->template forward_values<Chain, Unit, true>(l.k, l.model, row);
            }
        });
    }

    /// Forward outside of training.
    void evaluate(Kernels const& k, numbers const& model) const {
        detail::for_units<Network>(0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
            this->template forward_through<Chain, Unit, false>(k, model, row);
        });
    }

    /// Likewise. Adds the gradients by the parameters to the model's, on the stream of `weights`, which waits by means
    /// of `ready` for what it reads. `after(row)` is called when those of a row have been handed over for all lanes,
    /// from the last row to the first. The caller joins the streams. Needs the forward pass just made.
    template<class Exchange = nothing_after, class After = nothing_after>
    static void backward(std::span<lane const> lanes, Exchange&& exchange = {}, After&& after = {}) {
        detail::for_units<Network, true>(
            0, [&]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
                if (row + 1 <= Network::first_trainable) return; // nothing below wants a gradient
                constexpr auto const& d = Chain::description_of(Unit);
                if constexpr (d.whole_shard)
                    for (auto const& l : lanes) l.pass->template backward_statistics<Chain, Unit>(l.k, l.model, row);
                if constexpr (d.whole_batch())
                    after_exchange<0, Chain, Unit, false>(lanes, exchange,
                                                          layer_sums<Network>::first_of(row) + d.forward_sums, row);
                for (auto const& l : lanes) l.pass->template weights_of<Chain, Unit>(l, row);
                if constexpr (d.parameter_count > 0) after(row);
                if constexpr (wants_input_gradient<Chain, Unit>())
                    if (row > Network::first_trainable)
                        for (auto const& l : lanes) l.pass->template backward_through<Chain, Unit>(l.k, l.model, row);
            });
    }

    /// What layers keep of a shard.
    T* kept() const noexcept { return reinterpret_cast<T*>(arena_ + plan_.elements); }

private:
    template<std::size_t Call, class Chain, std::size_t Unit, bool Forward, class Exchange>
    static void after_exchange(std::span<lane const> lanes, Exchange& exchange, std::size_t first, std::size_t row) {
        exchange(first + Call);
        for (auto const& l : lanes)
            if constexpr (Forward)
                l.pass->template forward_phase<detail::after_sum(Call), Chain, Unit>(l.k, l.model, row);
            else
                l.pass->template backward_phase<detail::after_sum(Call), Chain, Unit>(l.k, l.model, row);
    }

    template<class Chain, std::size_t Unit>
    using layer_t = typename Chain::template layer_type<Unit>;
    template<class Chain, std::size_t Unit>
    using in_t = typename Chain::template input_of<Unit>;
    template<class Chain, std::size_t Unit>
    using out_t = typename Chain::template output_of<Unit>;

    using called = called_t<Kernels>;

    static constexpr bool images_last = keeps_channels_last<Kernels>;
    static_assert(!images_last || narrow, "the copy of the parameters has their order");
    static constexpr std::conditional_t<images_last, channels_last_rows<Network>, nothing_kept> rows{};
    static constexpr order_channels_last order_of(shape const& image, std::size_t values) noexcept {
        if (image.rank != 3 || image.extent[1] * image.extent[2] == 1) return {};
        return {static_cast<std::uint32_t>(image.extent[0]),
                static_cast<std::uint32_t>(image.extent[1] * image.extent[2]), values};
    }

    stored_type* value(std::size_t slot) const noexcept { return arena_ + plan_.value[slot]; }
    stored_type* gradient(std::size_t slot) const noexcept { return arena_ + plan_.gradient[slot]; }
    stored_type const* x(std::size_t row) const noexcept { return value(Network::row(row).from); }

    /// As what a unit's kernels take its parameters.
    template<class Chain, std::size_t Unit>
    using parameter_t = std::conditional_t<Chain::description_of(Unit).parameters_as_values, stored_type, T>;

    template<class P>
    static P const* parameters(numbers const& model, std::size_t row) noexcept {
        if constexpr (std::is_same_v<P, T>)
            return model.parameters + Network::row(row).first_parameter;
        else
            return model.narrow_parameters + narrow_place(row);
    }
    static T* gradients(numbers const& model, std::size_t row) noexcept {
        return model.gradients + Network::row(row).first_parameter;
    }
    /// Numbers of the step are not in it: those are in the accelerator's memory, where its kernels find them.
    template<class P>
    layer_place<P, stored_type> place(numbers const& model, std::size_t row, stored_type const* other) const noexcept {
        auto const& r = Network::row(row);
        layer_place<P, stored_type> p;
        p.layer = row;
        if constexpr (images_last) p.last_channels = order_of(rows.of[row].viewed, 0).channels;
        p.other = other;
        if constexpr (std::is_same_v<P, T>) { // what a layer keeps of a shard is as wide as parameters are
            if (model.buffers != nullptr) p.buffers = model.buffers + r.first_buffer;
            if (model.statistics != nullptr) p.statistics = model.statistics + r.first_buffer;
            p.kept = kept() + r.first_kept;
        }
        return p;
    }
    template<class P>
    layer_place<P, stored_type> place(numbers const& model, std::size_t row) const noexcept {
        return place<P>(model, row, Network::row(row).is_sum() ? value(Network::row(row).other) : nullptr);
    }

    /// The kernels, applying a function to what they write.
    template<class Function>
    static auto applying(Kernels const& k, stored_type const* input = nullptr) {
        using with = with_function<called, Function, stored_type>;
        if constexpr (images_last)
            return storing_bf16<channels_last<with>>(channels_last<with>(with(k, input)));
        else
            return typename storing<with, stored_type>::type(with(k, input));
    }

    /// In training, or in evaluation.
    template<class Chain, std::size_t Unit, bool Training>
    void forward_through(Kernels const& k, numbers const& model, std::size_t row) const {
        if constexpr (Training && Chain::description_of(Unit).whole_shard)
            forward_statistics<Chain, Unit>(k, model, row);
        forward_values<Chain, Unit, Training>(k, model, row);
    }
    template<class Chain, std::size_t Unit>
    void forward_statistics(Kernels const& k, numbers const& model, std::size_t row) const {
        forward_phase<detail::phase::gather, Chain, Unit>(k, model, row);
        forward_phase<detail::phase::agree, Chain, Unit>(k, model, row);
    }
    template<class Chain, std::size_t Unit, bool Training>
    void forward_values(Kernels const& k, numbers const& model, std::size_t row) const {
        if constexpr (!Chain::description_of(Unit).view && !detail::applies_next<Chain, Unit - 1>()) {
            if constexpr (detail::applies_next<Chain, Unit>()) {
                using function = typename layer_t<Chain, Unit + 1>::function;
                run_forward<Chain, Unit, Training>(applying<function>(k), model, row, row + 2);
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
        using p = parameter_t<Chain, Unit>;
        if constexpr (Training)
            detail::run_forward<layer, in, out, 1, K, p>(k, x(row), value(to), parameters<p>(model, row),
                                                         place<p>(model, row));
        else
            detail::run_evaluate<layer, in, out, 1, K, p>(k, x(row), value(to), parameters<p>(model, row),
                                                          place<p>(model, row));
    }
    template<detail::phase What, class Chain, std::size_t Unit>
    void forward_phase(Kernels const& k, numbers const& model, std::size_t row) const {
        detail::run_forward_phase<What, layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, Kernels, T>(
            k, x(row), value(row + 1), parameters<T>(model, row), place<T>(model, row));
    }

    /// Layers that need a whole shard add their gradients when they agree, on `k`'s stream; whoever follows that of
    /// `weights` follows them as well.
    template<class Chain, std::size_t Unit>
    void backward_statistics(Kernels const& k, numbers const& model, std::size_t row) const {
        backward_phase<detail::phase::gather, Chain, Unit>(k, model, row);
        backward_phase<detail::phase::agree, Chain, Unit>(k, model, row);
    }
    template<class Chain, std::size_t Unit>
    void weights_of(lane const& l, std::size_t row) const {
        auto const &k = l.k, &weights = l.weights; // no structured bindings: clang 14 lets no lambda see them
        auto const& model = l.model;
        constexpr auto const& d = Chain::description_of(Unit);
        using layer = layer_t<Chain, Unit>;
        if constexpr (d.parameter_count > 0) {
            using p = parameter_t<Chain, Unit>;
            k.queue().record(*l.ready);
            weights.queue().wait(*l.ready);
            auto const add_to = [&](Kernels const& on, p* gradients) {
                detail::run_backward_weights<layer, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, Kernels, p>(
                    on, x(row), value(row + 1), gradient(row + 1), parameters<p>(model, row), gradients,
                    place<p>(model, row));
            };
            if constexpr (std::is_same_v<p, T>) {
                add_to(weights, gradients(model, row));
            } else {
                weights.queue().zero(model.narrow_gradients, d.parameter_elements() * sizeof(p));
                auto on_zeros = weights;
                on_zeros.set_gradients_are_zero();
                add_to(on_zeros, model.narrow_gradients);
                add_into(weights, gradients(model, row), static_cast<p const*>(model.narrow_gradients),
                         d.parameter_elements(), parameter_order(row));
            }
        }
    }
    template<detail::phase What, class Chain, std::size_t Unit>
    void backward_phase(Kernels const& k, numbers const& model, std::size_t row) const {
        detail::run_backward_phase<What, layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, Kernels, T>(
            k, x(row), value(row + 1), gradient(row + 1), parameters<T>(model, row), gradients(model, row),
            place<T>(model, row));
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
            run_backward_input<Chain, Unit>(k, model, row, row, gradient(Network::row(row).other));
        } else if constexpr (detail::applies_previous<Chain, Unit>()) {
            // it has no parameters, so that the first layer with some is below it: its gradient, too, is wanted
            using function = typename layer_t<Chain, Unit - 1>::function;
            run_backward_input<Chain, Unit>(applying<function>(k, x(row)), model, row, row - 1, nullptr);
        } else {
            run_backward_input<Chain, Unit>(k, model, row, row, nullptr);
        }
    }
    /// `other`: the gradient that comes by a second way.
    template<class Chain, std::size_t Unit, class K>
    void run_backward_input(K const& k, numbers const& model, std::size_t row, std::size_t to,
                            stored_type const* other) const {
        using p = parameter_t<Chain, Unit>;
        detail::run_backward_input<layer_t<Chain, Unit>, in_t<Chain, Unit>, out_t<Chain, Unit>, 1, K, p>(
            k, x(row), value(row + 1), gradient(row + 1), gradient(to), parameters<p>(model, row),
            place<p>(model, row, other));
    }

    plan_type plan_;
    stored_type* arena_;
};

} // namespace trireme
