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

/// Transport `peer`: accelerators of one process read one another's memory.
struct peer {};

/// True for a type that names a transport; each transport's header specialises it.
template<class W>
inline constexpr bool is_transport = false;
template<>
inline constexpr bool is_transport<peer> = true;

/// True for a transport that joins processes on hosts, false for one that joins accelerators.
template<class W>
inline constexpr bool joins_hosts = false;

/// True for a transport over which the stages of a pipeline run, `void` for threads.
template<class W>
inline constexpr bool stages_run_over = std::same_as<W, void> || std::same_as<W, peer>;

/// True for a transport with an all-reduce of its own, the strategy `native`.
template<class W>
inline constexpr bool has_native = false;

/// The strategy of trainers over a transport that name none; `void` stands for threads. Policies that need `direct`
/// override it.
template<class W>
struct default_strategy {
    using type = direct;
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
        return std::same_as<typename K::stream, typename Device::stream>;
    else
        return false;
}

/// True if a strategy runs over a transport; `Way` is void for threads.
template<class Strategy, class Way>
constexpr bool runs_with() {
    if constexpr (requires { Strategy::of_a_transport; })
        return has_native<Way>;
    else
        return true;
}

} // namespace detail
} // namespace trireme
