// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/row_table.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme::detail::inline TRIREME_ISA {

/// The place of a row's numbers among those of some rows, counted from their first parameter. `tied_lie`: there the
/// numbers of tied rows begin.
constexpr std::size_t place_of_numbers(layer_row const& r, std::size_t first_parameter, std::size_t first_tied,
                                       std::size_t tied_lie) noexcept {
    return r.is_tied() ? tied_lie + (r.first_tied - first_tied) : r.first_parameter - first_parameter;
}

/// The first of the rows that are tied to the same one as `row`, in rows whose tied gradients begin with `first_tied`:
/// where they have a copy of the weights, it has the place of this one's numbers.
constexpr layer_row const& copied_row(row_list const& network, std::size_t row, std::size_t first_tied) noexcept {
    auto const owner = network.row(row).tied_to;
    auto first = owner + 1;
    while (network.row(first).tied_to != owner || network.row(first).first_tied < first_tied) ++first;
    return network.row(first);
}

/// The model's numbers in a pass: parameters and buffers to compute with, gradients and statistics to add to. The first
/// of each is that of the first row of a stage, as layer_row counts them.
template<class T>
struct model_numbers {
    T const* parameters = nullptr;
    T* gradients = nullptr;  ///< to be added to
    T* buffers = nullptr;    ///< running statistics
    T* statistics = nullptr; ///< what goes into them after the step; to be added to
    std::size_t first_parameter = 0;
    std::size_t first_buffer = 0;
    std::size_t first_kept = 0; ///< likewise, of the numbers that layers keep of a shard
    std::size_t first_tied = 0; ///< likewise, of the gradients of tied rows
    std::size_t tied_lie = 0;   ///< the numbers of tied rows begin so far behind the first parameter, and its gradient
    /// Gradients that layers find while they agree wait here for their task, where gradients have a task of their own.
    T* agreed = nullptr;
    std::size_t first_agreed = 0;
    /// On the host, in training: the sums of what rows add to the loss, one for each such row of the network, to be
    /// added to; and the factor of the samples' losses.
    double* terms = nullptr;
    T loss_weight = 0;

    /// The parameters that a row computes with: those of its owner, or their copy. An owner has parameters and comes
    /// before its row, so that it is here if its first one does not lie before the first one here.
    template<class Network>
    T const* parameters_of(std::size_t row) const noexcept {
        if constexpr (Network::tied_gradients == 0)
            return parameters + (Network::row(row).first_parameter - first_parameter);
        auto const& owner = Network::owner_of(Network::row(row));
        bool const here = owner.first_parameter >= first_parameter;
        return parameters + place_of(here ? owner : copied_row(Network::rows, row, first_tied));
    }
    T* gradients_of(layer_row const& r) const noexcept {
        if (agreed != nullptr) return agreed + (r.first_agreed - first_agreed);
        return gradients + place_of(r);
    }
    std::size_t place_of(layer_row const& r) const noexcept {
        return place_of_numbers(r, first_parameter, first_tied, tied_lie);
    }
};

/// f(from, to, count) for the gradients of each layer that agrees on something on the way back: where they wait, and
/// where they lie among those of the stage with these rows.
template<class Network, class F>
void for_each_agreed(range rows, F const& f) {
    auto const& first = Network::row(rows.begin);
    for (auto r = rows.begin; r < rows.end; ++r)
        if (auto const& row = Network::row(r); row.description.backward.phases != 0)
            f(row.first_agreed - first.first_agreed, row.first_parameter - first.first_parameter,
              row.description.parameter_elements());
}

/// The memory of the three parts of an activation plan.
template<class Stored>
struct activation_memory {
    Stored* frame = nullptr; ///< behind its blocks are the numbers that layers keep of a shard
    Stored* scratch = nullptr;
    Stored* outgoing = nullptr;
};

/// Elements of a frame: its blocks, and behind them the numbers that layers keep of a shard.
template<class Network, class T, class Stored>
constexpr std::size_t frame_elements(activation_plan<Network::depth> const& p,
                                     range rows = {0, Network::depth}) noexcept {
    auto const kept = Network::row(rows.end).first_kept - Network::row(rows.begin).first_kept;
    return p.kept + round_up(kept * sizeof(T) / sizeof(Stored), cache_line / sizeof(Stored));
}

/// Values of one sample, by slot.
template<class Network>
struct slot_sizes {
    std::size_t of[Network::depth + 1] = {};
    constexpr slot_sizes() noexcept {
        for (std::size_t i = 0; i <= Network::depth; ++i) of[i] = Network::rows.slot(i).size();
    }
};
template<class Network>
inline constexpr slot_sizes<Network> sizes_of_slots{};

/// A context gives the calls of a row their operands: samples in memory with a plan, and a model. Contexts derive from
/// it, and add the kernels.
template<class Network, class T, class Stored, std::size_t Lanes>
struct row_context {
    using network = Network;
    static constexpr std::size_t lanes = Lanes;
    /// True if forward leaves out biases that the next row subtracts again (layer_place::bias_cancels).
    static constexpr bool leaves_out_biases = false;

    activation_plan<Network::depth> const* plan;
    activation_memory<Stored> memory;
    model_numbers<T> model;
    granule_place granule = {};
    std::size_t before = 0; ///< samples that lie before this granule's in each block that has room for all

    /// Null for a slot without a place in the plan.
    Stored* value(std::size_t slot) const noexcept { return block(plan->value[slot], slot); }
    Stored* gradient(std::size_t slot) const noexcept { return block(plan->gradient[slot], slot); }
    recomputation<Network::depth> const& recomputed() const noexcept { return plan->recomputed; }
    /// Waits until all gradients by parameters are there, where they are computed beside backward.
    void finish_gradients() const noexcept {}

    T* kept() const noexcept { return reinterpret_cast<T*>(memory.frame + plan->kept); }

protected:
    T const* parameters_of(std::size_t row) const noexcept { return model.template parameters_of<Network>(row); }
    /// `again`: on the way back, where the row has added to its statistics before.
    template<class P>
    layer_operands<P, Stored> forward_of(std::size_t row, P const* parameters, bool again) const noexcept {
        auto const& r = Network::row(row);
        auto const& values = again ? plan->again : plan->value;
        layer_operands<P, Stored> at;
        at.x = block(values[r.from], r.from);
        at.y = block(values[row + 1], row + 1);
        at.parameters = parameters;
        at.place.layer = row;
        at.place.granule = granule;
        if (again || !plan->recomputed.twice[row]) at.place.saved = saved(row);
        if (r.is_sum()) at.place.other = block(values[r.other], r.other);
        if constexpr (std::is_same_v<P, T>) { // what a layer keeps of a shard is as wide as parameters are
            at.place.buffers = moved(model.buffers, r.first_buffer - model.first_buffer);
            if (!again) at.place.statistics = statistics_of(r);
            at.place.kept = kept() + (r.first_kept - model.first_kept);
        }
        return at;
    }
    /// `slot`: where the gradient is that the row gets.
    template<class P>
    layer_operands<P, Stored> backward_of(std::size_t row, std::size_t slot, P const* parameters,
                                          P* gradients) const noexcept {
        auto at = forward_of<P>(row, parameters, true);
        if constexpr (std::is_same_v<P, T>) at.place.statistics = statistics_of(Network::row(row));
        at.dy = gradient(slot);
        at.dx = gradient(row);
        at.gradients = gradients;
        return at;
    }
    T* statistics_of(layer_row const& r) const noexcept {
        return moved(model.statistics, r.first_buffer - model.first_buffer);
    }
    /// Null stays null: evaluation has no statistics.
    static T* moved(T* from, std::size_t by) noexcept { return from == nullptr ? nullptr : from + by; }

private:
    Stored* block(std::size_t place, std::size_t slot) const noexcept {
        if (place == npos) return nullptr;
        return begin_of(place) + earlier_samples(place) * sizes_of_slots<Network>.of[slot];
    }
    std::uint8_t* saved(std::size_t row) const noexcept {
        auto const place = plan->saved[row];
        if (place == npos) return nullptr;
        return reinterpret_cast<std::uint8_t*>(begin_of(place)) +
               earlier_samples(place) * Network::row(row).description.saved_bytes;
    }
    Stored* begin_of(std::size_t place) const noexcept {
        if (place < plan->kept) return memory.frame + place;
        if (place < plan->sent) return memory.scratch + (place - plan->kept);
        return memory.outgoing + (place - plan->sent);
    }
    /// The samples before this granule's in the block at a place.
    std::size_t earlier_samples(std::size_t place) const noexcept {
        bool const in_task = place >= plan->kept && place < plan->sent;
        return in_task && !plan->spread ? 0 : before;
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
