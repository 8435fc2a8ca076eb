// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>

#include <concepts>

namespace trireme {

/// The data-parallel axis of a mesh: N replicas of the model, each with a share of the batch.
/// `dp<dynamic>` leaves N to the trainer's options; the same checks then run at construction.
template<int N>
struct dp {
    static constexpr int extent = N;
};

template<class... Where>
struct mesh_extent_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0020: an axis of a mesh needs at least one device: write dp<1> for a single "
                  "device, or dp<dynamic> to choose when the program runs");
};

namespace detail {

template<int N, bool Ok>
struct mesh_extent_check {
    using type = no_rule;
};
template<int N>
struct mesh_extent_check<N, false> {
    using type = mesh_extent_rule<wants<at_least<1>>, gets<devices<N>>>;
};

} // namespace detail

/// Which devices compute together, and along which axes. `mesh<host, dp<2>>` is two devices of this process: threads,
/// for the transport follows from the kind of device.
template<class Device, class DataAxis = dp<1>>
struct mesh {
    using device = Device;
    static constexpr int data_extent = DataAxis::extent;

    static constexpr bool valid = data_extent >= 1 || data_extent == dynamic;
    using rule = typename detail::mesh_extent_check<data_extent, valid>::type;
    static constexpr rule checked{};
};

} // namespace trireme
