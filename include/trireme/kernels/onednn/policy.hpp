// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/onednn/context.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme::inline TRIREME_ISA {

/// Kernel policy of the host: oneDNN's convolutions and inner products, `kernels<onednn>`. All samples of a shard at
/// once, channels last (kernels/channels_last/policy.hpp). Values lie in memory as numbers of type A, float or bf16;
/// parameters, gradients and sums are float.
///
/// It does not derive from `portable`: a kernel that is missing does not compile, where portable's would compute one
/// sample of all.
template<class A>
class onednn_kernels : public kernel_context {
public:
    static constexpr char const* name = "onednn";
    static constexpr value_layout layout = value_layout::channels_last;
    static constexpr fusion fuses = fusion::behind_agreements;
    template<class T>
    static constexpr bool computes = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
    template<class>
    using stored = A;
    template<class Other>
    using storing = onednn_kernels<Other>;
    using sample_kernels = portable;
    using context = onednn_context<A>;

    explicit onednn_kernels(context& c) noexcept : context_(&c) {}

    onednn_kernels for_layer(std::size_t row, std::size_t samples) const noexcept {
        auto k = *this;
        k.row_ = row;
        k.samples_ = samples;
        return k;
    }

    std::size_t row() const noexcept { return row_; }
    std::size_t samples() const noexcept { return samples_; }
    context& state() const noexcept { return *context_; }

    /// True if kernels have something to compute: not while the context is only made ready.
    bool computing() const noexcept { return !context_->preparing() && samples_ != 0; }

    /// f(i) for all i in [0, n): of all samples, where it is about each value of each.
    template<class F>
    void each(std::size_t n, F f) const {
        for (std::size_t i = 0; i < n && computing(); ++i) f(i);
    }

private:
    context* context_;
    std::size_t row_ = 0;
    std::size_t samples_ = 0;
};

/// `kernels<onednn>`: with precision<bf16> the trainer takes them for values that lie in memory so.
using onednn = onednn_kernels<float>;

} // namespace trireme::inline TRIREME_ISA
