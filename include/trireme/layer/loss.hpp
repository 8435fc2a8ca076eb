// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/core/no_label.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/layer/layer.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace trireme {

/// A loss's answer when it is shown the shape of a network's output.
struct loss_description {
    flops_t flops = 0;             ///< per sample
    shape targets = make_shape(1); ///< of one sample's
    std::size_t classes = 0;       ///< if not 0, a target is a class below it, an int; else a value
    bool accepts = true;           ///< false: the loss's `refusal` says why
    int ignored = no_label;        ///< a label that is no class: it counts nothing
    bool weighs_targets = false;   ///< `weight` is that of one target, and a sample's the sum of its targets'
    bool sample_by_sample = false; ///< as of layers: a sample fills registers by itself
    bool logistic = false;         ///< each output is the logit of its target, which is 0, 1 or a probability

    /// True if outputs are right or wrong, so that there is an accuracy.
    constexpr bool has_answers() const noexcept { return classes != 0 || logistic; }
};

/// The meaning of a network's outputs, which its loss decides: scores of `classes` classes, whose probabilities are
/// their softmax; with `logistic` logits, each by itself, whose probabilities are 1 / (1 + exp(-x)); else values.
struct output_meaning {
    std::size_t classes = 0; ///< classes that outputs are scores of; 0: they are none
    bool logistic = false;   ///< true: each output is a logit by itself

    friend constexpr bool operator==(output_meaning const&, output_meaning const&) = default;
};

/// The meaning that a loss gives to outputs of a shape.
template<class Loss>
constexpr output_meaning meaning_of(shape output) noexcept {
    auto const described = Loss::describe(output);
    return {described.classes, described.logistic};
}

/// A loss is a type that describes and computes what a network's outputs cost, given the targets of their samples.
///
///     static constexpr loss_description describe(shape output);
///     static void forward(auto const& io);  // loss_io: reads x and target, writes loss and correct
///     static void backward(auto const& io); // reads x and target, writes loss and dx
///
/// It is the row behind a network's last, and stores nothing, as layers do. If `describe` refuses some outputs, it has
/// a rule that says so: `template<class Out> using refusal`.
///
/// The loss of a batch is the mean of its samples' losses. Where samples count differently, the loss says by how much,
///
///     static double weight(auto const* targets); // of one sample: not negative; 0 leaves it out
///
/// and gives each sample's loss times that: the sum of the losses of a batch is divided by the sum of its weights, and
/// accuracy is that of the samples with a weight, or, if the loss weighs targets, of the targets with one, so that
/// `correct` of the others must be 0. Weights follow from the targets alone: every device knows their sum before the
/// step, and no gradient is scaled twice.
template<class L>
concept loss = requires(shape s) {
    { L::describe(s) } -> std::same_as<loss_description>;
    typename std::bool_constant<L::describe(make_shape(1)).accepts>; // a constant expression
};

template<class... Where>
struct loss_weight_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0153: this loss has a member `weight` that cannot be called with the targets of a sample, so that "
        "no sample would be weighed: write `static double weight(auto const* targets)`; targets are int if "
        "the loss describes classes, else numbers of the trainer's precision");
};
template<class... Where>
struct incomplete_loss_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0154: this loss has no `static void backward(auto const& io)`, or no `forward`: a loss has both, "
                  "under exactly these names; forward writes io.loss, backward io.loss and io.dx");
};

namespace detail {

/// Stands for the loss of a network that is not trained.
struct no_loss {
    static constexpr loss_description describe(shape) noexcept { return {}; }
    static void forward(auto const&) noexcept {}
    static void backward(auto const&) noexcept {}
};
template<class Loss>
inline constexpr bool trains_with = !std::is_same_v<Loss, no_loss>;

template<class Loss, class Out>
struct targets_of {
    static constexpr loss_description description = Loss::describe(Out::shape);
    static constexpr auto const& of = description.targets.extent;
    using extents = to_extents<description.targets.rank, of[0], of[1], of[2], of[3]>;
};

} // namespace detail

/// The shape of a sample's targets, and what each is: a class, or a value.
template<class Loss, class Out>
using target_extents = typename detail::targets_of<Loss, Out>::extents;
template<class Loss, class Out, class T>
using target_t = std::conditional_t<detail::targets_of<Loss, Out>::description.classes != 0, int, T>;

namespace detail {

/// True if a network's samples are computed one by one when they are trained with a loss.
template<class Network, class Loss>
inline constexpr bool goes_sample_by_sample =
    Network::sample_by_sample || Loss::describe(Network::output_extents::shape).sample_by_sample;
template<class Network>
inline constexpr bool goes_sample_by_sample<Network, void> = Network::sample_by_sample;

/// True for losses with a function `weight` of targets of this type, which gives a number.
template<class Loss, class Target>
concept weighs = requires(Target const* targets) {
    { Loss::weight(targets) } -> std::convertible_to<double>;
};

/// Argument of any type.
struct anything {
    template<class T>
    operator T() const;
};

/// True for losses that have a function `weight`, whatever it takes: it is called, static or not, with pointers, which
/// templates want, and with one argument or two. Its name alone does not tell, for constraints may take it away.
template<class Loss>
concept names_weight =
    requires(Loss& l, int* classes) { l.weight(classes); } || requires(Loss& l, float* values) { l.weight(values); } ||
    requires(Loss& l, double* values) { l.weight(values); } || requires(Loss& l, anything a) { l.weight(a); } ||
    requires(Loss& l, anything a) { l.weight(a, a); };

template<class Loss, class Target>
struct weighing_of {
    static constexpr bool value = false;
    static constexpr std::conditional_t<names_weight<Loss>, loss_weight_rule<gets<Loss>, wants<Target const*>>, no_rule>
        checked{};
};
template<class Loss, class Target>
    requires weighs<Loss, Target>
struct weighing_of<Loss, Target> {
    static constexpr bool value = true;
};

/// True for losses that weigh samples by their targets.
template<class Loss, class Out, class T>
inline constexpr bool weighs_samples = weighing_of<Loss, target_t<Loss, Out, T>>::value;
template<class Out, class T>
inline constexpr bool weighs_samples<void, Out, T> = false;

} // namespace detail

/// Weight of the samples of a batch, and how many of their targets count.
struct batch_weight {
    double sum = 0;
    std::size_t targets = 0;

    /// The factor of the samples' losses in the mean: 0 where none counts.
    double scale() const noexcept { return sum == 0 ? 0 : 1 / sum; }
    double mean(double losses) const noexcept { return sum == 0 ? 0 : losses / sum; }
};

namespace detail {

/// Adds the weight of a sample with these targets, for losses that weigh samples.
template<class Loss, class Out, class Target>
constexpr void add_weight(Target const* targets, batch_weight& to) {
    constexpr std::size_t count = target_extents<Loss, Out>::size;
    constexpr std::size_t at_once = Loss::describe(Out::shape).weighs_targets ? 1 : count;
    for (std::size_t i = 0; i < count; i += at_once) {
        double const each = Loss::weight(targets + i);
        to.sum += each;
        to.targets += each > 0 ? at_once : 0;
    }
}

} // namespace detail

/// The operands of a loss beside the network's output: targets, weights, and the places of its results. Of a granule,
/// and `targets` with its lanes; or of all samples, where a pass takes them at once.
template<class T, class Target>
struct loss_operands {
    Target* targets = nullptr;
    T const* weight = nullptr; ///< null where there is no backward
    T* loss = nullptr;
    int* correct = nullptr; ///< null where outputs are not right or wrong
};

inline namespace TRIREME_ISA {

/// The operands and results of a loss: views of one granule, and one number per sample. x: what the network says;
/// `target`; dx: the gradient by x times the sample's factor, to be written. `weight`: that factor, one over the weight
/// of the batch, and 0 for what fills a granule. `loss`: to be written, without it. `correct`: to be written by forward
/// where outputs are right or wrong, the number of the sample's targets that x says. `policy`: the kernels.
template<class T, class Stored, class Loss, class Out, std::size_t Lanes, class Kernels>
struct loss_io {
    using value_type = T;
    using stored_type = Stored; ///< of x and dx
    using kernels = Kernels;
    using input = Out;
    static constexpr std::size_t lanes = Lanes;

    view_of<Stored const, Out, Lanes, Kernels> x;
    view_of<target_t<Loss, Out, T> const, target_extents<Loss, Out>, Lanes, Kernels> target;
    view_of<Stored, Out, Lanes, Kernels> dx;
    T const* weight;
    T* loss;
    int* correct;
    [[no_unique_address]] Kernels policy;
};

} // namespace TRIREME_ISA

namespace detail {

template<class L, class Out>
constexpr bool has_loss_functions() {
    if constexpr (!requires { typename std::bool_constant<L::describe(Out::shape).accepts>; }) {
        return false; // it is no constant
    } else if constexpr (!L::describe(Out::shape).accepts) {
        return requires { typename L::template refusal<Out>; };
    } else {
        return requires(loss_io<float, float, L, Out, 1, kernel_context> const& io) {
            L::forward(io);
            L::backward(io);
            // one after the other: a body that is made to find out its type may be right for one precision alone
            requires weighs<L, target_t<L, Out, float>> || weighs<L, target_t<L, Out, double>> || !names_weight<L>;
        };
    }
}

} // namespace detail

/// A loss on an output has all functions that its description of this output asks for: `loss_on<cross_entropy,
/// input<10>>`. The concept compiles none of them, as layer_on.
template<class L, class Output>
concept loss_on = loss<L> && detail::has_loss_functions<L, typename Output::extents>();

namespace detail::inline TRIREME_ISA {

/// Calls a loss on samples that lie as `Kernels` has them; without Backward, `dx` is not looked at.
template<bool Backward, class Loss, class Out, std::size_t Lanes, class Kernels, class T, class Stored, class Target>
void apply_loss(Kernels const& k, Stored const* x, Stored* dx, loss_operands<T, Target> const& at) {
    loss_io<T, Stored, Loss, Out, Lanes, Kernels> const io{{x}, {at.targets}, {dx}, at.weight, at.loss, at.correct, k};
    if constexpr (!requires { Loss::forward(io), Loss::backward(io); })
        static_assert(sizeof(incomplete_loss_rule<gets<Loss>>) != 0);
    else if constexpr (Backward)
        Loss::backward(io);
    else
        Loss::forward(io);
}

} // namespace detail::inline TRIREME_ISA
} // namespace trireme
