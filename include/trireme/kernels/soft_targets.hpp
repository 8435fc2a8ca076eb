// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/no_label.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

namespace detail {

template<class Weights>
constexpr double weight_of_class(std::size_t c) noexcept {
    if constexpr (std::is_void_v<Weights>) {
        static_cast<void>(c);
        return 1;
    } else {
        return Weights::of[c];
    }
}
template<class Weights>
constexpr double weight_of_classes(std::size_t classes) noexcept {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += weight_of_class<Weights>(c);
    return sum;
}

} // namespace detail

/// Targets of a softmax cross-entropy as a share of each class, not of one alone: `soft_targets<Classes, Spread,
/// Weights, Ignored>` says for a label which share q of the loss -log p each class has. With the weight w of each class
/// and the part s = Spread / 100 of every target spread over all C of them,
///
///     q(c) = (1 - s) w(label) [c = label] + s w(c) / C,
///
/// and no share at all where the label is `Ignored`. `Weights`: void, or a type with `static constexpr double of[]`.
/// Host and device code share it. Source: Szegedy et al., "Rethinking the Inception architecture", 2016; PyTorch's
/// form.
template<std::size_t Classes, int Spread, class Weights, int Ignored>
struct soft_targets {
    using weights = Weights;
    static constexpr bool spreads = Spread != 0;
    /// True if labels count differently, so that a mean is over their weights.
    static constexpr bool weighs = !std::is_void_v<Weights> || Ignored != no_label;
    static constexpr double of_label = (100 - Spread) / 100.0, of_each = Spread / 100.0 / double(Classes);
    static constexpr double of_all = of_each * detail::weight_of_classes<Weights>(Classes);

    TRIREME_HOST_DEVICE static bool counts(int label) noexcept { return label != Ignored; }
    /// True if an answer to this label may be right: labels of weight 0 count in no accuracy.
    TRIREME_HOST_DEVICE static bool is_scored(int label) noexcept {
        return counts(label) && weight<double>(static_cast<std::size_t>(label)) > 0;
    }
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
    /// The share of the label beside those that all classes have, and the sum of all shares.
    template<class N>
    TRIREME_HOST_DEVICE static N share(int label) noexcept {
        return N(of_label) * weight<N>(static_cast<std::size_t>(label));
    }
    template<class N>
    TRIREME_HOST_DEVICE static N all_shares(int label) noexcept {
        return share<N>(label) + N(of_all);
    }

private:
    template<class N>
    struct table {
        N of[Classes] = {};
        constexpr table() noexcept {
            for (std::size_t c = 0; c < Classes; ++c) of[c] = static_cast<N>(detail::weight_of_class<Weights>(c));
        }
    };
};

} // namespace trireme
