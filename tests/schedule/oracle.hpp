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

/// Interpreters find out what a schedule does by doing it; they share no code and no idea with the verifier.
namespace oracle {

using namespace trireme;

/// A schedule as a table, so that it can be broken.
struct table {
    int ranks = 1;
    int chunks = 1;
    int steps = 0;
    std::vector<collective_step> cells = {};
    collective goal = collective::all_reduce;
    int root = 0;
    std::vector<int> owners = {}; ///< of the chunks, where they belong to ranks

    table() = default;
    table(int n, int c, std::vector<std::vector<collective_step>> const& rows) : ranks(n), chunks(c) {
        for (auto const& row : rows) steps = std::max(steps, static_cast<int>(row.size()));
        for (auto row : rows) {
            row.resize(static_cast<std::size_t>(steps));
            cells.insert(cells.end(), row.begin(), row.end());
        }
        for (int k = 0; n > 0 && k < c && c % n == 0; ++k) owners.push_back(k / (c / n));
    }
    explicit table(schedule const& s, collective what = collective::all_reduce)
        : ranks(s.ranks), chunks(s.chunks), steps(s.steps), goal(what), root(s.root) {
        for (int r = 0; r < ranks; ++r)
            for (int i = 0; i < steps; ++i) cells.push_back(s.at(r, i));
        for (int c = 0; c < chunks; ++c) owners.push_back(chunks % ranks == 0 ? s.owner(c) : 0);
    }
    collective_step const& at(int rank, int step) const { return cells[static_cast<std::size_t>(rank * steps + step)]; }
    collective_step& at(int rank, int step) { return cells[static_cast<std::size_t>(rank * steps + step)]; }
    int owner(int chunk) const { return owners.empty() ? 0 : owners[static_cast<std::size_t>(chunk)]; }
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

/// True if a rank has something in a chunk before anything has moved.
inline bool has_at_first(table const& s, int rank, int chunk) {
    switch (s.goal) {
    case collective::all_gather:
    case collective::gather:
        return s.owner(chunk) == rank;
    case collective::broadcast:
    case collective::scatter:
        return rank == s.root;
    default:
        return true;
    }
}

inline buffer first_buffer(table const& s, int rank) {
    buffer b;
    for (int p = 0; p < 2 * s.chunks; ++p) b.push_back(has_at_first(s, rank, p / 2) ? input(rank, p) : poison());
    return b;
}

/// A result is all that counts of the buffers at the end, one behind the other, and whether it is what it should be.
struct result {
    bool right = true;
    buffer halves = {};
};

inline result judged(table const& s, std::vector<buffer> const& ends) {
    result out;
    auto const all = ~std::uint64_t{0} / 255 >> (8 * (8 - s.ranks));
    for (int r = 0; r < s.ranks; ++r)
        for (int p = 0; p < 2 * s.chunks; ++p) {
            auto const& h = ends[static_cast<std::size_t>(r)][static_cast<std::size_t>(p)];
            int const chunk = p / 2, owner = s.owner(chunk), per = s.chunks / s.ranks;
            bool counts = true, right = true;
            switch (s.goal) {
            case collective::all_reduce:
                right = h.contributions == all && h == ends[0][static_cast<std::size_t>(p)];
                break;
            case collective::reduce_scatter:
                counts = owner == r;
                right = h.contributions == all;
                break;
            case collective::reduce:
                counts = r == s.root;
                right = h.contributions == all;
                break;
            case collective::gather:
                counts = r == s.root;
                right = h == input(owner, p);
                break;
            case collective::all_gather:
                right = h == input(owner, p);
                break;
            case collective::broadcast:
                right = h == input(s.root, p);
                break;
            case collective::scatter:
                counts = owner == r;
                right = h == input(s.root, p);
                break;
            case collective::all_to_all: // of a schedule whose blocks are in order
                right = chunk / per == r ? h == input(r, p) : h == input(owner, 2 * (r * per + chunk % per) + p % 2);
                break;
            case collective::barrier:
                counts = false;
                break;
            }
            if (!counts) continue;
            out.right = out.right && right;
            out.halves.push_back(h);
        }
    return out;
}

/// Steps that nothing can run: the interpreters would read outside their buffers.
inline bool runs(table const& s) {
    for (int r = 0; r < s.ranks; ++r)
        for (int i = 0; i < s.steps; ++i) {
            auto const& step = s.at(r, i);
            if (step.kind == step_kind::idle) continue;
            bool const moves = step.kind != step_kind::wait;
            if (step.after < 0 || step.sources.count < 0 || step.destinations.count < 0) return false;
            if (step.kind == step_kind::copy && step.sources.count != 1) return false;
            if (step.destinations.count > 0 && step.kind != step_kind::reduce) return false;
            if (moves && (step.chunk.first < 0 || step.chunk.first >= s.chunks || step.chunk.count < 1 ||
                          step.chunk.count > s.chunks || s.goal == collective::barrier))
                return false;
            if (step.source_chunk >= s.chunks) return false;
            for (auto const& list : {step.sources, step.destinations})
                for (int k = 0; k < list.count; ++k)
                    if (int const peer = list.at(k, s.ranks); peer < 0 || peer == r) return false;
        }
    return true;
}

struct position {
    int rank = -1;
    int step = 0; ///< -1: has not entered
    int part = 0; ///< within the step: half after half, a read of each source, then a write to each destination
};

/// Executes a table by pulling, one small action at a time: entering, half a read or write, leaving. Before a rank
/// enters and after it has left its buffer holds poison.
class pulling {
public:
    explicit pulling(table const& s) : s_(s) {
        for (int r = 0; r < s.ranks; ++r) {
            inputs_.push_back(first_buffer(s, r));
            poisons_.emplace_back(static_cast<std::size_t>(2 * s.chunks), poison());
        }
        restart();
    }

    void restart() {
        at_.assign(static_cast<std::size_t>(s_.ranks), {});
        for (int r = 0; r < s_.ranks; ++r) at(r) = {r, -1, 0};
        buffers_ = poisons_;
        results_ = poisons_;
        left_ = 0;
        unaware_ = false;
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
        auto& own = buffer_of(rank);
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
            for (auto const& other : at_) unaware_ = unaware_ || other.step < 0;
            return;
        }
        auto const& step = s_.at(rank, p.step);
        int const parts = parts_of(step);
        if (p.part < parts) {
            int const each = step.sources.count + step.destinations.count, half = p.part / each, k = p.part % each;
            auto const place = static_cast<std::size_t>(2 * step.chunk.at(half / 2, s_.chunks) + half % 2);
            if (k < step.sources.count) {
                int const source = step.sources.at(k, s_.ranks);
                if (s_.goal == collective::all_to_all) {
                    bool const there = where(source).step >= 0 && where(source).step <= s_.steps;
                    auto const from =
                        step.source_chunk < 0 ? place : static_cast<std::size_t>(2 * step.source_chunk + half % 2);
                    own[place] = there ? inputs_[static_cast<std::size_t>(source)][from] : poison();
                } else if (step.kind == step_kind::copy) {
                    own[place] = buffer_of(source)[place];
                } else {
                    own[place].add(buffer_of(source)[place]);
                }
            } else {
                buffer_of(step.destinations.at(k - step.sources.count, s_.ranks))[place] = own[place];
            }
            ++p.part;
        }
        if (p.part >= parts) p = {rank, p.step + 1, 0};
    }

    result outcome() const {
        auto r = judged(s_, results_);
        if (s_.goal == collective::barrier) r.right = !unaware_;
        return r;
    }

    static int parts_of(collective_step const& step) {
        return step.kind == step_kind::copy || step.kind == step_kind::reduce
                   ? 2 * step.chunk.count * (step.sources.count + step.destinations.count)
                   : 0;
    }

private:
    position& at(int rank) { return at_[static_cast<std::size_t>(rank)]; }
    buffer& buffer_of(int rank) { return buffers_[static_cast<std::size_t>(rank)]; }

    table const& s_;
    std::vector<buffer> inputs_;
    std::vector<buffer> poisons_;
    std::vector<buffer> buffers_;
    std::vector<buffer> results_;
    std::vector<position> at_;
    int left_ = 0;
    bool unaware_ = false; ///< somebody left before somebody else had entered
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

/// True if all interleavings tried give what they should, always with the same bits: every place is held once, and
/// `random_runs` follow.
inline bool pulls_right(table const& s, std::uint64_t seed, int random_runs) {
    if (!runs(s)) return false;
    pulling machine(s);
    if (!ends_when_held(machine, s.ranks, {}) || !machine.outcome().right) return false;
    auto const wanted = machine.outcome().halves;
    auto const same = [&](bool ended) {
        if (!ended) return false;
        auto const out = machine.outcome();
        return out.right && out.halves == wanted;
    };
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
/// and those of what it writes to others, one queue per pair; data moves when the receiver comes to it, which for what
/// is written to it is the first step that waits for the writing one; a chunk is not written before its sends are over.
/// Waits need no message. Such a machine has one outcome, whatever the interleaving, so one run decides.
inline bool messages_right(table const& s) {
    if (!runs(s)) return false;
    auto const n = static_cast<std::size_t>(s.ranks);
    auto const index = [](int i) { return static_cast<std::size_t>(i); };
    struct message {
        int step; ///< of the reader; of the writer if it is written
        bool written;
    };
    std::vector<std::vector<std::vector<message>>> queue(n, std::vector<std::vector<message>>(n));
    std::vector<std::vector<std::size_t>> taken(n, std::vector<std::size_t>(n, 0));
    std::vector<std::vector<int>> pending(n, std::vector<int>(index(s.chunks), 0));
    std::vector<buffer> buffers(n), inputs;
    for (int r = 0; r < s.ranks; ++r) inputs.push_back(first_buffer(s, r));
    std::vector<int> done(n, -1), source_of_step(n, 0);
    std::vector<bool> left(n, false);
    bool const exchange = s.goal == collective::all_to_all;
    auto const pend = [&](int from, chunk_list const& chunks, int by) {
        for (int j = 0; j < chunks.count; ++j) pending[index(from)][index(chunks.at(j, s.chunks))] += by;
    };
    auto const sent = [](collective_step const& step) { // what a reader's message takes from its source
        return step.source_chunk >= 0 ? chunk_list{step.source_chunk} : step.chunk;
    };
    auto const post = [&](int from, int after) {
        if (after > 0)
            if (auto const& step = s.at(from, after - 1); step.kind == step_kind::reduce)
                for (int k = 0; k < step.destinations.count; ++k) {
                    queue[index(from)][index(step.destinations.at(k, s.ranks))].push_back({after - 1, true});
                    pend(from, step.chunk, 1);
                }
        for (int r = 0; r < s.ranks; ++r)
            for (int i = 0; i < s.steps; ++i) {
                auto const& step = s.at(r, i);
                if (pulling::parts_of(step) == 0 || step.after != after) continue;
                for (int k = 0; k < step.sources.count; ++k)
                    if (step.sources.at(k, s.ranks) == from) {
                        queue[index(from)][index(r)].push_back({i, false});
                        pend(from, sent(step), 1);
                    }
            }
    };
    auto const busy = [&](int rank, chunk_list const& chunks) {
        for (int j = 0; j < chunks.count; ++j)
            if (pending[index(rank)][index(chunks.at(j, s.chunks))] != 0) return true;
        return false;
    };
    enum class outcome { ready, blocked, wrong };
    /// Takes what `from` wrote to `r` before its step `after`.
    auto const take_written = [&](int from, int r, int after) {
        for (;;) {
            int missing = 0;
            for (int i = 0; i < after && i < s.steps; ++i)
                if (auto const& step = s.at(from, i); step.kind == step_kind::reduce)
                    for (int k = 0; k < step.destinations.count; ++k) missing += step.destinations.at(k, s.ranks) == r;
            auto& next = taken[index(from)][index(r)];
            auto const& messages = queue[index(from)][index(r)];
            for (std::size_t m = 0; m < next; ++m) missing -= messages[m].written;
            if (missing <= 0) return outcome::ready;
            if (next == messages.size()) return outcome::blocked;
            if (!messages[next].written) return outcome::wrong;
            auto const& step = s.at(from, messages[next].step);
            if (busy(r, step.chunk)) return outcome::blocked;
            for (int j = 0; j < step.chunk.count; ++j)
                for (int h = 0; h < 2; ++h) {
                    auto const place = index(2 * step.chunk.at(j, s.chunks) + h);
                    buffers[index(r)][place] = buffers[index(from)][place];
                }
            pend(from, step.chunk, -1);
            ++next;
        }
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s.ranks; ++r) {
            auto& i = done[index(r)];
            auto& own = buffers[index(r)];
            if (i < 0) {
                own = inputs[index(r)];
                i = 0;
                post(r, 0);
                moved = true;
            }
            while (i < s.steps) {
                auto const& step = s.at(r, i);
                auto& k = source_of_step[index(r)];
                if (step.kind != step_kind::idle) {
                    bool ready = true;
                    for (int q = 0; q < step.sources.count; ++q) {
                        auto const how = take_written(step.sources.at(q, s.ranks), r, step.after);
                        if (how == outcome::wrong) return false;
                        ready = ready && how == outcome::ready;
                    }
                    if (!ready) break;
                }
                if (pulling::parts_of(step) != 0) {
                    if (k == 0 && !exchange && busy(r, step.chunk)) break;
                    for (; k < step.sources.count; ++k) {
                        auto const from = index(step.sources.at(k, s.ranks));
                        auto& next = taken[from][index(r)];
                        if (next == queue[from][index(r)].size()) break;
                        auto const& head = queue[from][index(r)][next++];
                        if (head.written || head.step != i) return false; // another message arrives first
                        pend(static_cast<int>(from), sent(step), -1);
                        for (int j = 0; j < step.chunk.count; ++j)
                            for (int h = 0; h < 2; ++h) {
                                auto const place = index(2 * step.chunk.at(j, s.chunks) + h);
                                if (exchange)
                                    own[place] =
                                        inputs[from][step.source_chunk < 0 ? place : index(2 * step.source_chunk + h)];
                                else if (step.kind == step_kind::copy)
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
                bool const free = !busy(r, {0, s.chunks});
                moved = moved || free;
                left[index(r)] = free;
            }
        }
    }
    for (int r = 0; r < s.ranks; ++r)
        if (!left[index(r)]) return s.goal == collective::barrier && done[index(r)] == s.steps;
    return judged(s, buffers).right;
}

} // namespace oracle
