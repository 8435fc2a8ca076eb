// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/recomputation.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme {

/// The sizes of an activation plan's arena, in elements.
struct plan_extent {
    std::size_t elements = 0; ///< of all three parts: see activation_plan
    std::size_t kept = 0;
    std::size_t sent = 0;
    bool spread = true; ///< all blocks have room for all samples; else only frames and slots have
};

namespace detail {

/// The arrays of a plan, whatever the depth.
struct plan_arrays {
    std::size_t* value;
    std::size_t* gradient;
    std::size_t* again;
    std::size_t* saved;
    recomputation_arrays recomputed;
};

} // namespace detail

/// Places of values and gradients in the activation arena, in elements; `npos` for what has none. value[i] is slot i of
/// the network (value[depth]: its output), gradient[i] the loss's gradient by it. again[i] is where the way back finds
/// the value of slot i: in its place, or, if it was computed again, in another. saved[i] is the place of the bytes that
/// row i saves for its way back.
///
/// The arena has three parts. Places below `kept` lie in the frame of a micro-batch: they last from one of its tasks to
/// another, where the way there, the way back, or each half of that, are tasks of their own. Those from `sent` on lie
/// in an outgoing slot: the gradient that goes to the stage before. The others last within one task.
template<std::size_t Depth>
struct activation_plan : plan_extent {
    std::size_t value[Depth + 1] = {};
    std::size_t gradient[Depth + 1] = {};
    std::size_t again[Depth + 1] = {};
    std::size_t saved[Depth + 1] = {};
    detail::recomputation<Depth> recomputed = {};

    constexpr detail::plan_arrays arrays() noexcept {
        return detail::plan_arrays{value, gradient, again, saved, recomputed.arrays()};
    }
};

enum class way_of_samples { together, one_behind_the_other };

/// The time of the gradients by the parameters: row by row with those by the inputs; beside them, at any time before
/// the end of backward, or before values are computed again; or in a task of their own, later (backward_weights).
enum class weight_gradients { at_once, beside, apart };

namespace detail {

/// First fit with a sorted list of holes. Linear in the number of blocks while there are few holes, which a chain of
/// layers ensures.
class hole_list {
public:
    constexpr explicit hole_list(std::size_t capacity) : holes_(capacity) {}

    constexpr std::size_t take(std::size_t size) {
        for (std::size_t i = 0; i < count_; ++i)
            if (holes_[i].size() >= size) {
                auto const at = holes_[i].begin;
                holes_[i].begin += size;
                if (holes_[i].size() == 0) erase(i);
                return at;
            }
        if (count_ > 0 && holes_[count_ - 1].end == top_) { // grow the last hole instead of leaving it
            auto const at = holes_[--count_].begin;
            top_ = at + size;
            return at;
        }
        auto const at = top_;
        top_ += size;
        return at;
    }

    constexpr void give_back(range r) {
        std::size_t i = 0;
        while (i < count_ && holes_[i].begin < r.begin) ++i;
        bool const left = i > 0 && holes_[i - 1].end == r.begin;
        bool const right = i < count_ && holes_[i].begin == r.end;
        if (left && right) {
            holes_[i - 1].end = holes_[i].end;
            erase(i);
        } else if (left)
            holes_[i - 1].end = r.end;
        else if (right)
            holes_[i].begin = r.begin;
        else {
            for (std::size_t k = count_; k > i; --k) holes_[k] = holes_[k - 1];
            holes_[i] = r;
            ++count_;
        }
    }

    constexpr std::size_t top() const { return top_; }

private:
    constexpr void erase(std::size_t i) {
        --count_;
        for (std::size_t k = i; k < count_; ++k) holes_[k] = holes_[k + 1];
    }

    scratch<range> holes_;
    std::size_t count_ = 0;
    std::size_t top_ = 0;
};

/// The algorithm of plan_activations; see there.
TRIREME_COLD constexpr void plan_rows(row_list const& network, std::size_t lanes, std::size_t element_bytes,
                                      weight_gradients when, way_of_samples way, range rows, std::size_t in_task,
                                      bool forward_only, recomputed_rows recomputed, bool saves_bytes,
                                      plan_arrays const& slots, plan_extent& plan) {
    auto const depth = network.depth;
    auto const saved = [&](std::size_t row) { return 3 * (depth + 1) + row; };
    bool saves = false;
    for (auto i = rows.begin; i < rows.end && saves_bytes && !forward_only; ++i)
        saves = saves || network.row(i).description.saved_bytes != 0;
    auto const most_blocks = saved(saves ? depth + 1 : 0); // values, gradients, values computed again, saved bytes
    auto const most_times = 3 * depth + 2;
    std::size_t const blocks = recomputed.empty() && !saves ? 2 * (depth + 1) : most_blocks;
    scratch<std::size_t> size(most_blocks), born(most_blocks), dies(most_blocks);
    scratch<bool> stays(most_blocks);         // from one half of backward to the other
    scratch<std::size_t> shares(most_blocks); // the block that it lies in: its own, or that of what it is a view of

    auto const first_trainable = network.first_trainable;
    auto const first = rows.begin, last = rows.end;
    bool const apart = in_task != 0, gets_input = apart && first > 0;
    auto const& again = slots.recomputed;
    if (!forward_only)
        find_rows_again(network, rows, recomputed, !apart, when == weight_gradients::apart, saves, again);
    auto const grad = [&](std::size_t slot) { return depth + 1 + slot; };
    auto const second = [&](std::size_t slot) { return again.dropped[slot] ? 2 * (depth + 1) + slot : slot; };

    // rows go back, and forward again, at these times; `waits`: at these times all samples wait for one another
    scratch<std::size_t> back(depth + 1), twice(depth + 1);
    scratch<bool> waits(most_times);
    scratch<std::size_t> weights_by(depth + 1); // when gradients by a row's parameters are there that go on beside
    auto now = depth, unfinished = depth;
    auto const finish = [&](std::size_t rows_from) {
        while (unfinished > rows_from) weights_by[--unfinished] = now;
    };
    waits[now] = true;
    for (auto i = depth; i-- > 0;) {
        if (again.from[i] != npos) finish(i + 1);
        for (auto k = again.from[i]; k < i; ++k) twice[k] = ++now;
        back[i] = ++now;
        waits[i] = network.row(i).description.forward.phases != 0;
        waits[now] = network.row(i).description.backward.phases != 0;
    }
    finish(0);
    auto const never = now + 1;
    auto const block_of = [&](std::size_t b) {
        while (shares[b] != b) b = shares[b];
        return b;
    };
    auto const live_to = [&](std::size_t b, std::size_t time) {
        auto& end = dies[block_of(b)];
        if (time > end) end = time;
    };
    auto const share = [&](std::size_t b, std::size_t with) {
        auto const whole = block_of(with);
        shares[b] = whole;
        if (dies[b] > dies[whole]) dies[whole] = dies[b];
        stays[whole] = stays[whole] || stays[b];
        born[b] = never;
    };

    for (std::size_t slot = 0; slot <= depth; ++slot) {
        for (auto b = slot; b < blocks; b += depth + 1) {
            size[b] = network.slot(slot).size();
            shares[b] = b;
            born[b] = never;
        }
        if (slot < first || slot > last) continue;
        born[slot] = dies[slot] = slot == first ? first : slot - 1;
    }
    live_to(last, depth);
    if (!forward_only) {
        born[grad(last)] = depth; // the loss reads the output, and writes its gradient; or the next stage does
        live_to(grad(last), depth);
    }
    if (gets_input) live_to(first, depth);

    // blocks live until rows have read them
    for (std::size_t i = first; i < last; ++i) {
        auto const& row = network.row(i);
        auto const& d = row.description;
        live_to(row.from, i);
        if (row.is_sum()) live_to(row.other, i);
        if (again.twice[i]) {
            born[second(i + 1)] = twice[i];
            live_to(second(i + 1), twice[i]);
            live_to(second(row.from), twice[i]);
            if (row.is_sum()) live_to(second(row.other), twice[i]);
        }
        if (!network.is_trained(i) || forward_only) continue;
        bool const later = when != weight_gradients::at_once && d.weights_wait();
        auto const read = [&](std::size_t b) {
            live_to(b, later ? weights_by[i] : back[i]);
            if (later && when == weight_gradients::apart) stays[block_of(b)] = true;
        };
        if (saves && d.saved_bytes != 0) {
            size[saved(i)] = d.saved_bytes;
            born[saved(i)] = again.twice[i] ? twice[i] : i;
            read(saved(i));
        }
        if (d.reads_input(saves)) read(second(row.from));
        if (d.execution.backward_reads_output) read(second(i + 1));
        read(grad(i + 1));
        if (row.is_fork()) live_to(grad(row.other), back[i]);
        if (row.is_fork() && i == first &&
            gets_input) // by the slope of the function before it, which another stage has
            live_to(second(row.from), back[i]);
        bool const writes = row.is_fork() || !(d.execution.view || row.is_sum());
        if (writes && i > first_trainable) born[grad(i)] = back[i];
    }
    // A view is what it views. A sum's gradient is that of both its terms.
    for (std::size_t i = first; i < last; ++i)
        if (network.row(i).description.execution.view) {
            share(i + 1, network.row(i).from);
            if (again.twice[i]) share(second(i + 1), second(network.row(i).from));
        }
    for (std::size_t i = last; i-- > std::max(first, first_trainable);) {
        auto const& row = network.row(i);
        bool const plain_view = row.description.execution.view && !row.is_fork() && row.from == i;
        if ((plain_view || row.is_sum()) && row.from > first_trainable) share(grad(row.from), grad(i + 1));
        if (row.is_sum() && row.other > first_trainable) share(grad(row.other), grad(i + 1));
    }
    // Rows that work in place may overwrite values that no later row reads, unless these are the caller's.
    for (std::size_t i = first; i < last; ++i) {
        auto const& row = network.row(i);
        if (!row.description.execution.in_place || row.description.execution.view) continue;
        if (row.from > first && dies[block_of(row.from)] <= i) share(i + 1, row.from);
        if (again.twice[i] && again.dropped[row.from] && dies[block_of(second(row.from))] <= twice[i])
            share(second(i + 1), second(row.from));
    }
    for (std::size_t i = last; i-- > first + (gets_input ? 1 : 0);) {
        auto const& row = network.row(i);
        bool const later = when != weight_gradients::at_once && row.description.weights_wait(); // they read it still
        if (row.description.execution.in_place && !later && born[grad(i)] != never &&
            dies[block_of(grad(i + 1))] <= back[i])
            share(grad(i), grad(i + 1));
    }

    auto gap = depth; // between the way there and the way back
    if (way == way_of_samples::one_behind_the_other) {
        scratch<std::size_t> stretch(most_times);
        for (std::size_t t = 1; t < never; ++t) stretch[t] = stretch[t - 1] + (waits[t] ? 1 : 0);
        for (std::size_t b = 0; b < blocks; ++b) {
            if (born[b] == never) continue;
            born[b] = stretch[born[b]];
            dies[b] = stretch[dies[b]];
        }
        gap = stretch[depth];
    }

    plan.spread = in_task == 0 || in_task == lanes;
    scratch<std::size_t> at(most_blocks);
    scratch<bool> in_frame(most_blocks);
    auto const sent = gets_input && first > first_trainable && !forward_only ? grad(first) : npos;
    for (std::size_t b = 0; b < blocks; ++b) {
        in_frame[b] = apart && born[b] != never && b != sent &&
                      (b == block_of(grad(last)) || (born[b] < gap && dies[b] >= gap) || stays[b]);
        bool const whole = !apart || in_frame[b] || b == sent;
        auto const bytes = size[b] * (whole ? lanes : in_task) * (b < saved(0) ? element_bytes : 1);
        size[b] = round_up(bytes, cache_line) / element_bytes;
        if (!in_frame[b]) continue;
        at[b] = plan.kept;
        plan.kept += size[b];
    }

    // blocks are born, and die, at each time: chains through `next_born`, `next_dead`
    scratch<std::size_t> first_born(most_times + 1, npos), next_born(most_blocks);
    scratch<std::size_t> first_dead(most_times + 1, npos), next_dead(most_blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
        if (born[b] == never || in_frame[b] || b == sent) continue;
        next_born[b] = first_born[born[b]];
        first_born[born[b]] = b;
        next_dead[b] = first_dead[dies[b]];
        first_dead[dies[b]] = b;
    }
    hole_list holes(most_blocks + 1);
    for (std::size_t t = 0; t < never; ++t) {
        for (auto b = first_born[t]; b != npos; b = next_born[b]) at[b] = plan.kept + holes.take(size[b]);
        for (auto b = first_dead[t]; b != npos; b = next_dead[b])
            holes.give_back({at[b] - plan.kept, at[b] - plan.kept + size[b]});
    }

    plan.sent = plan.kept + holes.top();
    plan.elements = plan.sent + (sent == npos ? 0 : size[sent]);
    if (sent != npos) at[sent] = plan.sent;
    for (std::size_t i = 0; i <= depth; ++i) {
        bool const here = i >= first && i <= last;
        slots.value[i] = here ? at[block_of(i)] : npos;
        bool const unread = again.dropped[i] && !again.twice[i - (i > 0)]; // but kernels may load what they do not use
        slots.again[i] = here ? at[block_of(unread ? i : second(i))] : npos;
        slots.gradient[i] = here && !forward_only && (i > first_trainable || i == last) ? at[block_of(grad(i))] : npos;
        slots.saved[i] = saves && born[saved(i)] != never ? at[saved(i)] : npos;
    }
}

} // namespace detail

/// Plans an arena by a sweep over time: forward through row i happens at time i, the loss at time depth, then backward
/// row by row, and before the last row of a stretch that is computed again forward through its rows. A block lives from
/// the moment it is written to its last reading. `lanes` samples are in flight; blocks begin on cache lines. What
/// gradients by the parameters read stays until they are computed; see weight_gradients. Where granules go
/// `one_behind_the_other`, they are in different rows at the same moment between two layers that need the whole shard:
/// all rows of such a stretch share one time.
///
/// `rows`: those of a stage. `in_task`: not 0 where forward and backward are tasks of their own; the samples that
/// blocks have room for which last within one task. What the stage gets from the others, and gives them, lies in the
/// frame, or in an outgoing slot. `forward_only`: of a network that is not trained; there are no gradients.
/// `recomputed`: stretches of rows whose values are not kept, but computed again. `saves_bytes`: layers save the bytes
/// that their descriptions ask for; a row that goes forward twice saves them the second time.
template<class Network>
TRIREME_COLD constexpr activation_plan<Network::depth>
plan_activations(std::size_t lanes, std::size_t element_bytes, weight_gradients when = weight_gradients::at_once,
                 way_of_samples way = way_of_samples::together, range rows = {0, Network::depth},
                 std::size_t in_task = 0, bool forward_only = false, recomputed_rows recomputed = {},
                 bool saves_bytes = false) {
    activation_plan<Network::depth> plan;
    detail::plan_rows(Network::rows, lanes, element_bytes, when, way, rows, in_task, forward_only, recomputed,
                      saves_bytes, plan.arrays(), plan);
    return plan;
}

} // namespace trireme
