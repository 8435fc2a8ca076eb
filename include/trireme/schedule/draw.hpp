// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/play.hpp>
#include <trireme/schedule/svg_text.hpp>
#include <trireme/schedule/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace trireme {
namespace detail {

/// The times at which the steps of a schedule begin if each that is drawn as a box takes one unit of time, and each
/// rank begins as soon as possible. Steps that are never reached begin at -1.
struct schedule_times {
    int steps;
    std::vector<int> begin, end;

    template<collective_schedule S>
    schedule_times(S const& s, bool waits_are_boxes) : steps(std::max(0, s.steps)) {
        begin.assign(static_cast<std::size_t>(std::max(0, s.ranks)) * static_cast<std::size_t>(steps), -1);
        end = begin;
        play<int>(s, [&](int r, int i, collective_step const& step, int ready) {
            bool const box = reads(step.kind) || (step.kind == step_kind::wait && waits_are_boxes);
            begin[at(r, i)] = ready;
            return end[at(r, i)] = ready + (box ? 1 : 0);
        });
    }
    std::size_t at(int rank, int step) const { return static_cast<std::size_t>(rank * steps + step); }
    /// The time at which the rank has completed so many steps.
    int free_at(int rank, int count) const { return count <= 0 ? 0 : std::max(0, end[at(rank, count - 1)]); }
};

/// The text in a box: the chunks; "2>0" is the source's chunk 2, copied into chunk 0.
inline std::string box_label(collective_step const& step, int chunks) {
    if (!reads(step.kind)) return step.kind == step_kind::wait ? "wait" : "idle";
    if (step.chunk.count >= chunks) return "all";
    auto const part = [](int a, int b) { return std::to_string(a) + (a == b ? "" : '-' + std::to_string(b)); };
    int const first = step.chunk.first, end = first + step.chunk.count;
    return (step.source_chunk < 0 ? "" : std::to_string(step.source_chunk) + '>') +
           (end <= chunks ? part(first, end - 1) : part(first, chunks - 1) + ',' + part(0, end - chunks - 1));
}

/// Colours, arrowheads, background.
inline constexpr char schedule_style[] = R"(<style>
text { font: 12px sans-serif; fill: #222 } text.title { font-size: 15px } text.fault { fill: #c00 }
text.label { fill: white; text-anchor: middle } .adds { fill: #2a6496 } .copies { fill: #3f7f3d } .other { fill: #777 }
.row { stroke: #e2e2e2 } .wait { stroke: #777; stroke-width: 3 } .read { stroke: #7a8a9c; marker-end: url(#read) }
.write { stroke: #2a6496; stroke-dasharray: 4 3; marker-end: url(#write) }
.wrong { stroke: #d00; stroke-width: 3; fill: none; marker-end: url(#wrong) }
</style>
<marker id="read" refX="7" refY="3" markerUnits="userSpaceOnUse" markerWidth="7" markerHeight="6" orient="auto">
<path d="M0 0L7 3L0 6z" fill="#7a8a9c"/></marker>
<marker id="write" refX="7" refY="3" markerUnits="userSpaceOnUse" markerWidth="7" markerHeight="6" orient="auto">
<path d="M0 0L7 3L0 6z" fill="#2a6496"/></marker>
<marker id="wrong" refX="10" refY="5" markerUnits="userSpaceOnUse" markerWidth="12" markerHeight="10" orient="auto">
<path d="M0 0L12 5L0 10z" fill="#d00"/></marker>
<rect width="100%" height="100%" fill="white"/>
)";

} // namespace detail

/// A schedule as an SVG picture: a row per rank, time from left to right. A box is a reduction (blue) or a copy (green)
/// with its chunks; lines lead to it from the ranks that are read and, dashed, from it to those that are written to. A
/// grey tick is a wait; where there are only waits, as in a barrier, they are boxes. A box takes one unit of time
/// however large its chunks are, and begins as soon as its sources are ready.
///
/// If `fault` is one, the picture says which, the schedule is drawn as far as it runs, and the step that `verify` has
/// found has a red frame and reads along red lines.
///
/// Cost: at most (ranks x steps)^2 operations, in practice ranks x steps; some hundred bytes of text per step.
template<collective_schedule S>
std::string schedule_svg(S const& s, std::string const& title, verdict const& fault = {}) {
    auto const guilty = [&](int r, int i) { return !fault.ok() && fault.rank == r && fault.step == i; };
    std::size_t letters = 0; // of the longest label
    for (int r = 0; r < s.ranks; ++r)
        for (int i = 0; i < s.steps; ++i)
            if (auto const step = s.at(r, i); reads(step.kind))
                letters = std::max(letters, detail::box_label(step, s.chunks).size());
    bool const only_waits = letters == 0;
    letters = std::max(letters, std::size_t{fault.ok() && !only_waits ? 2u : 4u}); // "wait", "idle"
    detail::schedule_times const times(s, only_waits);
    int last = times.end.empty() ? 1 : std::max(1, *std::max_element(times.end.begin(), times.end.end()));
    if (!fault.ok() && fault.rank < s.ranks && fault.step < s.steps) // drawn where its rank stops, if it is stuck
        last = std::max(last, times.free_at(fault.rank, fault.step) + 1);

    int const box = 14 + 7 * static_cast<int>(letters), gap = std::clamp(1250 / last - box, 14, 36), row = 40;
    int const left = 68 + gap, top = fault.ok() ? 36 : 76, key = top + s.ranks * row + 22;
    auto const x = [&](int time) { return left + time * (box + gap); };
    auto const y = [&](int rank) { return top + rank * row + row / 2; };
    std::string lines, boxes;
    int width = x(last) + 12;
    using text = std::string;
    auto const attribute = [](char const* name, int value) {
        return text(" ") + name + "=\"" + std::to_string(value) + '"';
    };
    auto const line = [&](text const& kind, int x1, int y1, int x2, int y2) {
        lines += "<line class=\"" + kind + '"' + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
                 attribute("y2", y2) + "/>\n";
    };
    auto const rect = [&](text const& kind, int from, int middle, int w, int h) {
        boxes += "<rect class=\"" + kind + '"' + attribute("x", from) + attribute("y", middle - h / 2) +
                 attribute("width", w) + attribute("height", h) + " rx=\"3\"/>\n";
    };
    auto const write = [&](text const& kind, int from, int base, text const& words) {
        boxes += "<text class=\"" + kind + '"' + attribute("x", from) + attribute("y", base) + '>' +
                 detail::svg_text(words) + "</text>\n";
        if (kind != "label")
            width = std::max(width, from + (kind == "title" ? 9 : 7) * static_cast<int>(words.size()) + 12);
    };

    write("title", 12, 22, title);
    if (!fault.ok()) {
        write("fault", 12, 44, text("not proved: it ") + describe(fault.fault));
        write("fault", 12, 62,
              "found at rank " + std::to_string(fault.rank) + ", step " + std::to_string(fault.step) + ", chunk " +
                  std::to_string(fault.chunk));
    }
    for (int r = 0; r < s.ranks; ++r) {
        write("rank", 12, y(r) + 4, "rank " + std::to_string(r));
        line("row", left - gap, y(r), x(last), y(r));
    }
    for (int r = 0; r < s.ranks; ++r)
        for (int i = 0; i < s.steps; ++i) {
            collective_step const step = s.at(r, i);
            bool const stuck = times.begin[times.at(r, i)] < 0, wrong = guilty(r, i);
            if ((stuck || step.kind == step_kind::idle) && !wrong) continue;
            int const time = stuck ? times.free_at(r, i) : times.begin[times.at(r, i)];
            if (step.kind == step_kind::wait && !only_waits && !wrong) {
                line("wait", x(time) - gap / 4, y(r) - 8, x(time) - gap / 4, y(r) + 8);
                continue;
            }
            for (int k = 0; k < step.sources.count; ++k)
                if (int const q = step.sources.at(k, s.ranks); q >= 0 && q < s.ranks)
                    line(wrong ? "wrong" : "read", x(time) - gap, y(q), x(time) - 1, y(r));
            for (int k = 0; k < step.destinations.count; ++k)
                if (int const q = step.destinations.at(k, s.ranks); q >= 0 && q < s.ranks)
                    line("write", x(time) + box, y(r), x(time + 1) - gap / 3, y(q));
            auto const kind = step.kind == step_kind::reduce ? "adds" : reads(step.kind) ? "copies" : "other";
            rect(kind, x(time), y(r), box, 24);
            if (wrong) rect("wrong", x(time), y(r), box, 24);
            write("label", x(time) + box / 2, y(r) + 4, detail::box_label(step, s.chunks));
        }

    int next = 12; // where the key goes on
    auto const explain = [&](text const& kind, bool is_box, text const& words) {
        if ((is_box ? boxes : lines).find("class=\"" + kind + '"') == text::npos) return;
        bool const tick = kind == "wait";
        if (is_box) rect(kind, next, key, 20, 14);
        if (!is_box)
            line(kind, next + (tick ? 10 : 0), key - (tick ? 8 : 0), next + (tick ? 10 : 20), key + (tick ? 8 : 0));
        write("key", next + 28, key + 4, words);
        next += 48 + 7 * static_cast<int>(words.size());
    };
    explain("adds", true, "adds this chunk to its own");
    explain("copies", true, "copies this chunk");
    explain("read", false, only_waits ? "has entered" : "data read");
    explain("write", false, "data written");
    explain("wait", false, "waits");
    explain("wrong", true, "here the proof fails");

    return "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) + attribute("height", key + 20) +
           " viewBox=\"0 0 " + std::to_string(width) + ' ' + std::to_string(key + 20) + "\">\n" +
           detail::schedule_style + lines + boxes + "</svg>\n";
}

} // namespace trireme
