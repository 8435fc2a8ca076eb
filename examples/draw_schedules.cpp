// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// draw_schedules FOLDER    writes the pictures of docs/schedules.md into it, and prints its table of costs

#include <trireme/schedule/collective/bidirectional_ring.hpp>
#include <trireme/schedule/collective/binomial_tree.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/schedule/collective/strategy.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/draw.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

using namespace trireme;
using two_levels = hierarchical<direct, ring>;

namespace {

// ---- the table ----

/// Steps, and the most messages and bytes that any rank moves; bytes as multiples of the buffer.
std::string cost_of(schedule const& s) {
    auto const elements = static_cast<std::size_t>(s.ranks) * 4096;
    traffic most;
    for (int r = 0; r < s.ranks; ++r) {
        auto const t = traffic_of(s, r, elements, sizeof(float));
        most = {std::max(most.messages, t.messages), std::max(most.bytes, t.bytes)};
    }
    char text[64];
    std::snprintf(text, sizeof text, "%d, %d, %.2f", s.steps, static_cast<int>(most.messages),
                  static_cast<double>(most.bytes) / static_cast<double>(elements * sizeof(float)));
    return text;
}

template<collective Goal, class S>
void line() {
    if constexpr (makes<S, Goal>) {
        std::printf("| %s | `%s` |", name_of(Goal), S::name);
        for (int const ranks : {4, 8, 16}) std::printf(" %s |", cost_of(schedule_of<S, Goal>(ranks)).c_str());
        std::printf("\n");
    }
}

template<collective Goal>
void lines() {
    line<Goal, direct>();
    line<Goal, ring>();
    line<Goal, bidirectional_ring>();
    line<Goal, recursive_halving_doubling>();
    line<Goal, double_binary_tree>();
    line<Goal, chain>();
    line<Goal, binomial_tree>();
    line<Goal, dissemination>();
    line<Goal, two_levels>();
}

template<int... Goal>
void table(std::integer_sequence<int, Goal...>) {
    std::puts("| collective | strategy | 4 ranks | 8 ranks | 16 ranks |\n| --- | --- | --- | --- | --- |");
    (lines<static_cast<collective>(Goal)>(), ...);
}

// ---- the pictures ----

struct gallery {
    std::string folder;
    bool written = true;

    void write(std::string const& name, std::string const& picture) {
        std::ofstream file(folder + "/schedule-" + name + ".svg");
        file << picture << std::flush;
        written = written && file.good();
    }

    template<collective Goal, class S>
    void show(int ranks) {
        std::string const name = S::name;
        write(std::string(name_of(Goal)) + '-' + name.substr(0, name.find('<')),
              schedule_svg(schedule_of<S, Goal>(ranks),
                           std::string(name_of(Goal)) + " by " + S::name + ", " + std::to_string(ranks) + " ranks"));
    }
};

/// A ring whose rank 2 leaves without waiting for its successor.
struct impatient_ring {
    static constexpr schedule all_reduce(int ranks) noexcept {
        return {"impatient_ring", ranks, ranks, 2 * ranks - 1, &step};
    }
    static constexpr collective_step step(int ranks, int rank, int s) noexcept {
        return rank == 2 && s == 2 * ranks - 2 ? collective_step{} : ring::all_reduce(ranks).at(rank, s);
    }
};

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: draw_schedules FOLDER\n");
        return 2;
    }
    gallery g{argv[1]};
    g.show<collective::all_reduce, direct>(4);
    g.show<collective::reduce_scatter, direct>(4);
    g.show<collective::all_gather, direct>(4);
    g.show<collective::broadcast, direct>(4);
    g.show<collective::reduce, direct>(4);
    g.show<collective::gather, direct>(4);
    g.show<collective::scatter, direct>(4);
    g.show<collective::all_to_all, direct>(4);
    g.show<collective::barrier, direct>(4);
    g.show<collective::all_reduce, ring>(4);
    g.show<collective::reduce_scatter, ring>(4);
    g.show<collective::all_gather, ring>(4);
    g.show<collective::all_reduce, bidirectional_ring>(4);
    g.show<collective::all_reduce, recursive_halving_doubling>(8);
    g.show<collective::reduce_scatter, recursive_halving_doubling>(6);
    g.show<collective::all_gather, recursive_halving_doubling>(6);
    g.show<collective::all_reduce, double_binary_tree>(4);
    g.show<collective::broadcast, double_binary_tree>(4);
    g.show<collective::all_reduce, chain>(4);
    g.show<collective::broadcast, chain>(4);
    g.show<collective::reduce, chain>(4);
    g.show<collective::broadcast, binomial_tree>(8);
    g.show<collective::reduce, binomial_tree>(8);
    g.show<collective::gather, binomial_tree>(8);
    g.show<collective::scatter, binomial_tree>(8);
    g.show<collective::barrier, dissemination>(8);
    g.show<collective::all_reduce, two_levels>(8);
    auto const wrong = impatient_ring::all_reduce(4);
    g.write("counterexample",
            schedule_svg(wrong, "a ring whose rank 2 does not wait at the end", verify(collective::all_reduce, wrong)));

    table(std::make_integer_sequence<int, collectives>{});
    if (g.written) return 0;
    std::fprintf(stderr, "draw_schedules: cannot write into %s; make the folder first\n", g.folder.c_str());
    return 2;
}
