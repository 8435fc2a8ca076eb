// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// How scaling shows what it found: tables, sentences, an SVG.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

/// Seconds of a step, as device 0 spends them.
struct step_seconds {
    double computation = 0, synchronisation = 0, waiting = 0;
    double total() const { return computation + synchronisation + waiting; }
};

/// One network at one batch size on so many devices.
struct cell {
    char const* name = "";
    std::size_t batch = 0;
    int devices = 0;
    step_seconds predicted;
    step_seconds measured;
};

struct cluster_row {
    char const* name = "";
    std::size_t batch = 0;
    int devices = 0;
    double speedup = 0;
    step_seconds predicted;
};

/// The cell of the same network and batch on one device, which stands before that on two.
inline cell const& alone(std::vector<cell> const& cells, std::size_t i) {
    return cells[cells[i].devices == 1 ? i : i - 1];
}

inline void print_table(std::vector<cell> const& cells) {
    std::printf("\n%-10s %5s %7s | %9s %9s %5s | %9s %9s | %8s %9s | %8s %9s | %7s %9s\n", "network", "batch",
                "devices", "step ms", "predicted", "ratio", "computing", "predicted", "adding", "predicted", "waiting",
                "predicted", "speedup", "predicted");
    for (std::size_t i = 0; i < cells.size(); ++i) {
        auto const& c = cells[i];
        auto const& one = alone(cells, i);
        std::printf("%-10s %5zu %7d | %9.4g %9.4g %5.2f | %9.4g %9.4g | %8.3g %9.3g | %8.3g %9.3g | %7.2f %9.2f\n",
                    c.name, c.batch, c.devices, 1e3 * c.measured.total(), 1e3 * c.predicted.total(),
                    c.predicted.total() / c.measured.total(), 1e3 * c.measured.computation,
                    1e3 * c.predicted.computation, 1e3 * c.measured.synchronisation, 1e3 * c.predicted.synchronisation,
                    1e3 * c.measured.waiting, 1e3 * c.predicted.waiting, one.measured.total() / c.measured.total(),
                    one.predicted.total() / c.predicted.total());
    }
}

/// A sentence for each batch size on two devices: what they gain, and where the rest went.
inline void explain(std::vector<cell> const& cells) {
    std::printf("\n");
    for (std::size_t i = 0; i < cells.size(); ++i) {
        auto const& c = cells[i];
        if (c.devices == 1) continue;
        auto const& one = alone(cells, i);
        auto const lost = c.measured.total() - one.measured.total() / 2; // against two that would be twice as fast
        auto const share = [&](double seconds) { return 100 * seconds / c.measured.total(); };
        std::printf("%s, batch %zu: 2 devices are %.2f times as fast; of their step %.1f%% is adding gradients, %.1f%% "
                    "waiting for one another, and %.1f%% computation that takes longer than half of one device's.\n",
                    c.name, c.batch, one.measured.total() / c.measured.total(), share(c.measured.synchronisation),
                    share(c.measured.waiting),
                    std::max(0.0, share(lost - c.measured.synchronisation - c.measured.waiting)));
    }
}

inline void print_clusters(std::vector<cluster_row> const& rows) {
    std::printf("\nThe same on machines of 8 such devices, joined by links of 10 Gbit/s and 20 us (predicted only):\n");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto const& r = rows[i];
        auto const share = [&](double seconds) { return 100 * seconds / r.predicted.total(); };
        std::printf("%-10s batch %4zu  %2d devices  %6.2f times as fast  computing %5.1f%%  adding gradients %5.1f%%  "
                    "waiting %4.1f%%\n",
                    r.name, r.batch, r.devices, r.speedup, share(r.predicted.computation),
                    share(r.predicted.synchronisation), share(r.predicted.waiting));
        if (i + 1 == rows.size() || rows[i + 1].name != r.name) {
            auto const of = [&](int devices) {
                return *std::find_if(rows.begin(), rows.end(), [&](auto const& other) {
                    return other.name == r.name && other.devices == devices;
                });
            };
            auto const eight = of(8), sixteen = of(16);
            std::printf("  8 devices are %.1f times as fast, 16 are %.1f times: each computes half as much (%.3g ms "
                        "less), but the gradients now cross a link between machines (%.3g ms more).\n",
                        eight.speedup, sixteen.speedup,
                        1e3 * (eight.predicted.computation - sixteen.predicted.computation),
                        1e3 * (sixteen.predicted.synchronisation - eight.predicted.synchronisation));
        }
    }
}

/// Two bars per cell, measured above predicted, as long as the step is beside that of one device.
inline std::string picture_of(std::vector<cell> const& cells) {
    constexpr int left = 170, width = 620, bar = 11, gap = 12, top = 56;
    auto const height = top + static_cast<int>(cells.size()) * (2 * bar + gap) + 20;
    std::string out;
    char line[400];
    auto const add = [&](auto... values) {
        std::snprintf(line, sizeof line, values...);
        out += line;
    };
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        left + width + 70, height);
    struct {
        char const *text, *colour;
    } const parts[] = {{"computation", "#4477aa"}, {"adding gradients", "#ee6677"}, {"waiting", "#ccbb44"}};
    int x = left;
    for (auto const& p : parts) {
        add("<rect x=\"%d\" y=\"14\" width=\"11\" height=\"11\" fill=\"%s\"/><text x=\"%d\" y=\"24\">%s</text>\n", x,
            p.colour, x + 16, p.text);
        x += 130;
    }
    add("<text x=\"%d\" y=\"42\" fill=\"#555\">a step beside that of one device: measured, and below it "
        "predicted</text>\n",
        left);
    double longest = 1;
    for (std::size_t i = 0; i < cells.size(); ++i)
        longest = std::max({longest, cells[i].measured.total() / alone(cells, i).measured.total(),
                            cells[i].predicted.total() / alone(cells, i).measured.total()});
    for (std::size_t i = 0; i < cells.size(); ++i) {
        auto const& c = cells[i];
        auto const one = alone(cells, i).measured.total();
        auto const y = top + static_cast<int>(i) * (2 * bar + gap);
        add("<text x=\"8\" y=\"%d\">%s, %zu on %d device%s</text>\n", y + bar + 4, c.name, c.batch, c.devices,
            c.devices == 1 ? "" : "s");
        double const seconds[2][3] = {{c.measured.computation, c.measured.synchronisation, c.measured.waiting},
                                      {c.predicted.computation, c.predicted.synchronisation, c.predicted.waiting}};
        for (int k = 0; k < 2; ++k) {
            double at = left;
            for (int j = 0; j < 3; ++j) {
                auto const length = std::max(0.0, width * seconds[k][j] / one / longest);
                add("<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"%s/>\n", at, y + k * bar, length,
                    bar - 1, parts[j].colour, k == 1 ? " fill-opacity=\"0.5\"" : "");
                at += length;
            }
            if (k == 0)
                add("<text x=\"%d\" y=\"%d\">%.2fx</text>\n", left + width + 10, y + bar + 4, one / c.measured.total());
        }
    }
    return out + "</svg>\n";
}
