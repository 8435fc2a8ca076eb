// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/kernels/activation_functions.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// Layouts say where value (c, y, x) of a sample's image C x H x W lies. A list of values is an image of 1 x 1.
enum class value_layout : std::uint8_t {
    interleaved,   ///< granules of `Lanes` samples: [((c * H + y) * W + x) * Lanes + lane]
    plain,         ///< all samples one behind the other: [((sample * C + c) * H + y) * W + x]
    channels_last, ///< likewise: [((sample * H + y) * W + x) * C + c]
};

/// Kernel policies fuse elementwise functions with the layers beside them, each policy in one of these ways. Then the
/// function's own row has nothing left to do.
enum class fusion : std::uint8_t {
    nothing,
    behind_agreements, ///< forward ends with the function behind a layer that agrees on something; backward begins so
    on_both_sides      ///< forward ends with the function behind any layer, backward with the function before it
};

/// The context of a family's kernels says what passes and layers need to know of them; what a policy does not declare
/// itself is as it stands here. Every kernel takes a policy as its first argument, and overload resolution finds the
/// family's (docs/kernels.md lists them), so that a layer names no family, and a family needs no list of layers.
///
/// A policy derives from this, from a family's policy, or from an adapter of one: `with_function` and, on accelerators,
/// `values_as`.
struct kernel_context {
    static constexpr value_layout layout = value_layout::interleaved;
    /// True if values lie where the host cannot read them, and kernels are handed to a stream.
    static constexpr bool remote = false;
    static constexpr fusion fuses = fusion::nothing;
    /// Samples of a granule.
    template<class T>
    static constexpr std::size_t lanes = 1;
    /// Up to how many samples are computed one by one, in granules of one lane, because a full one would take longer.
    template<class T>
    static constexpr std::size_t one_by_one = 0;
    /// True if the policy's kernels compute in numbers of type T.
    template<class T>
    static constexpr bool computes = std::is_floating_point_v<T>;
    /// As what the values between layers lie in memory, and their gradients, where parameters and sums are of type T.
    template<class T>
    using stored = T;
    /// A function applied to what is written; see with_function.
    using epilogue = identity_function;
};

/// A kernel policy is a type that says of itself what `kernel_context` declares: passes and layers ask for nothing else
/// of a policy of the host that takes granules, of which each call of a kernel gets a copy. docs/concepts/kernels.md
/// has the rest: which kernels it needs, and what they may assume.
template<class K>
concept kernel_policy = requires {
    { K::layout } -> std::convertible_to<value_layout>;
    { K::remote } -> std::convertible_to<bool>;
    { K::fuses } -> std::convertible_to<fusion>;
    { K::template lanes<float> } -> std::convertible_to<std::size_t>;
    { K::template one_by_one<float> } -> std::convertible_to<std::size_t>;
    { K::template computes<float> } -> std::convertible_to<bool>;
    typename K::template stored<float>;
    typename K::epilogue;
    requires K::remote || K::layout != value_layout::interleaved ||
                 (std::default_initializable<K>&& std::copy_constructible<K>);
};

template<class K, class T>
using stored_t = typename K::template stored<T>;

/// The policy of K's kernels for values that lie in memory as numbers of type A; K itself, if it declares none.
template<class K, class A>
struct storing {
    using type = K;
};
template<class K, class A>
    requires requires { typename K::template storing<A>; }
struct storing<K, A> {
    using type = typename K::template storing<A>;
};

/// True if the values of images lie channels last, which is part of the geometry's type.
template<class K>
inline constexpr bool keeps_channels_last = K::layout == value_layout::channels_last;

/// A policy of the host whose kernels take all samples of a shard at once, and not granule by granule.
template<class K>
inline constexpr bool takes_all_samples = !K::remote && K::layout != value_layout::interleaved;

/// A policy whose kernels run on an accelerator.
template<class K>
concept accelerator_kernels = requires { requires K::remote; };

/// An adapter of a policy: the same kernels, applying `Function` where the layer that is computed ends. Forward writes
/// Function::value(y); where functions on both sides are fused, backward_input multiplies what it writes, the gradient
/// by its input x, by Function::slope(x, x), for its input is what the function gave (`input`: that x); where only
/// those behind a layer are, backward begins with the gradient by what the function gave. A layer's kernels say that
/// they can by overloading on this type, or by looking at `epilogue`.
template<class Kernels, class Function, class T>
class with_function : public Kernels {
public:
    using epilogue = Function;
    explicit with_function(Kernels const& k, T const* input = nullptr) noexcept : Kernels(k), input_(input) {}

    T const* input() const noexcept { return input_; }
    Kernels const& without() const noexcept { return *this; }

private:
    T const* input_;
};

} // namespace trireme
