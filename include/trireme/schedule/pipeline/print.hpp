// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/program.hpp>

#include <cstddef>
#include <string>

namespace trireme {

constexpr char const* name_of(work w) noexcept {
    switch (w) {
    case work::forward:
        return "forward";
    case work::backward:
        return "backward";
    case work::backward_input:
        return "backward_input";
    case work::backward_weights:
        return "backward_weights";
    case work::train:
        return "train";
    case work::move:
        return "move";
    case work::collective:
        return "collective";
    case work::update:
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
            } else if (t.kind == work::move) {
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
