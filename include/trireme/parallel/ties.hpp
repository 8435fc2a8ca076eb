// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/parallel/layout.hpp>

#include <cstddef>

namespace trireme::detail {

/// Two rows of a network with one row's parameters, in a replica.
struct tied_pair {
    layer_row const* owner = nullptr;
    layer_row const* row = nullptr;
    int owner_stage = 0, stage = 0;
    int owner_role = 0, role = 0;
    bool copies = false; ///< the row's stage has a copy of the weights, in the place of this row's numbers

    constexpr std::size_t elements() const noexcept { return row->description.parameter_elements(); }
    constexpr bytes_t bytes(std::size_t element_bytes) const noexcept { return elements() * element_bytes; }
    constexpr bool is_apart() const noexcept { return owner_role != role; }
};

/// f(tied_pair) in the order of the rows, in which gradients are added.
template<class Network, class F>
constexpr void for_each_tied([[maybe_unused]] parallel_layout const& l, [[maybe_unused]] F&& f) {
    if constexpr (Network::tied_gradients != 0) {
        auto const stage_of_row = [&](std::size_t row) {
            int stage = 0;
            while (l.rows_of(stage, Network::depth).end <= row) ++stage;
            return stage;
        };
        for (std::size_t i = 0; i < Network::depth; ++i) {
            auto const& row = Network::row(i);
            if (!row.is_tied()) continue;
            tied_pair p{&Network::row(row.tied_to), &row, stage_of_row(row.tied_to), stage_of_row(i)};
            p.owner_role = l.place_of(p.owner_stage).role;
            p.role = l.place_of(p.stage).role;
            auto const& begin = Network::row(l.rows_of(p.stage, Network::depth).begin);
            p.copies = p.stage != p.owner_stage && &copied_row(Network::rows, i, begin.first_tied) == &row;
            f(p);
        }
    }
}

/// The traffic of a rank that takes gradients of tied rows from other roles of its replica, or weights for them:
/// add(role, traffic).
template<class Model, class Add>
constexpr void traffic_of_ties(parallel_layout const& l, int rank, Add const& add) {
    for_each_tied<typename Model::network>(l, [&](tied_pair const& p) {
        traffic const each{1, p.bytes(sizeof(typename Model::value_type))};
        if (p.is_apart() && p.owner_role == l.role_of(rank)) add(p.role, each);
        if (p.is_apart() && p.copies && p.role == l.role_of(rank)) add(p.owner_role, each);
    });
}

} // namespace trireme::detail
