// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/fixed_tree.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace schedule_fixed_tree_test {
namespace {

using namespace trireme;

/// A stack of sums holds expressions when numbers are their names: "(0+1)".
class expressions {
    auto merge() {
        return [this](std::size_t i, std::size_t j) { slots_[i] = "(" + slots_[i] + "+" + slots_[j] + ")"; };
    }

public:
    void push(fixed_tree::stack& s, range block, std::string name) {
        if (slots_.size() < s.depth() + 1) slots_.resize(s.depth() + 1);
        slots_[s.depth()] = std::move(name);
        s.push(block, merge());
    }
    void finish(fixed_tree::stack& s) { s.finish(merge()); }
    std::string const& at(std::size_t i) const { return slots_[i]; }
    std::size_t slots() const { return slots_.size(); }

private:
    std::vector<std::string> slots_;
};

/// The sum of all shards when device d owns [cuts[d], cuts[d + 1]).
std::string tree_of(std::vector<std::size_t> const& cuts) {
    fixed_tree::stack all;
    expressions sums;
    for (std::size_t d = 0; d + 1 < cuts.size(); ++d) {
        fixed_tree::stack own;
        expressions device;
        for (auto shard = cuts[d]; shard < cuts[d + 1]; ++shard)
            device.push(own, {shard, shard + 1}, std::to_string(shard));
        auto const blocks = fixed_tree::blocks({cuts[d], cuts[d + 1]});
        REQUIRE(blocks.depth() == own.depth());
        for (std::size_t b = 0; b < own.depth(); ++b) {
            REQUIRE(blocks.block(b).begin == own.block(b).begin);
            REQUIRE(blocks.block(b).end == own.block(b).end);
            sums.push(all, own.block(b), device.at(b));
        }
        REQUIRE(fixed_tree::slots({cuts[d], cuts[d + 1]}) == device.slots());
    }
    sums.finish(all);
    REQUIRE(all.depth() == 1);
    REQUIRE(all.block(0).begin == 0);
    REQUIRE(all.block(0).end == cuts.back());
    return sums.at(0);
}

std::vector<std::size_t> even_cuts(std::size_t shards, int devices) {
    std::vector<std::size_t> cuts = {0};
    for (int d = 0; d < devices; ++d) cuts.push_back(shards_of(d, devices, shards).end);
    return cuts;
}

static_assert(fixed_tree::merges({4, 6}, {6, 8}) && !fixed_tree::merges({2, 4}, {4, 6}) &&
              !fixed_tree::merges({4, 6}, {6, 7}));
static_assert(fixed_tree::slots({0, 0}) == 0 && fixed_tree::slots({0, 1}) == 1 && fixed_tree::slots({0, 8}) == 4);

} // namespace

TEST_SUITE("schedule/fixed_tree") {
    TEST_CASE("the trees of few shards, literally") {
        CHECK(tree_of({0, 1}) == "0");
        CHECK(tree_of({0, 2}) == "(0+1)");
        CHECK(tree_of({0, 3}) == "((0+1)+2)");
        CHECK(tree_of({0, 5}) == "(((0+1)+(2+3))+4)");
        CHECK(tree_of({0, 6}) == "(((0+1)+(2+3))+(4+5))");
        CHECK(tree_of({0, 7}) == "(((0+1)+(2+3))+((4+5)+6))");
        CHECK(tree_of({0, 8}) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
        CHECK(tree_of({0, 3, 8}) == tree_of({0, 8}));
        CHECK(tree_of({0, 1, 2, 3, 4, 5, 6}) == tree_of({0, 6}));
    }

    TEST_CASE("even splits: up to 20 shards on any number of devices give the tree of one device") {
        for (std::size_t shards = 1; shards <= 20; ++shards) {
            auto const wanted = tree_of({0, shards});
            for (int devices = 1; devices <= static_cast<int>(shards); ++devices) {
                CAPTURE(shards);
                CAPTURE(devices);
                CHECK(tree_of(even_cuts(shards, devices)) == wanted);
            }
        }
    }

    TEST_CASE("every contiguous split of up to 11 shards gives the same tree, empty devices included") {
        for (std::size_t shards = 1; shards <= 11; ++shards) {
            auto const wanted = tree_of({0, shards});
            bool same = tree_of({0, 0, shards, shards}) == wanted;
            for (std::size_t mask = 0; mask < std::size_t{1} << (shards - 1); ++mask) {
                std::vector<std::size_t> cuts = {0};
                for (std::size_t i = 1; i < shards; ++i)
                    if (mask >> (i - 1) & 1) cuts.push_back(i);
                cuts.push_back(shards);
                same = same && tree_of(cuts) == wanted;
            }
            CAPTURE(shards);
            CHECK(same);
        }
    }

    TEST_CASE("shards are dealt out contiguously, as evenly as they divide") {
        for (std::size_t shards = 1; shards <= 64; ++shards)
            for (int devices = 1; devices <= static_cast<int>(shards); ++devices) {
                std::size_t at = 0, least = shards, most = 0;
                for (int d = 0; d < devices; ++d) {
                    auto const owned = shards_of(d, devices, shards);
                    if (owned.begin != at) FAIL_CHECK("a gap");
                    at = owned.end;
                    least = std::min(least, owned.size());
                    most = std::max(most, owned.size());
                }
                if (at != shards || most - least > 1 || least == 0) FAIL_CHECK(shards << " on " << devices);
            }
    }

    TEST_CASE("slots is the deepest a stack gets, at most 2 log2(V) + 1, for every range of up to 128 shards") {
        std::size_t const shards = 128;
        for (std::size_t begin = 0; begin < shards; ++begin)
            for (std::size_t end = begin + 1; end <= shards; ++end) {
                fixed_tree::stack s;
                std::size_t deepest = 0;
                for (auto shard = begin; shard < end; ++shard) {
                    auto occupied = s.depth() + 1; // the new block has a slot of its own before it merges
                    deepest = std::max(deepest, occupied);
                    s.push({shard, shard + 1}, [&](std::size_t i, std::size_t j) {
                        if (j != i + 1 || j >= occupied) FAIL_CHECK("a merge outside the stack");
                    });
                }
                std::size_t log = 0;
                while (std::size_t{1} << log < end) ++log;
                if (fixed_tree::slots({begin, end}) != deepest || deepest > 2 * log + 1)
                    FAIL_CHECK("[" << begin << ", " << end << ")");
            }
    }

    TEST_CASE("while all blocks of all devices are pushed, 13 partial sums are enough for 4096 shards") {
        // what add_in_fixed_tree keeps on its stack: room for 16
        for (int const devices : {1, 2, 3, 7, 64, 1000, 4096}) {
            fixed_tree::stack all;
            std::size_t deepest = 0;
            for (int d = 0; d < devices; ++d) {
                auto const blocks = fixed_tree::blocks(shards_of(d, devices, 4096));
                for (std::size_t b = 0; b < blocks.depth(); ++b) {
                    deepest = std::max(deepest, all.depth() + 1);
                    all.push(blocks.block(b), [](std::size_t, std::size_t) {});
                }
            }
            CAPTURE(devices);
            CHECK(deepest <= 13);
        }
    }
}

} // namespace schedule_fixed_tree_test
