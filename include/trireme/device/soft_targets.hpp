// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

/// Targets of a softmax cross-entropy as a share of each class, not of one alone: `soft_targets<Classes, Spread,
/// Weights, Ignored>` says for a label which share q of the loss -log p each class has. With the weight w of each class
/// and Spread percent of the label's share spread over all C of them,
///
///     q(c) = (1 - Spread) w(label) [c = label] + Spread w(c) / C,
///
/// and no share at all where the label is `Ignored`. `Weights`: void, or a type with `static constexpr double of[]`.
/// Host and device code share it. Source: Szegedy et al., "Rethinking the Inception architecture", 2016; PyTorch's
/// form.
template<std::size_t Classes, int Spread, class Weights, int Ignored>
struct soft_targets {
    static constexpr bool spreads = Spread != 0;
    static constexpr double of_label = (100 - Spread) / 100.0, of_each = Spread / 100.0 / double(Classes);

    TRIREME_HOST_DEVICE static bool counts(int label) noexcept { return label != Ignored; }
    /// The weight of a class.
    template<class N>
    TRIREME_HOST_DEVICE static N weight(std::size_t c) noexcept {
        if constexpr (std::is_void_v<Weights>) {
            static_cast<void>(c);
            return N(1);
        } else {
            constexpr table<N> all; // in the function, where device code can read it
            return all.of[c];
        }
    }
    /// The sum of all classes' weights.
    template<class N>
    static constexpr N weights() noexcept {
        double sum = 0;
        for (std::size_t c = 0; c < Classes; ++c) sum += weight_of(c);
        return static_cast<N>(sum);
    }
    /// The share of the label beside those that all classes have, and the sum of all shares.
    template<class N>
    TRIREME_HOST_DEVICE static N share(int label) noexcept {
        return N(of_label) * weight<N>(static_cast<std::size_t>(label));
    }
    template<class N>
    TRIREME_HOST_DEVICE static N all_shares(int label) noexcept {
        constexpr N spread = static_cast<N>(of_each) * weights<N>();
        return share<N>(label) + spread;
    }

private:
    static constexpr double weight_of(std::size_t c) noexcept {
        if constexpr (std::is_void_v<Weights>)
            return c < Classes ? 1 : 0;
        else
            return Weights::of[c];
    }
    template<class N>
    struct table {
        N of[Classes] = {};
        constexpr table() noexcept {
            for (std::size_t c = 0; c < Classes; ++c) of[c] = static_cast<N>(weight_of(c));
        }
    };
};

} // namespace trireme
