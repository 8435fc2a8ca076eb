// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/schedule/play.hpp>

#include <cstddef>
#include <random>
#include <type_traits>
#include <vector>

// Collectives on the host, as schedules and layouts describe them: the results that transports have to give. A rank
// reads the buffers of its peers directly. The code is host code of .cu files, too.
namespace test_host_collectives {
using namespace trireme;

template<class T>
using buffers = std::vector<std::vector<T>>; // by rank

inline std::size_t index(int i) { return static_cast<std::size_t>(i); }

/// A sum of two values has one rounding.
template<class T>
T sum_of(T a, T b) {
    if constexpr (std::is_arithmetic_v<T>)
        return a + b;
    else
        return T(static_cast<float>(a) + static_cast<float>(b));
}

/// Inputs are so unlike that another order of addition gives other bits; sums of integers stay in range.
template<class T>
buffers<T> inputs(int ranks, std::size_t elements) {
    std::mt19937 random(17);
    buffers<T> all(index(ranks), std::vector<T>(elements));
    for (auto& of_rank : all)
        for (auto& x : of_rank) {
            auto const bits = random();
            if constexpr (std::is_integral_v<T>)
                x = static_cast<T>(bits % 100000) - 50000;
            else
                x = T(static_cast<float>(static_cast<double>(bits) / static_cast<double>(1u << (bits % 25)) - 1e6));
        }
    return all;
}

/// The schedule runs on a part of every rank's buffer, in place.
template<class T>
void pull(schedule const& s, range part, buffers<T>& data) {
    buffer_cut const cut{part.size(), sizeof(T), s.chunks};
    detail::play<int>(s, [&](int rank, int, collective_step const& step, int ready) {
        for (int j = 0; reads(step.kind) && j < step.chunk.count; ++j) {
            auto const piece = cut.at(s.place(step.chunk.at(j, s.chunks)));
            for (auto e = part.begin + piece.begin; e < part.begin + piece.end; ++e) {
                auto& own = data[index(rank)][e];
                for (int k = 0; k < step.sources.count; ++k) {
                    auto const theirs = data[index(step.sources.at(k, s.ranks))][e];
                    own = step.kind == step_kind::reduce ? sum_of(own, theirs) : theirs;
                }
                for (int k = 0; k < step.destinations.count; ++k)
                    data[index(step.destinations.at(k, s.ranks))][e] = own;
            }
        }
        return ready;
    });
}

/// The fixed tree adds all blocks of all ranks; a rank's blocks lie one behind the other in its buffer.
template<class T>
std::vector<T> tree_sum(parallel_layout const& l, std::size_t elements, buffers<T> const& data) {
    std::vector<T> sums;
    for (std::size_t e = 0; e < elements; ++e) {
        std::vector<T> values;
        fixed_tree::stack tree;
        auto const merge = [&](std::size_t a, std::size_t b) {
            values[a] = sum_of(values[a], values[b]);
            values.resize(b);
        };
        for (int r = 0; r < l.replicas; ++r) {
            auto const theirs = fixed_tree::blocks(l.shards_of_device(r));
            for (std::size_t b = 0; b < theirs.depth(); ++b) {
                values.push_back(data[index(r)][b * elements + e]);
                tree.push(theirs.block(b), merge);
            }
        }
        tree.finish(merge);
        sums.push_back(values[0]);
    }
    return sums;
}

} // namespace test_host_collectives
