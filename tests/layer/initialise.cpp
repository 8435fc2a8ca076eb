// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <cmath>

namespace layer_initialise_test {
using namespace trireme;

namespace {

struct moments {
    double mean = 0, variance = 0, largest = 0;
};

template<class Method>
moments of_weights() {
    using net = network<input<300>, linear<200>>;
    std::vector<float> p(net::parameters, 9.0f);
    initialise_parameters<net, Method>(p.data(), 42);
    moments m;
    constexpr std::size_t n = 300 * 200;
    for (std::size_t i = 0; i < n; ++i) {
        m.mean += static_cast<double>(p[i]) / n;
        m.variance += static_cast<double>(p[i]) * static_cast<double>(p[i]) / n;
        m.largest = std::max(m.largest, std::abs(static_cast<double>(p[i])));
    }
    for (std::size_t i = n; i < p.size(); ++i) CHECK(p[i] == 0.0f); // biases
    return m;
}

} // namespace

TEST_SUITE("layer/initialise") {
    TEST_CASE("Xavier's variance is 2 / (fan_in + fan_out), He's 2 / fan_in") {
        for (auto const& [m, variance] :
             {std::pair{of_weights<xavier_uniform>(), 2.0 / 500}, std::pair{of_weights<xavier_normal>(), 2.0 / 500},
              std::pair{of_weights<he_uniform>(), 2.0 / 300}, std::pair{of_weights<he_normal>(), 2.0 / 300}}) {
            CHECK(m.variance == doctest::Approx(variance).epsilon(0.03).scale(0)); // far below 1
            CHECK(std::abs(m.mean) < 4 * std::sqrt(variance / 60000));
        }
        CHECK(of_weights<xavier_uniform>().largest <= std::sqrt(6.0 / 500));
        CHECK(of_weights<he_uniform>().largest <= std::sqrt(6.0 / 300));
        CHECK(of_weights<he_normal>().largest > std::sqrt(6.0 / 300)); // a normal one has tails
    }

    TEST_CASE("a convolution's fans count the kernel's area") {
        constexpr auto d = conv2d<16, kernel<5>>::describe(make_shape(6, 14, 14));
        static_assert(d.parameters[0].fan_in == 6 * 25);
        static_assert(d.parameters[0].fan_out == 16 * 25);
    }

    TEST_CASE("a batch norm begins with samples as they are") {
        using net = network<input<2>, batch_norm<>>;
        std::vector<float> p(net::parameters, 7.0f), b(net::buffers, 7.0f);
        initialise_parameters<net, xavier_uniform>(p.data(), 1);
        initialise_buffers<net>(b.data());
        CHECK(p == std::vector<float>{1, 1, 0, 0});
        CHECK(b == std::vector<float>{0, 0, 1, 1});
    }

    TEST_CASE("the same seed gives the same weights, another seed or layer others") {
        using net = network<input<20>, linear<20>, linear<20>>;
        std::vector<float> a(net::parameters), b(net::parameters), c(net::parameters);
        initialise_parameters<net, xavier_uniform>(a.data(), 1);
        initialise_parameters<net, xavier_uniform>(b.data(), 1);
        initialise_parameters<net, xavier_uniform>(c.data(), 2);
        CHECK(a == b);
        CHECK(a != c);
        CHECK_FALSE(std::equal(a.begin(), a.begin() + 400, a.begin() + 420));
    }
}

} // namespace layer_initialise_test
