// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/nothing_kept.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/trainer/predictions.hpp>
#include <trireme/trainer/trainer.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

template<class... Where>
struct model_policy_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0106: a model is not trained. Of a trainer's policies it takes on<mesh>, transport<way>, "
                  "kernels<policy>, precision<dtype>, hold_weights<place>, pipeline<schedule, M>, stages_by<cut> and "
                  "reproducible<fixed_tree, V>: leave out the others");
};

namespace detail {

/// A field that trainers have and models have not. Setting it is refused.
template<class Value>
struct option_of_training {
    constexpr option_of_training() = default;
    template<class X>
        requires(!std::same_as<X, option_of_training>)
    constexpr option_of_training(X const&) {
        static_assert(fixed_by_type<X>, "TRI0107: a model is not trained: its options are batch, the most samples that "
                                        "are computed at once, and, in braces of their own, where it runs");
    }
    constexpr operator Value() const noexcept { return {}; }
};

template<class Choices>
struct model_options {
    option_of_training<float> learning_rate = {};
    option_of_training<float> weight_decay = {};
    trireme::batch batch = 32; ///< the most samples that a stage, or kernels that take all samples, compute at once
    option_of_training<std::uint64_t> seed = {};
    typename Choices::logical_shards logical_shards = {};
    typename Choices::other_braces devices = {}, stages = {}, strategy = {}, deadline = {};
};

/// Stands for the optimizer of a network that is not trained.
struct no_optimizer {
    static constexpr char const* name = "none";
    static constexpr std::size_t state_per_parameter = 0;
    template<class Choices>
    using options = model_options<Choices>;
    static void check(auto const&) noexcept {}
    static void describe(auto const&, auto&&) noexcept {}
    template<class T>
    static nothing_kept numbers(auto const&) noexcept {
        return {};
    }
    static void update(auto const&...) noexcept {}
};

template<class P>
inline constexpr bool is_policy_of_models = [] {
    using kind = typename policy_kind<P>::type;
    constexpr auto is = []<class... K>(pack<K...>) { return (std::is_same_v<kind, K> || ...); };
    return is(
        pack<void, devices_policy, transport_policy, kernels_policy, precision_policy, weights_policy, pipeline_policy,
             cut_policy, reproducibility_policy, faults_policy>{}); // what is no policy the trainer refuses
}();

template<class... P>
constexpr auto broken_model_rule() {
    constexpr std::size_t at = first_false({is_policy_of_models<P>...});
    if constexpr (at == npos)
        return pack<no_rule>{};
    else
        return pack<model_policy_rule<at_policy<at, type_at<at, P...>>>>{};
}

} // namespace detail

inline namespace TRIREME_ISA {

/// A network that is not trained: it takes weights, and tells its outputs. There are no gradients, no optimizer's
/// numbers, and of the values between its layers only those that a later layer reads. It runs where trainers do.
///
///     model<lenet> m;
///     load_weights(m, "lenet.safetensors"); // or m.load_parameters(t.gather_parameters()), and load_buffers likewise
///     auto const said = m.predict(samples);
///
/// The options are `batch`, and those of where it runs: `model<lenet, on<mesh<host, dp<2>>>> m{{.batch = 64},
/// {.deadline = 5s}};`. Outputs are those of a trainer's `predict` with the same weights, within rounding: where a part
/// of the samples ends with a few, these go through kernels of their own. With reproducible<fixed_tree, V> they have
/// the same bits on any number of devices.
template<class Network, class... Policies>
class model {
public:
    using rule = typename detail::only<decltype(detail::broken_model_rule<Policies...>())>::type;
    static constexpr rule checked{};

private:
    using devices_type = typename std::conditional_t<
        std::is_same_v<rule, no_rule>,
        std::type_identity<trainer<Network, detail::no_loss, detail::no_optimizer, Policies...>>,
        std::type_identity<trainer<Network, detail::no_loss, detail::no_optimizer>>>::type;

public:
    using network_type = typename devices_type::network_type;
    using value_type = typename devices_type::value_type;
    using options = typename devices_type::options;
    using run_options = typename devices_type::run_options;

private:
    struct output {
        using extents = typename network_type::output_extents;
    };

public:
    /// Throws usage_error if the options break a rule, and, on the host, with the bytes of its plan if there is no
    /// memory for them.
    explicit model(options const& o = {}, run_options const& r = {}) : devices_(o, r) {}

    /// Memory per device, bytes on the wire and operations of predictions. A constant expression.
    static constexpr training_plan plan(batch b) { return devices_type::plan(b); }
    training_plan plan() const { return devices_.plan(); }

    int devices() const noexcept { return devices_.devices(); }
    int rank() const noexcept { return devices_.rank(); }

    /// The outputs for all of `samples`, which need no targets, on all devices. Every process calls it, and gets all.
    /// Their meaning is that of the loss, `m.predict<binary_cross_entropy>(samples)`; without one, that which
    /// save_weights has left in the file of the weights; else several values in a row count as scores of classes.
    /// Errors: usage_error if the samples do not fit the network, or not all of its weights have been loaded.
    template<class Loss>
        requires loss_on<Loss, output>
    predictions<value_type> predict(sample_set const& samples) {
        return outputs_for(samples, meaning_of<Loss>(network_type::output_extents::shape));
    }
    predictions<value_type> predict(sample_set const& samples) { return outputs_for(samples, meaning_); }
    template<class Other>
        requires(!std::convertible_to<Other const&, sample_set>)
    predictions<value_type> predict(Other const& other) {
        return devices_.predict(other);
    }

    /// The meaning of the outputs, if the file of the weights has said it, or set_meaning.
    std::optional<output_meaning> meaning() const noexcept { return meaning_; }
    /// Errors: usage_error if the classes do not divide the outputs, or logits have classes.
    void set_meaning(output_meaning const& meaning) {
        detail::check_meaning(meaning, network_type::output_extents::size);
        meaning_ = meaning;
    }

    /// Weights, as a trainer has them; see there.
    void load_parameters(std::span<value_type const> values) {
        devices_.load_parameters(values);
        has_parameters_ = true;
    }
    void load_buffers(std::span<value_type const> values) {
        devices_.load_buffers(values);
        has_buffers_ = true;
    }
    template<class Read>
    void load(Read&& read) {
        devices_.load(std::forward<Read>(read));
        has_parameters_ = has_buffers_ = true;
    }
    std::vector<value_type> gather_parameters() const { return devices_.gather_parameters(); }
    std::vector<value_type> gather_buffers() const { return devices_.gather_buffers(); }
    std::vector<std::string> notes() const { return devices_.notes(); }

private:
    predictions<value_type> outputs_for(sample_set const& samples, std::optional<output_meaning> const& meaning) {
        if (!has_parameters_)
            throw usage_error("this model has no weights yet: call load_weights(model, file), or "
                              "model.load_parameters(trainer.gather_parameters()), before predict");
        if (!has_buffers_)
            throw usage_error("this model has parameters, and no running statistics yet (of batch_norm): call "
                              "model.load_buffers(trainer.gather_buffers()), too, before predict; load_weights(model, "
                              "file) loads both");
        auto said = devices_.predict(samples);
        if (!meaning) return said;
        auto const shape = said.shape();
        return {std::move(said).values(), shape, *meaning};
    }

    devices_type devices_;
    std::optional<output_meaning> meaning_ = {};
    bool has_parameters_ = network_type::parameters == 0,
         has_buffers_ = network_type::buffers == 0; ///< loaded, or none to load
};

} // namespace TRIREME_ISA
} // namespace trireme
