// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/verify.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace trireme {

/// A parameter tensor in its network, for rules that choose by it.
struct tensor_place {
    std::size_t layer = 0; ///< counted from 0, as in the network's type
    int index = 0;         ///< among the layer's tensors: 0 is the weight, 1 the bias
    parameter_tensor tensor = {};
    bytes_t bytes = 0;
    bool of_norm = false;      ///< of a layer that normalises: its weight begins with ones
    bool of_embedding = false; ///< of a layer whose parameters are the vectors of tokens, or of their places
};

/// Adds the gradients of the tensors that `Which` takes by a strategy of their own:
/// `reduce_by<direct, for_tensors<of_at_least<64_KiB>, ring>>`. The first rule that takes a tensor decides. Tensors
/// side by side with one strategy travel together.
///
/// `Which` is a type with `static constexpr bool takes(tensor_place const&)`.
template<class Which, class Strategy>
struct for_tensors {
    using which = Which;
    using strategy = Strategy;
};

/// Rules that choose tensors: those of these layers, and those whose gradients have so many bytes.
template<std::size_t... Layer>
struct in_layer {
    static constexpr bool takes(tensor_place const& t) noexcept { return ((t.layer == Layer) || ...); }
};
template<bytes_t Bytes>
struct of_at_least {
    static constexpr bool takes(tensor_place const& t) noexcept { return t.bytes >= Bytes; }
};
template<bytes_t Bytes>
struct of_at_most {
    static constexpr bool takes(tensor_place const& t) noexcept { return t.bytes <= Bytes; }
};

/// Rules that choose tensors: all that are called "bias", those of layers that normalise (batch_norm, layer_norm), and
/// those of embedding and learned_positions.
struct biases {
    static constexpr bool takes(tensor_place const& t) noexcept { return std::string_view(t.tensor.name) == "bias"; }
};
struct norms {
    static constexpr bool takes(tensor_place const& t) noexcept { return t.of_norm; }
};
struct embeddings {
    static constexpr bool takes(tensor_place const& t) noexcept { return t.of_embedding; }
};

/// Cuts what one strategy adds into parts of at least `Bytes`, between tensors, counted from the last layer backwards:
/// `reduce_by<ring, bucket<25_MiB>>`. Backward completes the last layers first, so that on accelerators their gradients
/// travel while it goes on. Each part is a collective of its own.
template<bytes_t Bytes>
struct bucket {
    struct which { // as a rule it takes no tensor
        static constexpr bool takes(tensor_place const&) noexcept { return false; }
    };
    using strategy = direct;
};

namespace detail {

template<class S>
inline constexpr bool is_all_reduce = false;
template<reduction_strategy S>
inline constexpr bool is_all_reduce<S> = makes<S, collective::all_reduce>;
template<class Wire, class S>
inline constexpr bool is_all_reduce<compressed<Wire, S>> = true;

/// The first of some rules that is broken; their number if all hold.
template<class... Rules>
constexpr std::size_t first_broken() noexcept {
    return first_false({std::is_same_v<Rules, no_rule>..., false});
}
template<class... Rules>
using first_rule = type_at<first_broken<Rules...>(), Rules..., no_rule>;

/// The rule that a strategy breaks as an all-reduce. Of one that chooses, every candidate must be able to run; those
/// that make no all-reduce are never chosen.
template<int Devices, class S>
struct all_reduce_rule {
    using type = no_rule;
};
template<int Devices, class S>
    requires(!choosing_strategy<S> && makes<S, collective::all_reduce>)
struct all_reduce_rule<Devices, S> {
    using type = collective_rule<S, collective::all_reduce, Devices>;
};
template<int Devices, class Candidates>
struct all_reduce_rules_of;
template<int Devices, class... S>
struct all_reduce_rules_of<Devices, pack<S...>> {
    using type = first_rule<typename all_reduce_rule<Devices, S>::type...>;
};
template<int Devices, class Wire, class S>
struct all_reduce_rule<Devices, compressed<Wire, S>>
    : all_reduce_rule<Devices, typename compressed<Wire, S>::strategy> {};
template<int Devices, choosing_strategy S>
struct all_reduce_rule<Devices, S> : all_reduce_rules_of<Devices, typename S::candidates> {};

/// A type that chooses tensors.
template<class Which>
concept chooses_tensors = requires(tensor_place const& t) {
    { Which::takes(t) } -> std::convertible_to<bool>;
};

/// The parameter tensors of a network, as they lie, one behind the other.
template<class Network, class T>
struct tensor_list {
    std::array<tensor_place, Network::depth * max_parameter_tensors + 1> places = {};
    std::size_t count = 0;

    constexpr tensor_list() {
        for (std::size_t i = 0; i < Network::depth; ++i) {
            auto const& layer = Network::row(i).description;
            bool const norm = layer.parameter_count != 0 && layer.parameters[0].init == initial::ones;
            for (int k = 0; k < Network::row(i).own_tensors(); ++k)
                places[count++] = {i,    k,           layer.parameters[k], layer.parameters[k].shape.size() * sizeof(T),
                                   norm, layer.embeds};
        }
    }
};

template<class R>
inline constexpr bool is_tensor_rule = false;
template<class Which, class Strategy>
inline constexpr bool is_tensor_rule<for_tensors<Which, Strategy>> = is_all_reduce<Strategy> && chooses_tensors<Which>;

template<bytes_t Bytes>
inline constexpr bool is_tensor_rule<bucket<Bytes>> = Bytes > 0;

/// Bytes from which on a bucket is full.
template<class R>
inline constexpr bytes_t full_bucket = ~bytes_t{0};
template<bytes_t Bytes>
inline constexpr bytes_t full_bucket<bucket<Bytes>> = Bytes;

/// The buckets of a network whose tensors go by `Rules`, the rest by the layout's own strategy. `Behind`: a strategy of
/// what lies behind the parameters, buffers and gradients of tied rows; void: it goes with the last of them.
template<class Network, class T, class Behind, class... Rules>
struct bucket_table {
    std::array<reduction_bucket, Network::depth * max_parameter_tensors + 2> buckets = {};
    std::size_t count = 0;

    constexpr explicit bucket_table(std::size_t arena_elements) {
        std::size_t end = Network::parameters;
        tensor_list<Network, T> const tensors;
        for (std::size_t i = tensors.count; i-- > 0;) {
            auto const size = tensors.places[i].tensor.shape.size();
            add({end - size, end}, strategy_of(tensors.places[i]));
            end -= size;
        }
        if (count != 0 && std::is_void_v<Behind>) buckets[0].elements.end = arena_elements;
        for (std::size_t i = 0; 2 * i + 1 < count; ++i) {
            auto const other = buckets[i];
            buckets[i] = buckets[count - 1 - i];
            buckets[count - 1 - i] = other;
        }
        if constexpr (!std::is_void_v<Behind>)
            buckets[count++] = {{Network::parameters, arena_elements}, true, Behind{}};
    }

private:
    static constexpr reduction_bucket strategy_of(tensor_place const& t) {
        reduction_bucket b;
        ((!b.named && Rules::which::takes(t) ? void(b = {{}, true, typename Rules::strategy{}}) : void()), ...);
        return b;
    }
    static constexpr bytes_t full = [] {
        bytes_t least = ~bytes_t{0};
        for (bytes_t const b : {full_bucket<Rules>..., ~bytes_t{0}}) least = b < least ? b : least;
        return least;
    }();

    /// Tensors come from the last to the first.
    constexpr void add(range tensor, reduction_bucket b) {
        if (count != 0) {
            auto& open = buckets[count - 1];
            if (open.named == b.named && open.strategy == b.strategy && open.elements.size() * sizeof(T) < full) {
                open.elements.begin = tensor.begin;
                return;
            }
        }
        b.elements = tensor;
        buckets[count++] = b;
    }
};

/// The runs of parameters that are updated alike, where those that a rule takes do not decay.
template<class Network, class T, class... Without>
struct update_run_table {
    std::array<update_run, Network::depth * max_parameter_tensors + 1> runs = {};
    std::size_t count = 0;

    constexpr update_run_table() {
        std::size_t begin = 0;
        tensor_list<Network, T> const tensors;
        for (std::size_t i = 0; i < tensors.count; ++i) {
            bool const decays = !(Without::takes(tensors.places[i]) || ...);
            auto const end = begin + tensors.places[i].tensor.shape.size();
            if (count != 0 && runs[count - 1].decays == decays)
                runs[count - 1].elements.end = end;
            else
                runs[count++] = {{begin, end}, decays};
            begin = end;
        }
    }
};

/// The strategy of a rule; a stand-in of what is none, so that one mistake is one error.
template<class R>
struct strategy_in {
    using type = direct;
};
template<class Which, class Strategy>
struct strategy_in<for_tensors<Which, Strategy>> {
    using type = Strategy;
};

/// The rules of a trainer's reduce_by, and what follows from them.
template<class... R>
struct tensor_rule_list {
    static constexpr std::size_t size = sizeof...(R);
    /// The first that is none, npos if all are.
    static constexpr std::size_t bad = first_false({is_tensor_rule<R>...});
    using bad_rule = type_at<bad == npos ? 0 : bad, R..., void>;

    static constexpr bool compresses = (is_compressed<typename strategy_in<R>::type> || ...);

    template<int Devices>
    using all_reduce_rules = first_rule<typename all_reduce_rule<Devices, typename strategy_in<R>::type>::type...>;

    template<class Network, class T, class Behind>
    using table = bucket_table<Network, T, Behind, R...>;
};

} // namespace detail
} // namespace trireme
