// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/pipeline/trace.hpp>
#include <trireme/schedule/pipeline/verify.hpp>
#include <trireme/schedule/svg_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

namespace detail {

/// The colour of a task, paler for each stage that its rank has before this one.
inline std::string task_colour(task_kind k, int chunk) {
    auto const rgb = [](task_kind kind) -> unsigned {
        switch (kind) {
        case task_kind::forward:
        case task_kind::evaluate:
            return 0x2a6496;
        case task_kind::backward:
            return 0x3f7f3d;
        case task_kind::backward_input:
            return 0x1f8a84;
        case task_kind::backward_weights:
            return 0xa6741c;
        case task_kind::train:
            return 0x5b4b8a;
        case task_kind::move:
            return 0x9aa0a6;
        default:
            return 0x8a5a2b;
        }
    }(k);
    auto const paler = [&](unsigned part) {
        for (int c = 0; c < chunk; ++c) part += (255 - part) * 2 / 5;
        return part;
    };
    char text[8];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", paler(rgb >> 16 & 255), paler(rgb >> 8 & 255), paler(rgb & 255));
    return text;
}

/// The stages of each rank, by their numbers: tasks are told apart by them.
class stages_of_ranks {
public:
    explicit stages_of_ranks(std::span<timed_task const> tasks) {
        for (auto const& t : tasks) {
            if (t.kind > task_kind::evaluate) continue;
            auto const n = static_cast<std::size_t>(t.rank);
            if (stages_.size() <= n) stages_.resize(n + 1);
            auto& of_rank = stages_[n];
            auto const at = std::lower_bound(of_rank.begin(), of_rank.end(), t.stage);
            if (at == of_rank.end() || *at != t.stage) of_rank.insert(at, t.stage);
        }
    }
    /// The stages that the rank has before the task's.
    int before(timed_task const& t) const {
        auto const n = static_cast<std::size_t>(t.rank);
        if (t.kind > task_kind::evaluate || n >= stages_.size()) return 0;
        return static_cast<int>(std::lower_bound(stages_[n].begin(), stages_[n].end(), t.stage) - stages_[n].begin());
    }

private:
    std::vector<std::vector<int>> stages_;
};

} // namespace detail

/// The computing tasks of a proved program when it is played, for step_svg; a role is a rank.
inline std::vector<timed_task> played_tasks(step_program const& p, stage_times const& times = {}) {
    std::vector<timed_task> all;
    play_step(
        p, [&](task_kind kind, int) { return times.of(kind); },
        [&](int role, std::size_t task, double begin, double end) {
            auto const& t = p.list(role)[task];
            if (t.computes()) all.push_back({role, 1, t.kind, p.stage(role, t.chunk), t.micro_batch, begin, end});
        },
        times.transfer);
    return all;
}

/// Tasks that are drawn under a name of their own.
struct drawn_tasks {
    std::string name;                       ///< the name beside the lanes
    std::span<timed_task const> tasks = {}; ///< tasks with their times, in seconds
};

/// A step as an SVG picture: parts one above the other, for instance what was predicted and what was measured, on one
/// axis of time; in each part a lane per rank and queue. A box is a task with its micro-batch: forward is blue,
/// backward green, backward_input teal, backward_weights ochre, a move grey, what follows the micro-batches brown. The
/// second stage of a rank is paler, its third one paler still. Each part begins at its first task. The legend names
/// what is there. Times are printed in `unit`, of which a second of the tasks' times has `per_second`.
///
/// Cost: a hundred bytes of text per task.
inline std::string step_svg(std::string const& title, std::span<drawn_tasks const> parts, char const* unit = "ms",
                            double per_second = 1e3) {
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
    std::string svg;
    char text[400];
    auto const add = [&](char const* format, auto... values) {
        std::snprintf(text, sizeof text, format, values...);
        svg += text;
    };
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
        left + width + 24, height + 30, left + width + 24, height + 30);
    svg += "<style>text { font: 12px sans-serif; fill: #222 } .t { font-size: 15px } .p { font-weight: bold } "
           ".n { fill: white; font-size: 10px; text-anchor: middle } .n.d { fill: #222 } .a { text-anchor: middle; "
           "fill: #666 }</style>\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text class=\"t\" x=\"12\" y=\"24\">" +
           detail::svg_text(title) + "</text>\n";
    std::set<std::pair<task_kind, int>> there;
    for (auto const& p : parts) {
        detail::stages_of_ranks const stages(p.tasks);
        for (auto const& t : p.tasks) there.emplace(t.kind, stages.before(t));
    }
    int legend = left + width;
    for (auto i = there.rbegin(); i != there.rend(); ++i) {
        auto const name = name_of(i->first) + (i->second == 0 ? std::string() : ", " + std::to_string(i->second + 1));
        legend -= 26 + 7 * static_cast<int>(name.size());
        add("<rect x=\"%d\" y=\"32\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" y=\"42\">%s</text>\n",
            legend, detail::task_colour(i->first, i->second).c_str(), legend + 17, name.c_str());
    }
    int y = 40;
    auto const x = [&](double seconds) { return left + width * seconds / longest; };
    for (auto const& p : parts) {
        auto const begin = begin_of(p);
        y += 20;
        svg += "<text class=\"p\" x=\"12\" y=\"" + std::to_string(y) + "\">" + detail::svg_text(p.name) + "</text>\n";
        y += 8;
        task_lanes const lanes(p.tasks);
        detail::stages_of_ranks const stages(p.tasks);
        lanes.for_each([&](int rank, int queue) {
            int const top = y + lanes.of(rank, queue) * lane;
            add("<text x=\"12\" y=\"%d\">%s</text>\n", top + box - 5, task_lanes::name(rank, queue).c_str());
            add("<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"#e2e2e2\"/>\n", left, left + width,
                top + box / 2, top + box / 2);
        });
        for (auto const& t : p.tasks) {
            int const top = y + lanes.of(t.rank, t.queue) * lane;
            auto const from = x(t.begin - begin), wide = x(t.end - begin) - from;
            auto const chunk = stages.before(t);
            add("<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"white\" "
                "stroke-width=\"0.5\"><title>%s %d, stage %d: %.3f %s</title></rect>\n",
                from, top, std::max(wide, 0.2), box, detail::task_colour(t.kind, chunk).c_str(), name_of(t.kind),
                t.micro_batch, t.stage, per_second * (t.end - t.begin), unit);
            if (wide > 10 && t.kind != task_kind::move)
                add("<text class=\"n%s\" x=\"%.2f\" y=\"%d\">%d</text>\n", chunk > 0 ? " d" : "", from + wide / 2,
                    top + box - 6, t.micro_batch);
        }
        y += lanes.count() * lane + 6;
    }
    for (int tick = 0; tick <= 4; ++tick) {
        add("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"46\" y2=\"%d\" stroke=\"#ddd\" stroke-dasharray=\"2 3\"/>\n",
            x(longest * tick / 4), x(longest * tick / 4), y);
        add("<text class=\"a\" x=\"%.1f\" y=\"%d\">%.3g %s</text>\n", x(longest * tick / 4), y + 16,
            per_second * longest * tick / 4, unit);
    }
    return svg + "</svg>\n";
}

/// A program that is refused, as an SVG picture: a lane per role with its tasks in their order, moves narrow. Colours
/// are step_svg's where a play of the program by `by` comes, and pale behind that; the task at fault has a red frame,
/// and the fault stands below, in words.
///
/// Cost: a hundred bytes of text per task.
inline std::string refused_svg(std::string const& title, step_program const& p, program_verdict const& v,
                               lowering const& by = by_counters,
                               gradient_order order = gradient_order::of_micro_batches) {
    int const left = 72, lane = 26, box = 20, wide = 24, narrow = 8;
    detail::program_proof proof(p, by, order);
    proof.run(false);
    bool const played = v.fault != program_fault::out_of_range && v.fault != program_fault::mismatch;
    std::string lanes;
    int width = 480, y = 44;
    auto const rect = [&](int x, int top, int w, std::string const& look) {
        lanes += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(top) + "\" width=\"" +
                 std::to_string(w) + "\" height=\"" + std::to_string(box) + "\" " + look + ">";
    };
    for (int r = 0; r < p.shape.roles; ++r, y += lane) {
        lanes += "<text x=\"12\" y=\"" + std::to_string(y + box - 5) + "\">role " + std::to_string(r) + "</text>\n";
        auto const list = p.list(r);
        int x = left;
        for (std::size_t i = 0; i <= list.size(); ++i) {
            bool const ends = i == list.size(), fails = r == v.role && i == static_cast<std::size_t>(v.task);
            int const w = !ends && list[i].kind == task_kind::move ? narrow : wide;
            if (!ends) {
                auto const& t = list[i];
                bool const done = played ? i < proof.next(r) : i < static_cast<std::size_t>(v.task);
                rect(x, y, w,
                     "fill=\"" + detail::task_colour(t.kind, t.chunk) + "\" stroke=\"white\"" +
                         (done ? "" : " opacity=\"0.3\""));
                lanes += "<title>" + std::to_string(i) + ' ' + detail::svg_text(detail::words_for(p, r, i)) +
                         "</title></rect>\n";
                if (t.computes())
                    lanes += "<text class=\"n\" x=\"" + std::to_string(x + w / 2) + "\" y=\"" +
                             std::to_string(y + box - 6) + "\">" + std::to_string(t.micro_batch) + "</text>\n";
            }
            if (fails) {
                rect(x, y, w, "fill=\"none\" stroke=\"#c62828\" stroke-width=\"3\"/");
                lanes += '\n';
            }
            x += w + 2;
        }
        width = std::max(width, x + 12);
    }
    auto const words = std::string(describe(v.fault)) + ", role " + std::to_string(v.role) + ", task " +
                       std::to_string(v.task) + ": " + detail::words_for(p, v.role, static_cast<std::size_t>(v.task));
    width = std::max(width, 24 + 7 * static_cast<int>(words.size()));
    auto const size = "width=\"" + std::to_string(width) + "\" height=\"" + std::to_string(y + 34) + "\"";
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
           ">\n<style>text { font: 12px sans-serif; fill: #222 } .t { font-size: 15px } .n { fill: white; font-size: "
           "10px; text-anchor: middle } .f { fill: #c62828 }</style>\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text class=\"t\" x=\"12\" y=\"24\">" +
           detail::svg_text(title) + "</text>\n" + lanes + "<text class=\"f\" x=\"12\" y=\"" + std::to_string(y + 18) +
           "\">" + detail::svg_text(words) + "</text>\n</svg>\n";
}

} // namespace trireme
