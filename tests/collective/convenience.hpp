// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Collectives as programs call them that want no more than the result, on any kind of group: no strategy named.

#include <collective/matrix.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
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

/// The largest of some numbers and who has it: of equal ones the first.
struct largest_at {
    double value;
    std::int32_t where;
    friend bool operator==(largest_at const&, largest_at const&) = default;
};
inline largest_at larger(largest_at const& a, largest_at const& b) {
    if (a.value != b.value) return a.value > b.value ? a : b;
    return a.where < b.where ? a : b;
}

/// Elements that no order of combining changes: powers of two, numbers of a finite field, the largest of some.
template<class S, class C>
tally own_operations_by(C& c) {
    tally t;
    auto const n = static_cast<std::size_t>(c.size()), r = static_cast<std::size_t>(c.rank());
    op::commutative const argmax("argmax", [](largest_at const& a, largest_at const& b) { return larger(a, b); });
    op::commutative const product("product", [](auto a, auto b) { return a * b; });
    std::uint32_t const modulus = c.size() % 2 == 0 ? 65521 : 65519; // state of an operation
    op::commutative const in_field("product in a field", [modulus](std::uint32_t a, std::uint32_t b) {
        return static_cast<std::uint32_t>(std::uint64_t{a} * b % modulus);
    });
    for (std::size_t const block : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{700}}) {
        auto const size = n * block;
        auto const at = [](int rank, std::size_t i) {
            return largest_at{static_cast<double>(number(rank, i)), static_cast<std::int32_t>(rank)};
        };
        auto const power = [](int rank, std::size_t i) { return number(rank, i) % 2 == 0 ? 2.0 : 0.5; };
        auto const residue = [](int rank, std::size_t i) {
            return static_cast<std::uint32_t>((static_cast<std::size_t>(rank) + 1) * 7919 + i * 31) % 65521;
        };
        std::vector<largest_at> in(size), most(size);
        std::vector<double> doubles(size), products(size, 1.0);
        std::vector<std::uint32_t> residues(size), in_all(size, 1u);
        for (std::size_t i = 0; i < size; ++i) {
            in[i] = at(c.rank(), i);
            doubles[i] = power(c.rank(), i);
            residues[i] = residue(c.rank(), i);
            most[i] = at(0, i);
            for (int rank = 0; rank < c.size(); ++rank) {
                most[i] = larger(most[i], at(rank, i));
                products[i] *= power(rank, i);
                in_all[i] = static_cast<std::uint32_t>(std::uint64_t{in_all[i]} * residue(rank, i) % modulus);
            }
        }
        if constexpr (makes<S, collective::all_reduce>) {
            std::vector<largest_at> out(size), both = in;
            auto const before = c.pulled();
            all_reduce<S>(c, in, out, argmax);
            t.miscounted += !counted<S, collective::all_reduce>(c, before, size, sizeof(largest_at), 1);
            all_reduce<S>(c, both, argmax);
            t.wrong += out != most || both != most;
            auto x = doubles;
            auto pending = start_all_reduce<S>(c, x, product);
            pending.wait();
            t.wrong += x != products;
            t.wrong += all_reduce<S>(c, std::vector<std::uint32_t>(residues), in_field) != in_all;
        }
        if constexpr (makes<S, collective::reduce_scatter>) {
            auto both = in;
            reduce_scatter<S>(c, both, argmax);
            for (std::size_t i = r * block; i < (r + 1) * block; ++i) t.wrong += both[i] != most[i];
            auto const mine = reduce_scatter<S>(c, std::vector<double>(doubles), product);
            t.wrong += mine.size() != block;
            for (std::size_t i = 0; i < block; ++i) t.wrong += mine[i] != products[r * block + i];
        }
        if constexpr (makes<S, collective::reduce>)
            for (int root = 0; root < c.size(); ++root) {
                std::vector<largest_at> out(size);
                reduce<S>(c, in, out, root, argmax);
                auto const fields = reduce<S>(c, std::vector<std::uint32_t>(residues), root, in_field);
                t.wrong += c.rank() == root && (out != most || fields != in_all);
            }
    }
    return t;
}
template<class... S, class C>
void require_own_operations(C& c) {
    auto const by = [&]<class Strategy>(Strategy) {
        auto const t = own_operations_by<Strategy>(c);
        require(t.wrong + t.miscounted == 0, std::string("own operations by ") + Strategy::name + ": " +
                                                 std::to_string(t.wrong) + " wrong, " + std::to_string(t.miscounted) +
                                                 " miscounted");
    };
    (by(S{}), ...);
}

/// Results that calls return, of numbers and of buffers that are given away.
template<class C>
void require_results(C& c) {
    auto const n = static_cast<std::size_t>(c.size());
    int const ranks = c.size(), me = c.rank(), all = ranks * (ranks - 1) / 2;
    require(all_reduce(c, me) == all && all_reduce(c, 0.5) == 0.5 * ranks, "all_reduce of a number");
    require(all_reduce<ring>(c, std::int64_t{me} << 40, op::max{}) == std::int64_t{ranks - 1} << 40, "a long number");
    int const own = me + 1; // stays what it is
    require(all_reduce(c, own, op::min{}) == 1 && own == me + 1, "the smallest");
    op::commutative const argmax("argmax", [](largest_at a, largest_at b) { return larger(a, b); });
    require(all_reduce(c, largest_at{1.0 * (me % 3), me}, argmax) ==
                largest_at{1.0 * std::min(2, ranks - 1), std::min(2, ranks - 1)},
            "where the largest is");
    std::vector<float> numbers{1, static_cast<float>(me)};
    auto const* const place = numbers.data();
    auto const sums = all_reduce(c, std::move(numbers));
    require(sums == std::vector<float>{static_cast<float>(ranks), static_cast<float>(all)}, "all_reduce of a vector");
    require(sums.data() == place, "the vector that was given away is the one that comes back");
    require(all_reduce(c, std::array<double, 2>{1, 2}) == std::array<double, 2>{1.0 * ranks, 2.0 * ranks}, "an array");

    std::vector<int> order(n);
    for (std::size_t r = 0; r < n; ++r) order[r] = static_cast<int>(r);
    require(all_gather(c, me) == order && all_gather<direct>(c, me) == order, "all_gather of a number");
    auto const pairs = all_gather(c, std::vector<particle>{made(me, 0), made(me, 1)});
    for (std::size_t i = 0; i < 2 * n; ++i)
        require(pairs.size() == 2 * n && pairs[i] == made(static_cast<int>(i / 2), i % 2), "all_gather of a vector");
    require(all_gather(c, std::vector<int>()).empty(), "all_gather of nothing");
    std::vector<int> for_each(n, me);
    require(all_to_all(c, for_each) == order && all_to_all(c, std::move(for_each)) == order, "all_to_all");
    require(reduce_scatter(c, std::vector<std::uint8_t>(2 * n, 1)) ==
                std::vector<std::uint8_t>(2, static_cast<std::uint8_t>(ranks)),
            "reduce_scatter of a vector");

    for (int root = 0; root < ranks; ++root) {
        bool const here = me == root;
        require(broadcast(c, me + 42, root) == root + 42 && broadcast(c, here, root), "broadcast of a number");
        require(broadcast(c, made(me, 7), root) == made(root, 7), "broadcast of a struct");
        require(broadcast(c, std::vector<int>(3, me), root) == std::vector<int>(3, root), "broadcast of a vector");
        require(reduce(c, me, root) == (here ? all : me), "reduce of a number");
        auto const total = reduce(c, std::vector<int>{me, 1}, root);
        require(!here || total == std::vector<int>{all, ranks}, "reduce of a vector");
        require(gather(c, me, root) == (here ? order : std::vector<int>()), "gather of a number");
        auto const both = gather<binomial_tree>(c, std::vector<int>(1, me), root);
        require(both == (here ? order : std::vector<int>()), "gather of a vector, in a tree");
        auto const given = here ? order : std::vector<int>();
        require(scatter(c, given, 1, root) == std::vector<int>(1, me), "scatter");
        require(scatter<binomial_tree>(c, given, 1, root) == std::vector<int>(1, me), "scatter in a tree");
    }
}

/// A rank has this many numbers in a round: in some none, and in one no rank has any.
inline std::size_t count_of(int rank, int round) {
    auto const r = static_cast<std::size_t>(rank);
    if (round == 0) return 0;
    if (round == 1) return r % 2 == 0 ? 0 : 3;
    if (round == 2) return r == 1 ? 1000 : 0;
    return (r * 37 + static_cast<std::size_t>(round) * 11) % 90;
}
inline blocks_by_rank<particle> blocks_of_round(int ranks, int round) {
    std::vector<std::size_t> sizes;
    for (int r = 0; r < ranks; ++r) sizes.push_back(count_of(r, round));
    blocks_by_rank<particle> all(sizes);
    for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; auto& p : all[static_cast<std::size_t>(r)]) p = made(r, i++);
    return all;
}

/// Blocks that differ in size, by a strategy that gathers or scatters.
template<class S, class C>
tally uneven_blocks_by(C& c, bool all_roots) {
    tally t;
    auto const r = static_cast<std::size_t>(c.rank());
    auto const moved = [&](schedule const& s, traffic before, blocks_by_rank<particle> const& all) {
        auto const want =
            traffic_of(s, c.rank(), {all.numbers.size(), sizeof(particle), s.chunks, c.size(), all.offsets.data()});
        auto const now = c.pulled() - before;
        t.miscounted += now.messages != want.messages || now.bytes != want.bytes;
    };
    /// The exchange of sizes moves this traffic.
    auto const sizes_moved = [&] {
        auto const before = c.pulled();
        (void)all_gather<direct>(c, std::size_t{0});
        return c.pulled() - before;
    };
    for (int round = 0; round < 6; ++round) {
        auto const wanted = blocks_of_round(c.size(), round);
        std::vector<particle> const mine(wanted[r].begin(), wanted[r].end());
        auto extra = sizes_moved();
        if constexpr (makes<S, collective::all_gather>) {
            auto before = c.pulled();
            auto const all = all_gatherv<S>(c, mine);
            before += extra;
            moved(schedule_of<S, collective::all_gather>(c.size(), 0, c.groups()), before, wanted);
            t.wrong += all != wanted || all_gatherv<S>(c, std::vector<particle>(mine)) != wanted;
        }
        for (int root = 0; root < c.size(); root += all_roots ? 1 : c.size() / 2 + 1) {
            bool const here = c.rank() == root;
            blocks_by_rank<particle> all;
            if constexpr (makes<S, collective::gather>) {
                auto before = c.pulled();
                all = gatherv<S>(c, mine, root);
                before += extra;
                moved(schedule_of<S, collective::gather>(c.size(), root, c.groups()), before, wanted);
                t.wrong += here ? all != wanted : all.size() != wanted.size() || !all.numbers.empty();
            }
            if constexpr (makes<S, collective::scatter>)
                t.wrong += scatterv<S>(c, here ? wanted : blocks_by_rank<particle>(), root) != mine;
        }
    }
    return t;
}
template<class... S, class C>
void require_uneven_blocks(C& c) {
    auto const by = [&]<class Strategy>(Strategy) {
        auto const t = uneven_blocks_by<Strategy>(c, c.size() <= 5);
        require(t.wrong + t.miscounted == 0, std::string("uneven blocks by ") + Strategy::name + ": " +
                                                 std::to_string(t.wrong) + " wrong, " + std::to_string(t.miscounted) +
                                                 " miscounted");
    };
    (by(S{}), ...);
    auto const wanted = blocks_of_round(c.size(), 5);
    auto const& mine = wanted[static_cast<std::size_t>(c.rank())];
    require(all_gatherv(c, mine) == wanted, "blocks by default");
    auto const at_root = gatherv(c, mine);
    require(c.rank() == 0 ? at_root == wanted : at_root.numbers.empty(), "blocks at the root by default");
    auto const back = scatterv(c, at_root);
    require(std::equal(back.begin(), back.end(), mine.begin(), mine.end()), "and back");
}

/// A few of all that, for groups of processes.
template<class C>
void require_conveniences(C& c) {
    require_defaults(c);
    require_results(c);
    require_own_operations<direct, ring, recursive_halving_doubling, double_binary_tree, two_levels>(c);
    require_uneven_blocks<direct, ring, recursive_halving_doubling, binomial_tree, two_levels>(c);
}

} // namespace test_collectives
