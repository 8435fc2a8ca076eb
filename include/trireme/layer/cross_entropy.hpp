// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/layer.hpp>

#include <concepts>
#include <cstddef>

namespace trireme {

template<class... Where>
struct cross_entropy_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0019: cross_entropy needs one value per class: end the network with linear, "
                  "or insert flatten before the end");
};

// Names that the calls below need before a kernel policy overloads them: the first template argument is a number, and a
// parser that has never heard of the name takes `<` for "less".
template<std::size_t Classes, std::size_t Lanes>
void softmax_cross_entropy() = delete;
template<std::size_t Classes, std::size_t Lanes>
void softmax_cross_entropy_loss() = delete;

/// Softmax cross-entropy: -log(softmax(logits)[label]), averaged over the batch. Logits (Classes), labels 0..Classes-1.
/// The gradient by the logits is (softmax - one_hot) / batch. Computed as log(sum exp(x - max)), so that it does not
/// overflow.
struct cross_entropy {
    static constexpr bool accepts(shape logits) noexcept { return logits.rank == 1; }

    /// FLOPs per sample: maximum, subtraction, exponential, sum, division and scaling of every class.
    static constexpr flops_t flops(shape logits) noexcept { return 6 * logits.size(); }

    /// Losses of a granule's samples, and `weight` times their gradients.
    template<class Logits, std::size_t Lanes, class Kernels, class A, class T>
    static void gradient(Kernels const& policy, A const* logits, int const* labels, T const* weight, A* dlogits,
                         T* loss) {
        softmax_cross_entropy<Logits::size, Lanes>(policy, logits, labels, weight, dlogits, loss);
    }

    /// Losses only, and whether the largest logit is the label's.
    template<class Logits, std::size_t Lanes, class Kernels, class A, class T>
    static void evaluate(Kernels const& policy, A const* logits, int const* labels, T* loss, int* correct) {
        softmax_cross_entropy_loss<Logits::size, Lanes>(policy, logits, labels, loss, correct);
    }

    template<class Out>
    using refusal = cross_entropy_rule<wants<rank<1>>, gets<rank<Out::rank>>>;
};

/// A loss is a type that accepts an output shape, counts its FLOPs, and gives gradients and scores of a granule.
template<class L>
concept loss = requires(shape s) {
    { L::accepts(s) } -> std::convertible_to<bool>;
    { L::flops(s) } -> std::convertible_to<flops_t>;
};

} // namespace trireme
