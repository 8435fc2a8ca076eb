// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/row_table.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace trireme {

/// A hook of a pass that does nothing.
struct nothing_beside {
    template<class... At>
    void operator()(At const&...) const noexcept {}
};

/// Team of the ranks of a process, which go through a network together: the only team of a stage_pass. `Contexts`: a
/// range of theirs.
template<class Contexts>
struct ranks_of_process {
    Contexts all;

    static constexpr std::size_t size() noexcept { return 1; }
    Contexts const& operator[](std::size_t) const noexcept { return all; }
};

inline namespace TRIREME_ISA {

/// Rows [begin, end) of a network, on samples that go through them in teams.
///
/// A team goes row by row, its members one after the other: they are one granule, or all ranks of a process. Between
/// two rows that need a whole shard each team goes alone, so that a granule's values are still in the cache when the
/// next row reads them. At such a row the teams wait for one another: all of them show it their samples, then the
/// first team agrees, phase by phase, and after each phase but the last `exchange(i)` adds the numbers of the
/// network's i-th exchange over all devices. A shard without samples has no team, and agrees on zeros.
/// On the way back, before the last row of a stretch that was not kept, the stretch goes forward again.
template<class Teams>
class stage_pass {
    using context = std::remove_cvref_t<decltype(*std::declval<Teams const&>()[0].begin())>;
    using network = typename context::network;

public:
    explicit stage_pass(Teams const& teams, range rows = {0, network::depth}) noexcept : teams_(teams), rows_(rows) {}

    /// `begin(team)` is called before a team's first row, `between(row)` after each of its rows.
    template<class Begin = nothing_beside, class Between = nothing_beside, class Exchange = nothing_beside>
    void forward(Begin&& begin = {}, Between&& between = {}, Exchange&& exchange = {}) const {
        auto row = rows_.begin;
        for (bool begun = false; row < rows_.end || !begun; begun = true) {
            auto end = row + (begun ? 1 : 0); // the row that all wait for now knows the shard
            while (end < rows_.end && forward_phases(end) == 0) ++end;
            for (std::size_t t = 0; t < teams_.size(); ++t) {
                if (!begun) begin(t);
                auto const& team = teams_[t];
                for (auto r = row; r < end; ++r) {
                    for (auto const& c : team) calls[r](call::forward, c, r);
                    between(r);
                }
                for (auto const& c : team)
                    if (end < rows_.end) calls[end](call::forward_gather, c, end);
            }
            if (end < rows_.end)
                agree(end, forward_phases(end), network::row(end).first_exchange, exchange,
                      [end](auto const& c, int phase) { calls[end](call::forward_agree, c, end, phase); });
            row = end;
        }
    }

    /// Forward outside of training. `begin(team)` is called before a team's first row, `end(team)` after its last.
    template<class Begin = nothing_beside, class End = nothing_beside>
    void evaluate(Begin&& begin = {}, End&& end = {}) const {
        for (std::size_t t = 0; t < teams_.size(); ++t) {
            begin(t);
            for (auto row = rows_.begin; row < rows_.end; ++row)
                for (auto const& c : teams_[t]) calls[row](call::evaluate, c, row);
            end(t);
        }
    }

    /// Adds the gradients to the model's; needs the forward pass just made. `begin(team)` is called before a team's way
    /// back, and leaves the gradient of its output; `between(row)` as in forward.
    template<class Begin = nothing_beside, class Between = nothing_beside, class Exchange = nothing_beside>
    void backward(Begin&& begin = {}, Between&& between = {}, Exchange&& exchange = {}) const {
        back<true>(begin, between, exchange);
    }
    /// The first half of it, which gives the gradient by the input: gradients are added only by layers that agree.
    template<class Begin = nothing_beside, class Between = nothing_beside, class Exchange = nothing_beside>
    void backward_input(Begin&& begin = {}, Between&& between = {}, Exchange&& exchange = {}) const {
        back<false>(begin, between, exchange);
    }
    /// The second half, which adds the gradients of all other layers.
    template<class Begin = nothing_beside, class Between = nothing_beside>
    void backward_weights(Begin&& begin = {}, Between&& between = {}) const {
        auto const last = std::max(rows_.begin, network::first_trainable);
        for (std::size_t t = 0; t < teams_.size(); ++t) {
            begin(t);
            for (auto r = rows_.end; r-- > last;) {
                for (auto const& c : teams_[t]) calls[r](call::backward_weights, c, r);
                between(r);
            }
        }
    }

private:
    template<bool Weights, class Begin, class Between, class Exchange>
    void back(Begin& begin, Between& between, Exchange& exchange) const {
        auto const last = std::max(rows_.begin, network::first_trainable); // nothing below it wants a gradient
        auto end = rows_.end;
        for (bool begun = false; end > last || !begun; begun = true) {
            auto row = end - (begun ? 1 : 0); // that which has agreed
            while (row > last && backward_phases(row - 1) == 0) --row;
            bool const waits = row > last; // at the row before
            for (std::size_t t = 0; t < teams_.size(); ++t) {
                if (!begun) begin(t);
                auto const& team = teams_[t];
                for (auto r = end; r-- > row;) {
                    if (!begun || r + 1 != end) forward_again(team, r);
                    for (auto const& c : team) {
                        if constexpr (Weights) calls[r](call::backward_weights, c, r);
                        calls[r](call::backward_input, c, r);
                    }
                    between(r);
                }
                if (waits) forward_again(team, row - 1);
                for (auto const& c : team)
                    if (waits) calls[row - 1](call::backward_gather, c, row - 1);
            }
            if (waits)
                agree(row - 1, backward_phases(row - 1),
                      network::row(row - 1).first_exchange +
                          static_cast<std::size_t>(description(row - 1).forward.exchanges()),
                      exchange,
                      [row](auto const& c, int phase) { calls[row - 1](call::backward_agree, c, row - 1, phase); });
            end = row;
        }
    }

    /// Computes the values again that a stretch of rows needs on its way back, before its last row goes there. What
    /// layers have agreed on is still there, and nothing is agreed on, or counted, twice.
    template<class Team>
    void forward_again(Team const& team, std::size_t last) const {
        auto const& again = team[0].recomputed();
        if (again.from[last] == npos) return;
        for (auto const& c : team) c.finish_gradients(); // their memory may be used again
        for (auto r = again.from[last]; r < last; ++r)
            for (auto const& c : team)
                if (again.twice[r]) calls[r](call::forward, c, r, detail::on_the_way_back);
    }

    using call = detail::row_call;
    static constexpr auto const& calls = detail::rows_of_context<context>;
    static constexpr layer_description const& description(std::size_t row) noexcept {
        return network::row(row).description;
    }
    static constexpr int forward_phases(std::size_t row) noexcept {
        return network::whole_shard ? description(row).forward.phases : 0; // no code for what no layer has
    }
    static constexpr int backward_phases(std::size_t row) noexcept {
        return network::whole_shard ? description(row).backward.phases : 0;
    }

    /// Without a team the row was shown nothing, and its numbers of the step before must not count.
    template<class Exchange, class F>
    void agree(std::size_t row, int phases, std::size_t first_exchange, Exchange& exchange, F const& f) const {
        if (teams_.size() == 0)
            for (auto const& c : teams_[0])
                std::fill_n(c.kept() + (network::row(row).first_kept - c.model.first_kept), description(row).kept, 0);
        for (int phase = 0; phase < phases; ++phase) {
            if (phase != 0) exchange(first_exchange + static_cast<std::size_t>(phase - 1));
            for (auto const& c : teams_[0]) f(c, phase);
        }
    }

    Teams const& teams_;
    range rows_;
};

} // namespace TRIREME_ISA
} // namespace trireme
