// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/parallel/measured_rows.hpp>
#include <trireme/reference.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/seed.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace parallel_measured_rows_test {
using namespace trireme;
using namespace test_networks;
using test_support::has, test_support::refusal;

namespace {

/// The seconds of the slowest stage in the best of all cuts, found by trying them all.
template<class Network>
double least_slow(measured_rows<Network> const& m, std::size_t segment, int stages) {
    auto const& s = segments_of<Network>;
    if (stages == 1) return m.seconds({s.begin[segment], Network::depth});
    double best = std::numeric_limits<double>::infinity();
    for (auto end = segment + 1; end + static_cast<std::size_t>(stages) - 1 <= s.count; ++end)
        best = std::min(best, std::max(m.seconds({s.begin[segment], s.begin[end]}), least_slow(m, end, stages - 1)));
    return best;
}

template<class Network>
void is_balanced(measured_rows<Network> const& m, int most) {
    for (int stages = 1; stages <= most; ++stages) {
        CAPTURE(stages);
        std::size_t at = 0;
        double slowest = 0;
        for (int s = 0; s < stages; ++s) {
            auto const rows = m.rows(stages, s);
            CHECK(rows.begin == at);
            CHECK(rows.size() > 0);
            CHECK(segments_of<Network>.has(rows.begin));
            slowest = std::max(slowest, m.seconds(rows));
            at = rows.end;
        }
        CHECK(at == Network::depth);
        auto const least = least_slow(m, 0, stages);
        CHECK(slowest == doctest::Approx(least).epsilon(1e-9));
        auto const all = m.seconds({0, Network::depth});
        CHECK(m.imbalance(stages) == doctest::Approx(all > 0 ? least * stages / all : 1).epsilon(1e-9));
    }
}

/// Times that nobody measured: from `unit` up to a thousand times as long, some rows none.
template<class Network>
measured_rows<Network> made_up_seconds(std::uint64_t seed, double unit) {
    random_stream const random(seed, random_purpose::user);
    measured_rows<Network> m;
    for (std::size_t r = 0; r < Network::depth; ++r) {
        auto const seconds = [&](std::uint64_t i) {
            return random.below(2 * i, 4) == 0 ? 0.0 : unit * std::pow(1e3, random.uniform(2 * i + 1));
        };
        m.forward[r] = seconds(2 * r);
        m.backward[r] = seconds(2 * r + 1);
    }
    return m;
}

template<class Network, class Kernels = portable, class T = float>
void times_each_row(std::size_t samples) {
    auto const m = measure_rows<Network, Kernels, T>(samples, 1);
    for (std::size_t r = 0; r < Network::depth; ++r) {
        CAPTURE(r);
        CHECK(std::isfinite(m.forward[r]));
        CHECK(m.forward[r] >= 0);
        CHECK(m.backward[r] >= 0);
        if (r < Network::first_trainable) CHECK(m.backward[r] == 0);
    }
    CHECK(m.seconds({0, Network::depth}) > 0);
    is_balanced(m, 3);
}

using normed = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, shard_norm, relu, flatten, linear<12>, shard_norm,
                       sigmoid, linear<10>>;

using dense_of_doubles = network<input<20>, linear<16>, repeat<3, relu, linear<16>>, linear<4>>;

/// A layer that counts its calls.
struct counted {
    static inline int there = 0, inputs = 0, weights = 0, overflows = 0;
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"gain", make_shape(1), 1, 1, initial::ones};
        return d;
    }
    static void forward(auto const& io) {
        ++there;
        for (std::size_t i = 0; i < io.x.size(); ++i) {
            io.y[i] = io.x[i];
            if (!(std::abs(io.x[i]) <= 1)) ++overflows;
        }
    }
    static void backward_input(auto const& io) {
        ++inputs;
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = io.dy[i];
    }
    static void backward_weights(auto const& io) {
        ++weights;
        for (std::size_t i = 0; i < io.dy.size(); ++i)
            if (!(std::abs(io.dy[i]) <= 1)) ++overflows;
    }
};

} // namespace

TEST_SUITE("parallel/measured_rows") {
    TEST_CASE("the slowest stage is as fast as in any other cut") {
        auto const seed = test_seed();
        CAPTURE(seed);
        for (std::uint64_t i = 0; i < 20; ++i)
            for (double const unit : {1e-9, 1.0, 1e6}) {
                is_balanced(made_up_seconds<lenet>(seed + i, unit), 7);
                is_balanced(made_up_seconds<every_layer>(seed + i, unit), 4);
            }
        is_balanced(measured_rows<lenet>{}, 7); // no row takes any time
    }

    TEST_CASE("a measurement says which policy balances it") {
        measured_rows<lenet> m; // 0 2 3 5 7 9 11: rows at which a stage may begin
        m.forward[0] = 1, m.backward[0] = 2, m.forward[3] = 1, m.forward[7] = 2, m.backward[11] = 4;
        CHECK(m.seconds({0, 3}) == 3);
        CHECK(m.seconds({0, lenet::depth}) == 10);
        CHECK(m.policy(1) == "stages_by<cut_before<>>");
        CHECK(m.policy(2) == "stages_by<cut_before<11>>");
        CHECK(m.policy(3) == "stages_by<cut_before<7, 11>>");
        CHECK(m.imbalance(1) == 1);
        CHECK(m.imbalance(2) == doctest::Approx(6.0 / 5));
        CHECK(m.imbalance(3) == doctest::Approx(4.0 * 3 / 10));
        for (int s = 0; s < 3; ++s) {
            CHECK(m.rows(3, s).begin == cut_before<7, 11>::rows<lenet>(3, s).begin);
            CHECK(m.rows(3, s).end == cut_before<7, 11>::rows<lenet>(3, s).end);
        }
    }

    TEST_CASE("every row of a network is timed, by the kernels and in the precision that are asked for") {
        times_each_row<lenet>(16);
        times_each_row<lenet>(3);
        times_each_row<dense_of_doubles, portable, double>(5);
        times_each_row<small, reference>(3);
        times_each_row<every_layer>(20);
        times_each_row<normed>(2);
        times_each_row<every_sum>(17);
    }

    TEST_CASE("a row goes there and back once per granule and round, and one more time at first") {
        using net = network<input<8>, counted, counted>;
        constexpr auto lanes = portable::lanes<float>;
        for (std::size_t const granules : {1u, 3u}) {
            counted::there = counted::inputs = counted::weights = 0;
            measure_rows<net>(granules * lanes - 1, 4);
            auto const passes = static_cast<int>(granules) * 5;
            CHECK(counted::there == 2 * passes);
            CHECK(counted::weights == 2 * passes);
            CHECK(counted::inputs == passes); // none before the first layer that is trained
            CHECK(counted::overflows == 0);   // made-up numbers are small ones
        }
    }

    TEST_CASE("what cannot be timed, or cut, is refused with what could be") {
        measured_rows<lenet> m;
        CHECK(has(refusal([&] { m.policy(8); }), "stages = 8: this network can be cut into 1 to 7 stages"));
        CHECK(has(refusal([&] { m.policy(0); }), "stages = 0: this network can be cut into 1 to 7 stages"));
        CHECK(has(refusal([&] { m.imbalance(-1); }), "stages = -1"));
        CHECK(has(refusal([&] { m.rows(2, 2); }), "stage = 2: 2 stages have the numbers from 0 on"));
        CHECK(has(refusal([&] { m.rows(2, -1); }), "stage = -1"));
        m.backward[5] = -1;
        CHECK(has(refusal([&] { m.rows(2, 0); }), "row 5 takes -1.0"));
        m.backward[5] = std::numeric_limits<double>::quiet_NaN();
        CHECK(has(refusal([&] { m.policy(2); }), "row 5 takes"));
        m.backward[5] = std::numeric_limits<double>::infinity();
        CHECK(has(refusal([&] { m.imbalance(2); }), "a time is a finite number"));
        using tied_often = network<input<9>, linear<9>, sigmoid, tied<0>, sigmoid, tied<0>, sigmoid, tied<0>>;
        CHECK(measure_rows<tied_often>(4, 1).backward[4] > 0);
        CHECK(has(refusal([] { measure_rows<lenet>(0); }), "samples = 0: rows are timed with at least one sample"));
        CHECK(has(refusal([] { measure_rows<lenet>(4, 0); }), "rounds = 0: rows are timed at least once"));
        CHECK(has(refusal([] { measure_rows<normed>(1); }), "samples = 1: layer 6 trains on at least 2"));
    }
}

} // namespace parallel_measured_rows_test
