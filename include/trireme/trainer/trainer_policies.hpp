// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/device.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/tensor_rules.hpp>
#include <trireme/trainer/policies.hpp>
#include <trireme/trainer/policy_arguments.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

// A trainer's policies give answers together, with the defaults; rules refuse policies that contradict one another.

template<class... Where>
struct unknown_policy_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0021: this is no policy of a trainer. Allowed, each at most once: on<mesh>, reduce_by<strategy>, "
        "reproducible<fixed_tree, V>, hold_weights<place>, kernels<policy>, initialise<method>, precision<dtype>, "
        "transport<way>, pipeline<schedule, M>, stages_by<cut>, accumulate<N>, recompute<blocks>, clip_norm, "
        "without_decay<rules>, with_faults<F>");
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
struct layout_limit_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0044: a trainer has at most 256 devices, 64 on the axis pp, and a reproducible one at most 4096 "
                  "logical shards: use fewer");
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
struct compressed_device_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0128: gradients are compressed on devices of the host; accelerators send them as they are: leave "
                  "out compressed, or compute on host");
};
template<class... Where>
struct pipeline_device_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0091: this transport does not join the stages of a pipeline: threads do, which need none, "
                  "processes by transport<shared_windows> or transport<mpi>, and accelerators by transport<peer> or "
                  "transport<nccl>. Name one of these, or leave out the axis pp");
};
template<class... Where>
struct pipeline_shards_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0092: in a reproducible pipeline a replica's micro-batches are its logical shards: V of "
                  "reproducible<fixed_tree, V> is the number of replicas times that of micro-batches");
};
template<class... Where>
struct accumulated_pipeline_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0114: accumulate<N> runs a pipeline's schedule N times, each over 1/N of a replica's "
                  "micro-batches: let N divide their number, which under reproducible<fixed_tree, V> is V over the "
                  "number of replicas");
};
template<class... Where>
struct clipped_weights_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0100: clip_norm needs all gradients before any weight is updated, and hold_weights<once> updates "
                  "a slice as soon as it is added: leave out one of the two");
};
template<class... Where>
struct fast_math_rule {
    static_assert(rule_holds<Where...>, "TRI0025: reproducible needs IEEE arithmetic: compile without -ffast-math");
};

namespace detail {

/// The kind of a policy; void for any other type.
template<class P>
struct policy_kind {
    using type = void;
};
template<class P>
    requires requires { typename P::kind; }
struct policy_kind<P> {
    using type = typename P::kind;
};

/// Index of the first policy of a kind, npos if there is none.
template<class Kind, class... P>
inline constexpr std::size_t find_policy = first_false({!std::is_same_v<typename policy_kind<P>::type, Kind>...});

/// The policy of a default's kind; the default, too, where that one does not fit, so that one mistake is one error.
template<class Default, class... P>
constexpr auto policy_or_default() {
    constexpr std::size_t at = find_policy<typename Default::kind, P...>;
    if constexpr (at == npos) {
        return pack<Default>{};
    } else {
        using given = type_at<at, P...>;
        return pack<std::conditional_t<given::fits, given, Default>>{};
    }
}
template<class Default, class... P>
using policy_or = typename only<decltype(policy_or_default<Default, P...>())>::type;

} // namespace detail

/// The answers that a trainer works with.
template<class... P>
struct trainer_policies {
    using mesh = typename detail::policy_or<on<trireme::mesh<host, dp<1>>>, P...>::mesh;
    using device = typename mesh::device;
    static constexpr int replicas = mesh::data_extent;
    static constexpr int stages = mesh::pipeline_extent;
    static constexpr bool has_stages = stages != 1;

    using pipelining = detail::policy_or<pipeline<one_f_one_b, 1>, P...>; ///< if it is named
    using cut = typename detail::policy_or<stages_by<balanced_by_flops>, P...>::cut;
    static constexpr bool schedule_is_named = detail::find_policy<typename pipelining::kind, P...> != npos;
    static constexpr int micro_batches = schedule_is_named ? pipelining::micro_batches : dynamic;
    using accumulation = detail::policy_or<accumulate<1>, P...>;
    using recomputation = detail::policy_or<recompute<>, P...>; ///< no blocks: nothing is computed again
    static constexpr bool on_host = std::is_same_v<device, host>;

    using named_transport = typename detail::policy_or<trireme::transport<void>, P...>::way;
    static constexpr bool transport_joins = [] {
        if constexpr (std::is_void_v<named_transport>)
            return true;
        else
            return named_transport::joins_hosts == on_host;
    }();
    /// The named transport, if it joins these devices; else the usual one.
    using transport = std::conditional_t<std::is_void_v<named_transport> || !transport_joins,
                                         std::conditional_t<on_host, thread_transport, peer>, named_transport>;

    using named_dtype = typename detail::policy_or<precision<f32>, P...>::dtype;
    /// Of parameters and gradients.
    using dtype = std::conditional_t<std::is_same_v<named_dtype, bf16>, f32, named_dtype>;
    using named_kernels = typename detail::policy_or<kernels<typename device::kernels>, P...>::policy;
    static constexpr bool kernels_run = detail::runs_on<named_kernels, device>();
    static constexpr bool kernels_compute = named_kernels::template computes<typename named_dtype::value_type>;
    /// The named kernels; the device's own if those could not run there.
    using kernel_policy = std::conditional_t<kernels_run && kernels_compute,
                                             typename storing<named_kernels, typename named_dtype::value_type>::type,
                                             typename device::kernels>;

    using initialiser = typename detail::policy_or<initialise<xavier_uniform>, P...>::method;
    using faults = typename detail::policy_or<with_faults<no_faults>, P...>::faults;
    using undecayed = detail::policy_or<without_decay<>, P...>; ///< no rules: all parameters decay
    static constexpr bool clips = detail::find_policy<clip_norm::kind, P...> != npos;

    static constexpr bool shared_weights =
        std::is_same_v<typename detail::policy_or<hold_weights<per_device>, P...>::place, once>;
    using reproducibility = detail::policy_or<reproducible<fixed_tree, 0>, P...>; ///< 0: it is not reproducible
    static constexpr int shards = reproducibility::shards;
    using usual_strategy =
        std::conditional_t<shared_weights || shards != 0, direct, typename transport::default_strategy>;
    using reduction = detail::policy_or<reduce_by<usual_strategy>, P...>;
    using tensor_rules = typename reduction::tensor_rules;
    using named_strategy = typename reduction::strategy;
    static constexpr bool strategy_is_chosen = reduction::is_chosen;
    static constexpr bool compresses = detail::is_compressed<named_strategy> || tensor_rules::compresses;
    /// The named strategy; a stand-in if it is chosen.
    using strategy = std::conditional_t<strategy_is_chosen, direct, named_strategy>;

    /// Micro-batches of each replica as the type has them: those of the pipeline, or the replica's logical shards. 0:
    /// it leaves them open, or replicas have not as many.
    static constexpr int known_micro_batches = micro_batches > 0 ? micro_batches
                                               : shards > 0 && replicas > 0 && shards % replicas == 0
                                                   ? shards / replicas
                                                   : 0;
    static constexpr bool pipeline_is_static =
        !has_stages || (stages != dynamic && schedule_is_named && (micro_batches != dynamic || shards > 0));
    static constexpr bool is_static =
        replicas != dynamic && shards != dynamic && !strategy_is_chosen && pipeline_is_static;
    /// The compiler proves the step of a pipeline, which is then the same on each replica.
    static constexpr bool steps_proved = has_stages && schedule_is_named && known_micro_batches > 0 && stages > 0 &&
                                         is_step_for_compiler<typename pipelining::schedule>(stages,
                                                                                             known_micro_batches);
    /// The compiler proves a strategy for these devices.
    static constexpr bool provable = replicas != dynamic && replicas <= proved_by_compiler && !strategy_is_chosen;
    /// True if the compiler has proved all schedules that can run.
    static constexpr bool proved = provable && is_static &&
                                   !choosing_strategy<typename detail::scheduling<named_strategy>::type> &&
                                   tensor_rules::size == 0;
};

namespace detail {

/// False if the header of a policy's argument is missing: then that is what is wrong with the policy.
template<class P>
inline constexpr bool has_header = true;
template<class P>
    requires requires { P::included; }
inline constexpr bool has_header<P> = P::included;

/// The first rule that fitting policies break together, as a type.
template<class... P>
constexpr auto broken_common_rule() {
    using answers = trainer_policies<P...>;
    using named = typename answers::named_strategy;
    using repeat = typename answers::reproducibility;
    constexpr bool repeats = find_policy<typename repeat::kind, P...> != npos;
    constexpr int shards = answers::shards;
    constexpr bool one_step = std::is_same_v<named, direct> && answers::tensor_rules::size == 0;
    using gets_shards = gets<words::shards<static_cast<std::size_t>(shards < 0 ? 0 : shards)>>;
    if constexpr (!answers::mesh::valid)
        return pack<typename answers::mesh::rule>{};
    else if constexpr (answers::replicas > max_devices || answers::stages > max_roles ||
                       answers::replicas * answers::stages > max_devices ||
                       shards > static_cast<int>(max_logical_shards))
        return pack<layout_limit_rule<gets<typename answers::mesh>, gets_shards>>{};
    else if constexpr (repeats && !one_step &&
                       (answers::tensor_rules::size != 0 || (shards > 0 && !answers::strategy_is_chosen)))
        return pack<contradictory_policy_rule<typename answers::reduction, repeat>>{};
    else if constexpr (!runs_with<named, typename answers::transport>() ||
                       (answers::has_stages && requires { named::of_a_transport; }))
        return pack<transport_strategy_rule<gets<named>, gets<typename answers::device>>>{};
    else if constexpr (answers::compresses && !answers::on_host)
        return pack<compressed_device_rule<gets<typename answers::reduction>, gets<typename answers::device>>>{};
    else if constexpr (!answers::kernels_run)
        return pack<
            kernels_device_rule<gets<kernels<typename answers::named_kernels>>, gets<typename answers::device>>>{};
    else if constexpr (!answers::kernels_compute)
        return pack<kernels_precision_rule<gets<kernels<typename answers::named_kernels>>,
                                           gets<precision<typename answers::named_dtype>>>>{};
    else if constexpr (answers::shared_weights && !answers::on_host)
        return pack<accelerator_weights_rule<gets<typename answers::device>>>{};
    else if constexpr (!answers::transport_joins)
        return pack<transport_device_rule<gets<transport<typename answers::named_transport>>,
                                          gets<typename answers::device>>>{};
    else if constexpr (answers::shared_weights && !one_step)
        return pack<shared_weights_rule<gets<typename answers::reduction>>>{};
    else if constexpr (answers::shared_weights && answers::clips)
        return pack<clipped_weights_rule<clip_norm, hold_weights<once>>>{};
    else if constexpr (shards > 0 && answers::replicas > shards)
        return pack<logical_shards_rule<wants<at_least<static_cast<std::size_t>(answers::replicas)>>, gets_shards>>{};
    else if constexpr (answers::has_stages && !answers::transport::has_stages)
        return pack<pipeline_device_rule<gets<typename answers::mesh>, gets<transport<typename answers::transport>>>>{};
    else if constexpr (answers::has_stages && shards > 0 && answers::replicas > 0 && answers::micro_batches > 0 &&
                       answers::replicas * answers::micro_batches != shards)
        return pack<
            pipeline_shards_rule<gets<typename answers::mesh>, gets<typename answers::pipelining>, gets<repeat>>>{};
    else if constexpr (answers::has_stages && answers::accumulation::parts > 1 &&
                       (answers::micro_batches > 0 || answers::stages > 1) && // a single device takes all in one pass
                       (answers::known_micro_batches > 0
                            ? answers::known_micro_batches % answers::accumulation::parts != 0
                            : shards > 0 && answers::replicas > 0)) // not as many each: N divides only some
        return pack<
            accumulated_pipeline_rule<gets<typename answers::accumulation>,
                                      gets<std::conditional_t<(answers::micro_batches > 0),
                                                              typename answers::pipelining, typename answers::mesh>>,
                                      gets<repeat>>>{};
    else if constexpr (shards != 0 && TRIREME_FAST_MATH)
        return pack<fast_math_rule<repeat>>{};
    else if constexpr (answers::provable)
        return pack<first_rule<typename all_reduce_rule<answers::replicas, named>::type,
                               typename answers::tensor_rules::template all_reduce_rules<answers::replicas>>>{};
    else
        return pack<no_rule>{};
}

/// The first rule that a trainer's policies break, as a type; `no_rule` if none. One mistake is one error.
template<class... P>
constexpr auto broken_policy_rule() {
    constexpr std::size_t unknown = find_policy<void, P...>;
    constexpr std::size_t firsts[] = {find_policy<typename policy_kind<P>::type, P...>..., npos};
    constexpr std::size_t doubled = [&] {
        for (std::size_t i = 0; i < sizeof...(P); ++i)
            if (firsts[i] != i) return i;
        return npos;
    }();
    constexpr std::size_t missing = first_false({has_header<P>...});
    if constexpr (unknown != npos) {
        return pack<unknown_policy_rule<at_policy<unknown, type_at<unknown, P...>>>>{};
    } else if constexpr (doubled != npos) {
        constexpr std::size_t first = firsts[doubled];
        return pack<
            doubled_policy_rule<at_policy<first, type_at<first, P...>>, at_policy<doubled, type_at<doubled, P...>>>>{};
    } else if constexpr (missing != npos) {
        return pack<policy_header_rule<at_policy<missing, type_at<missing, P...>>>>{};
    } else if constexpr (constexpr std::size_t misfit = first_false({P::fits...}); misfit != npos) {
        using policy = type_at<misfit, P...>;
        return pack<typename policy::template refusal<at_policy<misfit, policy>>>{};
    } else {
        return broken_common_rule<P...>();
    }
}

template<class... P>
using broken_policy_rule_t = typename only<decltype(broken_policy_rule<P...>())>::type;

} // namespace detail
} // namespace trireme
