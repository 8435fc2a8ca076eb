// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

constexpr char const* name_of(task_kind w) noexcept {
    switch (w) {
    case task_kind::forward:
        return "forward";
    case task_kind::backward:
        return "backward";
    case task_kind::backward_input:
        return "backward_input";
    case task_kind::backward_weights:
        return "backward_weights";
    case task_kind::train:
        return "train";
    case task_kind::evaluate:
        return "evaluate";
    case task_kind::move:
        return "move";
    case task_kind::collective:
        return "collective";
    case task_kind::add_tied:
        return "add_tied";
    case task_kind::measure:
        return "measure";
    case task_kind::update:
        return "update";
    case task_kind::copy_tied:
        return "copy_tied";
    }
    return "";
}

namespace detail {

/// A transfer as PyTorch writes it, with the stage on this side: "1SEND_F0".
inline std::string cell_of(stage_transfer const& m) {
    return std::to_string(m.boundary + (m.sends == m.gradient ? 1 : 0)) + (m.sends ? "SEND_" : "RECV_") +
           (m.gradient ? "B" : "F") + std::to_string(m.micro_batch);
}
/// Calls f with a task that computes as PyTorch writes it, "1F0": two of them for train.
template<class F>
void for_each_cell(step_program const& p, int role, step_task const& t, F const& f) {
    auto const cell = [&](char kind) {
        auto const stage = t.chunk < p.chunks ? std::to_string(p.stage(role, t.chunk)) : "?";
        f(stage + kind + std::to_string(t.micro_batch));
    };
    if (goes_forward(t.kind) || t.kind == task_kind::evaluate) cell('F');
    if (t.kind == task_kind::backward || t.kind == task_kind::train) cell('B');
    if (t.kind == task_kind::backward_input) cell('I');
    if (t.kind == task_kind::backward_weights) cell('W');
}
/// A task in few letters.
inline std::string cells_of(step_program const& p, int role, step_task const& t) {
    std::string text;
    auto const add = [&](std::string const& cell) { text += (text.empty() ? "" : " ") + cell; };
    if (t.computes()) for_each_cell(p, role, t, add);
    for (int k = 0; k < std::min<int>(t.transfers, max_transfers); ++k) add(cell_of(t.moves[k]));
    return is_of_slices(t.kind) ? name_of(t.kind) : text;
}
/// A task in words; of a fault behind the last one, the end of the list.
inline std::string words_for(step_program const& p, int role, std::size_t task) {
    auto const list = p.list(role);
    if (task >= list.size()) return "the end of its list";
    auto const& t = list[task];
    if (t.computes() && t.chunk >= p.chunks) return "a stage that its role does not have, or a line too many";
    std::string text = name_of(t.kind);
    if (t.computes())
        text +=
            " of micro-batch " + std::to_string(t.micro_batch) + " in stage " + std::to_string(p.stage(role, t.chunk));
    if (t.kind == task_kind::move) text += ' ' + cells_of(p, role, t);
    return text;
}

} // namespace detail

/// A fault of a step program in words, and the lists of its roles side by side around it, as far as a play of the
/// program by `by` comes: behind `>` is the task that a role has come to, behind `>>` the one at fault. Of more than
/// eight roles those about the one at fault are shown. A fault that is seen without a play is shown by the numbers of
/// the tasks alone. Tasks are written as PyTorch writes them: parse_schedule_csv.
TRIREME_COLD inline std::string marked_lists(step_program const& p, program_verdict const& v,
                                             lowering const& by = by_counters,
                                             gradient_order order = gradient_order::of_micro_batches) {
    constexpr int most_columns = 8, around = 4;
    auto const failed = static_cast<std::size_t>(v.task);
    auto text = std::string(describe(v.fault)) + ", role " + std::to_string(v.role) + ", task " +
                std::to_string(v.task) + ": " + detail::words_for(p, v.role, failed) + '\n';
    detail::program_proof proof(p, by, order);
    proof.run(false);
    bool const played = v.fault != program_fault::out_of_range && v.fault != program_fault::mismatch;
    int const first = std::clamp(v.role - most_columns / 2, 0, std::max(0, p.shape.roles - most_columns)),
              end = std::min(first + most_columns, p.shape.roles);
    std::vector<std::string> lines(2 * around + 2, std::string("  "));
    for (int r = first; r < end; ++r) {
        auto const here = static_cast<int>(played ? proof.next(r) : failed);
        auto const list = p.list(r);
        lines[0] += "   role " + std::to_string(r);
        for (int row = 0; row <= 2 * around; ++row) {
            auto const i = here + row - around;
            auto& line = lines[static_cast<std::size_t>(row) + 1];
            line += i == here && r == v.role ? ">> " : i == here && played ? ">  " : "   ";
            if (i >= 0 && static_cast<std::size_t>(i) < list.size())
                line += std::to_string(i) + ' ' + detail::cells_of(p, r, list[static_cast<std::size_t>(i)]);
            else if (i == here)
                line += "end";
        }
        std::size_t width = 0;
        for (auto const& line : lines) width = std::max(width, line.size() + 2);
        for (auto& line : lines) line.resize(width, ' ');
    }
    for (auto& line : lines) {
        line.resize(line.find_last_not_of(' ') + 1);
        if (!line.empty()) text += line + '\n';
    }
    if (end - first < p.shape.roles)
        text += "  (roles " + std::to_string(first) + " to " + std::to_string(end - 1) + " of " +
                std::to_string(p.shape.roles) + ")\n";
    return text;
}

/// A step program as a table: a line per task, role by role.
inline std::string table_of(step_program const& p) {
    auto const number = [](auto n) { return std::to_string(n); };
    auto const padded = [](std::string text, std::size_t width) {
        text.resize(text.size() < width ? width : text.size(), ' ');
        return text;
    };
    std::string text;
    for (int r = 0; r < p.shape.roles; ++r) {
        text += "role " + number(r) + ": " + number(p.frames[r]) + (p.frames[r] == 1 ? " frame\n" : " frames\n");
        std::size_t i = 0;
        for (auto const& t : p.list(r)) {
            std::string what;
            if (t.computes()) {
                what = "micro-batch " + number(t.micro_batch) + ", stage " + number(p.stage(r, t.chunk)) + ", frame " +
                       number(t.frame);
            } else if (t.kind == task_kind::move) {
                for (int k = 0; k < t.transfers; ++k) {
                    auto const& m = t.moves[k];
                    what += std::string(k == 0 ? "" : ", ") + (m.sends ? "sends " : "receives ") +
                            (m.gradient ? "gradients of " : "values of ") + "micro-batch " + number(m.micro_batch) +
                            (m.sends ? " to role " : " from role ") + number(m.role);
                }
            } else {
                what = t.end - t.first == 1 ? "slice " + number(t.first)
                                            : "slices " + number(t.first) + " to " + number(t.end - 1);
                if (t.updates) what += ", updated on the way";
            }
            text += padded("  " + number(i++), 6) + padded(name_of(t.kind), 18) + what + '\n';
        }
    }
    return text;
}

} // namespace trireme
