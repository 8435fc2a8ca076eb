// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/layer/host_pass.hpp>

#include <trireme/device/host/memory.hpp>
#include <trireme/kernels/portable.hpp>
#include <trireme/kernels/reference/policy.hpp>
#include <trireme/layer/activation.hpp>
#include <trireme/layer/batch_norm.hpp>
#include <trireme/layer/conv2d.hpp>
#include <trireme/layer/dropout.hpp>
#include <trireme/layer/flatten.hpp>
#include <trireme/layer/linear.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/pool2d.hpp>

#include "one_sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace layer_host_pass_test {
using namespace trireme;

namespace {

struct cut_granule {
    std::size_t lanes, begin, end;
};

template<class Kernels, class T>
std::vector<cut_granule> granules(range samples) {
    std::vector<cut_granule> seen;
    for_granules<Kernels, T>(samples, [&]<std::size_t Lanes>(lane_count<Lanes>, range const& r) {
        static_assert(Lanes == 1 || Lanes == Kernels::template lanes<T>);
        seen.push_back({Lanes, r.begin, r.end});
    });
    return seen;
}

/// Every sample once and in order; full granules, then one that is not full or the last few one by one.
template<class Kernels, class T>
void check_cuts() {
    constexpr std::size_t lanes = Kernels::template lanes<T>, few = Kernels::template one_by_one<T>;
    for (std::size_t const first : {0u, 5u})
        for (std::size_t n = 0; n <= 70; ++n) {
            CAPTURE(first);
            CAPTURE(n);
            std::size_t next = first;
            bool right = true;
            auto const seen = granules<Kernels, T>({first, first + n});
            for (auto const& g : seen) {
                auto const left = first + n - next;
                right = right && g.begin == next && g.end > g.begin && g.end - g.begin <= g.lanes;
                if (left <= few)
                    right = right && g.lanes == 1;
                else
                    right = right && g.lanes == lanes && (g.end - g.begin == lanes || g.end == first + n);
                next = g.end;
            }
            CHECK(right);
            CHECK(next == first + n);
            auto const rest = n % lanes;
            CHECK(seen.size() == n / lanes + (rest <= few ? rest : 1));
        }
}

/// Granules of four, but never for fewer.
struct patient : portable {
    template<class T>
    static constexpr std::size_t lanes = 4;
    template<class T>
    static constexpr std::size_t one_by_one = 3;
};

} // namespace

TEST_SUITE("layer/host_pass") {
    TEST_CASE("samples are cut into granules, the last few one by one") {
        check_cuts<portable, float>();
        check_cuts<portable, double>();
        check_cuts<reference, float>();
        check_cuts<reference, double>();
        check_cuts<one_sample, float>();
        check_cuts<patient, float>();
    }

    TEST_CASE("dropout<percent<P>> drops P of a hundred, scales what it keeps, and leaves an evaluation alone") {
        using net = network<input<1000>, dropout<percent<20>>>;
        using pass_type = host_pass<net, portable, float>;
        host_memory const memory(pass_type::elements(pass_type::one) * sizeof(float));
        constexpr auto lanes = pass_type::lanes, values = 1000 * lanes;
        detail::model_numbers<float> const model;
        pass_type const pass(pass_type::one, static_cast<float*>(memory.data()), model,
                             {1, 1, 0, 0, lanes, lanes, lanes});
        std::fill_n(pass.input(), values, 3.0f);
        pass.forward();
        std::size_t dropped = 0, kept = 0;
        for (std::size_t i = 0; i < values; ++i) {
            dropped += pass.output()[i] == 0;
            kept += pass.output()[i] == 3.0f * 1.25f;
        }
        CHECK(dropped + kept == values);
        CHECK(static_cast<double>(dropped) / values == doctest::Approx(0.2).epsilon(0.1).scale(0));
        std::fill_n(pass.input(), values, 3.0f);
        pass.evaluate();
        CHECK(std::count(pass.output(), pass.output() + values, 3.0f) == values);
    }

    TEST_CASE("by hand") {
        auto const seen = granules<patient, float>({10, 21}); // 4, 4, 1, 1, 1
        REQUIRE(seen.size() == 5);
        CHECK((seen[1].lanes == 4 && seen[1].begin == 14 && seen[1].end == 18));
        CHECK((seen[2].lanes == 1 && seen[2].begin == 18 && seen[2].end == 19));
        CHECK((seen[4].lanes == 1 && seen[4].begin == 20 && seen[4].end == 21));
        CHECK(granules<portable, float>({3, 3}).empty());
        CHECK(granules<reference, double>({0, 3}).size() == 3);
    }

    TEST_CASE("narrow granules are for networks all of whose layers take them") {
        using net = network<input<1, 8, 8>, conv2d<4, kernel<3>>, relu, max_pool2d<2>, flatten, linear<10>>;
        using pass_type = host_pass<net, portable, float>;
        constexpr bool wide = full_register<float> >= 8;
        static_assert(pass_type::narrows == wide);
        static_assert(!host_pass<network<input<1, 8, 8>, conv2d<4, kernel<3>, stride<2>>>, portable, float>::narrows);
        static_assert(!host_pass<network<input<40>, linear<32>, dropout<percent<20>>>, portable, float>::narrows);
        static_assert(
            !host_pass<network<input<1, 8, 8>, conv2d<4, kernel<3>>, batch_norm<per_shard>>, portable, float>::narrows);
        static_assert(!host_pass<net, patient, float>::narrows); // it has kernels of its own, perhaps
        static_assert(!host_pass<net, reference, float>::narrows);
        if constexpr (portable::lanes<float> == 16) {
            auto const cut = [](std::size_t samples) {
                std::vector<std::size_t> lanes;
                for_granules<portable, float, true>({0, samples}, [&]<std::size_t N>(lane_count<N>, range const& some) {
                    lanes.push_back(N == 1 ? 1 : pass_type::lanes_for(some.size()));
                });
                return lanes;
            };
            using all = std::vector<std::size_t>;
            CHECK(cut(2) == all{1, 1});
            CHECK(cut(3) == all{4});
            CHECK(cut(5) == all{4, 1});
            CHECK(cut(6) == all{8});
            CHECK(cut(8) == all{8});
            CHECK(cut(9) == all{8, 1});
            CHECK(cut(12) == all{8, 4});
            CHECK(cut(13) == all{16});
            CHECK(cut(40) == all{16, 16, 8});
            CHECK(pass_type::places_of(21) == 21);
            CHECK(pass_type::places_of(22) == 24);
            CHECK(pass_type::places_of(19) == 20);
        }
    }

    TEST_CASE("a policy that does not speak of few samples takes none one by one") {
        static_assert(reference::one_by_one<float> == 0);
        static_assert(portable::one_by_one<float> != 0);
        static_assert(portable::one_by_one<float> < portable::lanes<float>);
        static_assert(portable::one_by_one<double> < portable::lanes<double>);
    }
}

} // namespace layer_host_pass_test
