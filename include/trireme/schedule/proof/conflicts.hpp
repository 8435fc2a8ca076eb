// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/scratch.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/proof/table.hpp>

namespace trireme::detail::proof {

// The fourth phase of a proof lists accesses to one place, one of them a write, of which the later rank has not heard
// from the earlier one itself. A chunk that goes from rank 0 to rank 1, and from there to rank 2:
//
//             rank 0                 rank 1                          rank 2
//     step 0  idle                   copy chunk 0 from 0, after 0    idle
//     step 1  idle                   idle                            copy chunk 0 from 1, after 1
//     step 2  wait for 2, after 2    wait for 2, after 2             idle
//
// Rank 2 reads what rank 1 has written, and has waited for that step of rank 1: no conflict. Rank 1 leaves, so that
// its buffer may be written, and has waited for the step in which rank 2 reads there: none, either. Rank 0 leaves, too,
// and its buffer was read by rank 1, for which it never waits. That is the one conflict: rank 1's step 0, before rank 0
// leaves. This phase refuses nothing; the next one asks whether rank 0 knows of that step through rank 2.

/// Two accesses to one place. `chunk` is -1 where one is about a whole buffer, a step is `steps` for leaving and -1
/// for entering.
struct conflict {
    int earlier = 0, earlier_step = 0;
    int later = 0, later_step = 0;
    int owner = 0, chunk = 0;
    bool read = false;    ///< the earlier one
    bool reading = false; ///< the later one
};

/// Phase 4 lists the pairs of accesses to one location, at least one of them a write, that no direct wait of the later
/// rank for the earlier one orders. Entering writes the whole buffer (its readers have waited for that; its writers
/// must have), and so does leaving. Returns the number of pairs; `to` may be nullptr.
constexpr int conflicts(table const& s, int const* order, conflict* to) {
    int total = 0;
    constexpr int nobody = -1;
    bool const exchange = s.goal == collective::all_to_all; // reads inputs, writes outputs
    scratch<int> writers(count(s.ranks, s.chunks), nobody), readers(count(s.ranks, s.chunks), nobody);
    scratch<int> heard_by(count(s.ranks, s.ranks), -1), last_by(count(s.ranks, s.ranks), nobody);
    int accesses = 0;
    bool pushes = false;
    for (int cell = 0; cell < s.ranks * s.steps; ++cell) {
        if (reads(s.cells[cell].kind)) accesses += s.cells[cell].sources.count * s.cells[cell].chunk.count;
        pushes = pushes || s.cells[cell].destinations.count != 0;
    }
    scratch<int> reads_at(index(accesses) + 1), next_at(index(accesses) + 1); // lists of reads, the last one first
    int* const writer = writers.data();                                       // the cell that wrote a place last
    int* const reader = readers.data();                                       // the list of its reads since
    int* const heard = heard_by.data(); // [later][earlier]: steps it has heard of itself, -1: nothing
    int* const last = last_by.data();   // [owner][other]: the step of the last access to any of its places
    int* const read_at = reads_at.data();
    int* const next = next_at.data();
    int used = 0;
    auto const check = [&](int earlier, int earlier_step, int later, int later_step, int owner, int chunk, bool read,
                           bool reading = false) {
        if (earlier == later || heard[later * s.ranks + earlier] > earlier_step) return;
        if (to != nullptr) to[total] = {earlier, earlier_step, later, later_step, owner, chunk, read, reading};
        ++total;
    };
    auto const write = [&](int r, int i, int owner, int chunk) {
        int const at = owner * s.chunks + chunk;
        if (writer[at] != nobody) check(writer[at] / s.steps, writer[at] % s.steps, r, i, owner, chunk, false);
        for (int k = reader[at]; k != nobody; k = next[k])
            check(read_at[k] / s.steps, read_at[k] % s.steps, r, i, owner, chunk, true);
        writer[at] = r * s.steps + i;
        reader[at] = nobody;
    };
    for (int number = 0; number < s.ranks * s.steps; ++number) {
        int const r = order[number] / s.steps, i = order[number] % s.steps;
        auto const& step = s.cells[order[number]];
        if (step.kind == step_kind::idle) continue;
        bool const moves = reads(step.kind);
        for (int k = 0; k < step.sources.count; ++k) {
            int const source = step.sources.at(k, s.ranks), before = heard[r * s.ranks + source];
            if (step.after > before) heard[r * s.ranks + source] = step.after;
            // data that `source` has written to this rank since then arrive now, as a message, and must not undo what
            // was written after them (a conflict that nothing resolves)
            for (int late = before < 0 ? 0 : before; pushes && late < step.after; ++late) {
                auto const& theirs = s.at(source, late);
                for (int to_whom = 0; to_whom < theirs.destinations.count; ++to_whom)
                    for (int j = 0; theirs.destinations.at(to_whom, s.ranks) == r && j < theirs.chunk.count; ++j) {
                        int const chunk = theirs.chunk.at(j, s.chunks);
                        if (writer[r * s.chunks + chunk] != source * s.steps + late)
                            check(source, s.steps, r, i, r, chunk, false);
                        write(r, i, r, chunk);
                    }
            }
            if (!moves) continue;
            last[source * s.ranks + r] = i;
            if (exchange) continue;
            for (int j = 0; j < step.chunk.count; ++j) {
                int const chunk = step.chunk.at(j, s.chunks), at = source * s.chunks + chunk;
                if (writer[at] != nobody)
                    check(writer[at] / s.steps, writer[at] % s.steps, r, i, source, chunk, false, true);
                read_at[used] = order[number];
                next[used] = reader[at];
                reader[at] = used++;
            }
        }
        if (!moves || exchange) continue;
        for (int j = 0; j < step.chunk.count; ++j) write(r, i, r, step.chunk.at(j, s.chunks));
        for (int k = 0; k < step.destinations.count; ++k) {
            int const there = step.destinations.at(k, s.ranks);
            check(there, -1, r, i, there, step.chunk.first, false);
            for (int j = 0; j < step.chunk.count; ++j) write(r, i, there, step.chunk.at(j, s.chunks));
            last[there * s.ranks + r] = i;
        }
    }
    for (int owner = 0; owner < s.ranks; ++owner)
        for (int r = 0; r < s.ranks; ++r) {
            if (int const i = last[owner * s.ranks + r]; i != nobody) check(r, i, owner, s.steps, owner, -1, true);
            if (s.goal == collective::barrier) check(r, -1, owner, s.steps, owner, -1, false);
        }
    return total;
}

} // namespace trireme::detail::proof
