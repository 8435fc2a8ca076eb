// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/trace.hpp>
#include <trireme/schedule/svg_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// Tasks that are drawn under a name of their own.
struct drawn_tasks {
    std::string name;
    std::span<timed_task const> tasks = {};
};

/// A step as an SVG picture: parts one above the other, for instance what was predicted and what was measured, on one
/// axis of time; in each part a lane per rank and queue. A box is a task with its micro-batch: forward is blue,
/// backward green, a move grey, what follows the micro-batches brown. Each part begins at its first task.
///
/// Cost: a hundred bytes of text per task.
inline std::string step_svg(std::string const& title, std::span<drawn_tasks const> parts) {
    auto const begin_of = [](drawn_tasks const& p) {
        double begin = p.tasks.empty() ? 0 : p.tasks.front().begin;
        for (auto const& t : p.tasks) begin = std::min(begin, t.begin);
        return begin;
    };
    int const left = 112, width = 1000, lane = 26, box = 20;
    double longest = 1e-9;
    int height = 56;
    for (auto const& p : parts) {
        auto const begin = begin_of(p);
        for (auto const& t : p.tasks) longest = std::max(longest, t.end - begin);
        height += 34 + task_lanes(p.tasks).count() * lane;
    }
    auto const colour = [](task_kind k) {
        switch (k) {
        case task_kind::forward:
        case task_kind::evaluate:
            return "#2a6496";
        case task_kind::backward:
        case task_kind::backward_input:
        case task_kind::backward_weights:
            return "#3f7f3d";
        case task_kind::train:
            return "#5b4b8a";
        case task_kind::move:
            return "#9aa0a6";
        default:
            return "#8a5a2b";
        }
    };
    std::string svg;
    char text[400];
    auto const add = [&](char const* format, auto... values) {
        std::snprintf(text, sizeof text, format, values...);
        svg += text;
    };
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
        left + width + 24, height + 30, left + width + 24, height + 30);
    svg += "<style>text { font: 12px sans-serif; fill: #222 } .t { font-size: 15px } .p { font-weight: bold } "
           ".n { fill: white; font-size: 10px; text-anchor: middle } .a { text-anchor: middle; fill: #666 }</style>\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text class=\"t\" x=\"12\" y=\"24\">" +
           detail::svg_text(title) + "</text>\n";
    int y = 40;
    auto const x = [&](double seconds) { return left + width * seconds / longest; };
    for (auto const& p : parts) {
        auto const begin = begin_of(p);
        y += 20;
        svg += "<text class=\"p\" x=\"12\" y=\"" + std::to_string(y) + "\">" + detail::svg_text(p.name) + "</text>\n";
        y += 8;
        task_lanes const lanes(p.tasks);
        lanes.for_each([&](int rank, int queue) {
            int const top = y + lanes.of(rank, queue) * lane;
            add("<text x=\"12\" y=\"%d\">%s</text>\n", top + box - 5, task_lanes::name(rank, queue).c_str());
            add("<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"#e2e2e2\"/>\n", left, left + width,
                top + box / 2, top + box / 2);
        });
        for (auto const& t : p.tasks) {
            int const top = y + lanes.of(t.rank, t.queue) * lane;
            auto const from = x(t.begin - begin), wide = x(t.end - begin) - from;
            add("<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"white\" "
                "stroke-width=\"0.5\"><title>%s %d, stage %d: %.3f ms</title></rect>\n",
                from, top, std::max(wide, 0.2), box, colour(t.kind), name_of(t.kind), t.micro_batch, t.stage,
                1e3 * (t.end - t.begin));
            if (wide > 14 && t.kind != task_kind::move)
                add("<text class=\"n\" x=\"%.2f\" y=\"%d\">%d</text>\n", from + wide / 2, top + box - 6, t.micro_batch);
        }
        y += lanes.count() * lane + 6;
    }
    for (int tick = 0; tick <= 4; ++tick) {
        add("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"46\" y2=\"%d\" stroke=\"#ddd\" stroke-dasharray=\"2 3\"/>\n",
            x(longest * tick / 4), x(longest * tick / 4), y);
        add("<text class=\"a\" x=\"%.1f\" y=\"%d\">%.3g ms</text>\n", x(longest * tick / 4), y + 16,
            1e3 * longest * tick / 4);
    }
    return svg + "</svg>\n";
}

} // namespace trireme
