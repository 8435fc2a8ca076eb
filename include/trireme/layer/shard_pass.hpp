// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/for_units.hpp>
#include <trireme/layer/layer_calls.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// All samples of a shard on their way through a network some of whose layers need them all at once (batch_norm).
///
/// Between two such layers everything is done granule by granule, so that a granule's values are still in the cache
/// when the next layer reads them; only where a layer needs the whole shard do the granules wait for one another. Every
/// slot has room for all granules, for backward comes when all have gone forward. Kernels that take all samples at once
/// have one granule, the shard.
template<class Network, class Kernels, class T>
class shard_pass {
public:
    static constexpr std::size_t lanes = Kernels::template lanes<T>;
    using plan_type = activation_plan<Network::depth>;
    using numbers = detail::model_numbers<T>;
    using stored_type = stored_t<Kernels, T>; ///< as what lies in the slots is kept

    static constexpr bool at_once = takes_all_samples<Kernels>;

    static constexpr std::size_t granules(std::size_t samples) noexcept {
        return at_once ? (samples != 0 ? 1 : 0) : (samples + lanes - 1) / lanes;
    }

    /// Room for `samples`; what layers keep of a shard lies behind the planned blocks, and the kernels' scratch behind
    /// that.
    static constexpr plan_type plan(std::size_t samples) {
        return plan_activations<Network>(at_once ? samples : granules(samples) * lanes, sizeof(stored_type), false,
                                         at_once ? way_of_samples::together : way_of_samples::one_behind_the_other);
    }
    static constexpr std::size_t elements(plan_type const& p) noexcept {
        return p.elements + kept_elements + scratch_elements;
    }

    shard_pass(plan_type const& places, stored_type* arena, Kernels policy = {}) noexcept
        : places_(places), arena_(arena),
          policy_(detail::with_scratch<kernels>(policy, arena + places.elements + kept_elements)) {}

    stored_type* input(std::size_t granule) const noexcept { return at(granule).value(0); }
    stored_type const* output(std::size_t granule) const noexcept { return at(granule).value(Network::depth); }
    stored_type* output_gradient(std::size_t granule) const noexcept { return at(granule).gradient(Network::depth); }

    /// `shard`: its samples, all of them. `first(granule)` is called before a granule's first layer, and fills in its
    /// input.
    template<class First>
    void forward(numbers model, granule_place const& shard, First&& first) const {
        model.kept = kept();
        bool agreed = false; // the layer at `row` knows the shard
        for (std::size_t row = 0; row < Network::depth || !agreed; agreed = true) {
            auto const end = next_waiting(row + agreed); // a stretch ends before the next layer that waits
            for (std::size_t g = 0; g < granules(shard.count); ++g) {
                if (!agreed) first(g);
                auto const c = of_granule(g, model, shard);
                for (auto r = row; r < end; ++r) steps[r].forward(c, r);
                if (end < Network::depth) steps[end].forward_gather(c, end);
            }
            if (end < Network::depth) steps[end].forward_agree(of_granule(0, model, shard), end);
            row = end;
        }
    }

    /// Adds the shard's gradients to the model's; needs the forward pass just made. `last(granule)` is called before a
    /// granule's way back, and leaves the gradient of its output.
    template<class Last>
    void backward(numbers model, granule_place const& shard, Last&& last) const {
        model.kept = kept();
        bool agreed = false;
        for (auto end = Network::depth; end > Network::first_trainable || !agreed; agreed = true) {
            auto const begin = waiting_before(end - agreed);
            bool const waits = begin > Network::first_trainable; // at the row before
            for (std::size_t g = 0; g < granules(shard.count); ++g) {
                if (!agreed) last(g);
                auto const c = of_granule(g, model, shard);
                for (auto r = end; r-- > begin;) steps[r].backward(c, r);
                if (waits) steps[begin - 1].backward_gather(c, begin - 1);
            }
            if (waits) steps[begin - 1].backward_agree(of_granule(0, model, shard), begin - 1);
            end = begin;
        }
    }

    /// Forward outside of training, of the samples in the first granule.
    void evaluate(numbers const& model, granule_place const& granule) const {
        auto const c = of_granule(0, model, granule);
        for (std::size_t r = 0; r < Network::depth; ++r) steps[r].evaluate(c, r);
    }

private:
    static constexpr std::size_t line = cache_line / sizeof(stored_type);
    static constexpr std::size_t kept_elements = round_up(Network::kept * sizeof(T) / sizeof(stored_type), line);
    static constexpr std::size_t scratch_elements =
        round_up(detail::scratch_bytes<Network, Kernels, T, lanes>() / sizeof(stored_type), line);

    struct slots {
        plan_type const& places;
        stored_type* arena;
        std::size_t granule;

        stored_type* value(std::size_t slot) const noexcept { return arena + places.value[slot] + before(slot); }
        stored_type* gradient(std::size_t slot) const noexcept { return arena + places.gradient[slot] + before(slot); }
        /// Elements of the granules before this one.
        std::size_t before(std::size_t slot) const noexcept { return granule * lanes * sizes[slot]; }
    };
    using kernels = detail::with_scratch_t<Network, Kernels, T, lanes>;
    using calls = detail::layer_calls<Network, kernels, T, lanes, slots>;

    struct slot_sizes {
        std::size_t of[Network::depth + 1] = {};
        constexpr slot_sizes() noexcept {
            of[0] = Network::row(0).input.size();
            for (std::size_t i = 0; i < Network::depth; ++i) of[i + 1] = Network::row(i).description.output.size();
        }
        constexpr std::size_t operator[](std::size_t slot) const noexcept { return of[slot]; }
    };
    static constexpr slot_sizes sizes = {};

    /// What is done at each row. Repetitions share functions; a table keeps the code as small as the block.
    struct step {
        void (*forward)(calls const&, std::size_t) = nullptr;
        void (*evaluate)(calls const&, std::size_t) = nullptr;
        void (*backward)(calls const&, std::size_t) = nullptr;
        void (*forward_gather)(calls const&, std::size_t) = nullptr;
        void (*forward_agree)(calls const&, std::size_t) = nullptr;
        void (*backward_gather)(calls const&, std::size_t) = nullptr;
        void (*backward_agree)(calls const&, std::size_t) = nullptr;
    };
    template<class Chain, std::size_t Unit>
    static constexpr step step_of() {
        using detail::phase;
        step s;
        s.forward = [](calls const& c, std::size_t row) { c.template forward<Chain, Unit>(row); };
        s.evaluate = [](calls const& c, std::size_t row) { c.template evaluate<Chain, Unit>(row); };
        s.backward = [](calls const& c, std::size_t row) { c.template backward<Chain, Unit>(row); };
        if constexpr (Chain::description_of(Unit).whole_shard) {
            s.forward_gather = [](calls const& c, std::size_t row) {
                c.template forward_phase<phase::gather, Chain, Unit>(row);
            };
            s.forward_agree = [](calls const& c, std::size_t row) {
                c.template forward_phase<phase::agree, Chain, Unit>(row);
            };
            s.backward_gather = [](calls const& c, std::size_t row) {
                c.template backward_phase<phase::gather, Chain, Unit>(row);
            };
            s.backward_agree = [](calls const& c, std::size_t row) {
                c.template backward_phase<phase::agree, Chain, Unit>(row);
            };
        }
        return s;
    }
    struct step_table {
        step of[Network::depth + 1] = {};
        constexpr step_table() {
            detail::for_units<Network>(
                0, [this]<class Chain, std::size_t Unit>(detail::unit<Chain, Unit>, std::size_t row) {
                    of[row] = step_of<Chain, Unit>();
                });
        }
        constexpr step const& operator[](std::size_t row) const noexcept { return of[row]; }
    };
    static constexpr step_table steps = {};

    /// The first row from `row` on that needs the whole shard; the end if there is none.
    static std::size_t next_waiting(std::size_t row) noexcept {
        while (row < Network::depth && !Network::row(row).description.whole_shard) ++row;
        return row;
    }
    /// One behind the last row before `end` that needs it; behind it nothing waits. Where backward ends, if there is
    /// none.
    static std::size_t waiting_before(std::size_t end) noexcept {
        while (end > Network::first_trainable && !Network::row(end - 1).description.whole_shard) --end;
        return end;
    }

    calls of_granule(std::size_t g, numbers const& model, granule_place const& shard) const noexcept {
        auto place = shard;
        place.first += g * lanes;
        if constexpr (!at_once) place.count = std::min(lanes, shard.count - std::min(shard.count, g * lanes));
        return {policy_, at(g), model, place};
    }
    slots at(std::size_t granule) const noexcept { return {places_, arena_, granule}; }
    T* kept() const noexcept { return reinterpret_cast<T*>(arena_ + places_.elements); }

    plan_type const& places_;
    stored_type* arena_;
    [[no_unique_address]] kernels policy_;
};

} // namespace trireme::inline TRIREME_ISA
