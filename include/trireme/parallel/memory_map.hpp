// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/optimizer/optimizer.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/pieces.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme {

/// Bytes that the library owns on one device, by what they are for. Exact: what the transport is asked for, to the
/// byte. MPI's messages between machines have buffers besides, at most as large as the gradients for each of a rank's
/// blocks.
struct owned_bytes {
    bytes_t parameters = 0;      ///< parameters, and running statistics
    bytes_t gradients = 0;       ///< gradients of the parameters
    bytes_t optimizer_state = 0; ///< numbers that the optimizer keeps
    bytes_t strategy_state = 0;  ///< errors of gradients, and what is sent, of strategies that compress
    bytes_t activations = 0;     ///< values and gradients of what is computed at once: on the host one granule, however
                                 ///< large the batch, unless a layer needs a whole shard (batch_norm)
    bytes_t control = 0;         ///< counters by which devices wait for one another; of accelerators, tables and losses
    bytes_t staging = 0;         ///< samples on their way into an accelerator, of two steps
    bytes_t workspace = 0;       ///< memory of kernels that come from libraries: their limit

    constexpr bytes_t total() const noexcept {
        return parameters + gradients + optimizer_state + strategy_state + activations + control + staging + workspace;
    }
};

/// Equal parts of memory, one behind the other.
struct memory_area {
    bytes_t bytes = 0; ///< of one part
    std::size_t parts = 1;

    constexpr bytes_t total() const noexcept { return bytes * parts; }
};

/// The memory of a rank, area by area. Constructors take their memory from this map, and the plan adds it up: a
/// device has no other memory.
struct memory_map {
    memory_area parameters;        ///< and behind them the buffers, each padded to whole cache lines
    memory_area gradients;         ///< one part per slot, of the form of `parameters`
    memory_area optimizer_state;   ///< one part per number that the optimizer keeps of a parameter
    memory_area updates;           ///< their count, for optimizers that want it
    memory_area strategy_state;    ///< errors of compressed gradients, and behind them what a collective sends
    memory_area activations;       ///< frames, what lasts within a task, outgoing slots: see activation_plan
    memory_area narrow_parameters; ///< where values are narrower than parameters: their copy, and a layer's gradients
    memory_area workspace;         ///< one part per stream with kernels
    memory_area samples;           ///< one part per step that is staged
    memory_area losses;            ///< of the samples that are computed at once
    memory_area scores;            ///< of all shards
    memory_area squares;           ///< sums of the gradients' squares, where their norm is measured
    memory_area tied;              ///< a gradient of a tied row that is on another accelerator
    memory_area tables;            ///< of collectives on streams
    memory_area counters;          ///< of the group
    memory_area channels;          ///< between the stages of a pipeline

    constexpr owned_bytes owned() const noexcept {
        owned_bytes sum;
        sum.parameters = parameters.total() + narrow_parameters.total();
        sum.gradients = gradients.total() + tied.total();
        sum.optimizer_state = optimizer_state.total() + updates.total();
        sum.strategy_state = strategy_state.total();
        sum.activations = activations.total();
        sum.control =
            losses.total() + scores.total() + tables.total() + counters.total() + channels.total() + squares.total();
        sum.staging = samples.total();
        sum.workspace = workspace.total();
        return sum;
    }
};

/// The numbers of some rows of a network in an arena: their parameters, then their buffers, each padded to whole cache
/// lines. Gradients lie in one of the same form, with what a step adds to the buffers in their place, and behind it the
/// gradients of tied rows; behind the weights there are copies for tied rows, if their own weights are elsewhere.
struct row_numbers {
    range rows = {};
    std::size_t first_parameter = 0; ///< of the network
    std::size_t parameters = 0;
    std::size_t first_buffer = 0; ///< of the network's buffers
    std::size_t buffers = 0;
    std::size_t first_kept = 0;  ///< of the numbers that layers keep of a shard
    std::size_t first_tied = 0;  ///< of the gradients of tied rows
    std::size_t buffers_lie = 0; ///< at this element of the arena
    std::size_t tied_lie = 0;    ///< likewise, the numbers of tied rows
    std::size_t elements = 0;    ///< of gradients
    std::size_t weights = 0;     ///< elements of weights, those of copies included

    /// Elements of the rows' own numbers, which are updated.
    constexpr std::size_t own() const noexcept { return tied_lie; }
    /// The first element of a row's gradients, and of its weights, or of the copy that a tied row has.
    constexpr std::size_t place_of(layer_row const& r) const noexcept {
        return detail::place_of_numbers(r, first_parameter, first_tied, tied_lie);
    }

    /// The rows' part of a list.
    constexpr range of(canonical_list const& list) const noexcept {
        return list.of == canonical_list::buffers ? range{first_buffer, first_buffer + buffers}
                                                  : range{first_parameter, first_parameter + parameters};
    }

    constexpr arena_extent extent() const noexcept { return {elements, first_parameter, parameters}; }
    /// f(owner, at) for the rows elsewhere whose weights have a copy here, from that element on.
    template<class F>
    constexpr void for_each_copy(detail::row_list const& network, F const& f) const {
        for (auto i = rows.begin; i < rows.end; ++i)
            if (auto const& row = network.row(i); row.is_tied() && row.tied_to < rows.begin)
                if (&detail::copied_row(network, i, first_tied) == &row) f(row.tied_to, place_of(row));
    }
};
TRIREME_COLD constexpr row_numbers numbers_of_rows(detail::row_list const& network, std::size_t element_bytes,
                                                   range rows) noexcept {
    auto const line = cache_line / element_bytes;
    auto const &begin = network.row(rows.begin), &end = network.row(rows.end);
    row_numbers n;
    n.rows = rows;
    n.first_parameter = begin.first_parameter;
    n.parameters = end.first_parameter - begin.first_parameter;
    n.first_buffer = begin.first_buffer;
    n.buffers = end.first_buffer - begin.first_buffer;
    n.first_kept = begin.first_kept;
    n.first_tied = begin.first_tied;
    n.buffers_lie = round_up(n.parameters, line);
    n.tied_lie = n.buffers_lie + round_up(n.buffers, line);
    n.elements = n.tied_lie + round_up(end.first_tied - begin.first_tied, line);
    n.weights = n.own();
    n.for_each_copy(network, [&](std::size_t owner, std::size_t at) {
        n.weights = round_up(at + network.row(owner).description.parameter_elements(), line);
    });
    return n;
}

/// The numbers of a stage of the network.
template<class Network, class T>
constexpr row_numbers numbers_of_stage(parallel_layout const& l, int stage) {
    return numbers_of_rows(Network::rows, sizeof(T), l.rows_of(stage, Network::depth));
}

/// The part of a list that a rank has for one of its stages, whose numbers are `n`: of the optimizer's, that for
/// parameters which it updates.
constexpr range list_at(row_numbers const& n, canonical_list const& list, parallel_layout const& l, int rank,
                        std::size_t element_bytes) {
    if (list.of != canonical_list::optimizer) return n.of(list);
    auto const mine = l.slice_of_device(rank, n.own(), element_bytes);
    auto const end = std::min(mine.end, n.parameters);
    return {n.first_parameter + std::min(mine.begin, end), n.first_parameter + end};
}
/// True if a rank's part of a list is like that of the same stage in the first replica.
constexpr bool is_copy(canonical_list const& list, parallel_layout const& l, int rank) noexcept {
    return l.replica_of(rank) != 0 && !(l.shared_weights && list.of == canonical_list::optimizer);
}

/// The first elements of a stage's numbers in the arenas of a rank, behind those of the stages that it has before it.
struct stage_begin {
    std::size_t weights = 0;   ///< the first of its parameters
    std::size_t gradients = 0; ///< the first of its gradients, of the first slot
    std::size_t state = 0;     ///< the first of the optimizer's numbers
};
template<class Model>
TRIREME_COLD constexpr stage_begin stage_lies(parallel_layout const& l, int rank, int chunk) {
    stage_begin at;
    for (int before = 0; before < chunk; ++before) {
        auto const n =
            numbers_of_stage<typename Model::network, typename Model::value_type>(l, l.stage_of(rank, before));
        at.weights += n.weights;
        at.gradients += l.gradient_slots(rank) * n.elements;
        at.state += Model::optimizer::state_per_parameter *
                    l.slice_of_device(rank, n.own(), sizeof(typename Model::value_type)).size();
    }
    return at;
}

/// The part of the map that is the same on every kind of device: parameters and buffers, their gradients, what
/// strategies keep of these, and the optimizer's numbers for the part that the rank updates.
template<class Model>
constexpr memory_map memory_of_model(parallel_layout const& l, int rank) {
    using T = typename Model::value_type;
    memory_map m;
    std::size_t weights = 0, elements = 0, updated = 0, errors = 0, most_sent = 0;
    for (int chunk = 0; chunk < l.chunks(); ++chunk) {
        auto const n = numbers_of_stage<typename Model::network, T>(l, l.stage_of(rank, chunk));
        weights += n.weights;
        elements += n.elements;
        updated += l.slice_of_device(rank, n.own(), sizeof(T)).size();
        for (std::size_t i = 0; Model::trains && i < l.reductions(); ++i) {
            auto const compressed = l.compressed_by(i, n.extent());
            errors += compressed;
            most_sent = std::max(most_sent, compressed);
        }
    }
    m.parameters.bytes = l.shared_weights && l.replica_of(rank) != 0 ? 0 : weights * sizeof(T);
    m.gradients = {elements * sizeof(T), Model::trains ? l.gradient_slots(rank) : 0};
    m.optimizer_state = {updated * sizeof(T), Model::optimizer::state_per_parameter};
    m.strategy_state.bytes = errors * sizeof(T) + most_sent * sizeof(bf16);
    m.updates.bytes = detail::counts_updates<typename Model::optimizer> ? cache_line : 0;
    return m;
}

} // namespace trireme
