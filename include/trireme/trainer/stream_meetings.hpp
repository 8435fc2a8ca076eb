// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <span>
#include <type_traits>

namespace trireme::detail {

/// Numbers of a rank, and the places that who reads or writes them waits for.
struct numbers_in_places {
    range places = {};
    void* at = nullptr;
};

// Meetings of a replica's roles. `find(role)` is a stream_rank, or null if another process has it; hand_over(rank,
// work, f) calls f() when streams wait for what the work reads and writes; carry(from, source, to, goal, bytes) hands
// over that numbers go from one role to another: source(rank) and goal(rank) say where they lie, each on its rank.

/// Hands over the exchange of tied rows in a replica: their gradients are added to those of the rows that they are tied
/// to, one behind the other, or rows of other stages get the weights that have been updated.
template<class Find, class HandOver, class Carry>
void tie_rows(std::span<tied_pair const> ties, task_kind kind, Find const& find, HandOver const& hand_over,
              Carry const& carry) {
    using rank = std::remove_pointer_t<decltype(find(0))>;
    for (auto const& p : ties) {
        auto const bytes = p.bytes(sizeof(typename rank::T));
        auto const weights = [](rank& r, int stage, layer_row const& row) {
            auto const& s = r.own_stage(stage);
            return numbers_in_places{r.parameters_place(), r.weights(s) + s.numbers.place_of(row)};
        };
        auto const gradients = [](rank& r, int stage, layer_row const& row) {
            auto const& s = r.own_stage(stage);
            return r.gradient_slot(s, 0) + s.numbers.place_of(row);
        };
        if (kind == task_kind::copy_tied) {
            if (p.copies)
                carry(
                    p.owner_role, [&](rank& r) { return weights(r, p.owner_stage, *p.owner); }, p.role,
                    [&](rank& r) { return weights(r, p.stage, *p.row); }, bytes);
            continue;
        }
        if (p.is_apart())
            carry(
                p.role, [&](rank& r) { return numbers_in_places{r.parts_place(), gradients(r, p.stage, *p.row)}; },
                p.owner_role, [](rank& r) { return numbers_in_places{r.tied_place(), r.tied()}; }, bytes);
        if (auto* const owner = find(p.owner_role); owner != nullptr)
            hand_over(*owner, owner->adding_tied(), [&] {
                auto const* const term = p.is_apart() ? owner->tied() : gradients(*owner, p.stage, *p.row);
                add_into(owner->plain_kernels(), gradients(*owner, p.owner_stage, *p.owner), term, p.elements());
            });
    }
}

/// Hands over the measuring of a replica's norm: each of its ranks has the squares of its own gradients, and takes
/// those of the others. `slot`: where the largest norm is staged; `pieces(stage)`: those of a stage's gradients.
template<class Find, class HandOver, class Carry, class Pieces>
void measure_norm(parallel_layout const& l, int slot, Find const& find, HandOver const& hand_over, Carry const& carry,
                  Pieces const& pieces) {
    using rank = std::remove_pointer_t<decltype(find(0))>;
    for (int role = 0; role < l.stages; ++role)
        if (auto* const r = find(role); r != nullptr) hand_over(*r, r->squaring(), [&] { r->enqueue_squares(); });
    for (int role = 0; role < l.stages; ++role) {
        for (int stage = 0; stage < l.stage_count(); ++stage) {
            int const from = l.place_of(stage).role;
            range const some = pieces(stage);
            if (from == role || some.size() == 0) continue;
            carry(
                from, [&](rank& r) { return numbers_in_places{r.squares_place(), r.squares() + some.begin}; }, role,
                [&](rank& r) { return numbers_in_places{r.norm_place(), r.squares() + some.begin}; },
                some.size() * sizeof(double));
        }
        if (auto* const r = find(role); r != nullptr) hand_over(*r, r->measuring(slot), [&] { r->enqueue_norm(slot); });
    }
}

} // namespace trireme::detail
