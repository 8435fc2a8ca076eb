// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/parallel/stages.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <algorithm>
#include <cstddef>
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

/// The FLOPs of the busiest stage in the best of all cuts, found by trying them all.
template<class Network>
flops_t least_busy(std::size_t segment, int stages) {
    auto const& s = segments_of<Network>;
    if (stages == 1) return flops<Network>({s.begin[segment], Network::depth});
    flops_t best = ~flops_t{0};
    for (auto end = segment + 1; end + static_cast<std::size_t>(stages) - 1 <= s.count; ++end)
        best = std::min(
            best, std::max(flops<Network>({s.begin[segment], s.begin[end]}), least_busy<Network>(end, stages - 1)));
    return best;
}

template<class Network>
void is_balanced(int most) {
    for (int stages = 1; stages <= most; ++stages) {
        CAPTURE(stages);
        std::size_t at = 0;
        flops_t busiest = 0;
        for (int s = 0; s < stages; ++s) {
            auto const rows = balanced_by_flops::rows<Network>(stages, s);
            CHECK(rows.begin == at);
            CHECK(rows.size() > 0);
            CHECK(segments_of<Network>.has(rows.begin));
            busiest = std::max(busiest, flops<Network>(rows));
            at = rows.end;
        }
        CHECK(at == Network::depth);
        CHECK(busiest == least_busy<Network>(0, stages));
    }
}

using dense = network<input<100>, linear<64>, repeat<4, relu, linear<64>>, relu, linear<10>>;

} // namespace

TEST_SUITE("parallel/stages") {
    TEST_CASE("a network is cut where one value crosses, and a function stays with its layer") {
        auto const borders = [](auto const& segments) {
            return std::vector<std::size_t>(segments.begin, segments.begin + segments.count + 1);
        };
        CHECK(borders(segments_of<lenet>) == std::vector<std::size_t>{0, 2, 3, 5, 7, 9, 11, 12});
        using net = network<input<2, 4, 4>, conv3<2>, residual<sequential<conv3<2>, relu, conv3<2>>>, relu, conv3<2>,
                            flatten, linear<3>>; // conv2d, fork, conv2d, relu, conv2d, branch, sum, relu, conv2d, ...
        CHECK(borders(segments_of<net>) == std::vector<std::size_t>{0, 1, 7, 8, 10, 11});
        CHECK(segments_of<network<input<3>, relu, flatten>>.count == 1);
    }

    TEST_CASE("the busiest stage has as little to do as in any other cut") {
        is_balanced<lenet>(7);
        is_balanced<dense>(6);
        is_balanced<every_layer>(5);
    }

    TEST_CASE("cuts are constants, by hand, too") {
        static_assert(balanced_by_flops::rows<lenet>(2, 1).begin == 3);
        static_assert(cut_before<3, 7>::rows<lenet>(3, 1).begin == 3 && cut_before<3, 7>::rows<lenet>(3, 1).end == 7);
        static_assert(cut_before<3, 7>::rows<lenet>(3, 2).end == lenet::depth && cut_before<3, 7>::stages == 3);
    }
}

} // namespace parallel_stages_test
