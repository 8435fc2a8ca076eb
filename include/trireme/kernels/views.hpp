// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/extents.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/kernel_context.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace trireme {

template<class... Where>
struct remote_value_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0054: this layer's values lie in the memory of an accelerator, where the host cannot read them: "
        "hand its work over with io.policy.each(n, functor), n being io.x.size() * io.policy.samples(), or by a "
        "kernel of the policy");
};

template<class... Where>
struct all_samples_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0068: this layer's kernels take all samples of a shard at once, one behind the other and channels "
        "last, so that an index of one value means nothing here: hand its work over with "
        "io.policy.each(n, functor), n being io.x.size() * io.policy.samples(), or by a kernel of the policy");
};

/// All samples of a shard, of one shape, one behind the other: what granule_view is where granules have lanes, but for
/// the values themselves. `Rule`: why nobody may index them.
template<class T, class Extents, template<class...> class Rule>
struct all_samples_view {
    T* data = nullptr;

    static constexpr shape sample = Extents::shape;

    /// Values of one sample.
    static constexpr std::size_t size() noexcept { return Extents::size; }

    template<class... Index>
    T& operator()(Index...) const noexcept {
        static constexpr Rule<gets<Extents>, gets<Index>...> checked{};
        return *data;
    }
    template<class Index>
    T& operator[](Index) const noexcept {
        static constexpr Rule<gets<Extents>, gets<Index>> checked{};
        return *data;
    }
};

inline namespace TRIREME_ISA {

/// `Lanes` samples of one shape, value by value: value i of sample `lane` stands at [i * Lanes + lane]. A granule is
/// always full: where a batch has too few samples, the last one is repeated with weight zero in the loss.
template<class T, class Extents, std::size_t Lanes>
struct granule_view {
    T* data = nullptr;

    static constexpr std::size_t lanes = Lanes;
    static constexpr shape sample = Extents::shape;

    /// All values of all samples, for elementwise work.
    static constexpr std::size_t size() noexcept { return Extents::size * Lanes; }
    constexpr T& operator[](std::size_t i) const noexcept { return data[i]; }

    /// One value of one sample: (lane, i), (lane, row, column) or (lane, channel, row, column).
    template<std::convertible_to<std::size_t>... Index>
        requires(sizeof...(Index) == static_cast<std::size_t>(Extents::rank))
    constexpr T& operator()(std::size_t lane, Index... i) const noexcept {
        std::size_t const at[] = {static_cast<std::size_t>(i)...};
        std::size_t offset = 0;
        for (int d = 0; d < Extents::rank; ++d) offset = offset * sample.extent[d] + at[d];
        return data[offset * Lanes + lane];
    }
};

template<class T, class Extents, std::size_t Lanes, class Kernels>
using view_of = std::conditional_t<Kernels::layout == value_layout::interleaved, granule_view<T, Extents, Lanes>,
                                   std::conditional_t<Kernels::remote, all_samples_view<T, Extents, remote_value_rule>,
                                                      all_samples_view<T, Extents, all_samples_rule>>>;

} // namespace TRIREME_ISA
} // namespace trireme
