// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "oracle.hpp"

#include <array>
#include <string>
#include <utility>

/// Every single change of a schedule that a tired author might make.
namespace mutants {

using namespace trireme;
using oracle::table;

enum class mutation {
    drop,
    duplicate,
    redirect,
    more_or_fewer_sources,
    reorder,
    reorder_across_ranks,
    other_chunk,
    after,
    other_kind,
    more_or_fewer_chunks,
    destinations
};
inline constexpr std::array<char const*, 11> names = {
    "drop",        "duplicate", "redirect",        "more or fewer sources", "reorder",           "reorder across ranks",
    "other chunk", "after +-1", "copy <-> reduce", "more or fewer chunks",  "other destinations"};

inline bool same(collective_step const& a, collective_step const& b) {
    auto const same_list = [](rank_list const& x, rank_list const& y) {
        return x.count == y.count &&
               (x.count == 0 ||
                (x.first == y.first && x.modulus == y.modulus && x.base == y.base && x.scale == y.scale)) &&
               (x.count < 2 || x.stride == y.stride);
    };
    return a.kind == b.kind && a.chunk.first == b.chunk.first && a.chunk.count == b.chunk.count && a.after == b.after &&
           a.source_chunk == b.source_chunk && same_list(a.sources, b.sources) &&
           same_list(a.destinations, b.destinations);
}

/// Calls `visit(mutant, mutation, rank, step)` for each; those that leave the table as it is are left out.
template<class Visit>
void each(table const& original, Visit&& visit) {
    table m = original;
    int const n = m.ranks;
    auto const change = [&](int r, int i, collective_step const& to, mutation what) {
        if (same(to, original.at(r, i))) return;
        m.at(r, i) = to;
        visit(std::as_const(m), what, r, i);
        m.at(r, i) = original.at(r, i);
    };
    auto const exchange = [&](int r, int i, int q, int j, mutation what) {
        if (same(original.at(r, i), original.at(q, j))) return;
        std::swap(m.at(r, i), m.at(q, j));
        visit(std::as_const(m), what, r, i);
        std::swap(m.at(r, i), m.at(q, j));
    };

    for (int r = 0; r < n; ++r)
        for (int i = 0; i < m.steps; ++i) {
            auto const step = original.at(r, i);
            bool const reads = step.kind == step_kind::copy || step.kind == step_kind::reduce;

            table longer = original;
            longer.steps = m.steps + 1;
            longer.cells.assign(static_cast<std::size_t>(n * longer.steps), {});
            for (int q = 0; q < n; ++q)
                for (int j = 0; j < m.steps; ++j) longer.at(q, q == r && j > i ? j + 1 : j) = original.at(q, j);
            longer.at(r, i + 1) = step;
            visit(std::as_const(longer), mutation::duplicate, r, i);

            for (int j = i + 1; j < m.steps; ++j) exchange(r, i, r, j, mutation::reorder); // neighbours and all others

            if (step.kind == step_kind::idle) continue;
            change(r, i, {}, mutation::drop);
            auto to = step;
            for (to.sources.first = 0; to.sources.first < n; ++to.sources.first)
                for (to.sources.stride = step.sources.count > 1 ? 0 : step.sources.stride;; ++to.sources.stride) {
                    change(r, i, to, mutation::redirect);
                    if (step.sources.count < 2 || to.sources.stride + 1 >= n) break;
                }
            for (int const count : {step.sources.count - 1, step.sources.count + 1}) {
                to = step;
                to.sources.count = count;
                change(r, i, to, mutation::more_or_fewer_sources);
            }
            for (int const after : {step.after - 1, step.after + 1}) {
                to = step;
                to.after = after;
                change(r, i, to, mutation::after);
            }
            for (int k = 0; k < step.sources.count && step.after > 0; ++k) // the step that this one waits for
                exchange(r, i, step.sources.at(k, n), step.after - 1, mutation::reorder_across_ranks);
            if (!reads) continue;
            to = step;
            for (to.chunk.first = 0; to.chunk.first < m.chunks; ++to.chunk.first) {
                change(r, i, to, mutation::other_chunk);
            }
            to = step;
            if (step.source_chunk >= 0)
                for (to.source_chunk = 0; to.source_chunk < m.chunks; ++to.source_chunk)
                    change(r, i, to, mutation::other_chunk);
            for (int const count : {step.chunk.count - 1, step.chunk.count + 1}) {
                to = step;
                to.chunk.count = count;
                change(r, i, to, mutation::more_or_fewer_chunks);
            }
            for (int const count : {step.destinations.count - 1, step.destinations.count + 1}) {
                to = step;
                to.destinations.count = count;
                if (count >= 0) change(r, i, to, mutation::destinations);
            }
            to = step;
            if (step.destinations.count > 0)
                for (to.destinations.first = 0; to.destinations.first < n; ++to.destinations.first)
                    change(r, i, to, mutation::destinations);
            to = step;
            to.kind = step.kind == step_kind::copy ? step_kind::reduce : step_kind::copy;
            change(r, i, to, mutation::other_kind);
        }
}

} // namespace mutants
