// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Collectives as programs call them that want no more than the result, on any kind of group: no strategy named.

#include <collective/matrix.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace test_collectives {

/// Every collective by its default strategy, against what one loop over the ranks makes of their numbers.
template<class C>
void require_defaults(C& c) {
    auto const n = static_cast<std::size_t>(c.size()), r = static_cast<std::size_t>(c.rank());
    for (std::size_t const size : {std::size_t{0}, std::size_t{1}, std::size_t{37}, std::size_t{3000}}) {
        auto const text = [&](char const* what) { return std::string(what) + " of " + std::to_string(size); };
        auto const mine = numbers<float>(c.rank(), size);
        auto sums = garbage<float>(size), both = mine;
        all_reduce(c, mine, sums);
        all_reduce(c, both);
        bool right = sums == both;
        for (std::size_t i = 0; i < size; ++i) right = right && sums[i] == float(expected<op::sum>(c.size(), i));
        require(right, text("all_reduce"));

        auto const blocks = numbers<double>(c.rank(), n * size);
        auto block = garbage<double>(size), scratch = blocks;
        reduce_scatter(c, blocks, block, op::max{});
        reduce_scatter(c, scratch, op::max{});
        for (std::size_t i = 0; i < size; ++i)
            right = right && block[i] == expected<op::max>(c.size(), r * size + i) && scratch[r * size + i] == block[i];
        require(right, text("reduce_scatter"));

        std::vector<particle> some(size), all(n * size);
        for (std::size_t i = 0; i < size; ++i) some[i] = made(c.rank(), i);
        all_gather(c, some, all);
        for (std::size_t i = 0; i < n * size; ++i)
            right = right && all[i] == made(static_cast<int>(i / size), i % size);
        auto in_place = std::vector<particle>(n * size);
        for (std::size_t i = 0; i < size; ++i) in_place[r * size + i] = some[i];
        all_gather(c, in_place);
        require(right && in_place == all, text("all_gather"));

        std::vector<particle> for_all(n * size), from_all(n * size);
        for (std::size_t i = 0; i < n * size; ++i) for_all[i] = made(c.rank(), i);
        all_to_all(c, for_all, from_all);
        for (std::size_t i = 0; i < n * size; ++i)
            right = right && from_all[i] == made(static_cast<int>(i / size), r * size + i % size);
        require(right, text("all_to_all"));

        for (int root = 0; root < c.size(); ++root) {
            bool const here = c.rank() == root;
            auto told = here ? all : std::vector<particle>(n * size);
            broadcast(c, told, root);
            require(told == all, text("broadcast"));

            auto const whole = numbers<std::int32_t>(c.rank(), size);
            auto sum = garbage<std::int32_t>(size);
            reduce(c, whole, sum, root);
            for (std::size_t i = 0; i < size && here; ++i) right = right && sum[i] == expected<op::sum>(c.size(), i);
            require(right, text("reduce"));

            std::vector<particle> gathered(here ? n * size : 0), scattered(size);
            gather(c, some, gathered, root); // nobody else needs room
            require(!here || gathered == all, text("gather"));
            scatter(c, gathered, scattered, size, root);
            require(scattered == some, text("scatter"));
        }
        barrier(c);
    }
}

} // namespace test_collectives
