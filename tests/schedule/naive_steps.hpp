// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/philox.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <support/numbers.hpp>
#include <support/step_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

// The second checker of step programs, a naive one: it computes.
namespace naive_steps {
using namespace trireme;
using namespace step_numbers;

/// What the parameters become, slice by slice of each stage; or what is evaluated.
inline std::vector<std::uint64_t> expected(step_program const& p, bool evaluates) {
    auto const sums =
        sums_of(static_cast<std::size_t>(p.stage_count()), static_cast<std::size_t>(p.shape.micro_batches), evaluates);
    if (evaluates) return sums;
    auto const gradient = [&](std::uint64_t sum) { return p.shape.replicas > 1 ? made_of({is_reduced, sum}) : sum; };
    // what roles have in common once they have met: of all slices of all roles, and of what they had in common before
    auto const in_common = [&](task_kind kind, std::uint64_t before, auto const& of_stage) {
        std::uint64_t all = 0;
        for (int r = 0; r < p.shape.roles; ++r) {
            std::uint64_t own = 0;
            for (int i = 0; i < p.chunks * p.shape.slices; ++i)
                own = made_of({is_measured, own, before, of_stage(p.stage(r, i / p.shape.slices))});
            all = made_of({is_norm, static_cast<std::uint64_t>(kind), all, own});
        }
        return all;
    };
    auto const sum_of = [&](int stage) { return gradient(sums[static_cast<std::size_t>(stage)]); };
    std::uint64_t common = 0;
    for (auto const kind : {task_kind::add_tied, task_kind::measure})
        if (p.shape.meets_for(kind, p.stage_count())) common = in_common(kind, common, sum_of);
    auto const updated = [&](int stage) { return made_of({is_updated, common, sum_of(stage)}); };
    std::vector<std::uint64_t> all;
    for (int s = 0; s < p.stage_count(); ++s)
        for (int k = 0; k < p.shape.slices; ++k) all.push_back(updated(s));
    if (p.shape.meets_for(task_kind::copy_tied, p.stage_count()))
        common = in_common(task_kind::copy_tied, common, updated);
    for (int r = 0; r < p.shape.roles; ++r) all.push_back(common);
    return all;
}

/// Executes a program on numbers that show where they come from: roles take turns at random, memory is read when it is
/// read, and nothing is checked. Gives what the parameters become; nothing if it does not end.
inline std::optional<std::vector<std::uint64_t>> executed(step_program const& p, lowering const& by, std::uint64_t seed,
                                                          bool evaluates) {
    auto const roles = static_cast<std::size_t>(p.shape.roles), stages = static_cast<std::size_t>(p.stage_count());
    std::vector<std::vector<frame>> frames(roles);
    std::vector<std::vector<std::uint64_t>> slots(roles);
    std::vector<std::vector<int>> pending(roles),
        leaving(roles); // sends from a slot, or a frame, that nobody has taken
    for (std::size_t r = 0; r < roles; ++r) {
        frames[r].resize(p.frames[r]);
        leaving[r].assign(p.frames[r], 0);
        slots[r].assign(p.slots[r], 14);
        pending[r].assign(p.slots[r], 0);
    }
    struct message {
        std::size_t role;
        stage_transfer what;
    };
    std::map<std::pair<int, int>, std::deque<message>> queues;
    auto const queue_of = [&](std::size_t from, std::size_t to, stage_transfer const& m) -> std::deque<message>& {
        return by.one_queue ? queues[{static_cast<int>(from), static_cast<int>(to)}]
                            : queues[{static_cast<int>(m.way()), 0}];
    };
    std::vector<std::uint64_t> sums(stages, 0);
    std::vector<std::vector<std::uint64_t>> parameters(
        stages, std::vector<std::uint64_t>(static_cast<std::size_t>(p.shape.slices), 0)),
        reduced = parameters;
    std::vector<std::vector<int>> times_reduced(stages, std::vector<int>(static_cast<std::size_t>(p.shape.slices), 0));
    std::vector<std::size_t> next(roles, 0);
    std::vector<int> received(roles, 0); // transfers of the next task that are done
    std::vector<bool> posted(roles, false);
    std::map<task_kind, std::vector<int>> came; // to meetings, how often
    std::map<task_kind, std::vector<std::uint64_t>> told;
    for (auto const kind : {task_kind::add_tied, task_kind::measure, task_kind::copy_tied})
        came[kind].resize(roles), told[kind].resize(roles);
    std::vector<std::uint64_t> common(roles, 0);
    random_stream const random(seed, random_purpose::user, 77);
    std::uint64_t drawn = 0;

    auto const one = [&](std::size_t r) { // tries the next task of a role; false: it waits
        auto const list = p.list(static_cast<int>(r));
        auto const& t = list[next[r]];
        if (t.kind == task_kind::move) {
            if (!posted[r])
                for (int k = 0; k < t.transfers; ++k)
                    if (auto const& m = t.moves[k]; m.sends) {
                        queue_of(r, m.role, m).push_back({r, m});
                        ++(m.gradient ? pending : leaving)[r][m.place];
                    }
            posted[r] = true;
            for (; received[r] < t.transfers; ++received[r]) {
                auto const& m = t.moves[received[r]];
                if (m.sends) continue;
                if (!m.gradient && leaving[r][m.place] != 0) return false;
                auto& queue = queue_of(m.role, r, m);
                if (queue.empty()) return false;
                auto const from = queue.front();
                queue.pop_front();
                auto& to = frames[r][m.place];
                auto const value =
                    from.what.gradient ? slots[from.role][from.what.place] : frames[from.role][from.what.place].y;
                (m.gradient ? to.dy : to.x) = value;
                --(from.what.gradient ? pending : leaving)[from.role][from.what.place];
            }
            posted[r] = false;
            received[r] = 0;
        } else if (t.computes()) {
            auto const s = static_cast<std::size_t>(p.stage(static_cast<int>(r), t.chunk));
            if (gives_input(t.kind) && s > 0 && pending[r][t.slot] != 0) return false;
            bool const begins = s == 0 && (goes_forward(t.kind) || t.kind == task_kind::evaluate);
            if (begins && leaving[r][t.frame] != 0) return false;
            compute(t, s, stages, frames[r][t.frame], s > 0 && gives_input(t.kind) ? &slots[r][t.slot] : nullptr,
                    sums[s]);
        } else {
            bool const meets = is_meeting(t.kind), tells = meets && !posted[r];
            if (tells) told[t.kind][r] = 0;
            for (std::size_t i = t.first; i < t.end; ++i) {
                auto const s =
                    static_cast<std::size_t>(p.stage(static_cast<int>(r), static_cast<int>(i) / p.shape.slices));
                auto const k = i % static_cast<std::size_t>(p.shape.slices);
                auto const now = times_reduced[s][k] != 0 ? reduced[s][k] : sums[s];
                if (tells)
                    told[t.kind][r] = made_of({is_measured, told[t.kind][r], common[r],
                                               t.kind == task_kind::copy_tied ? parameters[s][k] : now});
                if (meets) continue;
                if (t.kind == task_kind::collective) {
                    reduced[s][k] = made_of({is_reduced, times_reduced[s][k]++ == 0 ? sums[s] : reduced[s][k]});
                }
                if (t.kind == task_kind::update || t.updates)
                    parameters[s][k] =
                        parameters[s][k] * 3 +
                        made_of({is_updated, common[r], times_reduced[s][k] != 0 ? reduced[s][k] : sums[s]});
            }
            if (meets) {
                auto& of = came[t.kind];
                if (tells) ++of[r];
                posted[r] = std::any_of(of.begin(), of.end(), [&](int times) { return times < of[r]; });
                if (posted[r]) return false;
                common[r] = 0;
                for (auto const of_role : told[t.kind])
                    common[r] = made_of({is_norm, static_cast<std::uint64_t>(t.kind), common[r], of_role});
            }
        }
        ++next[r];
        return true;
    };
    for (std::size_t idle = 0; idle < 64 * roles;) {
        std::vector<std::size_t> left;
        for (std::size_t r = 0; r < roles; ++r)
            if (next[r] < p.list(static_cast<int>(r)).size()) left.push_back(r);
        if (left.empty()) {
            for (auto const& [key, queue] : queues)
                if (!queue.empty()) return std::nullopt; // somebody's message is for the next step
            if (evaluates) return sums;
            std::vector<std::uint64_t> all;
            for (auto const& of_stage : parameters) all.insert(all.end(), of_stage.begin(), of_stage.end());
            all.insert(all.end(), common.begin(), common.end());
            return all;
        }
        auto const r = left[random.below(drawn++, static_cast<std::uint32_t>(left.size()))];
        auto const turns = 1 + random.below(drawn++, 6);
        idle = one(r) ? 0 : idle + 1;
        for (std::uint32_t i = 1; i < turns && idle == 0 && next[r] < p.list(static_cast<int>(r)).size(); ++i)
            if (!one(r)) break;
    }
    return std::nullopt;
}

/// Whether it is a training step, or an evaluation, in some orders of its roles.
inline bool computes(step_program const& p, lowering const& by, bool evaluates = false) {
    auto const wanted = expected(p, evaluates);
    for (std::uint64_t seed = 0; seed < 4; ++seed)
        if (auto const is = executed(p, by, numbers::seed() + seed, evaluates); !is || *is != wanted) return false;
    return true;
}

} // namespace naive_steps
