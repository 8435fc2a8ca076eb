// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/nothing_kept.hpp>
#include <trireme/core/units.hpp>
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/few_tokens.hpp>
#include <trireme/layer/for_units.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/layer/stage_pass.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

namespace trireme {

namespace detail::inline TRIREME_ISA {

/// The policy that an adapter for samples one by one, or for some of them at once, is of.
template<class Kernels>
struct adapted_policy {
    using type = Kernels;
};
template<class Kernels>
struct adapted_policy<sample_by_sample<Kernels>> : adapted_policy<Kernels> {};
template<class Kernels>
    requires std::is_same_v<typename Kernels::of_one_sample::takes_together, Kernels>
struct adapted_policy<Kernels> {
    using type = typename Kernels::of_one_sample;
};

/// True for a policy that has another with memory to work in. A policy that derives from such a one inherits the name
/// of a policy that lacks its own kernels.
template<class Kernels>
inline constexpr bool has_scratch = false;
template<class Kernels>
    requires requires { typename Kernels::with_scratch; }
inline constexpr bool has_scratch<Kernels> =
    std::is_base_of_v<typename adapted_policy<Kernels>::type, typename Kernels::with_scratch>;

/// The most memory that one of a network's layers would like its kernels to have.
template<class Network, class Kernels, class T, std::size_t Lanes>
constexpr std::size_t scratch_bytes() {
    if constexpr (!has_scratch<Kernels>) return 0;
    std::size_t most = 0;
    for_units<Network>(0, [&]<class Chain, std::size_t Unit>(unit<Chain, Unit>, std::size_t) {
        using layer = computed_by_t<typename Chain::template layer_type<Unit>>;
        using in = typename Chain::template input_of<Unit>;
        if constexpr (requires { layer::template scratch_bytes<in, Lanes, T, Kernels>(); })
            most = std::max(most, layer::template scratch_bytes<in, Lanes, T, Kernels>());
    });
    return most;
}

/// The policy with memory to work in, if one of the network's layers wants some.
template<class Network, class Kernels, class T, std::size_t Lanes>
constexpr auto scratch_policy() {
    if constexpr (scratch_bytes<Network, Kernels, T, Lanes>() == 0)
        return pack<Kernels>{};
    else
        return pack<typename Kernels::with_scratch>{};
}
template<class Network, class Kernels, class T, std::size_t Lanes>
using with_scratch_t = typename only<decltype(scratch_policy<Network, Kernels, T, Lanes>())>::type;

/// Outputs that may be copied on the stack before a loss, as it takes them: of a full granule.
template<class Network>
inline constexpr bool copies_for_loss = Network::output_extents::size <= 1024;

/// True if granules of a network may be narrow: all its layers have kernels for them.
template<class Network, class Kernels, class T, std::size_t Lanes>
constexpr bool takes_narrow() {
    if constexpr (!requires { typename Kernels::takes_narrow; } || Network::whole_shard || Lanes < 8 ||
                  !copies_for_loss<Network>) {
        return false;
    } else if constexpr (std::is_same_v<typename Kernels::takes_narrow, Kernels> &&
                         Lanes == Kernels::template lanes<T>) {
        bool all = true;
        for_units<Network>(0, [&]<class Chain, std::size_t Unit>(unit<Chain, Unit>, std::size_t) {
            using layer = computed_by_t<typename Chain::template layer_type<Unit>>;
            using in = typename Chain::template input_of<Unit>;
            if constexpr (names_itself<layer> && requires { layer::template takes_narrow<in, Lanes, T, Kernels>(); })
                all = all && layer::template takes_narrow<in, Lanes, T, Kernels>();
            else
                all = all && Chain::description_of(Unit).execution.view;
        });
        return all;
    } else {
        return false;
    }
}

/// Lanes of the granule that a policy is for, and the policy for a granule of so many.
template<std::size_t Lanes, class Kernels>
constexpr std::size_t lanes_of([[maybe_unused]] Kernels const& k) noexcept {
    if constexpr (Lanes >= 8 && requires { k.narrow; })
        if (k.narrow != 0) return k.narrow;
    return Lanes;
}
template<std::size_t Lanes, class Kernels>
constexpr Kernels with_lanes(Kernels k, [[maybe_unused]] std::size_t lanes) noexcept {
    if constexpr (requires { k.narrow; }) k.narrow = lanes == Lanes ? 0 : lanes;
    return k;
}

/// The loss of a stage's samples: their targets, and what it finds.
template<class T, class Target>
struct host_loss {
    Target* targets = nullptr; ///< of a granule, with its lanes; where kernels take all samples at once, one by one
    T weight = 0;              ///< of each sample
    double* sum = nullptr;     ///< to be added to: the losses
    std::size_t* correct = nullptr; ///< likewise, outside of training
};

template<class Network, class Loss, class T>
struct host_loss_of {
    using type = host_loss<T, target_t<Loss, typename Network::output_extents, T>>;
    static constexpr std::size_t targets = target_extents<Loss, typename Network::output_extents>::size;
};
template<class Network, class T>
struct host_loss_of<Network, void, T> {
    using type = nothing_kept;
    static constexpr std::size_t targets = 0;
};

/// One granule, and the kernels for it.
template<class Network, class Kernels, class T, std::size_t Lanes, class Loss>
struct host_context : row_context<Network, T, stored_t<Kernels, T>, Lanes> {
    using base = row_context<Network, T, stored_t<Kernels, T>, Lanes>;
    using loss = Loss;
    using losses_type = typename host_loss_of<Network, Loss, T>::type;
    template<bool AsValues>
    using parameter_type = T;
    static constexpr fusion way = Kernels::fuses;

    [[no_unique_address]] Kernels policy;
    losses_type const* losses = nullptr;
    T* of_samples = nullptr; ///< where rows add to the loss: room for two numbers of each sample
    T* widened = nullptr;    ///< room for an output and its gradient, where values are narrower than the loss takes

    /// For a row's layer, where they want to know it; with a function, if it is not void.
    template<class Function>
    auto applying(std::size_t row) const {
        if constexpr (!std::is_void_v<Function>)
            return with_function<Kernels, Function, stored_t<Kernels, T>>(policy.for_layer(row, this->granule.count));
        else if constexpr (takes_all_samples<Kernels>)
            return policy.for_layer(row, this->granule.count);
        else
            return together();
    }
    /// For the way back of a row that begins with a function; none of the host's kernels ends it with another.
    template<class Function, class Through>
    auto going_back(std::size_t row, stored_t<Kernels, T> const*) const {
        static_assert(std::is_void_v<Through>);
        return applying<Function>(row);
    }
    // One function each serves all rows.
    template<class P>
    TRIREME_NOINLINE auto forward_of(std::size_t row, bool again) const {
        return base::forward_of(row, this->parameters_of(row), again);
    }
    template<class P>
    TRIREME_NOINLINE auto backward_of(std::size_t row, std::size_t slot) const {
        auto const& r = Network::row(row);
        return base::backward_of(row, slot, this->parameters_of(row), this->model.gradients_of(r));
    }
    template<class P, class At, class F>
    void add_gradients(std::size_t row, At const& at, F const& add) const {
        add(applying<void>(row), at);
    }

    /// The place of what a row is to add to its samples' losses, null where nobody asks; and the factors of these
    /// losses.
    T* losses_of_row() const noexcept { return this->model.terms == nullptr ? nullptr : of_samples; }
    void add_term(std::size_t row) const noexcept {
        double sum = 0;
        for (std::size_t lane = 0; lane < this->granule.count; ++lane) sum += static_cast<double>(of_samples[lane]);
        this->model.terms[Network::row(row).first_term] += sum;
    }
    T const* loss_weights() const noexcept {
        auto const all = std::max(Lanes, this->granule.count);
        auto* const weights = of_samples + all;
        for (std::size_t lane = 0; lane < all; ++lane)
            weights[lane] = lane < this->granule.count ? this->model.loss_weight : T{0};
        return weights;
    }

    /// The loss, and the gradient of the output if it goes back from there. Kernels that take all samples at once leave
    /// it to others, sample by sample.
    template<bool Backward>
    void lose() const {
        using out = typename Network::output_extents;
        auto const* const x = this->value(Network::depth);
        auto* const dx = this->gradient(Network::depth);
        double sum = 0;
        if constexpr (takes_all_samples<Kernels>) {
            for (std::size_t i = 0; i < this->granule.count; ++i) {
                auto* const targets = losses->targets + i * host_loss_of<Network, Loss, T>::targets;
                constexpr typename Kernels::sample_kernels one{};
                if constexpr (std::is_same_v<stored_t<Kernels, T>, T>) {
                    lose_some<Backward, 1>(one, x + i * out::size, Backward ? dx + i * out::size : dx, targets, 1, sum);
                } else {
                    T *const said = widened, *const by = widened + out::size;
                    for (std::size_t k = 0; k < out::size; ++k) said[k] = static_cast<T>(x[i * out::size + k]);
                    lose_some<Backward, 1>(one, said, by, targets, 1, sum);
                    for (std::size_t k = 0; Backward && k < out::size; ++k)
                        dx[i * out::size + k] = static_cast<stored_t<Kernels, T>>(by[k]);
                }
            }
        } else if constexpr (requires { policy.together; }) {
            for (std::size_t i = 0; i < this->granule.count; ++i)
                lose_some<Backward, Lanes>(policy, x + i * out::size, dx + i * out::size,
                                           losses->targets + i * host_loss_of<Network, Loss, T>::targets, 1, sum);
        } else if (auto const taken = lanes_of<Lanes>(policy); taken == Lanes) {
            lose_some<Backward, Lanes>(policy, x, dx, losses->targets, this->granule.count, sum);
        } else if constexpr (copies_for_loss<Network>) { // losses take full granules: the last lane once more
            T said[out::size * Lanes], by[out::size * Lanes];
            for (std::size_t i = 0; i < out::size * Lanes; ++i)
                said[i] = x[i / Lanes * taken + std::min(i % Lanes, taken - 1)];
            lose_some<Backward, Lanes>(with_lanes<Lanes>(policy, Lanes), said, by, losses->targets, this->granule.count,
                                       sum);
            for (std::size_t i = 0; Backward && i < out::size * taken; ++i) dx[i] = by[i / taken * Lanes + i % taken];
        }
        if (Backward) *losses->sum += sum;
    }

private:
    /// The policy for all samples of the granule, where these lie one behind the other.
    Kernels together() const {
        auto k = policy;
        if constexpr (requires { k.together; }) k.together = this->granule.count;
        return k;
    }
    /// Lanes from `count` on weigh nothing. Training adds the losses of a granule before it adds them to the others'.
    template<bool Backward, std::size_t N, class K, class Target>
    void lose_some(K const& k, T const* x, T* dx, Target* targets, std::size_t count, double& sum) const {
        constexpr bool answers = targets_of<Loss, typename Network::output_extents>::description.has_answers();
        T weight[N], loss_of[N];
        int correct[N];
        for (std::size_t lane = 0; lane < N; ++lane) weight[lane] = lane < count ? losses->weight : T{0};
        apply_loss<Backward, Loss, typename Network::output_extents, N>(
            k, x, dx, loss_operands<T, Target>{targets, weight, loss_of, answers ? correct : nullptr});
        for (std::size_t lane = 0; lane < count; ++lane) {
            auto const each = static_cast<double>(loss_of[lane]);
            if constexpr (Backward) {
                sum += each;
            } else {
                *losses->sum += each;
                if (answers) *losses->correct += static_cast<std::size_t>(correct[lane]);
            }
        }
    }
};

} // namespace detail::inline TRIREME_ISA

inline namespace TRIREME_ISA {

template<std::size_t N>
using lane_count = std::integral_constant<std::size_t, N>;

/// Cuts samples into granules: f(lane_count<N>, range) for each, N samples at most; the few that are left over at the
/// end one by one, if the kernels say so. `Narrow`: fewer samples than fill three quarters of a granule are cut into
/// granules of half and of a quarter of the lanes first, whose f gets the lanes of a full one: see
/// host_pass::lanes_for. The cut depends on the number of samples alone.
template<class Kernels, class T, bool Narrow = false, std::size_t Together = 1, class F>
constexpr void for_granules(range samples, F&& f) {
    constexpr std::size_t lanes = Kernels::template lanes<T>;
    if constexpr (Together > 1) {
        auto const granules = (samples.size() + Together - 1) / Together;
        for (std::size_t i = 0; i < granules; ++i)
            f(lane_count<lanes>{}, range{samples.begin + i * samples.size() / granules,
                                         samples.begin + (i + 1) * samples.size() / granules});
        return;
    }
    constexpr std::size_t few = Narrow ? lanes / 8 : Kernels::template one_by_one<T>;
    auto at = samples.begin;
    for (std::size_t left = samples.end - at; left > few; left = samples.end - at) {
        auto most = lanes;
        if (Narrow && left <= 3 * lanes / 4) most = left > 5 * lanes / 16 ? lanes / 2 : lanes / 4;
        auto const end = std::min(at + most, samples.end);
        f(lane_count<lanes>{}, range{at, end});
        at = end;
    }
    if constexpr (few != 0)
        for (; at < samples.end; ++at) f(lane_count<1>{}, range{at, at + 1});
}

/// The samples of a shard, or some of them, on their way through a network on the host: granules of `Lanes` samples, in
/// an activation arena. Kernels that take all samples at once have one granule, the shard.
///
/// One granule at a time needs an arena for one (`one`); all at once, each with its own place in every block, need one
/// for all (`plan`), which networks must have whose layers need a whole shard. Nothing is allocated, and nothing is
/// looked up but a row's functions. `Loss`: the row behind the last, or void.
template<class Network, class Kernels, class T, std::size_t Lanes = Kernels::template lanes<T>, class Loss = void>
class host_pass {
    using kernels = detail::with_scratch_t<Network, Kernels, T, Lanes>;
    using context = detail::host_context<Network, kernels, T, Lanes, Loss>;

public:
    static constexpr std::size_t lanes = Lanes;
    /// Samples that lie one behind the other in a granule of one lane.
    static constexpr std::size_t together = [] {
        if constexpr (Lanes == 1 && detail::takes_several<kernels>) return detail::samples_together<Network>;
        return std::size_t{1};
    }();
    static constexpr std::size_t most = Lanes * together; ///< samples of a granule
    static constexpr bool at_once = takes_all_samples<Kernels>;
    static constexpr bool moves_all_places = false; ///< from stage to stage, however few samples a micro-batch has
    static constexpr bool trains = detail::trains_with<Loss>;
    static constexpr bool whole_shard = (trains && Network::whole_shard) || at_once; ///< else granules go all the way
    /// True if a granule of few samples may be a narrow one.
    static constexpr bool narrows = detail::takes_narrow<Network, Kernels, T, Lanes>();
    /// Lanes of the granule that has so many samples.
    static constexpr std::size_t lanes_for(std::size_t samples) noexcept {
        if (!narrows || samples > Lanes / 2) return Lanes;
        return samples > Lanes / 4 ? Lanes / 2 : Lanes / 4;
    }
    using plan_type = activation_plan<Network::depth>;
    using numbers = detail::model_numbers<T>;
    using stored_type = stored_t<Kernels, T>; ///< as what lies in the slots is kept

    using memory_type = detail::activation_memory<stored_type>;
    using losses_type = typename context::losses_type;
    static constexpr range all_rows = {0, Network::depth};

    /// Plans for one granule after the other, and for all of `samples`. `recomputed`: see plan_activations.
    static constexpr plan_type plan_one(recomputed_rows recomputed) {
        return plan_activations<Network>(most, sizeof(stored_type), weight_gradients::at_once, way_of_samples::together,
                                         all_rows, 0, !trains, recomputed);
    }
    static constexpr plan_type one = plan_one({});
    static constexpr plan_type plan(std::size_t samples, recomputed_rows recomputed = {}) {
        return plan_activations<Network>(places_for(samples), sizeof(stored_type), weight_gradients::at_once, way,
                                         all_rows, 0, !trains, recomputed);
    }
    /// The plan of a stage, for all of `samples`, where forward and backward are tasks of their own; `halves`: and each
    /// half of backward.
    static constexpr plan_type plan_stage(std::size_t samples, range rows, bool halves, recomputed_rows recomputed) {
        return plan_activations<Network>(places_for(samples), sizeof(stored_type),
                                         halves ? weight_gradients::apart : weight_gradients::at_once,
                                         whole_shard ? way : way_of_samples::together, rows,
                                         whole_shard ? places_for(samples) : most, !trains, recomputed);
    }

    /// Elements of what lasts within a task: its blocks, the kernels' scratch, what rows add to the loss, and a
    /// sample's output as the loss takes it.
    static constexpr std::size_t task_elements(plan_type const& p) noexcept {
        return p.sent - p.kept + scratch_elements + term_elements + widened_elements;
    }
    /// Elements of what the targets take of samples that the loss takes at once.
    static constexpr std::size_t target_elements(std::size_t samples) noexcept {
        if constexpr (std::is_void_v<Loss>) return 0;
        auto const targets = (at_once ? samples : most) * detail::host_loss_of<Network, Loss, T>::targets;
        return round_up(targets * std::max(sizeof(T), sizeof(int)), cache_line) / sizeof(stored_type);
    }
    /// Elements of an arena with one frame and one outgoing slot.
    static constexpr std::size_t elements(plan_type const& p) noexcept {
        return detail::frame_elements<Network, T, stored_type>(p) + task_elements(p) + p.elements - p.sent;
    }
    static constexpr memory_type memory_in(stored_type* arena, plan_type const& p) noexcept {
        auto* const task = arena + detail::frame_elements<Network, T, stored_type>(p);
        return {arena, task, task + task_elements(p)};
    }
    static constexpr std::size_t granules(std::size_t samples) noexcept {
        return at_once ? (samples != 0 ? 1 : 0) : (samples + most - 1) / most;
    }
    /// Places of samples that all have one, and those that some of them take.
    static constexpr std::size_t places_for(std::size_t samples) noexcept {
        return at_once ? samples : (samples + Lanes - 1) / Lanes * Lanes;
    }
    static constexpr std::size_t places_of(std::size_t samples) noexcept {
        if constexpr (whole_shard) return places_for(samples);
        std::size_t taken = 0;
        for_granules<Kernels, T, narrows, together>(
            range{0, samples}, [&]<std::size_t N>(lane_count<N>, range const& some) {
                taken = some.begin + (N == 1 ? some.size() : lanes_for(some.size()));
            });
        return taken;
    }

    /// `shard`: the samples that are there, with their place in it; as many as `places` has room for, behind `before`
    /// others. `rows`: those of a stage. `losses`: if the loss comes behind them.
    host_pass(plan_type const& places, memory_type const& memory, numbers const& model, granule_place const& shard,
              Kernels policy = {}, range rows = {0, Network::depth}, std::size_t before = 0,
              losses_type const* losses = nullptr) noexcept
        : places_(places), memory_(memory), model_(model), shard_(shard), rows_(rows), before_(before), policy_(policy),
          losses_(losses) {}
    host_pass(plan_type const& places, stored_type* arena, numbers const& model, granule_place const& shard,
              Kernels policy = {}) noexcept
        : host_pass(places, memory_in(arena, places), model, shard, policy) {}

    stored_type* input(std::size_t granule = 0) const noexcept { return (*this)[granule][0].value(rows_.begin); }
    stored_type const* output(std::size_t granule = 0) const noexcept { return (*this)[granule][0].value(rows_.end); }
    stored_type* output_gradient(std::size_t granule = 0) const noexcept {
        return (*this)[granule][0].gradient(rows_.end);
    }

    // See stage_pass: each granule is a team.

    template<class... Hooks>
    void forward(Hooks&&... hooks) const {
        stage_pass(*this, rows_).forward(hooks...);
    }
    template<class... Hooks>
    void evaluate(Hooks&&... hooks) const {
        stage_pass(*this, with_loss()).evaluate(hooks...);
    }
    template<class... Hooks>
    void backward(Hooks&&... hooks) const {
        stage_pass(*this, with_loss()).backward(hooks...);
    }
    template<class... Hooks>
    void backward_input(Hooks&&... hooks) const {
        stage_pass(*this, with_loss()).backward_input(hooks...);
    }
    template<class... Hooks>
    void backward_weights(Hooks&&... hooks) const {
        stage_pass(*this, rows_).backward_weights(hooks...);
    }

    std::size_t size() const noexcept { return granules(shard_.count); }
    /// Lanes of its granule, which may be a narrow one.
    std::size_t lanes_taken() const noexcept { return detail::lanes_of<Lanes>(policy_); }
    std::array<context, 1> operator[](std::size_t granule) const noexcept {
        auto place = shard_;
        place.first += granule * most;
        if constexpr (!at_once) place.count = std::min(most, place.count - std::min(place.count, granule * most));
        return {context{
            {&places_, memory_, model_, place, before_ + granule * most}, policy(), losses_, terms(), widened()}};
    }
    T* kept() const noexcept { return (*this)[0][0].kept(); }

private:
    static constexpr std::size_t line = cache_line / sizeof(stored_type);
    static constexpr std::size_t scratch_elements =
        round_up(detail::scratch_bytes<Network, Kernels, T, Lanes>() / sizeof(stored_type), line);
    static constexpr std::size_t term_elements =
        Network::loss_terms == 0 ? 0 : round_up(2 * most * sizeof(T) / sizeof(stored_type), line);
    static constexpr std::size_t widened_elements =
        !at_once || std::is_void_v<Loss> || std::is_same_v<stored_type, T>
            ? 0
            : round_up(2 * Network::output_extents::size * sizeof(T) / sizeof(stored_type), line);
    static constexpr auto way = at_once ? way_of_samples::together : way_of_samples::one_behind_the_other;

    kernels policy() const noexcept {
        if constexpr (scratch_elements == 0)
            return policy_;
        else
            return {policy_, memory_.scratch + (places_.sent - places_.kept)};
    }

    T* terms() const noexcept {
        if constexpr (term_elements == 0)
            return nullptr;
        else
            return reinterpret_cast<T*>(memory_.scratch + (places_.sent - places_.kept) + scratch_elements);
    }

    T* widened() const noexcept {
        if constexpr (widened_elements == 0)
            return nullptr;
        else
            return reinterpret_cast<T*>(memory_.scratch + (places_.sent - places_.kept) + scratch_elements +
                                        term_elements);
    }

    range with_loss() const noexcept { return {rows_.begin, rows_.end + (losses_ != nullptr ? 1 : 0)}; }

    plan_type const& places_;
    memory_type memory_;
    numbers const& model_;
    granule_place shard_;
    range rows_;
    std::size_t before_;
    [[no_unique_address]] Kernels policy_;
    losses_type const* losses_;
};

} // namespace TRIREME_ISA
} // namespace trireme
