// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The drawings of solved puzzles, compiled once for all of them.

#include "puzzle.hpp"

#include <trireme/schedule/draw.hpp>
#include <trireme/schedule/pipeline/draw.hpp>
#include <trireme/schedule/rounds.hpp>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace puzzle {
namespace {

/// Rows of cells as text; columns are as wide as the widest cell.
class grid {
public:
    explicit grid(int rows) : rows_(static_cast<std::size_t>(rows)) {}
    void put(int row, int column, std::string const& text) {
        auto& cells = rows_[static_cast<std::size_t>(row)];
        auto const c = static_cast<std::size_t>(column);
        if (cells.size() <= c) cells.resize(c + 1, ".");
        cells[c] = text;
        width_ = std::max(width_, text.size());
        columns_ = std::max(columns_, cells.size());
    }
    void print(char const* name) const {
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            std::printf("  %s %zu ", name, r);
            for (std::size_t c = 0; c < columns_; ++c)
                std::printf(" %-*s", static_cast<int>(width_), c < rows_[r].size() ? rows_[r][c].c_str() : ".");
            std::printf("\n");
        }
    }

private:
    std::vector<std::vector<std::string>> rows_;
    std::size_t width_ = 1, columns_ = 0;
};

int write(std::string const& svg, int argc, char** argv) {
    if (argc < 2) return 0;
    std::ofstream file(argv[1]);
    file << svg;
    file.close();
    if (file) return 0;
    std::fprintf(stderr, "%s cannot be written; name a file of yours\n", argv[1]);
    return 2;
}

} // namespace

int draw(schedule const& s, int argc, char** argv) {
    grid text(s.ranks);
    for (auto const& at : steps_in_rounds(s)) {
        std::string from;
        for (int k = 0; k < at.step.sources.count; ++k)
            from += (k == 0 ? "" : ",") + std::to_string(at.step.sources.at(k, s.ranks));
        text.put(at.rank, at.round,
                 (at.step.kind == step_kind::reduce ? '+' : '=') + detail::box_label(at.step, s.chunks) + "<" + from);
    }
    std::printf("  %s: +2<1 adds chunk 2 of rank 1, =2<1 copies it; a column is a unit of time\n", s.name);
    text.print("rank");
    return write(schedule_svg(s, s.name), argc, argv);
}

int draw(step_program const& p, int argc, char** argv, int (*formula)(int, int, int)) {
    auto const tasks = played_tasks(p);
    grid text(p.shape.roles);
    for (auto const& t : tasks) {
        bool const second = p.stage(t.rank, 0) != t.stage;
        char const letter = goes_forward(t.kind)                  ? 'F'
                            : t.kind == task_kind::backward       ? 'B'
                            : t.kind == task_kind::backward_input ? 'I'
                                                                  : 'W';
        auto const begin = static_cast<int>(t.begin), end = static_cast<int>(t.end);
        text.put(t.rank, begin, char(second ? letter + 'a' - 'A' : letter) + std::to_string(t.micro_batch));
        for (int k = begin + 1; k < end; ++k) text.put(t.rank, k, "-");
    }
    std::printf("  %s: F forward, B backward (I its input, W its weights) of a micro-batch; a second stage's are small "
                "letters\n",
                p.schedule);
    text.print("role");
    for (int r = 0; r < p.shape.roles; ++r) {
        std::printf("%s%d", r == 0 ? "  frames: " : ", ", int{p.frames[r]});
        if (formula != nullptr) std::printf(" (the formula: %d)", formula(p.shape.roles, p.shape.micro_batches, r));
    }
    std::printf("; %g units, of which %.1f %% are a bubble\n", step_span(p), 100 * bubble_fraction(p));
    drawn_tasks const parts[] = {{p.schedule, tasks}};
    return write(step_svg(p.schedule, parts, "units", 1), argc, argv);
}

} // namespace puzzle
