// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/remembered.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/strategy.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/machine.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

namespace trireme {

/// The prices of some strategies for one collective, and which is the cheapest.
template<std::size_t N>
struct strategy_prices {
    char const* names[N] = {};
    double seconds[N] = {}; ///< by the cost model; negative of a strategy that does not make the collective
    std::size_t best = 0;   ///< the first of the cheapest
    int ranks = 1;
    bytes_t bytes = 0; ///< of the buffer

    constexpr char const* name() const noexcept { return names[best]; }

    /// "direct 31.5 us, ring 44.1 us: direct for 1048576 bytes on 2 ranks"
    std::string why() const {
        std::string text;
        for (std::size_t i = 0; i < N; ++i) {
            if (seconds[i] < 0) continue;
            char time[48];
            std::snprintf(time, sizeof time, " %.3g us", seconds[i] * 1e6);
            text += (text.empty() ? "" : ", ") + std::string(names[i]) + time;
        }
        return text + ": " + name() + " for " + std::to_string(bytes) + " bytes on " + std::to_string(ranks) + " ranks";
    }
};

template<class... Where>
struct best_of_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0129: best_of chooses among strategies that send the same bytes, and a compressed one is no "
                  "candidate: compress what is chosen, compressed<bf16, best_of<...>>");
};

namespace detail {

/// The rule that candidates break: the first that compresses.
template<class... S>
using candidates_rule =
    std::conditional_t<(is_compressed<S> || ...),
                       best_of_rule<strategy<type_at<first_false({!is_compressed<S>..., false}), S..., void>>>,
                       no_rule>;

/// best_of with a machine other than the typical one.
template<class Machine, class... S>
struct best_of_on {
    static_assert(sizeof...(S) > 0 && sizeof...(S) < 255, "best_of chooses among 1 to 254 strategies");
    using rule = candidates_rule<S...>;
    static constexpr rule checked{};
    static constexpr char const* name = "best_of";
    using candidates = pack<S...>;

    /// The choice among these strategies for a machine of one's own: a type with `static constexpr machine
    /// description`.
    template<class Other>
    using on = best_of_on<Other, S...>;

    template<collective Goal>
    static constexpr bool makes_some = (makes<S, Goal> || ...);

    /// The price of each candidate for a buffer of `bytes`, rounded up to a power of two: so a choice is a constant
    /// where ranks and size are. `groups` are those of the communicator; without any, the machine's, if they fit.
    template<collective Goal>
        requires makes_some<Goal>
    static constexpr strategy_prices<sizeof...(S)> prices(int ranks, bytes_t bytes, levels const& groups = {}) {
        auto m = Machine::description;
        m.groups = near(ranks, groups);
        strategy_prices<sizeof...(S)> p{{S::name...}};
        p.ranks = ranks;
        p.bytes = bytes;
        std::size_t i = 0;
        ((p.seconds[i++] = price<S, Goal>(ranks, std::bit_ceil(bytes), m)), ...);
        p.best = sizeof...(S);
        for (i = 0; i < sizeof...(S); ++i)
            if (p.seconds[i] >= 0 && (p.best == sizeof...(S) || p.seconds[i] < p.seconds[p.best])) p.best = i;
        return p;
    }

    /// Calls `f.template operator()<Candidate>(groups)` with the cheapest candidate and the groups it was priced for.
    /// Which it is, is worked out once and kept.
    template<collective Goal, class F>
    static schedule with_best(int ranks, bytes_t bytes, levels const& groups, F const& f) {
        static remembered<512> known;
        auto const power = static_cast<std::uint64_t>(std::countr_zero(std::bit_ceil(bytes)));
        auto const place = key_of(ranks, groups);
        auto const key = place * 64 + power;
        std::size_t best = place == 0 ? 0 : known.find(key);
        if (best != 0) {
            --best;
        } else {
            best = prices<Goal>(ranks, bytes, groups).best;
            if (place != 0) known.keep(key, static_cast<std::uint8_t>(best + 1));
        }
        auto const where = near(ranks, groups);
        return visit<Goal>(best, [&]<class Best> { return f.template operator()<Best>(where); });
    }

    template<collective Goal>
    static constexpr schedule make(int ranks, int root, levels const& groups, bytes_t bytes) {
        auto const where = near(ranks, groups);
        return visit<Goal>(prices<Goal>(ranks, bytes, groups).best,
                           [&]<class Best> { return schedule_of<Best, Goal>(ranks, root, where, bytes); });
    }

private:
    /// The groups that a schedule is made for.
    static constexpr levels near(int ranks, levels const& given) noexcept {
        constexpr auto own = Machine::description.groups;
        return given.count == 0 && own.count != 0 && own.ranks() == ranks ? own : given;
    }

    template<class Candidate, collective Goal>
    static constexpr double price(int ranks, bytes_t bytes, machine const& m) {
        if constexpr (makes<Candidate, Goal>) {
            auto const s = schedule_of<Candidate, Goal>(ranks, 0, m.groups, bytes);
            return seconds_of(s, {bytes, 1, s.chunks}, m);
        } else {
            return -1;
        }
    }

    template<collective Goal, class F>
    static constexpr schedule visit(std::size_t which, F const& f) {
        schedule result;
        std::size_t i = 0;
        ((i++ == which ? void(result = call<S, Goal>(f)) : void()), ...);
        return result;
    }
    template<class Candidate, collective Goal, class F>
    static constexpr schedule call(F const& f) {
        if constexpr (makes<Candidate, Goal>)
            return f.template operator()<Candidate>();
        else
            return {};
    }
};

} // namespace detail

/// The cheapest of some strategies, by the cost model and the size of the buffer: a strategy itself, for collectives
/// and for reduce_by. `best_of<direct, ring>::on<my_machine>` prices them for a machine that has been calibrated.
///
///     using best = best_of<direct, ring, recursive_halving_doubling>;
///     static_assert(best::prices<collective::all_reduce>(2, 1_MiB).name() == direct::name);
///
/// Strategies that do not make a collective are left out of its choice. The choice is the same on all ranks, because
/// ranks and size are.
template<class... Strategy>
using best_of = detail::best_of_on<typical_threads, Strategy...>;

} // namespace trireme
