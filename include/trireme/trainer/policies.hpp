// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/dtype.hpp>
#include <trireme/core/fault_points.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/core/words.hpp>
#include <trireme/kernels/kernel_context.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/recomputation.hpp>
#include <trireme/parallel/recompute.hpp>
#include <trireme/parallel/stages.hpp>
#include <trireme/parallel/tensor_rules.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/schedule/pipeline/schedules/one_f_one_b.hpp>
#include <trireme/trainer/policy_arguments.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

// The policies of a trainer: any number, in any order, each at most once. Each is one struct, which says which question
// it answers (`kind`), what it takes (`fits`), whether the header of that is there (`included`, where it has one of its
// own), and how it refuses anything else (`refusal`). trainer_policies.hpp puts the answers together, with the
// defaults.

/// Policy `on` names the devices of a trainer and their axes: `on<mesh<host, dp<2>>>`, or, with stages,
/// `on<mesh<host, dp<2>, pp<3>>>`. Default: `on<mesh<host, dp<1>>>`, one device of the host.
template<class Mesh>
struct on {
    using kind = struct devices_policy;
    using mesh = Mesh;
    static constexpr bool included = detail::device_is_included<Mesh>;
    static constexpr bool fits = detail::is_usable_mesh<Mesh>;
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0043: on takes a mesh of the axes dp and pp, in this order, each at most "
                                         "once: mesh<host, dp<N>>, mesh<gpu, dp<N>> or mesh<host, dp<N>, pp<P>>");
    };
};

/// Policy `transport` joins devices that share no memory. Accelerators: `transport<peer>` reads their memory, within
/// one process; `transport<nccl>` goes through NCCL. Processes on hosts: `transport<mpi>`, or, on one machine,
/// `transport<shared_windows>`. All but peer have headers of their own. Default: `transport<peer>` for accelerators;
/// none for the host, whose devices are threads.
template<class Way>
struct transport {
    using kind = struct transport_policy;
    using way = Way;
    static constexpr bool included = detail::is_included<Way>;
    static constexpr bool fits = requires { Way::joins_hosts; };
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0082: transport takes peer, nccl, mpi or shared_windows");
    };
};

/// Policy `kernels` names the kernels of each device. `kernels<onednn>` and `kernels<reference>` have headers of their
/// own. Default: `kernels<portable>` on the host, `kernels<block_kernels>` or a GPU's libraries on accelerators.
template<class Policy>
struct kernels {
    using kind = struct kernels_policy;
    using policy = Policy;
    static constexpr bool included = detail::is_included<Policy>;
    static constexpr bool fits = kernel_policy<Policy>;
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0083: kernels takes a kernel policy, a type that derives from "
                                         "kernel_context: portable, reference, onednn, or one of your own");
    };
};

/// Policy `precision` sets the dtype of parameters, gradients and activations: `precision<f32>`, `precision<f64>` or
/// `precision<bf16>`. Default: `precision<f32>`. `precision<bf16>`: activations lie in memory as bf16, and convolutions
/// and matrix products multiply bf16; parameters, gradients, statistics and optimizer state stay f32, as do all sums,
/// the loss and what devices tell one another.
template<class Dtype>
struct precision {
    using kind = struct precision_policy;
    using dtype = Dtype;
    static constexpr bool fits = std::same_as<Dtype, f32> || std::same_as<Dtype, f64> || std::same_as<Dtype, bf16>;
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0084: precision takes f32, f64 or bf16");
    };
};

/// Policy `initialise` gives weights their first values; biases begin at zero. layer/initialise.hpp has the methods.
/// Default: `initialise<xavier_uniform>`.
template<class Method>
struct initialise {
    using kind = struct initialisation_policy;
    using method = Method;
    static constexpr bool fits =
        requires(parameter_tensor const& p, random_stream const& r) { Method::value(p, r, std::uint64_t{}); };
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0085: initialise takes a method, a type with `value`: xavier_uniform, "
                                         "xavier_normal, he_uniform, he_normal, or one of your own");
    };
};

/// Policy `pipeline` sets how the stages of a mesh with the axis pp take turns, and how many micro-batches each
/// replica's share of a batch is cut into: `pipeline<one_f_one_b, 8>`, `pipeline<gpipe, 8>`, or a schedule of your own
/// (schedule/pipeline/schedule.hpp). What it leaves open are the options `schedule` and `micro_batches`. Default:
/// `pipeline<one_f_one_b>` with four micro-batches per stage. Under reproducible<fixed_tree, V> a replica's
/// micro-batches are its logical shards.
template<class Schedule, int MicroBatches = dynamic>
struct pipeline {
    using kind = struct pipeline_policy;
    using schedule = Schedule;
    static constexpr int micro_batches = MicroBatches;
    static constexpr bool fits = pipeline_schedule<Schedule> && (MicroBatches >= 1 || MicroBatches == dynamic);
    template<class... At>
    struct refusal {
        static_assert(
            rule_holds<At...>,
            "TRI0089: pipeline takes a schedule, a type with `name`, `chunks` and `static constexpr int write(int "
            "roles, int micro_batches, int role, scheduled_work* out)`, and how many micro-batches, at least 1");
    };
};

/// Policy `accumulate` computes a batch's gradients in N parts, one after the other, which are added up before any
/// weight is updated: `accumulate<4>`. A device keeps the values of one part at a time; the option batch stays the
/// samples of an update. Without stages each part of a replica's share is a micro-batch, with `batch_norm<per_shard>`
/// statistics of its own; in a pipeline the schedule runs N times, each over 1/N of the micro-batches, and waits as if
/// it had so few. Logical shards of reproducible<fixed_tree, V> are micro-batches already. Default: `accumulate<1>`.
template<int N>
struct accumulate {
    using kind = struct accumulation_policy;
    static constexpr int parts = N;
    static constexpr bool fits = N >= 1;
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0113: accumulate takes the number of parts of a batch, at least 1");
    };
};

/// Argument of recompute: everything that lies between the values which a device must keep.
struct all {};

/// Policy `recompute` drops values on the way there and computes them again on the way back: memory for a second
/// forward. `recompute<Block...>` names blocks as the network does (a residual, a sequential, a repeat, block by
/// block), not inside of residuals: of each the input and the output are kept. `recompute<all>` leaves a stage of a
/// pipeline its input and output, which pays where a stage keeps several micro-batches; without stages it cuts the
/// network into parts that drop about as much each, as many as need the least memory. What gradients by
/// parameters read in a task of their own is kept in either case. Bits, running statistics and random numbers are
/// those without it: statistics are not taken a second time. The plan says what it saves, and training_plan::flops
/// what it costs; a stretch right before the loss of a whole network is not computed again. Default: all values are
/// kept that the way back needs.
template<class... Block>
struct recompute {
    using kind = struct recomputation_policy;
    static constexpr std::size_t blocks = sizeof...(Block);
    static constexpr bool everything = blocks == 1 && (std::is_same_v<Block, all> && ...);
    static constexpr bool fits = everything || (blocks != 0 && !(std::is_same_v<Block, all> || ...));
    /// The rows of a network that it means, in so many stages. `When`, `Way`: see plan_activations.
    template<class Network, weight_gradients When = weight_gradients::at_once,
             way_of_samples Way = way_of_samples::together>
    static constexpr recomputed_rows rows(int stages) {
        if constexpr (everything)
            return stages > 1 ? detail::stretches<detail::whole_stages<Network>>.rows()
                              : detail::stretches_of_least_memory<Network, When, Way>();
        else if constexpr (blocks != 0)
            return detail::stretches<detail::stretches_of_blocks<Network, Block...>>.rows();
        else
            return {};
    }
    /// The first of its blocks that a network does not have; npos if it has all.
    template<class Network>
    static constexpr std::size_t missing_in() {
        if constexpr (everything)
            return npos;
        else
            return first_false({!detail::stretches<detail::stretches_of_blocks<Network, Block>>.rows().empty()...});
    }
    template<std::size_t Index>
    using block = type_at<Index, Block...>;
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0117: recompute takes all, or one or several types of blocks, as the "
                                         "network has them: recompute<residual<body, shortcut>>");
    };
};

/// Policy `stages_by` says where the network of a mesh with the axis pp is cut: by hand, `stages_by<cut_before<3, 7>>`,
/// before rows 3 and 7, by the FLOPs, or by the memory: `stages_by<balanced_by_memory>`. measure_rows times the rows
/// and tells the cut_before that balances the seconds. Default: `stages_by<balanced_by_flops>`.
template<class Cut>
struct stages_by {
    using kind = struct cut_policy;
    using cut = Cut;
    static constexpr bool fits = requires {
        { Cut::stages } -> std::convertible_to<std::size_t>;
        { Cut::template rows<network<input<1>>>(1, 0) } -> std::same_as<range>;
    };
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0090: stages_by takes balanced_by_flops, balanced_by_memory, "
                                         "balanced_by_memory_of<Samples, PerParameter> or cut_before<Row...>");
    };
};

/// Argument of reduce_by: the trainer takes its strategy from the option `strategy`, and checks it when it is
/// constructed: `{.strategy = ring{}}`.
struct chosen_at_run_time {};

/// Policy `reduce_by` sets how devices add their gradients: `reduce_by<ring>`, `reduce_by<double_binary_tree>`,
/// a strategy of your own, `reduce_by<chosen_at_run_time>`, or `reduce_by<best_of<direct, ring>>`. Default:
/// `reduce_by<direct>`, over MPI `reduce_by<hierarchical<direct, ring>>`. Tensors may have strategies of their own,
/// and large gradients be cut: `reduce_by<direct, for_tensors<of_at_least<64_KiB>, ring>, bucket<25_MiB>>`. Gradients
/// travel in half the bytes by `reduce_by<compressed<bf16, ring>>`.
template<class Strategy, class... ForTensors>
struct reduce_by {
    using kind = struct reduction_policy;
    using strategy = Strategy;
    using tensor_rules = detail::tensor_rule_list<ForTensors...>;
    static constexpr bool is_chosen = std::same_as<Strategy, chosen_at_run_time>;
    static constexpr bool is_strategy = is_chosen || detail::is_all_reduce<Strategy>;
    static constexpr bool fits = is_strategy && tensor_rules::bad == npos;
    template<class... Where>
    struct no_strategy {
        static_assert(rule_holds<Where...>,
                      "TRI0026: this is no reduction strategy: a strategy has `name` and `static constexpr schedule "
                      "all_reduce(int ranks)` (schedule/collective/schedule.hpp)");
    };
    template<class... Where>
    struct no_tensor_rule {
        static_assert(rule_holds<Where...>,
                      "TRI0053: what follows the strategy in reduce_by are bucket<Bytes>, and for_tensors<Which, "
                      "Strategy>, where Which has `static constexpr bool takes(tensor_place const&)` and Strategy is a "
                      "reduction strategy");
    };
    template<class At>
    using refusal = std::conditional_t<is_strategy, no_tensor_rule<At, gets<typename tensor_rules::bad_rule>>,
                                       no_strategy<At, gets<Strategy>>>;
};

/// Policy `reproducible` gives one set of bits for any number of devices: the batch is cut into V logical shards, whose
/// gradients are added in one fixed binary tree, by direct exchange. `reproducible<fixed_tree, dynamic>` takes V from
/// the option `logical_shards`, 0 meaning "not reproducible". Default: a program's bits depend on the number of devices
/// and on the strategy.
template<class Order, int V>
struct reproducible {
    using kind = struct reproducibility_policy;
    static constexpr int shards = V;
    static constexpr bool fits = std::same_as<Order, fixed_tree> && (V >= 1 || V == dynamic);
    template<class... At>
    struct no_order {
        static_assert(rule_holds<At...>, "TRI0028: the first argument of reproducible is fixed_tree");
    };
    template<class... At>
    struct no_shards {
        static_assert(rule_holds<At...>, "TRI0029: reproducible needs at least one logical shard");
    };
    template<class At>
    using refusal = std::conditional_t<std::same_as<Order, fixed_tree>, no_shards<At>, no_order<At>>;
};

/// Arguments of hold_weights: each device has a copy of the weights, or each process has one for all of its devices.
struct per_device {};
struct once {};

/// Policy `hold_weights` says in whose memory the weights are. `hold_weights<per_device>`: a copy per device, all
/// updated alike. `hold_weights<once>`: one copy per process; each device reduces and updates its slice of it, so that
/// no weight is updated twice and none is copied, and optimizer state is kept once. The bits are those of
/// hold_weights<per_device> with reduce_by<direct>. Needs a strategy that completes a slice in one step: direct, or
/// reproducible<fixed_tree, V>. Default: `hold_weights<per_device>`.
template<class Place>
struct hold_weights {
    using kind = struct weights_policy;
    using place = Place;
    static constexpr bool fits = std::same_as<Place, per_device> || std::same_as<Place, once>;
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0086: hold_weights takes per_device or once");
    };
};

/// Policy `clip_norm` scales the gradient of a step down where its norm, over all parameters, is above the option
/// `max_norm`: each gradient is multiplied by max_norm / (norm + 1e-6). The norm is added piece by piece, in double and
/// in one order whatever the devices are. step_report::gradient_norm tells it. Cost: the gradients are read once more,
/// and written once where they are clipped. Default: gradients are not measured. Source: PyTorch's clip_grad_norm_.
struct clip_norm {
    using kind = struct clipping_policy;
    static constexpr bool fits = true;
};

/// Policy `without_decay` takes some parameters out of the option weight_decay: `without_decay<biases, norms>`, or the
/// tensors that other rules choose (parallel/tensor_rules.hpp; one of your own is a type with `takes`). Cost: an update
/// is a call of the kernel for each run of parameters that are updated alike, on accelerators a launch. Default: all
/// parameters decay.
template<class... Which>
struct without_decay {
    using kind = struct decay_policy;
    template<class Network, class T>
    using table = detail::update_run_table<Network, T, Which...>;
    static constexpr std::size_t rules = sizeof...(Which);
    static constexpr bool fits = rules != 0 && (detail::chooses_tensors<Which> && ...);
    template<class... At>
    struct refusal {
        static_assert(
            rule_holds<At...>,
            "TRI0111: without_decay takes rules that choose tensors: biases, norms, embeddings, "
            "in_layer<Layer...>, of_at_most<Bytes>, or types with `static constexpr bool takes(tensor_place const&)`");
    };
};

/// Policy `with_faults` makes devices fail, for tests: `Faults::at(point, device, step)` is called at every fault
/// point, and may throw or sleep. On devices of the host the calls at `fault_point::task` count through the tasks of
/// the device's step program. Default: `with_faults<no_faults>`, no code.
template<class Faults>
struct with_faults {
    using kind = struct faults_policy;
    using faults = Faults;
    static constexpr bool fits = requires(fault_point p, std::uint64_t step) { Faults::at(p, 0, step); };
    template<class... At>
    struct refusal {
        static_assert(rule_holds<At...>, "TRI0087: with_faults takes a type with `static void at(fault_point, int "
                                         "device, std::uint64_t step)`");
    };
};

} // namespace trireme
