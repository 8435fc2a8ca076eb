// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/promises.hpp>
#include <support/training.hpp>

#include <trireme/processes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace promises {

/// Ranks that are processes, forked for each training. They have the bits of threads, those of `Threads`.
template<class Threads, class... Own>
struct in_processes : trains_on<host, f32, transport<shared_windows>, Own...> {
    using layers = typename Threads::layers;
    using sums = typename Threads::sums;
    static constexpr bool chooses_strategy = Threads::chooses_strategy;
    static constexpr bool takes_large_steps = Threads::takes_large_steps;
    using reference = Threads;
    static constexpr nearness near = {};

    struct order {};
    static std::vector<order> orders() { return {order{}}; }

    template<class Trainer>
    static auto trained(test_networks::settings<Trainer> s, order, std::vector<std::size_t> const& sizes) {
        constexpr std::size_t most_ranks = 8, most_told = 100;
        struct found_by_rank {
            std::size_t told;
            std::array<double, most_told> losses;
            std::array<float, Trainer::network_type::parameters + Trainer::network_type::buffers> numbers;
        };
        int const ranks = s.run.devices.value;
        watchdog const guard("training in processes");
        auto const place = processes::meeting_place::create(ranks);
        shared_value<std::array<found_by_rank, most_ranks>> found;
        forked_ranks all(ranks, [&](int rank) {
            s.run.processes = seat{place, rank};
            auto const own = test_networks::trained<Trainer>(s, sizes);
            auto& to = (*found)[static_cast<std::size_t>(rank)];
            if (own.told.size() > most_told || own.numbers.size() != to.numbers.size())
                throw std::runtime_error("there is no room for what a rank has found");
            to.told = own.told.size();
            std::copy(own.told.begin(), own.told.end(), to.losses.begin());
            std::copy(own.numbers.begin(), own.numbers.end(), to.numbers.begin());
        });
        all_end_well(all, std::chrono::seconds(100));
        std::vector<outcome<float>> outcomes; // by rank
        for (int rank = 0; rank < ranks; ++rank) {
            auto const& from = (*found)[static_cast<std::size_t>(rank)];
            outcomes.push_back({{from.losses.begin(), from.losses.begin() + static_cast<std::ptrdiff_t>(from.told)},
                                {from.numbers.begin(), from.numbers.end()}});
            CHECK(outcomes.back() == outcomes.front());
        }
        return outcomes.front();
    }
};

} // namespace promises
