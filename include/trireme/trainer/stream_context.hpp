// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/trainer/channels_last_rows.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// The parameters of a network as narrow as the values between its layers, if these are narrower than parameters:
/// layers whose kernels multiply by their parameters take them from there, and their gradients are widened when they
/// are added. Offsets are in elements.
template<class Network, accelerator_kernels Kernels, class T>
struct narrow_parameters {
    using stored_type = stored_t<Kernels, T>; ///< of what lies in the slots
    static constexpr bool exist = !std::is_same_v<stored_type, T>;
    static constexpr bool images_last = keeps_channels_last<Kernels>;
    static_assert(!images_last || exist, "the copy of the parameters has their order");

    /// Alignment of narrow tensors in bytes: the widest reads of libraries' products want it.
    static constexpr std::size_t alignment = 256;

    /// Offset of a row's parameters in the copy of those from `begin` on; of the row behind the last: the copy's size.
    static constexpr std::size_t first(std::size_t row, std::size_t begin = 0) noexcept {
        std::size_t place = 0;
        for (std::size_t i = begin; i < row && exist; ++i) {
            auto const& d = Network::row(i).description;
            if (d.execution.parameters_as_values)
                place += round_up(d.parameter_elements(), alignment / sizeof(stored_type));
        }
        return place;
    }
    /// The most gradients of a layer that has its parameters there.
    static constexpr std::size_t most_gradients(range rows) noexcept {
        std::size_t most = 0;
        for (std::size_t row = rows.begin; row < rows.end && exist; ++row) {
            auto const& d = Network::row(row).description;
            if (d.execution.parameters_as_values && d.parameter_elements() > most) most = d.parameter_elements();
        }
        return most;
    }
    /// The copy of some rows' parameters, and one layer's gradients behind it; what follows is aligned as well.
    static constexpr std::size_t bytes(range rows = {0, Network::depth}) noexcept {
        if (!exist) return 0;
        return first(rows.end, rows.begin) * sizeof(stored_type) +
               round_up(most_gradients(rows) * sizeof(stored_type), alignment);
    }

    /// The order in which samples are put into the network's input, and that of a row's parameters.
    static constexpr auto input_order(std::size_t samples) noexcept {
        if constexpr (images_last) {
            return order_of(Network::row(0).input, samples * Network::row(0).input.size());
        } else {
            static_cast<void>(samples);
            return order_as_it_is{};
        }
    }
    static constexpr auto order(std::size_t row) noexcept {
        if constexpr (images_last) {
            auto const& weights = detail::lasting_rows<Network>.of[row].weights;
            if (weights.rank == 4)
                return order_of(make_shape(weights.extent[1], weights.extent[2], weights.extent[3]), weights.size());
            return order_of(detail::lasting_rows<Network>.of[row].viewed, weights.size());
        } else {
            static_cast<void>(row);
            return order_as_it_is{};
        }
    }
    /// Channels of a row's input, if it lies channels last.
    static constexpr std::uint32_t last_channels(std::size_t row) noexcept {
        if constexpr (images_last) {
            return order_of(detail::lasting_rows<Network>.of[row].viewed, 0).channels;
        } else {
            static_cast<void>(row);
            return 1;
        }
    }

    /// Hands over the making of the copy of some rows' parameters.
    static void copy(Kernels const& k, range rows, detail::model_numbers<T> const& from, stored_type* to) {
        rounded_array<T, stored_type, decltype(order(0))> arrays[Network::depth]{};
        std::size_t count = 0;
        for (auto row = rows.begin; row < rows.end; ++row) {
            auto const& d = Network::row(row).description;
            if (d.execution.parameters_as_values)
                arrays[count++] = {from.template parameters_of<Network>(row), to + first(row, rows.begin),
                                   d.parameter_elements(), order(row)};
        }
        round_values(k, arrays, count);
    }

private:
    static constexpr order_channels_last order_of(shape const& image, std::size_t values) noexcept {
        if (image.rank != 3 || image.extent[1] * image.extent[2] == 1) return {};
        return {static_cast<std::uint32_t>(image.extent[0]),
                static_cast<std::uint32_t>(image.extent[1] * image.extent[2]), values};
    }
};

/// True if gradients by parameters are computed on a second stream, beside backward: where no layer's fill a device by
/// themselves. Else they gain nothing there, and what they read would have to be kept until the end of backward.
template<class Network, accelerator_kernels Kernels>
inline constexpr bool gradients_beside = [] {
    for (std::size_t row = 0; row < Network::depth; ++row)
        if (Network::row(row).description.backward_weights_flops > Kernels::most_flops_beside) return false;
    return true;
}();

/// The samples of one rank on an accelerator, all at once, and the kernels for them, which hand their work over to
/// streams. A function beside a layer is applied by the layer's kernel, so that its values are not read and written
/// once more. Gradients by parameters may be computed on a second stream (see gradients_beside); the caller joins the
/// two.
///
/// `Loss`: the row behind the last. A team of them are the ranks of a process. Numbers of the step are not in it:
/// kernels find them in the accelerator's memory.
template<class Network, accelerator_kernels Kernels, class T, class Loss>
class stream_context : public detail::row_context<Network, T, stored_t<Kernels, T>, 1> {
    using base = detail::row_context<Network, T, stored_t<Kernels, T>, 1>;
    using narrow = narrow_parameters<Network, Kernels, T>;

public:
    using loss = Loss;
    /// The operands of the loss; and for rows that add to it, places of their terms of the samples, and of the sums of
    /// the shard, the first row's and so far apart.
    struct losses_type : loss_operands<T, target_t<Loss, typename Network::output_extents, T>> {
        T* terms = nullptr;
        sample_score* sums = nullptr;
        std::size_t between_sums = 0;
    };
    using event = typename Kernels::stream::event;
    using plan_type = activation_plan<Network::depth>;
    using stored_type = stored_t<Kernels, T>;
    template<bool AsValues>
    using parameter_type = std::conditional_t<AsValues, stored_type, T>;
    static constexpr fusion way = Kernels::fuses;
    static constexpr bool leaves_out_biases = true;

    static constexpr bool whole_shard = true;      ///< the samples of a micro-batch have places all at once
    static constexpr bool moves_all_places = true; ///< from stage to stage: a graph copies as much each time
    static constexpr std::size_t places_of(std::size_t samples) noexcept { return samples; }

    static constexpr auto when_added =
        gradients_beside<Network, Kernels> ? weight_gradients::beside : weight_gradients::at_once;
    static constexpr plan_type plan(std::size_t samples, recomputed_rows recomputed = {}) {
        return plan_activations<Network>(samples, sizeof(stored_type), when_added, way_of_samples::together,
                                         {0, Network::depth}, 0, !detail::trains_with<Loss>, recomputed, true);
    }
    /// The plan of a stage, where forward and backward are tasks of their own; `halves`: and each half of backward.
    static constexpr plan_type plan_stage(std::size_t samples, range rows, bool halves, recomputed_rows recomputed) {
        return plan_activations<Network>(samples, sizeof(stored_type), halves ? weight_gradients::apart : when_added,
                                         way_of_samples::together, rows, samples, !detail::trains_with<Loss>,
                                         recomputed, true);
    }
    static constexpr std::size_t task_elements(plan_type const& p) noexcept { return p.sent - p.kept; }
    static constexpr std::size_t target_elements(std::size_t) noexcept { return 0; } ///< they are staged

    /// `kernels` and `beside` on the two streams; `ready`: an event for the second to wait by. `rows`: those that the
    /// numbers are of. `copy`: of their parameters, if they exist narrow. `losses`: of a last stage.
    stream_context(plan_type const& places, detail::activation_memory<stored_type> const& arena,
                   detail::model_numbers<T> const& numbers, Kernels const& kernels, Kernels const& beside, event& ready,
                   range rows, stored_type* copy, losses_type const& losses)
        : base{&places, arena, numbers}, kernels_(kernels), beside_(beside), ready_(&ready), rows_(rows), copy_(copy),
          losses_(losses) {}

    Kernels const& kernels() const noexcept { return kernels_; }
    Kernels const& beside() const noexcept { return beside_; }

    template<class Function>
    decltype(auto) applying(std::size_t, stored_type const* input = nullptr) const {
        if constexpr (std::is_void_v<Function>)
            return (kernels_);
        else
            return trireme::applying<Function>(kernels_, input);
    }
    /// The kernels of a row's way back, which begins with a function, and ends with another that gave `input`.
    template<class Function, class Through>
    decltype(auto) going_back(std::size_t row, stored_type const* input) const {
        if constexpr (std::is_void_v<Function>)
            return applying<Through>(row, input);
        else
            return beginning_with<std::remove_cvref_t<decltype(applying<Through>(row, input))>, Function>(
                applying<Through>(row, input));
    }
    /// Kernels that add what lies there to what forward writes.
    template<class K>
    static K adding(K k, stored_type const* addend) noexcept {
        k.set_addend(addend);
        return k;
    }
    template<class P>
    auto forward_of(std::size_t row, bool again) const {
        return placed(row, base::forward_of(row, parameters<P>(row), again));
    }
    template<class P>
    auto backward_of(std::size_t row, std::size_t slot) const {
        return placed(row, base::backward_of(row, slot, parameters<P>(row), gradients<P>(row)));
    }

    /// add(kernels, at): on the second stream, if there is one, when all is there that it reads. Layers that agree on
    /// something have added their gradients on the first one; whoever follows the second follows them as well.
    template<class P, class At, class F>
    void add_gradients(std::size_t row, At const& at, F const& add) const {
        if (&kernels_.queue() != &beside_.queue()) {
            kernels_.queue().record(*ready_);
            beside_.queue().wait(*ready_);
            going_on_ = true;
        }
        if constexpr (std::is_same_v<P, T>) {
            add(beside_, at);
        } else {
            auto const& d = Network::row(row).description;
            auto elements = d.parameter_elements();
            if (at.place.bias_cancels) elements -= d.parameters[d.channel_bias].shape.size(); // the last, and 0
            auto k = beside_;
            if (d.execution.stores_gradients && k.samples() != 0)
                k.set_gradients_are_new();
            else
                k.queue().zero(at.gradients, elements * sizeof(P));
            add(k, at);
            add_into(beside_, gradients<T>(row), static_cast<P const*>(at.gradients), elements, narrow::order(row));
        }
    }

    void finish_gradients() const {
        if (!going_on_) return;
        going_on_ = false;
        beside_.queue().record(*ready_);
        kernels_.queue().wait(*ready_);
    }

    // A row's part of its samples' losses, and the factors of these losses.
    T* losses_of_row() const noexcept { return losses_.terms; }
    void add_term(std::size_t row) const {
        add_scores(kernels_, static_cast<T const*>(losses_.terms), nullptr, &kernels_.shard()->count,
                   losses_.sums + Network::row(row).first_term * losses_.between_sums);
    }
    T const* loss_weights() const noexcept { return losses_.weight; }

    template<bool Backward>
    void lose() const {
        stored_type const* const x = this->value(Network::depth);
        detail::apply_loss<Backward, Loss, typename Network::output_extents, 1>(
            kernels_, x, this->gradient(Network::depth), losses_);
    }

private:
    template<class P>
    P const* parameters(std::size_t row) const noexcept {
        if constexpr (std::is_same_v<P, T>)
            return this->parameters_of(row);
        else
            return copy_ + narrow::first(row, rows_.begin);
    }
    /// Narrow ones are those of one layer at a time.
    template<class P>
    P* gradients([[maybe_unused]] std::size_t row) const noexcept {
        if constexpr (std::is_same_v<P, T>)
            return this->model.gradients_of(Network::row(row));
        else
            return copy_ + narrow::first(rows_.end, rows_.begin);
    }
    template<class At>
    At placed(std::size_t row, At at) const noexcept {
        at.place.last_channels = narrow::last_channels(row);
        at.place.bias_cancels =
            row + 1 < Network::depth && detail::bias_cancels(Network::row(row), Network::row(row + 1));
        if constexpr (std::is_same_v<decltype(at.place.left_out), T const*>)
            if (row != 0 && detail::bias_cancels(Network::row(row - 1), Network::row(row))) {
                auto const& owner = Network::row(row - 1).description;
                at.place.left_out = this->parameters_of(row - 1);
                for (int k = 0; k < owner.channel_bias; ++k) at.place.left_out += owner.parameters[k].shape.size();
            }
        return at;
    }

    Kernels kernels_, beside_;
    event* ready_;
    mutable bool going_on_ = false; ///< gradients on the second stream that the first has not waited for
    range rows_;
    stored_type* copy_;
    losses_type losses_;
};

} // namespace trireme
