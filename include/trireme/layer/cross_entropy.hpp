// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/loss.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

template<class... Where>
struct cross_entropy_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0019: cross_entropy needs one value per class, of a sample or of each of its tokens: end the "
                  "network with linear, or insert flatten before the end");
};

// Names that the calls below need before a kernel policy overloads them: the first template argument is a number, and a
// parser that has never heard of the name takes `<` for "less".
template<std::size_t Classes, std::size_t Lanes>
void softmax_cross_entropy() = delete;
template<std::size_t Classes, std::size_t Lanes>
void softmax_cross_entropy_loss() = delete;

/// Softmax cross-entropy: -log(softmax(logits)[label]), averaged over the batch. Logits (Classes), labels 0..Classes-1;
/// or of tokens, (Tokens, Classes), each with a label: a sample's loss is the mean over its tokens.
/// The gradient by the logits is (softmax - one_hot) / batch. Computed as log(sum exp(x - max)), so that it does not
/// overflow.
struct cross_entropy {
    /// FLOPs per sample: maximum, subtraction, exponential, sum, division and scaling of every class.
    static constexpr loss_description describe(shape logits) noexcept {
        bool const flat = logits.rank == 1;
        auto const classes = logits.rank == 0 ? 0 : logits.extent[logits.rank - 1];
        return {.flops = 6 * logits.size(),
                .targets = flat ? make_shape(1) : make_shape(logits.extent[0]),
                .classes = classes,
                .accepts = flat || logits.rank == 2,
                .sample_by_sample = !flat};
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        if constexpr (io_t::input::rank == 2)
            token_cross_entropy_loss<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.target.data, io.loss,
                                                                  io.correct);
        else
            softmax_cross_entropy_loss<io_t::input::size, io_t::lanes>(io.policy, io.x.data, io.target.data, io.loss,
                                                                       io.correct);
    }
    static void backward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        if constexpr (io_t::input::rank == 2)
            token_cross_entropy<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.target.data, io.weight,
                                                             io.dx.data, io.loss);
        else
            softmax_cross_entropy<io_t::input::size, io_t::lanes>(io.policy, io.x.data, io.target.data, io.weight,
                                                                  io.dx.data, io.loss);
    }

    template<class Out>
    using refusal = cross_entropy_rule<wants<rank<1>>, gets<rank<Out::rank>>>;

private:
    template<class Io>
    using geometry = token_geometry<Io::input::shape.extent[0], Io::input::shape.extent[1]>;
};

} // namespace trireme
