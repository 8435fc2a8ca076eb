// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/device/cuda/device.hpp>
#include <trireme/schedule/collective/bidirectional_ring.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/trainer/nccl_transport.hpp>
#include <trireme/trainer/options.hpp>

#include "../group/nccl_processes.hpp"

#include <support/compare.hpp>
#include <support/host_collectives.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace trireme;

namespace nccl_test {

using seconds = std::chrono::duration<double>;
using transport_type = nccl_transport<gpu, float>;
using namespace test_host_collectives;

/// A transport is told these of a trainer's options.
struct options {
    seconds deadline{60};
    chosen_option<bool> share_devices;
    chosen_option<process_of> processes;
};

/// One rank on one GPU, and its way to the others.
class member {
public:
    member(role const& r, parallel_layout const& l, std::size_t elements, std::size_t slots)
        : layout_(l), elements_(elements), transport_(l, told(r)), queue_(transport_.device_of(0)),
          data_(transport_.device_of(0), elements * slots * sizeof(float), "numbers of a test"),
          words_(transport_.device_of(0), 64 * sizeof(std::uint64_t), "words of a test"),
          host_(std::max(elements * slots * sizeof(float), 64 * sizeof(std::uint64_t))),
          done_(transport_.device_of(0)) {
        transport_.prepare(0, {static_cast<float*>(data_.data())}, elements);
    }

    int rank() const { return transport_.here().first; }
    transport_type& transport() { return transport_; }

    void write(std::vector<float> const& values) {
        std::memcpy(host_.data(), values.data(), values.size() * sizeof(float));
        queue_.copy(data_.data(), host_.data(), values.size() * sizeof(float));
        finish();
    }
    std::vector<float> read(std::size_t n) {
        queue_.copy(host_.data(), data_.data(), n * sizeof(float));
        finish();
        auto const* const p = static_cast<float const*>(host_.data());
        return {p, p + n};
    }

    void enqueue() {
        gpu::stream* const streams[] = {&queue_};
        for (std::size_t i = 0; i < layout_.reductions(); ++i) transport_.enqueue(0, 0, i, streams);
    }
    void capture() {
        queue_.begin_capture();
        enqueue();
        graph_ = std::make_unique<gpu::graph>(queue_.end_capture());
    }
    void launch() { queue_.launch(*graph_); }

    std::vector<std::uint64_t> share(std::vector<std::uint64_t> const& words) {
        gpu::stream* const streams[] = {&queue_};
        std::uint64_t* const places[] = {static_cast<std::uint64_t*>(words_.data())};
        auto const bytes = words.size() * sizeof words[0];
        std::memcpy(host_.data(), words.data(), bytes);
        queue_.copy(words_.data(), host_.data(), bytes);
        transport_.enqueue_scores(places, words.size(), streams);
        queue_.copy(host_.data(), words_.data(), bytes);
        finish();
        auto const* const p = static_cast<std::uint64_t const*>(host_.data());
        return {p, p + words.size()};
    }

private:
    static options told(role const& r) {
        options o;
        if (r.count > 1) o.processes = process_of{r.index, r.count, r.file};
        return o;
    }
    void finish() {
        queue_.record(done_);
        auto const end = deadline::in(seconds(120));
        while (!await(done_, deadline::in(std::chrono::milliseconds(20)))) {
            transport_.check();
            if (!end.passed()) continue;
            transport_.abandon();
            FAIL("the GPU did not finish");
        }
    }

    parallel_layout layout_;
    std::size_t elements_;
    transport_type transport_; // goes last
    gpu::stream queue_;
    gpu::memory data_, words_;
    gpu::pinned_memory host_;
    gpu::event done_{0};
    std::unique_ptr<gpu::graph> graph_;
};

using test_support::same_bits;

/// One layout, eagerly and as a graph, against the host.
void compare(role r, parallel_layout const& l, std::size_t elements) {
    r.file += "." + std::string(l.reproducible() ? "tree" : l.strategy.name) + std::to_string(elements);
    std::replace(r.file.begin() + static_cast<std::ptrdiff_t>(r.file.rfind('/')) + 1, r.file.end(), ' ', '_');
    std::size_t slots = 1;
    for (int k = 0; k < l.replicas && l.reproducible(); ++k) slots = std::max(slots, l.gradient_slots(k));
    member m(r, l, elements, slots);
    auto const in = inputs<float>(l.replicas, elements * slots);
    auto const& mine = in[index(m.rank())];
    auto wanted = in;
    bool const ours = !l.strategy.is<native>();
    if (l.reproducible())
        wanted[index(m.rank())] = tree_sum(l, elements, in);
    else if (auto const s = l.reduction(0, elements, sizeof(float)); ours)
        pull(s, {0, elements}, wanted);
    auto const right = [&](std::vector<float> const& got) {
        if (ours || l.replicas == 1) return same_bits(got, wanted[index(m.rank())]);
        for (std::size_t e = 0; e < elements; ++e) {
            double sum = 0, size = 0;
            for (auto const& of_rank : in) {
                sum += static_cast<double>(of_rank[e]);
                size += std::abs(static_cast<double>(of_rank[e]));
            }
            if (!(std::abs(static_cast<double>(got[e]) - sum) <= 1e-6 * size)) return false;
        }
        return true;
    };
    if (l.reproducible() && l.replicas == 1) return; // nothing to exchange
    m.write(mine);
    m.enqueue();
    CHECK(right(m.read(elements)));
    m.capture();
    std::vector<float> first;
    for (int k = 0; k < 3; ++k) {
        m.write(mine);
        m.launch();
        auto const got = m.read(elements);
        CHECK(right(got));
        if (k == 0) first = got;
        CHECK(same_bits(got, first));
    }
    auto const moved = m.transport().moved(0), planned = l.traffic_of_rank(m.rank(), elements, sizeof(float));
    if (l.replicas > 1) {
        CHECK(moved.messages == planned.messages);
        CHECK(moved.bytes == planned.bytes);
    }
}

template<class S>
void compare_strategy(role const& r) {
    parallel_layout l;
    l.replicas = std::max(1, r.count);
    l.strategy = S{};
    for (std::size_t const elements : {std::size_t{1}, std::size_t{1003}, std::size_t{300000}}) {
        CAPTURE(std::string(S::name));
        CAPTURE(elements);
        compare(r, l, elements);
    }
}

void compare_all(role const& r) {
    compare_strategy<native>(r);
    compare_strategy<ring>(r);
    compare_strategy<direct>(r);
    compare_strategy<bidirectional_ring>(r);
    compare_strategy<recursive_halving_doubling>(r);
    compare_strategy<double_binary_tree>(r);
    compare_strategy<chain>(r);
    compare_strategy<hierarchical<ring, ring>>(r);
    parallel_layout l;
    l.replicas = std::max(1, r.count);
    l.logical_shards = 7;
    compare(r, l, 1003);
}

} // namespace nccl_test
using namespace nccl_test;

TEST_SUITE("collective/nccl") {
    TEST_CASE("one rank: nothing moves") {
        compare_all({});
        parallel_layout const l;
        member m({}, l, 10, 1);
        CHECK(m.share({1, 2, 3}) == std::vector<std::uint64_t>{1, 2, 3});
        CHECK(transport_type::table_bytes(l, 0, 10, sizeof(float)) == 0);
    }

    TEST_CASE("NCCL's own, and a schedule, on a group of one rank") {
        nccl_group<gpu> group({0, 1, 1, "", seconds(60)}, false);
        gpu::stream queue(group.device_of(0));
        gpu::memory data(group.device_of(0), 400, "numbers of a test");
        gpu::event done(group.device_of(0));
        gpu::stream* const streams[] = {&queue};
        auto* const p = static_cast<float*>(data.data());
        nccl_collective<gpu, float> own(group, native{}, 0, 100, {p});
        nccl_collective<gpu, float> by_ring(group, ring::all_reduce(1), 1, {100, sizeof(float), 1}, {{p, p}},
                                            {nullptr});
        own.enqueue(streams);
        own.enqueue(streams);
        by_ring.enqueue(streams);
        queue.record(done);
        CHECK(await(done, deadline::in(seconds(30))));
        CHECK(own.moved(0).bytes == 0);
        group.check();
    }

    TEST_CASE("child: every strategy" * doctest::skip()) {
        auto const r = role::mine();
        try {
            parallel_layout l;
            l.replicas = r.count;
            member m(r, l, 1, 1);
            std::vector<std::uint64_t> words(40), wanted(40);
            for (std::size_t i = 0; i < words.size(); ++i) {
                wanted[i] = 0xFFFFFFFF00000000u + i; // bits of no number in particular
                if (i % index(r.count) == index(r.index)) words[i] = wanted[i];
            }
            CHECK(m.share(words) == wanted);
        } catch (accelerator_error const& e) {
            return r.skip(e.what());
        }
        compare_all(r);
    }
    TEST_CASE("several ranks: the bits and the traffic of the host's, eagerly and as a graph") {
        for (int const count : {2, 3, 4}) {
            CAPTURE(count);
            folder const f;
            processes all("child: every strategy", count, f);
            for (int k = 0; k < count; ++k) {
                int const code = all.end_of(index(k), 550);
                if (skipped(f)) return;
                CHECK(code == 0);
            }
        }
    }
}
