// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// transport<nccl>, rehearsed on the host: its groups of calls, its staging, its programs and their order are those of
// GPUs; nccl_mock.hpp plays NCCL. Without the headers of CUDA and NCCL there is nothing to compile.

#include <doctest/doctest.h>
#include <support/left_out.hpp>

#if __has_include(<cuda_runtime.h>) && __has_include(<nccl.h>)

#include <group/no_threads.hpp>
#include <rehearsed/nccl_mock.hpp>
#include <rehearsed/nccl_on_stage.hpp>
#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/host_collectives.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/training.hpp>

#include <trireme/group/late.hpp>
#include <trireme/rehearsal.hpp>
#include <trireme/trainer/nccl_transport.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rehearsed_nccl_test {
using namespace trireme;
using nccl_mock::rehearsal_with_nccl;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;
using rehearsed::nccl_on_stage;
using rehearsed::tiny;
using namespace test_host_collectives;
using test_support::text_of_error;

/// A transport is told these of a trainer's options.
struct options {
    std::chrono::duration<double> deadline{60};
    chosen_option<bool> share_devices;
    chosen_option<process_of> processes;
};

/// Every rank has the sum, as a layout adds it.
template<class T>
void reduce_on_host(parallel_layout const& l, std::size_t elements, buffers<T>& data) {
    if (l.reproducible()) {
        auto const sums = tree_sum(l, elements, data);
        for (auto& of_rank : data) std::copy(sums.begin(), sums.end(), of_rank.begin());
        return;
    }
    for (std::size_t i = 0; i < l.reductions(); ++i) {
        auto const part = l.reduced_by(i, elements);
        if (!l.strategy_of(i).is<native>()) {
            pull(l.reduction(i, elements, sizeof(T)), part, data);
            continue;
        }
        for (auto e = part.begin; e < part.end; ++e) { // as the stand-in does it
            auto sum = data[0][e];
            for (std::size_t r = 1; r < data.size(); ++r) sum = sum_of(sum, data[r][e]);
            for (auto& of_rank : data) of_rank[e] = sum;
        }
    }
}

// ---- the ranks of a layout, all of this process ----

template<class T>
class ranks_of {
public:
    using transport_type = nccl_transport<rehearsal_with_nccl, T>;

    ranks_of(parallel_layout const& l, std::size_t elements, buffers<T> const& numbers)
        : layout_(l), transport_(l, options{}), data_(numbers) {
        std::vector<T*> gradients;
        for (int r = 0; r < l.replicas; ++r) streams_.emplace_back(transport_.device_of(r));
        for (auto& s : streams_) pointers_.push_back(&s);
        for (auto& of_rank : data_) gradients.push_back(of_rank.data());
        auto const before = std::to_array(rehearsal_runtime::budget.taken);
        transport_.prepare(0, gradients, elements);
        for (int r = 0; r < l.replicas; ++r) {
            auto const device = index(transport_.device_of(r));
            taken_.push_back(rehearsal_runtime::budget.taken[device] - before[device]);
        }
    }

    transport_type& transport() { return transport_; }
    buffers<T>& data() { return data_; }
    bytes_t taken(int rank) const { return taken_[index(rank)]; } ///< of its device's memory

    /// Reduces, the second time what the first has given: a rank may be ahead of others, but by what they wait for.
    /// Begins and ends on the first rank's stream.
    void enqueue(int times) {
        rehearsal::event begun(pointers_[0]->device());
        pointers_[0]->record(begun);
        for (std::size_t r = 1; r < pointers_.size(); ++r) pointers_[r]->wait(begun);
        for (int time = 0; time < times; ++time)
            for (std::size_t i = layout_.reductions(); i-- > 0;) transport_.enqueue(0, 0, i, pointers_);
        for (std::size_t r = 1; r < pointers_.size(); ++r) {
            rehearsal::event over(pointers_[r]->device());
            pointers_[r]->record(over);
            pointers_[0]->wait(over);
        }
    }
    void capture() {
        pointers_[0]->begin_capture();
        enqueue(1);
        graph_ = pointers_[0]->end_capture();
    }
    void launch() { pointers_[0]->launch(graph_); }
    void finish() {
        rehearsal::event done(pointers_[0]->device());
        pointers_[0]->record(done);
        REQUIRE(await(done, deadline::in(std::chrono::seconds(60))));
    }

    bool holds(buffers<T> const& wanted) const {
        for (std::size_t r = 0; r < data_.size(); ++r)
            if (!test_networks::same_bits(data_[r], wanted[r])) return false;
        return true;
    }
    void write(buffers<T> const& numbers) {
        for (std::size_t r = 0; r < data_.size(); ++r)
            std::copy(numbers[r].begin(), numbers[r].end(), data_[r].begin()); // where they are
    }

private:
    parallel_layout layout_;
    transport_type transport_;
    std::vector<nccl_mock::stream> streams_;
    std::vector<nccl_mock::stream*> pointers_;
    std::vector<bytes_t> taken_;
    buffers<T> data_;
    rehearsal::graph graph_;
};

/// Bits, memory and traffic of one layout, handed over directly and as a graph.
template<class T>
void matches_the_host(parallel_layout const& l, std::size_t elements, std::size_t slots = 1) {
    CAPTURE(l.replicas);
    CAPTURE(l.logical_shards);
    CAPTURE(l.reductions());
    CAPTURE(elements);
    CAPTURE(sizeof(T));
    auto const numbers = inputs<T>(l.replicas, elements * slots);
    auto wanted = numbers;
    for (int time = 0; time < 2; ++time) reduce_on_host(l, elements, wanted);

    auto const sent_before = nccl_mock::library::here().sent;
    ranks_of<T> all(l, elements, numbers);
    all.enqueue(2);
    all.finish();
    CHECK(all.holds(wanted));
    all.capture();
    all.write(numbers);
    all.launch();
    all.launch();
    all.finish();
    CHECK(all.holds(wanted));
    REQUIRE(all.transport().here().count == l.replicas);
    bytes_t moved_by_all = 0;
    for (int r = 0; r < l.replicas; ++r) {
        CHECK(all.taken(r) == ranks_of<T>::transport_type::table_bytes(l, r, elements, sizeof(T)));
        auto const moved = all.transport().moved(r), planned = l.traffic_of_rank(r, elements, sizeof(T));
        CHECK(moved.messages == planned.messages);
        CHECK(moved.bytes == planned.bytes);
        moved_by_all += moved.bytes;
    }
    if (!l.strategy.is<native>()) // which sends nothing by itself; the others did twice, and once into the graph
        CHECK(nccl_mock::library::here().sent - sent_before == 3 * moved_by_all);
}

template<class S>
void strategy_matches_the_host() {
    CAPTURE(std::string(S::name));
    for (int const ranks : {2, 3, 5, 8}) {
        parallel_layout whole;
        whole.replicas = ranks;
        whole.strategy = S{};
        auto cut = whole; // a ring behind, whatever is before
        reduction_bucket const two[] = {{{0, 67}, false, {}}, {{67, 203}, true, ring{}}};
        cut.buckets = two;
        if (ranks < 8) { // which take the stage long enough below
            nccl_on_stage const as_told(timing::late);
            matches_the_host<float>(whole, 203);
            matches_the_host<bf16>(whole, 1);
            matches_the_host<float>(cut, 203);
            stage::here().play(timing::eager);
            matches_the_host<float>(whole, 203);
        }
        for (std::uint64_t const seed : {3u, 4u}) {
            nccl_on_stage const as_told(timing::shuffled, seed);
            matches_the_host<float>(whole, seed == 3 ? 203 : 1);
            matches_the_host<bf16>(seed == 3 ? cut : whole, 203);
        }
    }
}

/// Direct, with two chunks for every rank. Rank 0 adds those at both ends of the buffer: two sums in one round.
struct around_the_end {
    static constexpr char const* name = "around the end";
    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, 2 * ranks, ranks > 1 ? 2 : 0, &step};
    }
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == 0)
            return {
                step_kind::reduce, {(2 * rank + 2 * n - 1) % (2 * n), 2}, all_others(rank, n), 0, all_others(rank, n)};
        return {step_kind::wait, 0, all_others(rank, n), 1};
    }
};

/// Four ranks that add 100 numbers in a ring.
struct ring_of_four {
    static parallel_layout layout() {
        parallel_layout l;
        l.replicas = 4;
        l.strategy = ring{};
        return l;
    }
    ranks_of<float> ranks{layout(), 100, inputs<float>(4, 100)};
};

// ---- groups of calls, for the stand-in itself ----

/// Two ranks with four numbers each.
struct pair_of_ranks {
    using kind = nccl_call::kind;
    nccl_group<rehearsal_with_nccl> group{{0, 1, 2, "", std::chrono::seconds(60)}, false};
    nccl_mock::stream streams[2] = {nccl_mock::stream(0), nccl_mock::stream(1)};
    float numbers[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};

    nccl_call call(kind what, int rank, float* data, std::size_t count, ncclDataType_t dtype = ncclFloat32) {
        return {what, rank, 1 - rank, dtype, data, count, streams[rank].handle()};
    }
    void finish() {
        for (auto& s : streams) {
            rehearsal::event done(s.device());
            s.record(done);
            REQUIRE(await(done, deadline::in(std::chrono::seconds(60))));
        }
    }
    /// Why the group of calls is refused, if it is.
    std::string refusal(std::vector<nccl_call> const& calls) {
        return text_of_error<accelerator_error>([&] { group.run(calls, {"a test"}, false); }, "");
    }
};

// ---- training ----

template<class Way, class... Policies>
using on_ranks = trainer<tiny, cross_entropy, sgd_momentum, on<mesh<rehearsal_with_nccl, dp<dynamic>>>,
                         reduce_by<chosen_at_run_time>, reproducible<fixed_tree, dynamic>, transport<Way>, Policies...>;
template<class Way>
using in_buckets = trainer<tiny, cross_entropy, sgd_momentum, on<mesh<rehearsal_with_nccl, dp<3>>>,
                           reduce_by<ring, bucket<64>>, transport<Way>>;

/// Layers that add numbers over all ranks in the middle of a step.
template<class Way>
using synchronised_on = trainer<network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, batch_norm<synchronised>,
                                        relu, flatten, linear<12>, batch_norm<synchronised>, relu, linear<10>>,
                                cross_entropy, sgd_momentum, on<mesh<rehearsal_with_nccl, dp<dynamic>>>,
                                reduce_by<chosen_at_run_time>, transport<Way>>;

template<class Trainer>
auto trained(test_networks::settings<Trainer> s) {
    s.training.batch = 24;
    rehearsed::memory_taken const taken;
    return test_networks::trained<Trainer>(s, {24, Trainer::network_type::whole_shard ? 20u : 60u},
                                           [&](Trainer const& t) { taken.is_planned(t); });
}

TEST_SUITE("rehearsed/nccl") {

    TEST_CASE("strategies have the host's bits and the plan's memory and traffic, whenever work is done") {
        strategy_matches_the_host<ring>();
        strategy_matches_the_host<direct>();
        strategy_matches_the_host<bidirectional_ring>();
        strategy_matches_the_host<recursive_halving_doubling>();
        strategy_matches_the_host<double_binary_tree>();
        strategy_matches_the_host<chain>();
        strategy_matches_the_host<hierarchical<ring, direct>>();
        strategy_matches_the_host<hierarchical<double_binary_tree, ring>>();
        strategy_matches_the_host<around_the_end>();
    }

    TEST_CASE("native is given every rank's numbers") { strategy_matches_the_host<native>(); }

    TEST_CASE("the fixed tree has its bits on any number of ranks") {
        for (int const ranks : {2, 3, 4, 7, 8})
            for (std::size_t const shards : {8u, 11u, 16u})
                for (std::size_t const elements : {1u, 203u}) {
                    nccl_on_stage const as_told(elements == 1 ? timing::late : timing::shuffled, shards);
                    parallel_layout l;
                    l.replicas = ranks;
                    l.logical_shards = shards;
                    std::size_t slots = 0;
                    for (int r = 0; r < ranks; ++r) slots = std::max(slots, l.gradient_slots(r));
                    matches_the_host<float>(l, elements, slots);
                    matches_the_host<bf16>(l, elements, slots);
                }
    }

    TEST_CASE("an error that comes later names rank, operation and bytes, and the group is given up") {
        nccl_on_stage const as_usual;
        auto& lib = nccl_mock::library::here();
        ring_of_four four;
        auto& transport = four.ranks.transport();
        four.ranks.enqueue(2);
        four.ranks.finish();
        transport.check();
        lib.failing_rank = 2;
        lib.last_words = "the switch is on fire";
        int const aborted = lib.aborted;
        auto const text = text_of_error<accelerator_error>([&] { transport.check(); });
        CAPTURE(text);
        CHECK(text.find("NCCL on rank 2 for all_reduce 0 (ring, 400 bytes): ncclRemoteError") == 0);
        CHECK(text.find("the switch is on fire") != std::string::npos);
        CHECK(lib.aborted == aborted + 4);
        CHECK(lib.communicators == 0);
        transport.check(); // it has been told
        lib.failing_rank = -1;
        CHECK(text_of_error<accelerator_error>([&] { four.ranks.enqueue(2); }).find("has been given up") !=
              std::string::npos);
    }

    TEST_CASE("a group that has been abandoned takes no work") {
        nccl_on_stage const as_usual;
        ring_of_four four;
        four.ranks.transport().abandon();
        CHECK(nccl_mock::library::here().communicators == 0);
        auto const text = text_of_error<accelerator_error>([&] { four.ranks.enqueue(2); });
        CHECK(text.find("rank 0: the group of 4 ranks has been given up after an error") == 0);
        four.ranks.transport().abandon();
    }

    TEST_CASE("a library that stays busy ends with the deadline") {
        nccl_on_stage const as_usual;
        auto& lib = nccl_mock::library::here();
        nccl_group<rehearsal_with_nccl> group({0, 1, 2, "", std::chrono::milliseconds(50)}, false);
        nccl_mock::stream s[2] = {nccl_mock::stream(0), nccl_mock::stream(1)};
        float x[2] = {1, 2};
        std::vector<nccl_call> calls;
        for (int r = 0; r < 2; ++r)
            calls.push_back({nccl_call::kind::all_reduce, r, 0, ncclFloat32, &x[r], 1, s[r].handle()});
        int const usual = std::exchange(lib.busy_polls, 1 << 30);
        auto const text = text_of_error<deadline_error>([&] { group.run(calls, {"a test"}, true); });
        lib.busy_polls = usual;
        CAPTURE(text);
        CHECK(text.find("a test on ranks 0 to 1 of 2: NCCL did not take it within the deadline of 0.05 s: ") == 0);
        CHECK(text.ends_with(if_only_slow));
    }

    TEST_CASE("the stand-in refuses what NCCL would not end, or not end well") {
        nccl_on_stage const as_usual;
        using kind = nccl_call::kind;
        auto const refused = [](char const* why, auto const& calls) {
            CAPTURE(why);
            pair_of_ranks two;
            auto const text = two.refusal(calls(two));
            CAPTURE(text);
            CHECK(text.find(why) != std::string::npos);
            CHECK(nccl_mock::library::here().communicators == 0); // the group gives itself up
        };
        using calls = std::vector<nccl_call>;
        refused("rank 0 to rank 1: 1 sent, 0 received",
                [](pair_of_ranks& p) { return calls{p.call(kind::send, 0, p.numbers[0], 4)}; });
        refused("rank 0 to rank 1: 16 bytes sent, 12 received", [](pair_of_ranks& p) {
            return calls{p.call(kind::send, 0, p.numbers[0], 4), p.call(kind::receive, 1, p.numbers[1], 3)};
        });
        refused("not by every rank once",
                [](pair_of_ranks& p) { return calls{p.call(kind::all_reduce, 0, p.numbers[0], 4)}; });
        refused("an all-reduce of different arrays", [](pair_of_ranks& p) {
            return calls{p.call(kind::all_reduce, 0, p.numbers[0], 4), p.call(kind::all_reduce, 1, p.numbers[1], 3)};
        });
        refused("memory that is written and used in one group", [](pair_of_ranks& p) {
            return calls{p.call(kind::send, 0, p.numbers[0], 2), p.call(kind::receive, 0, p.numbers[0] + 1, 2),
                         p.call(kind::send, 1, p.numbers[1], 2), p.call(kind::receive, 1, p.numbers[1] + 2, 2)};
        });
        refused("rank 1 was given a stream of device 0", [](pair_of_ranks& p) {
            auto c = calls{p.call(kind::send, 0, p.numbers[0], 4), p.call(kind::receive, 1, p.numbers[1], 4)};
            c[1].stream = c[0].stream;
            return c;
        });
        refused("rank 1 is busy", [](pair_of_ranks& p) {
            p.group.at(1).handle()->busy = 1;
            return calls{p.call(kind::send, 0, p.numbers[0], 4), p.call(kind::receive, 1, p.numbers[1], 4)};
        });

        pair_of_ranks two;
        CHECK(two.refusal({two.call(kind::send, 0, two.numbers[0], 2), two.call(kind::receive, 1, two.numbers[1], 2),
                           two.call(kind::send, 1, two.numbers[1] + 2, 2),
                           two.call(kind::receive, 0, two.numbers[0] + 2, 2)}) == "");
        two.finish();
        CHECK(two.numbers[1][0] == 1);
        CHECK(two.numbers[1][1] == 2);
        CHECK(two.numbers[0][2] == 30);
        CHECK(two.numbers[0][3] == 40);
    }

    TEST_CASE("words of scores are added whole") {
        nccl_on_stage const as_usual;
        pair_of_ranks two;
        std::uint64_t words[2][3] = {{0xFFFFFFFF00000001u, 0, 3}, {0, 0x7FF8000000000002u, 0}};
        std::vector<nccl_call> calls;
        for (int r = 0; r < 2; ++r)
            calls.push_back(
                {nccl_call::kind::all_reduce, r, 0, nccl_dtype<std::uint64_t>(), words[r], 3, two.streams[r].handle()});
        two.group.run(calls, {"all_reduce", "scores", 0, 24}, true);
        two.finish();
        for (auto const& of_rank : words) {
            CHECK(of_rank[0] == 0xFFFFFFFF00000001u);
            CHECK(of_rank[1] == 0x7FF8000000000002u);
            CHECK(of_rank[2] == 3);
        }
    }

    TEST_CASE("a training has the bits that it has over peer access") {
        for (strategy_choice const& strategy :
             {strategy_choice(ring{}), strategy_choice(direct{}), strategy_choice(double_binary_tree{})})
            for (int const ranks : {1, 2, 5}) {
                CAPTURE(strategy.name);
                CAPTURE(ranks);
                nccl_on_stage const as_told(ranks == 2 ? timing::late : timing::shuffled, 7);
                CHECK(trained<on_ranks<nccl>>({{}, {.devices = ranks, .strategy = strategy}}) ==
                      trained<on_ranks<peer>>({{}, {.devices = ranks, .strategy = strategy}}));
            }
    }

    TEST_CASE("so it has in buckets, and in a fixed tree") {
        nccl_on_stage const as_told(timing::shuffled, 11);
        CHECK(in_buckets<nccl>::plan(batch{24}).layout.reductions() > 2);
        CHECK(trained<in_buckets<nccl>>({}) == trained<in_buckets<peer>>({}));
        for (int const ranks : {2, 4})
            CHECK(trained<on_ranks<nccl>>({{.logical_shards = 6}, {.devices = ranks}}) ==
                  trained<on_ranks<peer>>({{.logical_shards = 6}, {.devices = ranks}}));
    }

    TEST_CASE("so it has where layers add numbers over all ranks, and moves what the plan says") {
        for (int const ranks : {1, 2, 5}) {
            CAPTURE(ranks);
            nccl_on_stage const as_told(timing::shuffled, 13);
            auto const over_peer = trained<synchronised_on<peer>>({{}, {.devices = ranks, .strategy = ring{}}});
            CHECK(trained<synchronised_on<nccl>>({{}, {.devices = ranks, .strategy = ring{}}}) == over_peer);
        }
    }

    TEST_CASE("a call of NCCL that may not come back is a thread's that takes no signals, and needs one") {
        bool blocked = false;
        CHECK(nccl_runtime::finishes_within(deadline::in(std::chrono::seconds(60)), [&blocked] {
            sigset_t set;
            pthread_sigmask(SIG_SETMASK, nullptr, &set);
            blocked = sigismember(&set, SIGINT) == 1;
        }));
        CHECK(blocked);
        auto const text = text_of_error<launch_error>([] {
            no_threads const none;
            nccl_runtime::finishes_within(deadline::in(std::chrono::seconds(60)), [] {});
        });
        CHECK(text.find("a call of NCCL needs a thread, and the system refuses one") != std::string::npos);
    }

    TEST_CASE("a training with native learns the same but for rounding") {
        nccl_on_stage const as_told(timing::shuffled, 5);
        auto const own = trained<on_ranks<nccl>>({{}, {.devices = 3, .strategy = native{}}});
        auto const by_ring = trained<on_ranks<peer>>({{}, {.devices = 3, .strategy = ring{}}});
        CHECK(test_support::apart(own.told, by_ring.told) < 1e-4);
        CHECK(test_support::apart(own.numbers, by_ring.numbers) < 1e-4);
    }

    TEST_CASE("several ranks of a process step without a graph, and an error during a step stops the training") {
        nccl_on_stage const as_usual;
        stage::here().forget_nothing(); // and counts the waits that captures note
        on_ranks<nccl> t({.batch = 8}, {.devices = 2, .strategy = ring{}});
        CHECK(stage::here().waits() == 0);
        on_ranks<peer> const captured({.batch = 8}, {.devices = 2, .strategy = ring{}});
        CHECK(stage::here().waits() > 0);
        auto const images = test_networks::made_up(8);
        t.step(images);
        stage::here().stalled = true;
        nccl_mock::library::here().failing_rank = 1;
        auto const text = text_of_error<device_error>([&] { t.step(images); });
        CAPTURE(text);
        CHECK(text.find(" on rank 1 for all_reduce 0 (ring, ") != std::string::npos);
        CHECK_THROWS_AS(t.step(images), usage_error);
        stage::here().stalled = false;
    }
}

} // namespace rehearsed_nccl_test

#else

TEST_SUITE("rehearsed/nccl") {
    TEST_CASE("NCCL and CUDA have headers") { test_support::left_out(true, "NCCL and CUDA have no headers here"); }
}

#endif
