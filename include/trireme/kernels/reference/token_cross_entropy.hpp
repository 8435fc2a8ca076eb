// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// The mean over a sample's tokens of log(sum exp(x)) - x[target]; and how many targets have the largest logit, the
/// first of equal ones. G: a token_geometry, whose width are the classes. x: Tokens x Width, targets: Tokens.
template<class G, std::size_t Lanes, class T>
void token_cross_entropy_loss(reference, T const* x, int const* targets, T* loss, int* correct) {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        loss[lane] = 0;
        correct[lane] = 0;
        for (std::size_t t = 0; t < G::tokens; ++t) {
            auto const of = [&](std::size_t c) { return x[(t * G::width + c) * Lanes + lane]; };
            auto const target = static_cast<std::size_t>(targets[t * Lanes + lane]);
            std::size_t best = 0;
            for (std::size_t c = 1; c < G::width; ++c)
                if (of(c) > of(best) || (of(c) != of(c) && of(best) == of(best))) best = c;
            T sum = 0;
            for (std::size_t c = 0; c < G::width; ++c) sum += std::exp(of(c) - of(best));
            loss[lane] += (std::log(sum) - (of(target) - of(best))) / static_cast<T>(G::tokens);
            correct[lane] += best == target ? 1 : 0;
        }
    }
}

/// The loss, and dx = weight (softmax(x) - one_hot) / Tokens.
template<class G, std::size_t Lanes, class T>
void token_cross_entropy(reference, T const* x, int const* targets, T const* weight, T* dx, T* loss) {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        loss[lane] = 0;
        for (std::size_t t = 0; t < G::tokens; ++t) {
            auto const at = [&](std::size_t c) { return (t * G::width + c) * Lanes + lane; };
            auto const target = static_cast<std::size_t>(targets[t * Lanes + lane]);
            T largest = x[at(0)], sum = 0;
            for (std::size_t c = 1; c < G::width; ++c) largest = std::max(largest, x[at(c)]);
            for (std::size_t c = 0; c < G::width; ++c) sum += std::exp(x[at(c)] - largest);
            loss[lane] += (std::log(sum) - (x[at(target)] - largest)) / static_cast<T>(G::tokens);
            for (std::size_t c = 0; c < G::width; ++c)
                dx[at(c)] = weight[lane] / static_cast<T>(G::tokens) *
                            (std::exp(x[at(c)] - largest) / sum - (c == target ? T(1) : T(0)));
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
