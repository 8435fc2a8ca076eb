// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/blocks/samples.hpp>
#include <trireme/device/stream_order.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

namespace trireme::detail {

/// Hands over the exchange of tied rows in a replica: their gradients are added to those of the rows that they are tied
/// to, one behind the other, or rows of other stages get the weights that have been updated. `rank_of(role)` is a
/// stream_rank; `hand_over(rank, work, f)` calls f() when streams wait for what the work reads and writes.
template<class Model, class RankOf, class HandOver>
void tie_rows(parallel_layout const& l, task_kind kind, RankOf const& rank_of, HandOver const& hand_over) {
    for_each_tied<typename Model::network>(l, [&](tied_pair const& p) {
        auto &owner = rank_of(p.owner_role), &row = rank_of(p.role);
        auto const bytes = p.bytes(sizeof(typename Model::value_type));
        auto const to = owner.own().place_of(*p.owner), from = row.own().place_of(*p.row);
        if (kind == task_kind::copy_tied) {
            if (p.is_apart())
                hand_over(row, row.taking_weights(owner.parameters_place()),
                          [&] { row.exchange.copy(row.parameters() + from, owner.parameters() + to, bytes); });
            return;
        }
        if (p.is_apart())
            hand_over(owner, owner.taking_tied(row.parts_place()),
                      [&] { owner.exchange.copy(owner.tied(), row.gradient_slot(0) + from, bytes); });
        hand_over(owner, owner.adding_tied(), [&] {
            typename Model::value_type const* const term = p.is_apart() ? owner.tied() : owner.gradient_slot(0) + from;
            add_into(owner.kernels_on(owner.compute, 0), owner.gradient_slot(0) + to, term, p.elements());
        });
    });
}

} // namespace trireme::detail
