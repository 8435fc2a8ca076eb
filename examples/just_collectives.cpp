// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives without a network: k-means on four threads. Every thread has some of the points; the centres are agreed
// on by a broadcast at first and by an all-reduce in each round. Any program that has threads can do this.

#include "standard_output.hpp"

#include <trireme/collective/all_reduce.hpp>
#include <trireme/collective/broadcast.hpp>
#include <trireme/core/exit_code.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/group/transport/threads/group.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

using namespace trireme;

namespace {

constexpr int ranks = 4, clusters = 3, rounds = 12;
constexpr std::size_t points_per_rank = 5000;

struct point {
    double x = 0, y = 0;
};

/// Points around (0, 0), (4, 1) and (1, 5), the same ones for any number of threads.
point made(std::size_t i) {
    constexpr point centres[clusters] = {{0, 0}, {4, 1}, {1, 5}};
    random_stream const random(1, random_purpose::user);
    auto const& near = centres[random.below(3 * i, clusters)];
    return {near.x + 2 * random.uniform(3 * i + 1) - 1, near.y + 2 * random.uniform(3 * i + 2) - 1};
}

std::size_t nearest(point p, std::span<point const> centres) {
    std::size_t best = 0;
    double least = 1e300;
    for (std::size_t c = 0; c < centres.size(); ++c) {
        double const dx = p.x - centres[c].x, dy = p.y - centres[c].y;
        if (dx * dx + dy * dy < least) best = c, least = dx * dx + dy * dy;
    }
    return best;
}

/// Every thread runs this function.
void find_centres(threads::communicator& me) {
    std::vector<point> mine;
    for (std::size_t i = 0; i < points_per_rank; ++i)
        mine.push_back(made(static_cast<std::size_t>(me.rank()) * points_per_rank + i));

    std::array<point, clusters> centres;
    if (me.rank() == 0) centres = {mine[0], mine[1], mine[2]};
    broadcast(me, centres); // of any type that can be copied as bytes

    for (int round = 0; round < rounds; ++round) {
        std::array<double, 3 * clusters> sums{}; // x, y and the number of points
        for (auto const p : mine) {
            auto const c = nearest(p, centres);
            sums[3 * c] += p.x;
            sums[3 * c + 1] += p.y;
            sums[3 * c + 2] += 1;
        }
        all_reduce(me, sums); // by a strategy that suits the size and the threads
        for (std::size_t c = 0; c < clusters; ++c)
            if (sums[3 * c + 2] != 0) centres[c] = {sums[3 * c] / sums[3 * c + 2], sums[3 * c + 1] / sums[3 * c + 2]};
    }
    double farthest = 0;
    for (auto const p : mine) {
        auto const c = centres[nearest(p, centres)];
        farthest = std::max(farthest, std::hypot(p.x - c.x, p.y - c.y));
    }
    farthest = all_reduce(me, farthest, op::max{}); // of one number: its result is returned
    if (me.rank() == 0) std::printf("no point is farther than %.2f from its centre\n", farthest);
    if (me.rank() == 0)
        for (auto const c : centres) std::printf("centre at (%.2f, %.2f)\n", c.x, c.y);
}

} // namespace

int main() try {
    watch_standard_output();
    threads::group group(ranks);
    group.run(find_centres);
} catch (std::exception const& e) {
    std::fprintf(stderr, "just_collectives: %s\n", e.what());
    return exit_code::of(e);
}
