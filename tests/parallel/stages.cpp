// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/parallel/stages.hpp>

#include <trireme/layer/activation_plan.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace parallel_stages_test {
using namespace trireme;
using namespace test_networks;

namespace {

template<class Network>
flops_t flops(range rows) {
    flops_t sum = 0;
    for (auto r = rows.begin; r < rows.end; ++r) {
        auto const& d = Network::row(r).description;
        sum += d.forward_flops;
        if (r >= Network::first_trainable) sum += d.backward_weights_flops;
        if (r > Network::first_trainable) sum += d.backward_input_flops;
    }
    return sum;
}

/// The slots of the values that some rows read on the way back. A view stands for what it is a view of, as far as that
/// is in these rows.
template<class Network>
std::set<std::size_t> read_back(range rows) {
    std::set<std::size_t> slots;
    auto const reads = [&](std::size_t slot) {
        while (slot > rows.begin && Network::row(slot - 1).description.execution.view)
            slot = Network::row(slot - 1).from;
        slots.insert(slot);
    };
    for (auto r = std::max(rows.begin, Network::first_trainable); r < rows.end; ++r) {
        auto const& row = Network::row(r);
        if (row.description.execution.backward_reads_input) reads(row.from);
        if (row.description.execution.backward_reads_output) reads(r + 1);
    }
    return slots;
}
template<class Network>
std::uint64_t values_of(std::size_t slot) {
    return slot == 0 ? Network::row(0).input.size() : Network::row(slot - 1).description.output.size();
}
template<class Network>
std::uint64_t numbers(range rows, std::size_t samples, std::size_t per_parameter) {
    std::uint64_t sum = 0;
    for (auto const slot : read_back<Network>(rows)) sum += samples * values_of<Network>(slot);
    for (auto r = rows.begin; r < rows.end; ++r)
        sum += per_parameter * Network::row(r).description.parameter_elements();
    return sum;
}

/// The cost of the costliest stage in the best of all cuts, found by trying them all.
template<class Network, class Cost>
auto least_costly(Cost const& cost, std::size_t segment, int stages) {
    auto const& s = segments_of<Network>;
    if (stages == 1) return cost({s.begin[segment], Network::depth});
    auto best = std::numeric_limits<decltype(cost(range{}))>::max();
    for (auto end = segment + 1; end + static_cast<std::size_t>(stages) - 1 <= s.count; ++end)
        best = std::min(best,
                        std::max(cost({s.begin[segment], s.begin[end]}), least_costly<Network>(cost, end, stages - 1)));
    return best;
}

template<class Network, class Cut, class Cost>
void is_balanced(int most, Cost const& cost) {
    for (int stages = 1; stages <= most; ++stages) {
        CAPTURE(stages);
        std::size_t at = 0;
        auto costliest = cost({0, 0});
        for (int s = 0; s < stages; ++s) {
            auto const rows = Cut::template rows<Network>(stages, s);
            CHECK(rows.begin == at);
            CHECK(rows.size() > 0);
            CHECK(segments_of<Network>.has(rows.begin));
            costliest = std::max(costliest, cost(rows));
            at = rows.end;
        }
        CHECK(at == Network::depth);
        CHECK(costliest == least_costly<Network>(cost, 0, stages));
    }
}
template<class Network>
void flops_are_balanced(int most) {
    is_balanced<Network, balanced_by_flops>(most, [](range rows) { return flops<Network>(rows); });
}
template<class Network, std::size_t Samples, std::size_t PerParameter>
void memory_is_balanced(int most) {
    CAPTURE(Samples);
    is_balanced<Network, balanced_by_memory_of<Samples, PerParameter>>(
        most, [](range rows) { return numbers<Network>(rows, Samples, PerParameter); });
}
template<class Network>
void memory_is_balanced(int most) {
    memory_is_balanced<Network, 32, 3>(most);
    memory_is_balanced<Network, 1, 4>(most);
    memory_is_balanced<Network, 1000, 0>(most);
    memory_is_balanced<Network, 0, 1>(most);
    is_balanced<Network, balanced_by_memory>(most, [](range rows) { return numbers<Network>(rows, 32, 3); });
}

/// Each stage that the network may have costs what its frame of a micro-batch of 16 samples holds: the values that it
/// reads on the way back. Frames hold besides what a stage gets and sends on, and the gradient that comes back.
template<class Network>
void costs_are_those_of_frames() {
    auto const& s = segments_of<Network>;
    for (std::size_t a = 0; a < s.count; ++a)
        for (auto b = a + 1; b <= s.count; ++b) {
            range const rows{s.begin[a], s.begin[b]};
            CAPTURE(rows.begin);
            CAPTURE(rows.end);
            auto const values = detail::held_by_stages<Network, 1, 0>.of({a, b});
            CHECK(values == numbers<Network>(rows, 1, 0));
            CHECK(detail::held_by_stages<Network, 7, 2>.of({a, b}) == numbers<Network>(rows, 7, 2));
            auto const plan = plan_activations<Network>(16, sizeof(float), weight_gradients::at_once,
                                                        way_of_samples::together, rows, 16);
            auto const read = read_back<Network>(rows);
            auto last = rows.end;
            while (last > rows.begin && Network::row(last - 1).description.execution.view)
                last = Network::row(last - 1).from;
            auto passes = values_of<Network>(rows.end); // a gradient
            if (!read.contains(last)) passes += values_of<Network>(last);
            if (rows.begin > 0 && last != rows.begin && !read.contains(rows.begin))
                passes += values_of<Network>(rows.begin);
            CHECK(plan.kept == 16 * (values + passes));
        }
}

using dense = network<input<100>, linear<64>, repeat<4, relu, linear<64>>, relu, linear<10>>;
/// A view is the first row, and functions without parameters stand before the first layer that is trained.
using flat_from_the_first =
    network<input<2, 4, 4>, sigmoid, flatten, linear<9>, hyperbolic_tangent, linear<8>, relu, linear<4>, linear<3>>;

} // namespace

TEST_SUITE("parallel/stages") {
    TEST_CASE(
        "a network is cut where one value crosses, and a function stays with its layer, and what a bias cancels in") {
        auto const borders = [](auto const& segments) {
            return std::vector<std::size_t>(segments.begin, segments.begin + segments.count + 1);
        };
        CHECK(borders(segments_of<lenet>) == std::vector<std::size_t>{0, 2, 3, 5, 7, 9, 11, 12});
        using net = network<input<2, 4, 4>, conv3<2>, residual<sequential<conv3<2>, relu, conv3<2>>>, relu, conv3<2>,
                            flatten, linear<3>>; // conv2d, fork, conv2d, relu, conv2d, branch, sum, relu, conv2d, ...
        CHECK(borders(segments_of<net>) == std::vector<std::size_t>{0, 1, 8, 10, 11});
        using normed = network<input<2, 4, 4>, conv3<2>, batch_norm<per_shard>, relu, batch_norm<per_shard>, flatten,
                               linear<4>, batch_norm<per_shard>>; // a bias cancels behind a convolution
        CHECK(borders(segments_of<normed>) == std::vector<std::size_t>{0, 3, 5, 6, 7});
        CHECK(segments_of<network<input<3>, relu, flatten>>.count == 1);
    }

    TEST_CASE("the busiest stage has as little to do as in any other cut") {
        flops_are_balanced<lenet>(7);
        flops_are_balanced<dense>(6);
        flops_are_balanced<every_layer>(5);
    }

    TEST_CASE("the stage that needs the most memory needs as little as in any other cut") {
        memory_is_balanced<lenet>(7);
        memory_is_balanced<dense>(6);
        memory_is_balanced<every_layer>(5);
        memory_is_balanced<flat_from_the_first>(4);
    }

    TEST_CASE("the memory that is balanced is that of parameters and of a micro-batch's frame") {
        costs_are_those_of_frames<lenet>();
        costs_are_those_of_frames<dense>();
        costs_are_those_of_frames<every_layer>();
        costs_are_those_of_frames<flat_from_the_first>();
    }

    TEST_CASE("FLOPs and memory are in different layers: early images, late weights") {
        static_assert(balanced_by_flops::rows<lenet>(2, 1).begin == 3);
        static_assert(balanced_by_memory::rows<lenet>(2, 1).begin == 7);
        static_assert(balanced_by_memory_of<0>::rows<lenet>(2, 1).begin == 9); // behind 48,120 of 61,706 weights
        static_assert(balanced_by_memory_of<10'000, 0>::rows<lenet>(2, 1).begin == 3);
    }

    TEST_CASE("cuts are constants, by hand, too") {
        static_assert(balanced_by_flops::rows<lenet>(2, 1).begin == 3);
        static_assert(cut_before<3, 7>::rows<lenet>(3, 1).begin == 3 && cut_before<3, 7>::rows<lenet>(3, 1).end == 7);
        static_assert(cut_before<3, 7>::rows<lenet>(3, 2).end == lenet::depth && cut_before<3, 7>::stages == 3);
    }
}

} // namespace parallel_stages_test
