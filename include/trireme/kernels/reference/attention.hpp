// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// Weights of the tokens that a token of one head looks at, in the order of those: softmax(query key / sqrt(head)). x:
/// values of one sample, `Lanes` apart.
template<class G, std::size_t Lanes, class T>
std::vector<T> attention_of_token(T const* x, std::size_t head, std::size_t token) {
    auto const at = [&](std::size_t t, std::size_t part, std::size_t d) {
        return x[(t * G::step + part + head * G::head + d) * Lanes];
    };
    std::vector<T> p(G::seen(token));
    for (std::size_t s = 0; s < p.size(); ++s) {
        T sum = 0;
        for (std::size_t d = 0; d < G::head; ++d) sum += at(token, G::query, d) * at(s, G::key, d);
        p[s] = sum / std::sqrt(static_cast<T>(G::head));
    }
    T const largest = *std::max_element(p.begin(), p.end());
    T sum = 0;
    for (auto& each : p) sum += each = std::exp(each - largest);
    for (auto& each : p) each /= sum;
    return p;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = softmax(query key^T / sqrt(head)) value, head by head. x: Tokens x 3 Width, y: Tokens x Width; both times Lanes.
/// `draw`: none, or the dropout_draw of the weights, whose numbers G::first_weight begins.
template<class G, std::size_t Lanes, class T, class... Draw>
void attention_forward(reference, T const* x, T* y, Draw const&... draw) {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t h = 0; h < G::heads; ++h)
            for (std::size_t t = 0; t < G::tokens; ++t) {
                auto p = detail::attention_of_token<G, Lanes>(x + lane, h, t);
                for (std::size_t s = 0; s < p.size(); ++s)
                    ((p[s] *= draw.factor(G::first_weight(draw.granule.first + lane, h, t) + s)), ...);
                for (std::size_t d = 0; d < G::head; ++d) {
                    T sum = 0;
                    for (std::size_t s = 0; s < p.size(); ++s)
                        sum += p[s] * x[(s * G::step + G::value + h * G::head + d) * Lanes + lane];
                    y[(t * G::width + h * G::head + d) * Lanes + lane] = sum;
                }
            }
}

/// dx = the gradient by queries, keys and values; overwrites dx. y: what forward gave. `draw`: as forward's.
template<class G, std::size_t Lanes, class T, class... Draw>
void attention_backward_input(reference, T const* x, T const* y, T const* dy, T* dx, Draw const&... draw) {
    std::fill_n(dx, G::tokens * G::step * Lanes, T(0));
    T const scale = T(1) / std::sqrt(static_cast<T>(G::head));
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t h = 0; h < G::heads; ++h)
            for (std::size_t t = 0; t < G::tokens; ++t) {
                auto const p = detail::attention_of_token<G, Lanes>(x + lane, h, t);
                auto const in = [&](std::size_t token, std::size_t part, std::size_t d) {
                    return (token * G::step + part + h * G::head + d) * Lanes + lane;
                };
                auto const out = [&](std::size_t d) { return (t * G::width + h * G::head + d) * Lanes + lane; };
                T inner = 0; // dy y, which softmax's gradient takes from each
                for (std::size_t d = 0; d < G::head; ++d) inner += dy[out(d)] * y[out(d)];
                for (std::size_t s = 0; s < p.size(); ++s) {
                    T by_p = 0, kept = 1;
                    ((kept = draw.factor(G::first_weight(draw.granule.first + lane, h, t) + s)), ...);
                    for (std::size_t d = 0; d < G::head; ++d) {
                        by_p += dy[out(d)] * x[in(s, G::value, d)];
                        dx[in(s, G::value, d)] += kept * p[s] * dy[out(d)];
                    }
                    T const by_score = p[s] * (kept * by_p - inner) * scale;
                    for (std::size_t d = 0; d < G::head; ++d) {
                        dx[in(t, G::query, d)] += by_score * x[in(s, G::key, d)];
                        dx[in(s, G::key, d)] += by_score * x[in(t, G::query, d)];
                    }
                }
            }
}

} // namespace trireme::inline TRIREME_ISA
