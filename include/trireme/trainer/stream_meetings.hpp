// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/stream_order.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <span>
#include <type_traits>

namespace trireme::detail {

/// Hands over the exchange of tied rows in a replica: their gradients are added to those of the rows that they are tied
/// to, one behind the other, or rows of other stages get the weights that have been updated. `rank_of(role)` is a
/// stream_rank; `hand_over(rank, work, f)` calls f() when streams wait for what the work reads and writes.
template<class RankOf, class HandOver>
void tie_rows(std::span<tied_pair const> ties, task_kind kind, RankOf const& rank_of, HandOver const& hand_over) {
    for (auto const& p : ties) {
        auto &owner = rank_of(p.owner_role), &row = rank_of(p.role);
        auto const &to = owner.own_stage(p.owner_stage), &from = row.own_stage(p.stage);
        using T = typename std::remove_cvref_t<decltype(owner)>::T;
        auto const bytes = p.bytes(sizeof(T));
        auto const own = to.numbers.place_of(*p.owner), tied = from.numbers.place_of(*p.row);
        if (kind == task_kind::copy_tied) {
            if (p.copies)
                hand_over(row, row.taking_weights(owner.parameters_place()),
                          [&] { row.exchange.copy(row.weights(from) + tied, owner.weights(to) + own, bytes); });
            continue;
        }
        T const* term = row.gradient_slot(from, 0) + tied;
        if (p.is_apart()) {
            hand_over(owner, owner.taking_tied(row.parts_place()),
                      [&] { owner.exchange.copy(owner.tied(), term, bytes); });
            term = owner.tied();
        }
        hand_over(owner, owner.adding_tied(),
                  [&] { add_into(owner.plain_kernels(), owner.gradient_slot(to, 0) + own, term, p.elements()); });
    }
}

/// Hands over the measuring of a replica's norm: each of its ranks has the squares of its own gradients, and takes
/// those of the others. `slot`: where the largest norm is staged.
template<class RankOf, class HandOver>
void measure_norm(parallel_layout const& l, int slot, RankOf const& rank_of, HandOver const& hand_over) {
    for (int role = 0; role < l.stages; ++role) {
        auto& r = rank_of(role);
        hand_over(r, r.squaring(), [&] { r.enqueue_squares(); });
    }
    for (int role = 0; role < l.stages; ++role) {
        auto& r = rank_of(role);
        for (int other = 0; other < l.stages; ++other)
            if (auto& from = rank_of(other); other != role)
                hand_over(r, r.taking_squares(from.squares_place()), [&] { r.enqueue_squares_of(from); });
        hand_over(r, r.measuring(slot), [&] { r.enqueue_norm(slot); });
    }
}

} // namespace trireme::detail
