// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/no_label.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/percentage.hpp>
#include <trireme/core/words.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/soft_targets.hpp>
#include <trireme/layer/cross_entropy.hpp>
#include <trireme/layer/loss.hpp>

#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>

namespace trireme {

template<class... Where>
struct cross_entropy_option_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0103: cross_entropy_with takes label_smoothing<percent<P>> with P from 0 to 99, class_weights<W> "
                  "and ignoring<Label>, in any order, each at most once");
};
template<class... Where>
struct class_weights_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0104: class_weights takes a type with `static constexpr double of[]`, one finite weight for each "
                  "value of the network's output, none negative, and one of them above 0");
};
template<class... Where>
struct ignored_class_rule {
    static_assert(rule_holds<Where...>, "TRI0105: ignoring takes a label that is no class of the network's: one that "
                                        "its output has no value for");
};

/// Option of cross_entropy_with: this share of each target goes to all classes alike.
template<auto Share>
struct label_smoothing {
    static constexpr int spread = [] {
        if constexpr (detail::is_percentage<Share>(percent<0>, percent<99>))
            return static_cast<int>(Share);
        else
            return -1;
    }();
};
/// Option of cross_entropy_with: classes count differently, `W::of[c]` each. The mean is over the weights of the
/// labels.
template<class W>
struct class_weights {
    using weights = W;
};
/// Option of cross_entropy_with: samples with this label count nothing.
template<int Label>
struct ignoring {
    static constexpr int ignored = Label;
};

namespace detail {

// Words of the messages.
template<std::size_t>
struct class_count;
template<int>
struct label;

template<class O>
inline constexpr bool smooths_labels = requires { O::spread; };
template<class O>
inline constexpr bool weighs_classes = requires { typename O::weights; };
template<class O>
inline constexpr bool ignores_label = requires { O::ignored; };

template<class W>
constexpr std::size_t weights_in() noexcept {
    if constexpr (std::is_void_v<W>)
        return npos;
    else if constexpr (requires { std::size(W::of); })
        return std::size(W::of);
    else
        return 0;
}
template<class W>
constexpr bool are_weights() noexcept {
    if constexpr (std::is_void_v<W>) {
        return true;
    } else if constexpr (weights_in<W>() == 0) {
        return false;
    } else {
        bool some = false;
        for (double const w : W::of) {
            if (!(w >= 0 && w <= std::numeric_limits<double>::max())) return false;
            some = some || w > 0;
        }
        return some;
    }
}

} // namespace detail

// Names that the calls below need before a kernel policy overloads them; see cross_entropy.hpp.
template<class Targets, std::size_t Classes, std::size_t Lanes>
void soft_cross_entropy() = delete;
template<class Targets, std::size_t Classes, std::size_t Lanes>
void soft_cross_entropy_gradient() = delete;

/// Softmax cross-entropy with options, in any order: `label_smoothing<percent<10>>`, `class_weights<W>` with `static
/// constexpr double W::of[]`, `ignoring<255>`. Logits (Classes), or of tokens, (Tokens, Classes), each with a label.
/// The loss of a batch is the sum of its labels' losses, in which classes have the shares that soft_targets says, over
/// the sum of their weights; a batch of ignored labels has the loss 0, and changes no parameter but by the optimizer's
/// decay and momentum. Accuracy is that of the labels that have a weight. PyTorch's CrossEntropyLoss with
/// label_smoothing, weight and ignore_index, over all tokens of the batch.
template<class... Options>
struct cross_entropy_with {
private:
    template<class Io>
    using geometry = token_geometry<Io::input::shape.extent[0], Io::input::shape.extent[1]>;
    static constexpr bool fits = (... && (detail::smooths_labels<Options> || detail::weighs_classes<Options> ||
                                          detail::ignores_label<Options>)) &&
                                 (0 + ... + (detail::smooths_labels<Options> ? 1 : 0)) <= 1 &&
                                 (0 + ... + (detail::weighs_classes<Options> ? 1 : 0)) <= 1 &&
                                 (0 + ... + (detail::ignores_label<Options> ? 1 : 0)) <= 1;
    template<class O>
    struct is_smoothing : std::bool_constant<detail::smooths_labels<O>> {};
    template<class O>
    struct is_weighing : std::bool_constant<detail::weighs_classes<O>> {};
    template<class O>
    struct is_ignoring : std::bool_constant<detail::ignores_label<O>> {};

    static constexpr int spread = detail::first_or<is_smoothing, label_smoothing<percentage{}>, Options...>::spread;
    using weights = typename detail::first_or<is_weighing, class_weights<void>, Options...>::weights;
    static constexpr int ignored = detail::first_or<is_ignoring, ignoring<no_label>, Options...>::ignored;
    template<std::size_t Classes>
    using targets = soft_targets<Classes, spread, weights, ignored>;
    static constexpr bool weighs = targets<1>::weighs;

    static constexpr bool is_class(int label, std::size_t classes) noexcept {
        return label >= 0 && static_cast<std::size_t>(label) < classes;
    }
    /// 0 for logits of neither form.
    static constexpr std::size_t classes_of(shape const& logits) noexcept {
        return logits.rank == 1 || logits.rank == 2 ? logits.extent[logits.rank - 1] : 0;
    }
    static constexpr bool takes(std::size_t classes) noexcept {
        return classes != 0 && fits && spread >= 0 && detail::are_weights<weights>() &&
               (std::is_void_v<weights> || detail::weights_in<weights>() == classes) && !is_class(ignored, classes);
    }

public:
    /// FLOPs per sample: those of cross_entropy, and two more of every class.
    static constexpr loss_description describe(shape logits) noexcept {
        bool const of_tokens = logits.rank == 2;
        return {.flops = 8 * logits.size(),
                .targets = of_tokens ? make_shape(logits.extent[0]) : make_shape(1),
                .classes = classes_of(logits),
                .accepts = takes(classes_of(logits)),
                .ignored = ignored,
                .weighs_targets = weighs,
                .sample_by_sample = of_tokens};
    }
    /// The weight of the label.
    static double weight(int const* label) noexcept
        requires(weighs)
    {
        if (*label == ignored) return 0;
        if constexpr (std::is_void_v<weights>)
            return 1;
        else
            return weights::of[*label];
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        constexpr auto classes = classes_of(io_t::input::shape);
        if constexpr (io_t::input::rank == 2)
            token_soft_cross_entropy<targets<classes>, geometry<io_t>, io_t::lanes>(
                io.policy, io.x.data, io.target.data, io.loss, io.correct);
        else
            soft_cross_entropy<targets<classes>, classes, io_t::lanes>(io.policy, io.x.data, io.target.data, io.loss,
                                                                       io.correct);
    }
    static void backward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        constexpr auto classes = classes_of(io_t::input::shape);
        if constexpr (io_t::input::rank == 2)
            token_soft_cross_entropy_gradient<targets<classes>, geometry<io_t>, io_t::lanes>(
                io.policy, io.x.data, io.target.data, io.weight, io.dx.data, io.loss);
        else
            soft_cross_entropy_gradient<targets<classes>, classes, io_t::lanes>(io.policy, io.x.data, io.target.data,
                                                                                io.weight, io.dx.data, io.loss);
    }

    /// The rule above that is broken. Public, since clang looks for it where `refusal` is named.
    template<class Out>
    static constexpr auto broken_rule() {
        using detail::class_count;
        if constexpr (!fits || spread < 0)
            return pack<cross_entropy_option_rule<gets<Options>...>>{};
        else if constexpr (classes_of(Out::shape) == 0)
            return pack<cross_entropy_rule<wants<rank<1>>, gets<rank<Out::rank>>>>{};
        else if constexpr (is_class(ignored, classes_of(Out::shape)))
            return pack<ignored_class_rule<gets<ignoring<ignored>>, wants<at_least<classes_of(Out::shape)>>>>{};
        else
            return pack<class_weights_rule<gets<class_weights<weights>>, wants<class_count<classes_of(Out::shape)>>>>{};
    }
    template<class Out>
    using refusal = typename detail::only<decltype(broken_rule<Out>())>::type;
};

} // namespace trireme
