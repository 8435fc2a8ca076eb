// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/activation_plan.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/recomputation.hpp>
#include <trireme/parallel/stages.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme::detail {

/// Places where values may be kept, and those between them computed again.
template<class Network>
inline constexpr network_segments<Network, false> kept_between{};

/// Stretches of a network that begin and end where it can be cut, one behind the other.
template<class Network>
struct stretch_list {
    range of[Network::depth + 1] = {};
    std::size_t count = 0;

    constexpr recomputed_rows rows() const noexcept { return {of, count}; }

    /// Takes as much of these rows as lies between two places to cut, and a function or a view right behind them,
    /// which goes with the last one. A single row keeps its input and its output.
    constexpr void add(range rows) {
        auto const& segments = kept_between<Network>;
        auto const *const first = segments.begin, *const last = segments.begin + segments.count + 1;
        auto const* const begin = std::lower_bound(first, last, rows.begin);
        auto const* end = std::lower_bound(first, last, rows.end);
        for (auto r = rows.end; end != first && r < *end; ++r)
            if (auto const& d = Network::row(r).description;
                !d.execution.view && (!d.execution.in_place || d.parameter_count != 0))
                --end;
        if (begin != last && *begin + 1 < *end) of[count++] = {*begin, *end};
    }
};

/// The stretches that are blocks of these types: the outermost, and of a repeat each repetition.
template<class Network, class... Block>
struct stretches_of_blocks;
template<class Input, class... Layers, class... Block>
struct stretches_of_blocks<network<Input, Layers...>, Block...> : stretch_list<network<Input, Layers...>> {
    constexpr stretches_of_blocks() {
        std::size_t row = 0;
        look_into<Layers...>(row);
    }

private:
    template<class L>
    static constexpr std::size_t rows_in = rows_of_all<typename flat<L>::type>;

    template<class... L>
    constexpr void look_into(std::size_t& row) {
        void (*const look[])(stretches_of_blocks&, std::size_t&) = {&look_at<L>..., nullptr};
        for (std::size_t i = 0; i < sizeof...(L); ++i) look[i](*this, row);
    }
    template<class L>
    static constexpr void look_at(stretches_of_blocks& all, std::size_t& row) {
        bool const is[] = {std::is_same_v<L, Block>..., false};
        if (std::find(is, is + sizeof...(Block), true) == is + sizeof...(Block)) return inside<L>::look(all, row);
        for (std::size_t i = 0; i < repetitions<L>; ++i) {
            auto const begin = row;
            row += rows_in<L> / std::max<std::size_t>(repetitions<L>, 1);
            all.add({begin, row});
        }
    }

    /// Looks for these blocks inside a layer or a block that is none of them; a residual cannot be cut inside.
    template<class L>
    struct inside {
        static constexpr void look(stretches_of_blocks&, std::size_t& row) { row += rows_in<L>; }
    };
    template<class... L>
    struct inside<sequential<L...>> {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row) { all.template look_into<L...>(row); }
    };
    template<std::size_t N, class... L>
    struct inside<repeat<N, L...>> {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row) {
            for (std::size_t i = 0; i < N; ++i) all.template look_into<L...>(row);
        }
    };
    template<is_named L>
    struct inside<L> {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row) {
            all.template look_into<typename L::named_layer>(row);
        }
    };
};

/// Stretches that drop about as much each, a network in so many of them.
template<class Network, std::size_t Parts>
struct stretches_in_parts : stretch_list<Network> {
    constexpr stretches_in_parts() {
        std::size_t values = 0, begin = 0, sum = 0;
        for (std::size_t i = 0; i < Network::depth; ++i) values += Network::row(i).description.output.size();
        auto const& segments = kept_between<Network>;
        for (std::size_t s = 0; s < segments.count && Parts > 1; ++s) {
            auto const end = segments.begin[s + 1];
            for (auto i = segments.begin[s]; i < end; ++i) sum += Network::row(i).description.output.size();
            if (sum < values / Parts && end < Network::depth) continue;
            this->add({begin, end});
            begin = end;
            sum = 0;
        }
    }
};

/// The stretches that a policy means, as a value that lasts.
template<class List>
inline constexpr List stretches{};

/// The memory of so many samples of a byte that sizes are whole cache lines. A constant of its own: compilers evaluate
/// no more than so much at a time.
template<class Network, weight_gradients When, way_of_samples Way, std::size_t Parts>
inline constexpr std::size_t memory_in_parts =
    plan_activations<Network>(cache_line, 1, When, Way, {0, Network::depth}, 0, false,
                              stretches<stretches_in_parts<Network, Parts>>.rows())
        .elements;

/// The stretches with which a device needs the least memory, of those in a few numbers of parts; none if it needs no
/// less with any. `When`, `Way`: see plan_activations. Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with
/// sublinear memory cost", 2016: with equal layers the square root of their number would be best.
template<class Network, weight_gradients When, way_of_samples Way>
constexpr recomputed_rows stretches_of_least_memory() {
    recomputed_rows best = {};
    auto least = memory_in_parts<Network, When, Way, 1>;
    auto const look_at = [&]<std::size_t Parts>(std::integral_constant<std::size_t, Parts>) {
        if constexpr (Parts <= kept_between<Network>.count && Parts * Parts <= 4 * Network::depth) {
            if (memory_in_parts<Network, When, Way, Parts> >= least) return;
            least = memory_in_parts<Network, When, Way, Parts>;
            best = stretches<stretches_in_parts<Network, Parts>>.rows();
        }
    };
    [&]<std::size_t... Parts>(std::index_sequence<Parts...>) {
        (look_at(std::integral_constant<std::size_t, Parts>{}), ...);
    }(std::index_sequence<2, 3, 4, 6, 8, 12, 16, 24, 32>{});
    return best;
}

template<class Network>
struct whole_stages : stretch_list<Network> {
    constexpr whole_stages() { this->of[this->count++] = {0, Network::depth}; }
};

} // namespace trireme::detail
