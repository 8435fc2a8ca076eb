// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/program.hpp>

#include <cstddef>
#include <string>

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
    case task_kind::measure:
        return "measure";
    case task_kind::update:
        return "update";
    }
    return "";
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
