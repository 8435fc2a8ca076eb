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

/// Stretches of a network that begin and end where it can be cut, one behind the other.
template<class Network>
struct stretch_list {
    range of[Network::depth + 1] = {};
    std::size_t count = 0;

    constexpr recomputed_rows rows() const noexcept { return {of, count}; }

    /// Takes as much of these rows as lies between two places to cut. A single row keeps its input and its output.
    constexpr void add(range rows) {
        auto const& segments = segments_of<Network>;
        auto const *const first = segments.begin, *const last = segments.begin + segments.count + 1;
        auto const *const begin = std::lower_bound(first, last, rows.begin), *const end = std::upper_bound(first, last,
                                                                                                           rows.end);
        if (begin != last && end != first && *begin + 1 < *(end - 1)) of[count++] = {*begin, *(end - 1)};
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
        inside<L>::look(all, row, std::find(is, is + sizeof...(Block), true) != is + sizeof...(Block));
    }

    /// A layer or a block; `wanted`: it is one of those.
    template<class L>
    struct inside {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row, bool wanted) {
            auto const begin = row;
            row += rows_in<L>;
            if (wanted) all.add({begin, row});
        }
    };
    template<class... L>
    struct inside<sequential<L...>> {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row, bool wanted) {
            auto const begin = row, before = all.count;
            all.template look_into<L...>(row);
            if (!wanted) return;
            all.count = before;
            all.add({begin, row});
        }
    };
    template<std::size_t N, class... L>
    struct inside<repeat<N, L...>> {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row, bool wanted) {
            for (std::size_t i = 0; i < N; ++i) inside<sequential<L...>>::look(all, row, wanted);
        }
    };
    template<is_named L>
    struct inside<L> {
        static constexpr void look(stretches_of_blocks& all, std::size_t& row, bool wanted) {
            auto const begin = row, before = all.count;
            all.template look_into<typename L::named_layer>(row);
            if (!wanted) return;
            all.count = before;
            all.add({begin, row});
        }
    };
};

/// The stretches with which forward and backward need the least memory, of those that drop about as much each (of as
/// many samples of one byte as make no difference between sizes and whole cache lines). `When`, `Way`: see
/// plan_activations. Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016.
template<class Network, weight_gradients When = weight_gradients::at_once,
         way_of_samples Way = way_of_samples::together>
struct stretches_of_least_memory : stretch_list<Network> {
    constexpr stretches_of_least_memory() {
        std::size_t values = 0;
        for (std::size_t i = 0; i < Network::depth; ++i) values += Network::row(i).description.output.size();
        auto least = memory({});
        for (std::size_t parts = 2; parts <= segments_of<Network>.count && parts * parts <= 4 * Network::depth; ++parts)
            if (auto const some = in_parts(values / parts); memory(some.rows()) < least) {
                least = memory(some.rows());
                stretch_list<Network>::operator=(some);
            }
    }

private:
    static constexpr std::size_t memory(recomputed_rows recomputed) {
        return plan_activations<Network>(cache_line, 1, When, Way, {0, Network::depth}, 0, false, recomputed).elements;
    }
    static constexpr stretch_list<Network> in_parts(std::size_t values) {
        stretch_list<Network> list;
        auto const& segments = segments_of<Network>;
        std::size_t begin = 0, sum = 0;
        for (std::size_t s = 0; s < segments.count; ++s) {
            for (auto i = segments.begin[s]; i < segments.begin[s + 1]; ++i)
                sum += Network::row(i).description.output.size();
            if (sum < values && s + 1 < segments.count) continue;
            list.add({begin, segments.begin[s + 1]});
            begin = segments.begin[s + 1];
            sum = 0;
        }
        return list;
    }
};

/// The stretches that a policy means, as a value that lasts.
template<class List>
inline constexpr List stretches{};

template<class Network>
struct whole_stages : stretch_list<Network> {
    constexpr whole_stages() { this->of[this->count++] = {0, Network::depth}; }
};

} // namespace trireme::detail
