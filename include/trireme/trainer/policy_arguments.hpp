// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/device.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <concepts>
#include <cstddef>

namespace trireme {

// Names of headers that trireme.hpp leaves out, so that a policy that takes one can say where it is.
struct gpu;
struct mpi;
struct nccl;
struct shared_windows;
inline namespace TRIREME_ISA {
struct reference;
template<class A>
class onednn_kernels;
using onednn = onednn_kernels<float>;
} // namespace TRIREME_ISA

template<class... Where>
struct policy_header_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0076: this policy takes what is in a header of its own: include trireme/cuda.hpp for gpu (and compile with "
        "nvcc), trireme/mpi.hpp for mpi, trireme/nccl.hpp for nccl, trireme/processes.hpp for shared_windows, "
        "trireme/onednn.hpp for onednn, trireme/reference.hpp for reference");
};

/// The traits of a transport, a type that derives from this and declares what is otherwise: what it joins, and by
/// which of its classes.
///
/// On hosts: `template<bool Staged> using ranks`, the devices of a trainer; if staged, each may have a part of the
/// network. On accelerators: `template<class Device, class T> using streams`; see peer_transport.
struct transport_traits {
    static constexpr bool joins_hosts = false; ///< else accelerators
    static constexpr bool has_stages = false;  ///< whether the stages of a pipeline run over it
    static constexpr bool has_native = false;  ///< whether it has an all-reduce of its own, the strategy `native`
    /// The way in which it carries out the moves of stages: trainers prove their programs for that.
    static constexpr lowering moves = by_counters;
    /// Of trainers that name none. Policies that need `direct` override it.
    using default_strategy = direct;
    /// The type of the option `processes`; void: the usual one of the kind of device.
    using processes = void;
};

template<accelerator Device, class T>
class peer_transport;
inline namespace TRIREME_ISA {
class thread_ranks;
}

/// Transport `peer`: accelerators of one process read one another's memory.
struct peer : transport_traits {
    static constexpr bool has_stages = true;
    template<class Device, class T>
    using streams = peer_transport<Device, T>;
};

/// Transport of devices of the host that name none: threads of one process.
struct thread_transport : transport_traits {
    static constexpr bool joins_hosts = true, has_stages = true;
    template<bool Staged>
    using ranks = thread_ranks;
};

namespace detail {

/// True if a type is more than a name: a header that defines it has been included.
template<class T>
inline constexpr bool is_included = requires { sizeof(T); };

template<class M>
inline constexpr bool device_is_included = true;
template<class Device, class... Axes>
inline constexpr bool device_is_included<mesh<Device, Axes...>> = is_included<Device>;

template<class M>
inline constexpr bool is_usable_mesh = false;
template<class Device, class... Axes>
inline constexpr bool is_usable_mesh<mesh<Device, Axes...>> =
    (std::same_as<Device, host> || accelerator<Device>) && (mesh_axis_type<Axes> && ...) && [] {
        constexpr auto m = mesh<Device, Axes...>::value; // dp and pp, in this order
        int known = 0;
        for (auto const* const name : {"dp", "pp"})
            if (known < m.count && m.find(name) == known) ++known;
        return known == m.count;
    }();

/// True if a kernel policy runs on a kind of device.
template<class K, class Device>
constexpr bool runs_on() {
    if constexpr (!accelerator_kernels<K>)
        return std::same_as<Device, host>;
    else if constexpr (accelerator<Device>)
        return stream_kernels<K, Device>;
    else
        return false;
}

/// True if a strategy runs over a transport.
template<class Strategy, class Way>
constexpr bool runs_with() {
    if constexpr (requires { Strategy::of_a_transport; })
        return Way::has_native;
    else
        return true;
}

} // namespace detail
} // namespace trireme
