// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives of accelerators that read one another's memory, rehearsed on the host: bit for bit those of threads.

#include <trireme/collective/on_streams/peer.hpp>
#include <trireme/device/rehearsal/device.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/seed.hpp>
#include <support/strategies.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

namespace rehearsed_peer_test {
using namespace trireme;
using rehearsal_runtime::budget;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;

using test_strategies::two_levels;

template<class T>
struct ranks_buffers {
    std::vector<std::vector<T>> in, out;

    ranks_buffers(int ranks, std::size_t n, std::uint64_t seed) {
        std::mt19937_64 random(seed);
        for (int r = 0; r < ranks; ++r) {
            in.emplace_back(n);
            out.emplace_back(n);
            for (auto& x : in.back()) {
                float const value = static_cast<float>(static_cast<std::int64_t>(random() % 20000) - 10000) / 64;
                if constexpr (std::is_same_v<T, std::int32_t>)
                    x = static_cast<T>(value);
                else
                    x = static_cast<T>(value);
            }
        }
    }
};

template<stream_op Op>
auto host_op() {
    if constexpr (Op == stream_op::sum)
        return op::sum{};
    else if constexpr (Op == stream_op::max)
        return op::max{};
    else
        return op::min{};
}

/// Threads of the host run the collective.
template<class S, collective Goal, stream_op Op, class T>
void on_threads(ranks_buffers<T>& b, bool in_place, int root) {
    int const n = static_cast<int>(b.in.size());
    threads::group g(n);
    g.run([&](threads::communicator& c) {
        auto& mine = b.in[static_cast<std::size_t>(c.rank())];
        auto& out = in_place ? mine : b.out[static_cast<std::size_t>(c.rank())];
        std::span<T const> const from(mine);
        std::span<T> const to(out);
        auto const block = mine.size() / static_cast<std::size_t>(n);
        auto const own = from.subspan(static_cast<std::size_t>(c.rank()) * block, block);
        auto const o = host_op<Op>();
        if constexpr (Goal == collective::all_reduce) all_reduce<S>(c, from, to, o);
        if constexpr (Goal == collective::reduce) reduce<S>(c, from, to, root, o);
        if constexpr (Goal == collective::reduce_scatter) reduce_scatter<S>(c, from, to, o);
        if constexpr (Goal == collective::all_gather) all_gather<S>(c, own, to);
        if constexpr (Goal == collective::gather) gather<S>(c, own, to, root);
        if constexpr (Goal == collective::scatter) scatter<S>(c, from, to, block, root);
        if constexpr (Goal == collective::all_to_all) all_to_all<S>(c, from, to);
        if constexpr (Goal == collective::broadcast) {
            if (c.rank() == root && !in_place) out = mine;
            broadcast<S>(c, to, root);
        }
    });
}

/// The collective promises this range of rank r's output.
range promised(collective goal, int r, int ranks, int root, std::size_t n) {
    auto const block = n / static_cast<std::size_t>(ranks);
    range const own{static_cast<std::size_t>(r) * block, static_cast<std::size_t>(r + 1) * block};
    if (goal == collective::reduce_scatter || goal == collective::scatter) return own;
    if ((goal == collective::reduce || goal == collective::gather) && r != root) return {};
    return {0, n};
}

template<class S, collective Goal, class T = float, stream_op Op = stream_op::sum>
void same_as_threads(int ranks, int devices, std::size_t n, bool in_place, int root = 0) {
    CAPTURE(std::string(S::name));
    CAPTURE(std::string(name_of(Goal)));
    CAPTURE(ranks);
    CAPTURE(devices);
    CAPTURE(n);
    CAPTURE(in_place);
    CAPTURE(root);
    budget.devices = devices;
    stage::here().clear();
    stage::here().play(n % 2 == 0 ? timing::late : timing::shuffled, test_seed() + n);

    ranks_buffers<T> mine(ranks, n, test_seed() + n), theirs = mine;
    on_threads<S, Goal, Op>(theirs, in_place, root);

    peer_group<rehearsal> group(ranks, true);
    std::vector<stream_buffers<T>> buffers;
    std::vector<std::unique_ptr<rehearsal::stream>> own;
    std::vector<rehearsal::stream*> streams;
    for (int r = 0; r < ranks; ++r) {
        auto const i = static_cast<std::size_t>(r);
        buffers.push_back({mine.in[i].data(), in_place ? mine.in[i].data() : mine.out[i].data()});
        own.push_back(std::make_unique<rehearsal::stream>(group.device_of(r)));
        streams.push_back(own.back().get());
    }
    auto c = make_collective<S, Goal, Op>(group, buffers, n, root);
    c.enqueue(streams);
    std::size_t tables = 0;
    int wrong = 0;
    for (int r = 0; r < ranks; ++r) {
        auto const i = static_cast<std::size_t>(r);
        rehearsal::event done(group.device_of(r));
        streams[i]->record(done);
        while (!done.reached()) {}
        auto const part = promised(Goal, r, ranks, root, n);
        auto const& a = in_place ? mine.in[i] : mine.out[i];
        auto const& b = in_place ? theirs.in[i] : theirs.out[i];
        wrong +=
            part.size() != 0 && std::memcmp(a.data() + part.begin, b.data() + part.begin, part.size() * sizeof(T)) != 0;
        if (!in_place) wrong += mine.in[i] != theirs.in[i]; // is only read

        auto const s = schedule_of<S, Goal>(ranks, root);
        bool const blocks = c.moved(r).bytes != 0 && Goal != collective::all_reduce && Goal != collective::broadcast &&
                            Goal != collective::reduce;
        buffer_cut const cut{n, sizeof(T), s.chunks, blocks ? ranks : 1};
        CHECK(c.moved(r).bytes == traffic_of(s, r, cut).bytes);
        CHECK(c.moved(r).messages == traffic_of(s, r, cut).messages);
        if (in_place && devices >= ranks) tables += move_table::bytes(s, cut, r);
    }
    CHECK(wrong == 0);
    if (in_place && devices >= ranks) CHECK(c.table_bytes() == tables);
    budget.devices = rehearsal_runtime::memory_budget::most_devices;
}

template<class S, collective Goal, class T = float, stream_op Op = stream_op::sum>
void everywhere() {
    if constexpr (makes<S, Goal>)
        for (int ranks = 1; ranks <= 8; ++ranks)
            for (int const devices : {1, 3, 8})
                for (std::size_t const each : {std::size_t{0}, std::size_t{1}, std::size_t{37}, std::size_t{128}}) {
                    int const root = has_root(Goal) ? ranks / 2 : 0;
                    auto const n = each * static_cast<std::size_t>(ranks);
                    if (Goal != collective::all_to_all) same_as_threads<S, Goal, T, Op>(ranks, devices, n, true, root);
                    if (each != 128) same_as_threads<S, Goal, T, Op>(ranks, devices, n, false, root);
                }
}

template<class... S>
void by_all() {
    (everywhere<S, collective::all_reduce>(), ...);
    (everywhere<S, collective::reduce_scatter>(), ...);
    (everywhere<S, collective::all_gather>(), ...);
    (everywhere<S, collective::broadcast>(), ...);
    (everywhere<S, collective::reduce>(), ...);
    (everywhere<S, collective::gather>(), ...);
    (everywhere<S, collective::scatter>(), ...);
    (everywhere<S, collective::all_to_all>(), ...);
}

TEST_SUITE("rehearsed/peer") {

    TEST_CASE("every collective by every strategy, 1 to 8 ranks, on one device, some, or one each") {
        by_all<direct, ring, bidirectional_ring, recursive_halving_doubling, double_binary_tree, chain, binomial_tree,
               two_levels>();
    }

    TEST_CASE("other types and operations") {
        everywhere<direct, collective::all_reduce, double, stream_op::max>();
        everywhere<ring, collective::all_reduce, bf16>();
        everywhere<direct, collective::all_reduce, bf16>();
        everywhere<double_binary_tree, collective::all_reduce, std::int32_t, stream_op::min>();
    }

    TEST_CASE("buffers that begin anywhere") {
        budget.devices = 1;
        stage::here().clear();
        stage::here().play(timing::late);
        std::vector<float> a(1001, 1), b(1001, 2);
        peer_group<rehearsal> group(2, true);
        rehearsal::stream one(0), two(0);
        rehearsal::stream* const streams[] = {&one, &two};
        auto c = make_collective<ring, collective::all_reduce>(
            group, std::vector<stream_buffers<float>>{{a.data() + 1, a.data() + 1}, {b.data() + 1, b.data() + 1}},
            1000);
        c.enqueue(streams);
        rehearsal::event done(0);
        one.record(done);
        while (!done.reached()) {}
        CHECK(a[0] == 1);
        CHECK(b[0] == 2);
        CHECK(std::all_of(a.begin() + 1, a.end(), [](float x) { return x == 3; }));
        CHECK(std::all_of(b.begin() + 1, b.end(), [](float x) { return x == 3; }));
        budget.devices = rehearsal_runtime::memory_budget::most_devices;
    }

    TEST_CASE("the devices of a part come in any order") {
        budget.devices = 2;
        peer_group<rehearsal> const whole(3, true), part(whole, {0, 2, 1});
        REQUIRE((part.device_of(0) == part.device_of(1) && part.device_of(1) != part.device_of(2)));
        ranks_buffers<float> numbers(3, 12, test_seed());
        std::vector<float> sums(12);
        for (std::size_t i = 0; i < sums.size(); ++i)
            sums[i] = (numbers.in[0][i] + numbers.in[1][i]) + numbers.in[2][i]; // of numbers whose sums are exact
        std::vector<stream_buffers<float>> buffers;
        std::vector<std::unique_ptr<rehearsal::stream>> own;
        std::vector<rehearsal::stream*> streams;
        for (int r = 0; r < 3; ++r) {
            auto* const mine = numbers.in[static_cast<std::size_t>(r)].data();
            buffers.push_back({mine, mine});
            streams.push_back(own.emplace_back(std::make_unique<rehearsal::stream>(part.device_of(r))).get());
        }
        auto all = make_collective<ring, collective::all_reduce>(part, buffers, 12);
        all.enqueue(streams);
        for (auto* const s : streams) {
            rehearsal::event done(s->device());
            s->record(done);
            while (!done.reached()) {}
        }
        for (auto const& mine : numbers.in) CHECK(mine == sums);
        budget.devices = rehearsal_runtime::memory_budget::most_devices;
    }

    TEST_CASE("what cannot be done is refused") {
        peer_group<rehearsal> group(2);
        std::vector<float> x(4);
        std::vector<stream_buffers<float>> const two{{x.data(), x.data()}, {x.data(), x.data()}},
            one{{x.data(), x.data()}};
        CHECK_THROWS_WITH_AS(static_cast<void>(make_collective<ring, collective::all_reduce>(group, one, 4)),
                             doctest::Contains("1 buffers in a group of 2"), usage_error);
        CHECK_THROWS_WITH_AS(static_cast<void>(make_collective<ring, collective::all_gather>(group, two, 3)),
                             doctest::Contains("a multiple of the ranks"), usage_error);
        CHECK_THROWS_WITH_AS(static_cast<void>(make_collective<direct, collective::all_to_all>(group, two, 4)),
                             doctest::Contains("must lie apart"), usage_error);
        CHECK_THROWS_AS(peer_group<rehearsal>(9), usage_error);
    }
}

} // namespace rehearsed_peer_test
