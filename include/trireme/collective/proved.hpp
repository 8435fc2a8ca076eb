// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/strategy.hpp>
#include <trireme/schedule/verify.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme {

template<class... Where>
struct strategy_makes_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0052: this strategy does not make this collective: choose one that the collective's documentation "
        "names, or give your own a static member function of the collective's name");
};

/// A word of that message.
template<collective>
struct asked_for;

namespace detail {

template<class Strategy, collective Goal, bool Makes>
struct makes_check {
    using type = no_rule;
};
template<class Strategy, collective Goal>
struct makes_check<Strategy, Goal, false> {
    using type = strategy_makes_rule<strategy<Strategy>, asked_for<Goal>>;
};

} // namespace detail

/// The schedule of a strategy, proved for this number of ranks: the first time it is asked for, by the function that
/// the compiler would use. Throws usage_error if the proof fails. Cost of the first time: that of `verify`, with its
/// memory; later: a look at one bit. A schedule with another root is the same one turned round, and not proved again;
/// one for other groups than last time, or for more than 1023 ranks, is. `bytes` (of the buffer) is for strategies
/// that choose by it.
template<class Strategy, collective Goal>
schedule proved_schedule(int ranks, int root = 0, levels const& groups = {}, [[maybe_unused]] bytes_t bytes = 0) {
    using rule = typename detail::makes_check<Strategy, Goal, makes<Strategy, Goal>>::type;
    static_assert(sizeof(rule) != 0);
    if constexpr (!makes<Strategy, Goal>) {
        return {};
    } else if constexpr (choosing_strategy<Strategy>) {
        return Strategy::template with_best<Goal>(
            ranks, bytes, groups, [&]<class Best> { return proved_schedule<Best, Goal>(ranks, root, groups, bytes); });
    } else {
        auto const s = schedule_of<Strategy, Goal>(ranks, root, groups);
        static std::array<std::atomic<std::uint64_t>, 16> proved{};
        static std::atomic<std::uint64_t> proved_groups{0}; // the last ones, all sizes in one number
        bool const kept = ranks > 0 && ranks < 1024;
        auto const word = static_cast<std::size_t>(ranks) / 64;
        auto const bit = std::uint64_t{1} << (ranks % 64);
        std::uint64_t key = 0;
        for (int i = 0; i < groups.count; ++i) key = key << 16 | static_cast<std::uint64_t>(groups.sizes[i]);
        if (kept && key == 0 && (proved[word].load(std::memory_order_relaxed) & bit) != 0) return s;
        if (kept && key != 0 && proved_groups.load(std::memory_order_relaxed) == key) return s;
        if (auto const v = verify(Goal, s, ranks); !v.ok())
            throw usage_error(std::string(name_of(Goal)) + " by " + s.name + " on " + std::to_string(ranks) +
                              " ranks " + describe(v.fault) + " (rank " + std::to_string(v.rank) + ", step " +
                              std::to_string(v.step) + ", chunk " + std::to_string(v.chunk) +
                              "): correct the strategy");
        if (kept && key == 0) proved[word].fetch_or(bit, std::memory_order_relaxed);
        if (kept && key != 0) proved_groups.store(key, std::memory_order_relaxed);
        return s;
    }
}

} // namespace trireme
