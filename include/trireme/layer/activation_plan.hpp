// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>

#include <cstddef>

namespace trireme {

/// Where the values and gradients of one granule lie in the activation arena, in elements; `npos` for what is not kept.
/// value[i] is the input of layer i (value[depth]: the network's output), gradient[i] the loss's gradient by it.
template<std::size_t Depth>
struct activation_plan {
    std::size_t value[Depth + 1] = {};
    std::size_t gradient[Depth + 1] = {};
    std::size_t elements = 0; ///< of the whole arena
};

namespace detail {

/// First fit with a sorted list of holes. Linear in the number of blocks while there are few holes, which a chain of
/// layers ensures.
template<std::size_t Capacity>
class hole_list {
public:
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

    range holes_[Capacity] = {};
    std::size_t count_ = 0;
    std::size_t top_ = 0;
};

} // namespace detail

/// Plans a granule's arena by a sweep over time: forward through layer i happens at time i, the loss at time depth,
/// backward through layer i at time 2 depth - i. A block lives from the moment it is written to its last reading.
/// `lanes` samples are in flight; blocks begin on cache lines. Where `weights_lag`, the gradients by the parameters are
/// computed beside backward, at any time before its end: what they read stays till then.
template<class Network>
constexpr activation_plan<Network::depth> plan_activations(std::size_t lanes, std::size_t element_bytes,
                                                           bool weights_lag = false) {
    constexpr std::size_t depth = Network::depth;
    constexpr std::size_t blocks = 2 * (depth + 1); // values, then gradients
    constexpr std::size_t never = 2 * depth + 1;
    std::size_t size[blocks] = {};
    std::size_t born[blocks] = {};
    std::size_t dies[blocks] = {};
    std::size_t root[blocks] = {}; // views share the block of what they view

    auto const unit = cache_line / element_bytes;
    std::size_t first_trainable = Network::first_trainable;
    auto const grad = [](std::size_t i) { return depth + 1 + i; };
    for (std::size_t i = 0; i <= depth; ++i) {
        size[i] = size[grad(i)] = round_up(Network::row(i).input.size() * lanes, unit);
        root[i] = i;
        root[grad(i)] = grad(i);
        born[i] = i == 0 ? 0 : i - 1;
        dies[i] = i; // forward through layer i, or the loss, reads it
        if (i < depth && i >= first_trainable && Network::row(i).description.backward_reads_input)
            dies[i] = 2 * depth - i;
        if (i > 0 && i - 1 >= first_trainable && Network::row(i - 1).description.backward_reads_output)
            dies[i] = 2 * depth - (i - 1);
        bool const wanted = i > first_trainable || i == depth;
        born[grad(i)] = wanted ? 2 * depth - i : never;
        dies[grad(i)] = wanted ? 2 * depth - (i - 1) : never;
    }
    for (std::size_t i = first_trainable; weights_lag && i < depth; ++i)
        if (auto const& d = Network::row(i).description; d.parameter_count > 0) {
            dies[i] = dies[grad(i + 1)] = 2 * depth;
            if (d.backward_reads_output) dies[i + 1] = 2 * depth;
        }
    // A view's block is its input's, alive as long as either. So is that of a layer that works in place, unless its
    // input is still to be read in backward or is the caller's.
    for (std::size_t i = 0; i < depth; ++i) {
        auto const& layer = Network::row(i).description;
        if (!layer.view && !(layer.in_place && i > 0 && dies[root[i]] <= i)) continue;
        auto const value = root[i];
        root[i + 1] = value;
        if (dies[i + 1] > dies[value]) dies[value] = dies[i + 1];
        born[i + 1] = never;
    }
    for (std::size_t i = depth; i-- > 0;) {
        auto const& layer = Network::row(i).description;
        bool const may_overwrite = layer.in_place && !(weights_lag && layer.parameter_count > 0);
        if (!(layer.view || may_overwrite) || born[grad(i)] == never) continue;
        auto const value = root[grad(i + 1)];
        root[grad(i)] = value;
        if (dies[grad(i)] > dies[value]) dies[value] = dies[grad(i)];
        born[grad(i)] = never;
    }

    // what is born and what dies at each time: chains through `next_born`, `next_dead`
    std::size_t first_born[never + 1] = {}, next_born[blocks] = {};
    std::size_t first_dead[never + 1] = {}, next_dead[blocks] = {};
    for (std::size_t t = 0; t <= never; ++t) first_born[t] = first_dead[t] = npos;
    for (std::size_t b = 0; b < blocks; ++b) {
        if (born[b] == never) continue;
        next_born[b] = first_born[born[b]];
        first_born[born[b]] = b;
        next_dead[b] = first_dead[dies[b]];
        first_dead[dies[b]] = b;
    }
    detail::hole_list<blocks + 1> holes;
    std::size_t at[blocks] = {};
    for (std::size_t t = 0; t < never; ++t) {
        for (auto b = first_born[t]; b != npos; b = next_born[b]) at[b] = holes.take(size[b]);
        for (auto b = first_dead[t]; b != npos; b = next_dead[b]) holes.give_back({at[b], at[b] + size[b]});
    }

    activation_plan<depth> plan;
    plan.elements = holes.top();
    for (std::size_t i = 0; i <= depth; ++i) {
        plan.value[i] = at[root[i]];
        plan.gradient[i] = i > first_trainable || i == depth ? at[root[grad(i)]] : npos;
    }
    return plan;
}

} // namespace trireme
