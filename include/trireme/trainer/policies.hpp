// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/dtype.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/host/all_samples.hpp>
#include <trireme/device/host/device.hpp>
#include <trireme/device/host/kernels.hpp>
#include <trireme/device/sgd_numbers.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/tensor_rules.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace trireme {

// The policies of a trainer: any number, in any order, each at most once.

/// Which devices compute, and along which axes: `on<mesh<host, dp<2>>>`. Default: one host device.
template<class Mesh>
struct on {
    using mesh = Mesh;
};

/// How devices add their gradients: `reduce_by<ring>`, `reduce_by<double_binary_tree>`, `reduce_by<direct>` (the
/// default; over MPI hierarchical<direct, ring>), a strategy of your own, `reduce_by<chosen_at_run_time>`, or
/// `reduce_by<best_of<direct, ring>>`. Tensors may have strategies of their own, and large gradients be cut:
/// `reduce_by<direct, for_tensors<of_at_least<64_KiB>, ring>, bucket<25_MiB>>`.
template<class Strategy, class... ForTensors>
struct reduce_by {
    using strategy = Strategy;
    using tensor_rules = pack<ForTensors...>;
};

/// The strategy is the option `strategy`, checked when the trainer is constructed: `{.strategy = ring{}}`.
struct chosen_at_run_time {};

/// The same bits for any number of devices: the batch is cut into V logical shards, whose gradients are added in one
/// fixed binary tree, by direct exchange. `reproducible<fixed_tree, dynamic>` takes V from the option `logical_shards`,
/// 0 meaning "not reproducible".
template<class Order, int V>
struct reproducible {
    using order = Order;
    static constexpr int shards = V;
};

/// How accelerators of one trainer reach one another: `transport<peer>` (the default) reads their memory, within one
/// process; `transport<nccl>` goes through NCCL (a header of its own). Devices of the host are threads.
template<class Way>
struct transport {
    using way = Way;
};
struct peer {};

/// The dtype of parameters, gradients and activations: `precision<f32>` (the default) or `precision<f64>`.
/// `precision<bf16>`: activations lie in memory as bf16, and convolutions and matrix products multiply bf16;
/// parameters, gradients, statistics and optimizer state stay f32, as do all sums, the loss and what devices tell one
/// another.
template<class Dtype>
struct precision {
    using dtype = Dtype;
};

/// Where the weights are. `hold_weights<per_device>` (the default): a copy per device, all updated alike.
/// `hold_weights<once>`: one copy per process; each device reduces and updates its slice of it, so that no weight is
/// updated twice and none is copied, and optimizer state is kept once. The bits are those of hold_weights<per_device>
/// with reduce_by<direct>. Needs a strategy that completes a slice in one step: direct, or reproducible<fixed_tree, V>.
template<class Place>
struct hold_weights {
    using place = Place;
};
struct per_device {};
struct once {};

// Names of headers that trireme.hpp leaves out, so that a policy that takes one can say where it is.
struct gpu;
struct mpi;
struct nccl;
struct shared_windows;
inline namespace TRIREME_ISA {
template<class A>
class onednn_kernels;
using onednn = onednn_kernels<float>;
} // namespace TRIREME_ISA

enum class policy_kind : int {
    devices,
    reduction,
    reproducibility,
    weights,
    kernels,
    initialisation,
    precision,
    transport,
    faults,
    none
};

template<class P>
inline constexpr policy_kind kind_of = policy_kind::none;
template<class M>
inline constexpr policy_kind kind_of<on<M>> = policy_kind::devices;
template<class... S>
inline constexpr policy_kind kind_of<reduce_by<S...>> = policy_kind::reduction;
template<class O, int V>
inline constexpr policy_kind kind_of<reproducible<O, V>> = policy_kind::reproducibility;
template<class W>
inline constexpr policy_kind kind_of<hold_weights<W>> = policy_kind::weights;
template<class K>
inline constexpr policy_kind kind_of<kernels<K>> = policy_kind::kernels;
template<class M>
inline constexpr policy_kind kind_of<initialise<M>> = policy_kind::initialisation;
template<class D>
inline constexpr policy_kind kind_of<precision<D>> = policy_kind::precision;
template<class W>
inline constexpr policy_kind kind_of<transport<W>> = policy_kind::transport;
template<class F>
inline constexpr policy_kind kind_of<with_faults<F>> = policy_kind::faults;

// ---- rules
// -----------------------------------------------------------------------------------------------------------

template<class... Where>
struct unknown_policy_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0021: this is no policy of a trainer. Allowed, each at most once: on<mesh>, reduce_by<strategy>, "
        "reproducible<fixed_tree, V>, hold_weights<place>, kernels<policy>, initialise<method>, precision<dtype>, "
        "transport<way>, with_faults<F>");
};
template<class... Where>
struct doubled_policy_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0022: two policies of a trainer answer the same question: keep one of them");
};
template<class... Where>
struct contradictory_policy_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0023: these policies contradict each other: fixed_tree fixes the order of additions, the strategy "
        "would choose another. Leave out reduce_by, write reduce_by<direct>, or leave out reproducible");
};
template<class... Where>
struct logical_shards_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0024: a reproducible trainer gives every device at least one logical shard: "
                  "raise V in reproducible<fixed_tree, V>, or use fewer devices");
};
template<class... Where>
struct policy_header_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0076: this policy takes what is in a header of its own: include trireme/cuda.hpp for gpu (and compile with "
        "nvcc), trireme/mpi.hpp for mpi, trireme/nccl.hpp for nccl, trireme/processes.hpp for shared_windows, "
        "trireme/onednn.hpp for onednn, trireme/reference.hpp for reference");
};
template<class... Where>
struct policy_argument_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0043: this policy's argument is of the wrong kind: on takes mesh<host, dp<N>> or mesh<gpu, "
                  "dp<N>>, hold_weights per_device or once, kernels a policy with `lanes`, initialise a method with "
                  "`value`, precision f32, f64 or bf16, transport peer, nccl, mpi or shared_windows");
};
template<class... Where>
struct shared_weights_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0045: hold_weights<once> needs a strategy that completes a device's slice in one step, for it is updated "
        "there and then: write reduce_by<direct>, or leave out hold_weights<once>");
};
template<class... Where>
struct kernels_device_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0055: these kernels do not run on this kind of device: leave out kernels<policy>, or take one of "
                  "the mesh's device (the host has portable, reference with trireme/reference.hpp, and onednn with "
                  "trireme/onednn.hpp)");
};
template<class... Where>
struct kernels_precision_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0067: these kernels do not compute in numbers of this type: portable computes in f32 and f64, onednn "
        "in f32 and bf16, those of accelerators in all three, and channels last in bf16. Choose another "
        "precision<dtype>, or other "
        "kernels<policy>");
};
template<class... Where>
struct accelerator_weights_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0056: hold_weights<once> is for devices that share one memory, and accelerators have memory of "
                  "their own: leave it out, or compute on host");
};
template<class... Where>
struct transport_device_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0057: this transport does not join this kind of device. Threads of the host need none: leave it "
                  "out. Processes take transport<mpi> or transport<shared_windows>, accelerators transport<peer> or "
                  "transport<nccl>");
};
template<class... Where>
struct transport_strategy_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0059: this strategy is a transport's own, and these devices have none that has it: write "
                  "transport<nccl> or transport<mpi>, or choose another strategy");
};
template<class... Where>
struct tensor_rules_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0053: what follows the strategy in reduce_by are bucket<Bytes>, and for_tensors<Which, Strategy>, "
        "where Which has `static constexpr bool takes(tensor_place const&)` and Strategy is a reduction "
        "strategy");
};
template<class... Where>
struct layout_limit_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0044: a trainer has at most 256 devices, and a reproducible one at most 4096 logical shards: use "
                  "fewer");
};
template<class... Where>
struct reproducible_order_rule {
    static_assert(rule_holds<Where...>, "TRI0028: the first argument of reproducible is fixed_tree");
};
template<class... Where>
struct reproducible_shards_rule {
    static_assert(rule_holds<Where...>, "TRI0029: reproducible needs at least one logical shard");
};
template<class... Where>
struct fast_math_rule {
    static_assert(rule_holds<Where...>, "TRI0025: reproducible needs IEEE arithmetic: compile without -ffast-math");
};
template<class... Where>
struct strategy_rule {
    static_assert(rule_holds<Where...>, "TRI0026: this is no reduction strategy: a strategy has `name` and `static "
                                        "constexpr schedule all_reduce(int ranks)` (schedule/collective/schedule.hpp)");
};

/// Whether a type names a way between accelerators; the header of a transport says so of its own.
template<class W>
inline constexpr bool is_transport = false;
template<>
inline constexpr bool is_transport<peer> = true;

/// Whether a transport joins devices of the host, which are processes then; else it joins accelerators.
template<class W>
inline constexpr bool joins_hosts = false;

/// Whether a transport has an all-reduce of its own, the strategy `native`.
template<class W>
inline constexpr bool has_native = false;

/// How trainers add gradients over a transport unless they say so; `void`: threads. What needs `direct` gets that.
template<class W>
struct default_strategy {
    using type = direct;
};

namespace detail {

/// Whether a strategy can run with a transport; `Way` is void where there is none.
template<class Strategy, class Way>
constexpr bool runs_with() {
    if constexpr (requires { Strategy::of_a_transport; })
        return has_native<Way>;
    else
        return true;
}

/// What a pack of policies says, question by question, with the defaults filled in.
template<class... P>
struct policy_set {
    static constexpr std::size_t count = sizeof...(P);

    /// Where the answer to a question stands, npos if nowhere.
    static constexpr std::size_t find(policy_kind k) noexcept {
        constexpr policy_kind kinds[count + 1] = {kind_of<P>..., policy_kind::none};
        for (std::size_t i = 0; i < count; ++i)
            if (kinds[i] == k) return i;
        return npos;
    }
    static constexpr std::size_t unknown = find(policy_kind::none);

    /// The second answer to a question that has two, npos if there is none, and the first.
    static constexpr std::size_t doubled = [] {
        constexpr policy_kind kinds[count + 1] = {kind_of<P>..., policy_kind::none};
        for (std::size_t i = 0; i < count; ++i)
            if (kinds[i] != policy_kind::none && find(kinds[i]) != i) return i;
        return npos;
    }();
    static constexpr std::size_t doubles = [] {
        constexpr policy_kind kinds[count + 1] = {kind_of<P>..., policy_kind::none};
        return doubled == npos ? npos : find(kinds[doubled]);
    }();

    template<policy_kind K, class Default>
    static constexpr auto answer_or() {
        if constexpr (find(K) == npos)
            return pack<Default>{};
        else
            return pack<type_at<find(K), P...>>{};
    }
};

template<policy_kind K, class Default, class... P>
using policy_or = typename only<decltype(policy_set<P...>::template answer_or<K, Default>())>::type;

/// Stands where no `reproducible` was given.
struct not_reproducible {
    using order = fixed_tree;
    static constexpr int shards = 0;
};

template<class M>
inline constexpr bool is_usable_mesh = false;
template<class Device, class Axis>
inline constexpr bool is_usable_mesh<mesh<Device, Axis>> =
    (std::same_as<Device, host> || accelerator<Device>) && requires { Axis::extent; };

/// Whether a kernel policy is for a kind of device.
template<class K, class Device>
constexpr bool runs_on() {
    if constexpr (!accelerator_kernels<K>)
        return std::same_as<Device, host>;
    else if constexpr (accelerator<Device>)
        return std::same_as<typename K::stream, typename Device::stream>;
    else
        return false;
}

/// True if a type is more than a name: a header that defines it has been included. Kernels are functions beside their
/// type, so of `reference`, whose type is always there, one is looked for.
template<class T>
inline constexpr bool is_included = requires { sizeof(T); };
template<std::same_as<reference> K>
inline constexpr bool is_included<K> =
    requires(K k, float* w, std::size_t n, sgd_numbers<float> numbers) { sgd_update(k, w, w, n, numbers); };

template<class P>
inline constexpr bool argument_is_included = true;
template<class Device, class Axis>
inline constexpr bool argument_is_included<on<mesh<Device, Axis>>> = is_included<Device>;
template<class K>
inline constexpr bool argument_is_included<kernels<K>> = is_included<K>;
template<class W>
inline constexpr bool argument_is_included<transport<W>> = is_included<W>;

/// The first policy whose argument's header is missing, npos if all are there.
template<class... P>
constexpr std::size_t not_included() noexcept {
    return first_false({argument_is_included<P>...});
}

/// Whether a policy's argument can be what its place needs; the kernels that a network asks for are found when it is
/// instantiated.
template<class P>
inline constexpr bool argument_fits = true;
template<class M>
inline constexpr bool argument_fits<on<M>> = is_usable_mesh<M>;
template<class W>
inline constexpr bool argument_fits<hold_weights<W>> = std::is_same_v<W, per_device> || std::is_same_v<W, once>;
template<class K>
inline constexpr bool argument_fits<kernels<K>> = requires { K::template lanes<float>; };
template<class W>
inline constexpr bool argument_fits<transport<W>> = is_transport<W>;
template<class M>
inline constexpr bool argument_fits<initialise<M>> =
    requires(parameter_tensor const& p, random_stream const& r) { M::value(p, r, std::uint64_t{}); };
template<class D>
inline constexpr bool argument_fits<precision<D>> =
    std::is_same_v<D, f32> || std::is_same_v<D, f64> || std::is_same_v<D, bf16>;

/// The first policy whose argument does not fit, npos if all do.
template<class... P>
constexpr std::size_t misfit() noexcept {
    return first_false({argument_fits<P>...});
}

/// The policy of one kind, or its default; the default, too, where the argument does not fit, so that one mistake is
/// one error.
template<policy_kind K, class Default, class... P>
using usable_policy_or =
    std::conditional_t<argument_fits<policy_or<K, Default, P...>>, policy_or<K, Default, P...>, Default>;

} // namespace detail

/// The answers that a trainer works with.
template<class... P>
struct trainer_policies {
    using mesh = typename detail::usable_policy_or<policy_kind::devices, on<trireme::mesh<host, dp<1>>>, P...>::mesh;
    using device = typename mesh::device;
    using named_kernels =
        typename detail::usable_policy_or<policy_kind::kernels, kernels<typename device::kernels>, P...>::policy;
    static constexpr bool kernels_run = detail::runs_on<named_kernels, device>();
    using named_transport =
        typename detail::usable_policy_or<policy_kind::transport, trireme::transport<void>, P...>::way;
    static constexpr bool on_host = std::is_same_v<device, host>;
    static constexpr bool transport_joins = std::is_void_v<named_transport> || joins_hosts<named_transport> == on_host;
    /// The named transport, if it joins these devices; else the usual one, which is none for threads.
    using transport = std::conditional_t<std::is_void_v<named_transport> || !transport_joins,
                                         std::conditional_t<on_host, void, peer>, named_transport>;
    using initialiser =
        typename detail::usable_policy_or<policy_kind::initialisation, initialise<xavier_uniform>, P...>::method;
    using named_dtype = typename detail::usable_policy_or<policy_kind::precision, precision<f32>, P...>::dtype;
    /// Of parameters and gradients.
    using dtype = std::conditional_t<std::is_same_v<named_dtype, bf16>, f32, named_dtype>;
    using faults = typename detail::policy_or<policy_kind::faults, with_faults<no_faults>, P...>::faults;
    static constexpr bool kernels_compute = computes_in<named_kernels, typename named_dtype::value_type>;
    /// The named kernels; the device's own if those could not run there.
    using kernel_policy = std::conditional_t<kernels_run && kernels_compute,
                                             typename storing<named_kernels, typename named_dtype::value_type>::type,
                                             typename device::kernels>;

    static constexpr bool shared_weights =
        std::is_same_v<typename detail::usable_policy_or<policy_kind::weights, hold_weights<per_device>, P...>::place,
                       once>;
    static constexpr int devices = mesh::data_extent;
    using reproducibility = detail::policy_or<policy_kind::reproducibility, detail::not_reproducible, P...>;
    static constexpr int shards = reproducibility::shards;
    using usual_strategy =
        std::conditional_t<shared_weights || shards != 0, direct, typename default_strategy<transport>::type>;
    using reduction = detail::policy_or<policy_kind::reduction, reduce_by<usual_strategy>, P...>;
    using named_strategy = typename reduction::strategy;
    using tensor_rules = typename reduction::tensor_rules;
    static constexpr bool strategy_is_chosen = std::is_same_v<named_strategy, chosen_at_run_time>;
    static constexpr bool strategy_is_named = detail::is_all_reduce<named_strategy>;
    static constexpr bool is_strategy = strategy_is_chosen || strategy_is_named;
    static constexpr bool has_tensor_rules =
        tensor_rules::size != 0 && detail::tensor_rule_list<tensor_rules>::bad == npos;
    static constexpr bool is_static = devices != dynamic && shards != dynamic && !strategy_is_chosen;

    /// Whether the compiler has proved all schedules that can run.
    static constexpr bool proved = is_static && devices <= proved_by_compiler && strategy_is_named &&
                                   !choosing_strategy<named_strategy> && tensor_rules::size == 0;

    /// The named strategy; a stand-in if there is none, or none that could be used.
    using strategy = std::conditional_t<strategy_is_named, named_strategy, direct>;
};

namespace detail {

/// The first rule that a trainer's policies break, as a type; `no_rule` if none. One mistake is one error.
template<class... P>
constexpr auto broken_policy_rule() {
    using set = policy_set<P...>;
    if constexpr (set::unknown != npos) {
        return pack<unknown_policy_rule<at_policy<set::unknown, type_at<set::unknown, P...>>>>{};
    } else if constexpr (set::doubled != npos) {
        return pack<doubled_policy_rule<at_policy<set::doubles, type_at<set::doubles, P...>>,
                                        at_policy<set::doubled, type_at<set::doubled, P...>>>>{};
    } else if constexpr (not_included<P...>() != npos) {
        return pack<policy_header_rule<at_policy<not_included<P...>(), type_at<not_included<P...>(), P...>>>>{};
    } else if constexpr (misfit<P...>() != npos) {
        return pack<policy_argument_rule<at_policy<misfit<P...>(), type_at<misfit<P...>(), P...>>>>{};
    } else {
        using answers = trainer_policies<P...>;
        using named = typename answers::named_strategy;
        using tensors = tensor_rule_list<typename answers::tensor_rules>;
        using repeat = typename answers::reproducibility;
        constexpr bool repeats = !std::is_same_v<repeat, not_reproducible>;
        if constexpr (!answers::mesh::valid)
            return pack<typename answers::mesh::rule>{};
        else if constexpr (!std::is_same_v<typename repeat::order, fixed_tree>)
            return pack<reproducible_order_rule<repeat>>{};
        else if constexpr (repeats && repeat::shards < 1 && repeat::shards != dynamic)
            return pack<reproducible_shards_rule<repeat>>{};
        else if constexpr (answers::devices > max_devices || answers::shards > static_cast<int>(max_logical_shards))
            return pack<layout_limit_rule<
                gets<devices<answers::devices>>,
                gets<words::shards<static_cast<std::size_t>(answers::shards < 0 ? 0 : answers::shards)>>>>{};
        else if constexpr (!answers::is_strategy)
            return pack<strategy_rule<gets<named>>>{};
        else if constexpr (tensors::bad != npos)
            return pack<tensor_rules_rule<gets<typename tensors::bad_rule>>>{};
        else if constexpr (repeats &&
                           (answers::tensor_rules::size != 0 ||
                            (answers::shards > 0 && answers::strategy_is_named && !std::is_same_v<named, direct>)))
            return pack<
                contradictory_policy_rule<typename answers::reduction, reproducible<fixed_tree, answers::shards>>>{};
        else if constexpr (!runs_with<named, typename answers::transport>())
            return pack<transport_strategy_rule<gets<named>, gets<typename answers::device>>>{};
        else if constexpr (!answers::kernels_run)
            return pack<
                kernels_device_rule<gets<kernels<typename answers::named_kernels>>, gets<typename answers::device>>>{};
        else if constexpr (!answers::kernels_compute)
            return pack<kernels_precision_rule<gets<kernels<typename answers::named_kernels>>,
                                               gets<precision<typename answers::named_dtype>>>>{};
        else if constexpr (answers::shared_weights && !std::is_same_v<typename answers::device, host>)
            return pack<accelerator_weights_rule<gets<typename answers::device>>>{};
        else if constexpr (!answers::transport_joins)
            return pack<transport_device_rule<gets<trireme::transport<typename answers::named_transport>>,
                                              gets<typename answers::device>>>{};
        else if constexpr (answers::shared_weights &&
                           (!std::is_same_v<named, direct> || answers::tensor_rules::size != 0))
            return pack<shared_weights_rule<gets<typename answers::reduction>>>{};
        else if constexpr (answers::shards > 0 && answers::devices > answers::shards)
            return pack<logical_shards_rule<wants<at_least<static_cast<std::size_t>(answers::devices)>>,
                                            gets<words::shards<static_cast<std::size_t>(answers::shards)>>>>{};
        else if constexpr (answers::shards != 0 && TRIREME_FAST_MATH)
            return pack<fast_math_rule<reproducible<fixed_tree, answers::shards>>>{};
        else if constexpr (answers::devices != dynamic && answers::devices <= proved_by_compiler &&
                           answers::strategy_is_named)
            return pack<first_rule<typename all_reduce_rule<answers::devices, named>::type,
                                   typename tensors::template all_reduce_rules<answers::devices>>>{};
        else
            return pack<no_rule>{};
    }
}

template<class... P>
using broken_policy_rule_t = typename only<decltype(broken_policy_rule<P...>())>::type;

} // namespace detail
} // namespace trireme
