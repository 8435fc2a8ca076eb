// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

/// What a schedule does, found out by doing it: interpreters that share no code and no idea with the verifier.
namespace oracle {

using namespace trireme;

/// A schedule as a table, so that it can be broken.
struct table {
    int ranks = 1;
    int chunks = 1;
    int steps = 0;
    std::vector<collective_step> cells = {};

    table() = default;
    table(int n, int c, std::vector<std::vector<collective_step>> const& rows) : ranks(n), chunks(c) {
        for (auto const& row : rows) steps = std::max(steps, static_cast<int>(row.size()));
        for (auto row : rows) {
            row.resize(static_cast<std::size_t>(steps));
            cells.insert(cells.end(), row.begin(), row.end());
        }
    }
    explicit table(schedule const& s) : ranks(s.ranks), chunks(s.chunks), steps(s.steps) {
        for (int r = 0; r < ranks; ++r)
            for (int i = 0; i < steps; ++i) cells.push_back(s.at(r, i));
    }
    collective_step const& at(int rank, int step) const { return cells[static_cast<std::size_t>(rank * steps + step)]; }
    collective_step& at(int rank, int step) { return cells[static_cast<std::size_t>(rank * steps + step)]; }
};

/// Half a chunk of one rank. `contributions` counts: 256^r is one contribution of rank r, so up to 255 of each of eight
/// ranks are told apart. `sums` are of numbers so unlike that another order of addition gives other bits.
struct half {
    std::uint64_t contributions = 0;
    std::array<double, 4> sums = {};

    void add(half const& other) {
        contributions += other.contributions;
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums[i];
    }
    friend bool operator==(half const& a, half const& b) {
        return a.contributions == b.contributions && a.sums == b.sums;
    }
};

using buffer = std::vector<half>; // two halves per chunk

inline half poison() {
    half h;
    h.contributions = 0xBADBADBADBADBAD;
    h.sums.fill(std::numeric_limits<double>::infinity());
    return h;
}

inline half input(int rank, int place) {
    std::mt19937_64 numbers(static_cast<std::uint64_t>(rank * 1000 + place));
    half h;
    h.contributions = std::uint64_t{1} << (8 * rank);
    for (auto& x : h.sums) {
        auto const bits = numbers();
        x = static_cast<double>(bits >> 11) / static_cast<double>(std::uint64_t{1} << (bits % 24));
    }
    return h;
}

/// Ranks that nothing can run: the interpreters would read outside their buffers.
inline bool runs(table const& s) {
    for (int r = 0; r < s.ranks; ++r)
        for (int i = 0; i < s.steps; ++i) {
            auto const& step = s.at(r, i);
            if (step.kind == step_kind::idle) continue;
            if (step.after < 0 || step.sources.count < 0) return false;
            if (step.kind == step_kind::copy && step.sources.count != 1) return false;
            if (step.kind != step_kind::wait && (step.chunk < 0 || step.chunk >= s.chunks)) return false;
            for (int k = 0; k < step.sources.count; ++k) {
                int const source = step.sources.at(k, s.ranks);
                if (source < 0 || source == r) return false;
            }
        }
    return true;
}

struct position {
    int rank = -1;
    int step = 0; ///< -1: has not entered
    int part = 0; ///< reads done within the step, each half a chunk of one source
};

/// Executes a table by pulling, one small action at a time: entering, half a read, leaving. Before a rank enters and
/// after it has left its buffer holds poison.
class pulling {
public:
    explicit pulling(table const& s) : s_(s), inputs_(static_cast<std::size_t>(s.ranks)) {
        for (int r = 0; r < s.ranks; ++r)
            for (int c = 0; c < 2 * s.chunks; ++c) inputs_[static_cast<std::size_t>(r)].push_back(input(r, c));
        restart();
    }

    void restart() {
        at_.assign(static_cast<std::size_t>(s_.ranks), {});
        for (int r = 0; r < s_.ranks; ++r) at(r) = {r, -1, 0};
        buffers_.assign(static_cast<std::size_t>(s_.ranks), buffer(static_cast<std::size_t>(2 * s_.chunks), poison()));
        results_.resize(static_cast<std::size_t>(s_.ranks));
        left_ = 0;
    }

    position where(int rank) const { return at_[static_cast<std::size_t>(rank)]; }
    bool over() const { return left_ == s_.ranks; }

    bool can_act(int rank) const {
        auto const p = where(rank);
        if (p.step < 0 || p.part > 0) return true;
        if (p.step > s_.steps) return false; // has left
        if (p.step == s_.steps) return true;
        auto const& step = s_.at(rank, p.step);
        if (step.kind == step_kind::idle) return true;
        for (int k = 0; k < step.sources.count; ++k)
            if (where(step.sources.at(k, s_.ranks)).step < step.after) return false;
        return true;
    }

    void act(int rank) {
        auto& p = at(rank);
        auto& own = buffers_[static_cast<std::size_t>(rank)];
        if (p.step < 0) {
            own = inputs_[static_cast<std::size_t>(rank)];
            p.step = 0;
            return;
        }
        if (p.step == s_.steps) {
            results_[static_cast<std::size_t>(rank)] = own;
            own.assign(own.size(), poison());
            ++p.step;
            ++left_;
            return;
        }
        auto const& step = s_.at(rank, p.step);
        int const parts = parts_of(step);
        if (p.part < parts) {
            auto const place = static_cast<std::size_t>(2 * step.chunk + p.part % 2);
            auto const& theirs = buffers_[static_cast<std::size_t>(step.sources.at(p.part / 2, s_.ranks))][place];
            if (step.kind == step_kind::copy)
                own[place] = theirs;
            else
                own[place].add(theirs);
            ++p.part;
        }
        if (p.part >= parts) p = {rank, p.step + 1, 0};
    }

    /// Every rank has every contribution once, and all ranks have the same bits.
    bool right() const {
        auto const all = ~std::uint64_t{0} / 255 >> (8 * (8 - s_.ranks));
        for (auto const& result : results_)
            for (std::size_t i = 0; i < result.size(); ++i)
                if (result[i].contributions != all || !(result[i] == results_.front()[i])) return false;
        return true;
    }
    std::vector<buffer> const& results() const { return results_; }

    static int parts_of(collective_step const& step) {
        return step.kind == step_kind::copy || step.kind == step_kind::reduce ? 2 * step.sources.count : 0;
    }

private:
    position& at(int rank) { return at_[static_cast<std::size_t>(rank)]; }

    table const& s_;
    std::vector<buffer> inputs_;
    std::vector<buffer> buffers_;
    std::vector<buffer> results_;
    std::vector<position> at_;
    int left_ = 0;
};

/// Ranks take turns, but one is held at a place until nobody else can go on. If a read and a write of the same half may
/// happen in either order, holding one lets the other overtake it: all places together try every such pair.
inline bool ends_when_held(pulling& machine, int ranks, position held) {
    machine.restart();
    bool holding = held.rank >= 0;
    while (!machine.over()) {
        bool moved = false;
        for (int r = 0; r < ranks; ++r)
            while (machine.can_act(r)) {
                auto const p = machine.where(r);
                if (holding && r == held.rank && p.step == held.step && p.part == held.part) break;
                machine.act(r);
                moved = true;
            }
        if (!moved && !holding) return false; // deadlock
        if (!moved) holding = false;
    }
    return true;
}

inline bool ends_at_random(pulling& machine, int ranks, std::mt19937_64& random) {
    machine.restart();
    std::vector<int> able;
    while (!machine.over()) {
        able.clear();
        for (int r = 0; r < ranks; ++r)
            if (machine.can_act(r)) able.push_back(r);
        if (able.empty()) return false;
        auto const chosen = able[random() % able.size()];
        for (auto burst = random() % 4; machine.can_act(chosen); --burst) {
            machine.act(chosen);
            if (burst == 0) break;
        }
    }
    return true;
}

/// Whether all interleavings tried give every rank the right sum, always with the same bits: every place is held once,
/// and `random_runs` follow.
inline bool pulls_right(table const& s, std::uint64_t seed, int random_runs) {
    if (!runs(s)) return false;
    pulling machine(s);
    if (!ends_when_held(machine, s.ranks, {}) || !machine.right()) return false;
    auto const wanted = machine.results();
    auto const same = [&](bool ended) { return ended && machine.right() && machine.results() == wanted; };
    for (int r = 0; r < s.ranks; ++r)
        for (int i = -1; i <= s.steps; ++i) {
            int const parts = i < 0 || i == s.steps ? 1 : std::max(1, pulling::parts_of(s.at(r, i)));
            for (int part = 0; part < parts; ++part)
                if (!same(ends_when_held(machine, s.ranks, {r, i, part}))) return false;
        }
    std::mt19937_64 random(seed);
    for (int run = 0; run < random_runs; ++run)
        if (!same(ends_at_random(machine, s.ranks, random))) return false;
    return true;
}

/// Executes a table by messages without buffers: a rank that completes `after` steps posts the sends that wait for it,
/// one queue per pair; data moves when the receiver comes to it; a chunk is not written before its sends are over.
/// Waits need no message. Such a machine has one outcome, whatever the interleaving, so one run decides.
inline bool messages_right(table const& s) {
    if (!runs(s)) return false;
    auto const n = static_cast<std::size_t>(s.ranks);
    auto const index = [](int i) { return static_cast<std::size_t>(i); };
    struct message {
        int step; ///< of the reader
    };
    std::vector<std::vector<std::vector<message>>> queue(n, std::vector<std::vector<message>>(n));
    std::vector<std::vector<std::size_t>> taken(n, std::vector<std::size_t>(n, 0));
    std::vector<std::vector<int>> pending(n, std::vector<int>(index(s.chunks), 0));
    std::vector<buffer> buffers(n);
    std::vector<int> done(n, -1), source_of_step(n, 0);
    std::vector<bool> left(n, false);
    auto const post = [&](int from, int after) {
        for (int r = 0; r < s.ranks; ++r)
            for (int i = 0; i < s.steps; ++i) {
                auto const& step = s.at(r, i);
                if (pulling::parts_of(step) == 0 || step.after != after) continue;
                for (int k = 0; k < step.sources.count; ++k)
                    if (step.sources.at(k, s.ranks) == from) {
                        queue[index(from)][index(r)].push_back({i});
                        ++pending[index(from)][index(step.chunk)];
                    }
            }
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s.ranks; ++r) {
            auto& i = done[index(r)];
            auto& own = buffers[index(r)];
            if (i < 0) {
                for (int c = 0; c < 2 * s.chunks; ++c) own.push_back(input(r, c));
                i = 0;
                post(r, 0);
                moved = true;
            }
            while (i < s.steps) {
                auto const& step = s.at(r, i);
                auto& k = source_of_step[index(r)];
                if (pulling::parts_of(step) != 0) {
                    if (k == 0 && pending[index(r)][index(step.chunk)] != 0) break;
                    for (; k < step.sources.count; ++k) {
                        auto const from = index(step.sources.at(k, s.ranks));
                        auto& next = taken[from][index(r)];
                        if (next == queue[from][index(r)].size()) break;
                        if (queue[from][index(r)][next++].step != i) return false; // another message arrives first
                        --pending[from][index(step.chunk)];
                        for (std::size_t h = 0; h < 2; ++h) {
                            auto const place = 2 * index(step.chunk) + h;
                            if (step.kind == step_kind::copy)
                                own[place] = buffers[from][place];
                            else
                                own[place].add(buffers[from][place]);
                        }
                        moved = true;
                    }
                    if (k < step.sources.count) break;
                }
                k = 0;
                ++i;
                post(r, i);
                moved = true;
            }
            if (i == s.steps && !left[index(r)]) {
                bool free = true;
                for (int const sends : pending[index(r)]) free = free && sends == 0;
                moved = moved || free;
                left[index(r)] = free;
            }
        }
    }
    auto const all = ~std::uint64_t{0} / 255 >> (8 * (8 - s.ranks));
    for (int r = 0; r < s.ranks; ++r) {
        if (!left[index(r)]) return false;
        for (std::size_t h = 0; h < buffers[index(r)].size(); ++h)
            if (buffers[index(r)][h].contributions != all || !(buffers[index(r)][h] == buffers[0][h])) return false;
    }
    return true;
}

} // namespace oracle
