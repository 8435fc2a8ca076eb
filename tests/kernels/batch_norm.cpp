// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/batch_norm.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace device_batch_norm_test {
using namespace trireme;

namespace {

/// Samples of one shard in granules, the last of which need not be full. What stands behind the last sample is large
/// and wrong: nothing of it may count.
template<class G, std::size_t Lanes, class T>
struct shard {
    static constexpr std::size_t granule = G::channels * G::positions * Lanes;

    std::size_t samples, granules;
    std::vector<T> x, dy;

    explicit shard(std::size_t n, double middle = 0, double size = 1)
        : samples(n), granules((n + Lanes - 1) / Lanes), x(numbers::uniform<T>(0, granules * granule, size)),
          dy(numbers::uniform<T>(1, granules * granule)) {
        for (std::size_t g = 0; g < granules; ++g)
            for (std::size_t i = 0; i < granule; ++i) {
                auto const at = g * granule + i;
                x[at] += static_cast<T>(middle + static_cast<double>(i / (G::positions * Lanes))); // each channel's own
                if (i % Lanes >= count(g)) x[at] = dy[at] = T(99'999);
            }
    }

    std::size_t first(std::size_t g) const { return g * Lanes; }
    std::size_t count(std::size_t g) const { return g + 1 < granules ? Lanes : samples - g * Lanes; }
    double values() const { return static_cast<double>(samples * G::positions); }

    /// f(channel, place) for every value that counts.
    template<class F>
    void each(F const& f) const {
        for (std::size_t g = 0; g < granules; ++g)
            for (std::size_t i = 0; i < granule; ++i)
                if (i % Lanes < count(g)) f(i / (G::positions * Lanes), g * granule + i);
    }
};

/// All kernels together compute this outcome.
template<class T>
struct outcome {
    std::vector<T> mean, squares, y, sums, dx;
};

template<class Policy, class G, std::size_t Lanes, class T>
outcome<T> computed(shard<G, Lanes, T> const& s, std::vector<T> const& weight, std::vector<T> const& bias) {
    constexpr auto channels = G::channels, granule = shard<G, Lanes, T>::granule;
    outcome<T> r{numbers::unset<T>(channels), numbers::unset<T>(channels), numbers::unset<T>(s.x.size()),
                 numbers::unset<T>(2 * channels), numbers::unset<T>(s.x.size())};
    std::vector<T> deviation(channels), means;
    batch_norm_numbers<T> n{.mean = r.mean.data(),
                            .deviation = r.squares.data(),
                            .sums = r.sums.data(),
                            .weight = weight.data(),
                            .bias = bias.data()};
    auto const each_granule = [&](auto const& f) {
        for (std::size_t g = 0; g < s.granules; ++g) {
            n.granule.count = s.count(g);
            n.granule.first = s.first(g);
            f(g * granule);
        }
    };
    each_granule([&](std::size_t at) { batch_norm_gather<G, Lanes>(Policy{}, s.x.data() + at, n); });
    for (std::size_t c = 0; c < channels; ++c)
        deviation[c] = T(1) / std::sqrt(static_cast<T>(r.squares[c] / s.values()) + T(1e-5));
    n.deviation = deviation.data();
    each_granule([&](std::size_t at) {
        batch_norm_forward<G, Lanes>(Policy{}, s.x.data() + at, n, r.y.data() + at);
        batch_norm_backward_gather<G, Lanes>(Policy{}, s.x.data() + at, s.dy.data() + at, n);
    });
    means = r.sums;
    for (auto& sum : means) sum = static_cast<T>(sum / s.values());
    n.sums = means.data();
    each_granule([&](std::size_t at) {
        batch_norm_backward_input<G, Lanes>(Policy{}, s.x.data() + at, s.dy.data() + at, n, r.dx.data() + at);
    });

    // in place: the same bits
    auto y = s.x, dx = s.dy;
    each_granule([&](std::size_t at) {
        batch_norm_backward_input<G, Lanes>(Policy{}, s.x.data() + at, dx.data() + at, n, dx.data() + at);
        batch_norm_forward<G, Lanes>(Policy{}, y.data() + at, n, y.data() + at);
    });
    CHECK(y == r.y);
    CHECK(dx == r.dx);
    return r;
}

/// The formulas give this outcome, all samples at once, in long double.
template<class G, std::size_t Lanes, class T>
outcome<long double> truth(shard<G, Lanes, T> const& s, std::vector<T> const& weight, std::vector<T> const& bias) {
    constexpr auto channels = G::channels;
    std::vector<long double> const zeros(s.x.size()), none(channels);
    outcome<long double> r{none, none, zeros, std::vector<long double>(2 * channels), zeros};
    auto const n = static_cast<long double>(s.values());
    s.each([&](std::size_t c, std::size_t i) { r.mean[c] += s.x[i] / n; });
    s.each([&](std::size_t c, std::size_t i) { r.squares[c] += (s.x[i] - r.mean[c]) * (s.x[i] - r.mean[c]); });
    auto const deviation = [&](std::size_t c) { return 1 / std::sqrt(r.squares[c] / n + 1e-5L); };
    auto const normalised = [&](std::size_t c, std::size_t i) { return (s.x[i] - r.mean[c]) * deviation(c); };
    s.each([&](std::size_t c, std::size_t i) {
        r.y[i] = weight[c] * normalised(c, i) + bias[c];
        r.sums[c] += s.dy[i];
        r.sums[channels + c] += s.dy[i] * normalised(c, i);
    });
    s.each([&](std::size_t c, std::size_t i) {
        r.dx[i] = weight[c] * deviation(c) * (s.dy[i] - r.sums[c] / n - normalised(c, i) * r.sums[channels + c] / n);
    });
    return r;
}

/// The largest difference over `allowed`, of the values that count where there is one for each sample.
template<class G, std::size_t Lanes, class T, class U>
double apart(shard<G, Lanes, T> const& s, std::vector<T> const& a, std::vector<U> const& b, double allowed) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    auto const compare = [&](std::size_t, std::size_t i) {
        auto const off = static_cast<double>(std::abs(static_cast<long double>(a[i]) - b[i])) / allowed;
        worst = off <= worst ? worst : std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    };
    if (a.size() == s.x.size())
        s.each(compare);
    else
        for (std::size_t i = 0; i < a.size(); ++i) compare(0, i);
    return worst;
}

/// Two results may be this far apart: rounding costs as much where n values are added one by one, with a random sign
/// each time, some ten times over. A sample that is forgotten or counted twice is off by more.
template<class G, std::size_t Lanes, class T, class U>
void same(shard<G, Lanes, T> const& s, outcome<T> const& a, outcome<U> const& b) {
    double const epsilon = std::numeric_limits<T>::epsilon(), n = s.values(), size = G::channels + 1.0;
    CHECK(apart(s, a.mean, b.mean, size * (8 + std::sqrt(n)) * epsilon) <= 1);
    CHECK(apart(s, a.squares, b.squares, 2 * n * (std::sqrt(n) + 4) * epsilon) <= 1);
    CHECK(apart(s, a.y, b.y, 16 * (size + std::sqrt(n)) * epsilon) <= 1);
    CHECK(apart(s, a.sums, b.sums, 4 * (n + 4) * size * epsilon) <= 1);
    CHECK(apart(s, a.dx, b.dx, 16 * (size + std::sqrt(n)) * epsilon) <= 1);
}

template<class G, std::size_t Lanes, class T>
void portable_equals_reference(std::size_t samples) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::channels);
    CAPTURE(G::positions);
    CAPTURE(Lanes);
    CAPTURE(samples);
    CAPTURE(sizeof(T));
    shard<G, Lanes, T> const s(samples);
    auto const weight = numbers::uniform<T>(2, G::channels), bias = numbers::uniform<T>(3, G::channels);
    auto const got = computed<portable>(s, weight, bias), expected = computed<reference>(s, weight, bias);
    same(s, got, expected);
    same(s, got, truth(s, weight, bias));
    std::size_t wrong = 0; // of the lanes without a sample
    for (std::size_t i = 0; i < got.dx.size(); ++i) {
        auto const g = i / s.granule;
        if (i % Lanes >= s.count(g) && (got.dx[i] != 0 || expected.dx[i] != 0)) ++wrong;
    }
    CHECK(wrong == 0);
}

template<std::size_t Lanes, class T>
void usual_geometries() {
    // at least two samples, for of one value the variance is 0, and rounding is all there is to see
    for (std::size_t const samples : {std::size_t{2}, Lanes, Lanes + 1, 3 * Lanes - 1, 5 * Lanes}) {
        portable_equals_reference<channel_geometry<3, 4>, Lanes, T>(samples + 1);
        portable_equals_reference<channel_geometry<2, 7>, Lanes, T>(samples + 1); // three positions are left over
        portable_equals_reference<channel_geometry<5, 1>, Lanes, T>(samples + 8); // a list
    }
}

template<class Policy>
void by_hand() {
    // two channels of two positions; granules of two samples, and the last sample alone
    using g = channel_geometry<2, 2>;
    double const first[] = {1, 3, 5, 7, /**/ 0, 0, 0, 4}, second[] = {9, 99, 11, 99, /**/ 2, 99, 0, 99};
    std::vector<double> mean(2), squares(2);
    auto const gather = [&](double const* x, std::size_t count, std::size_t before) {
        batch_norm_gather<g, 2>(Policy{}, x, {{.first = before, .count = count}, mean.data(), squares.data()});
    };
    gather(first, 2, 0);
    CHECK(mean == std::vector<double>{4, 1});
    CHECK(squares == std::vector<double>{20, 12});
    gather(second, 1, 2);
    CHECK(mean[0] == doctest::Approx(6)); // of 1, 3, 5, 7, 9, 11
    CHECK(squares[0] == doctest::Approx(70));
    CHECK(mean[1] == doctest::Approx(1)); // of 0, 0, 0, 4, 2, 0
    CHECK(squares[1] == doctest::Approx(14));

    using one = channel_geometry<1, 2>;
    double const x[] = {1, 3, 5, 7}, weight[] = {10}, bias[] = {1}, dy[] = {1, 0, 0, 2};
    double middle[] = {4}, deviation[] = {0.5}, means[] = {0.75, 0.5};
    std::vector<double> y(4), sums(2, 100.0), dx(4);
    batch_norm_numbers<double> n{{.count = 2}, middle, deviation, sums.data(), weight, bias};
    batch_norm_forward<one, 2>(Policy{}, x, n, y.data());
    CHECK(y == std::vector<double>{-14, -4, 6, 16});
    batch_norm_backward_gather<one, 2>(Policy{}, x, dy, n);
    CHECK(sums == std::vector<double>{3, 1 * -1.5 + 2 * 1.5});
    n.granule = {.first = 2, .count = 1};
    batch_norm_backward_gather<one, 2>(Policy{}, x, dy, n); // again, one lane
    CHECK(sums == std::vector<double>{3 + 1, 1.5 - 1.5});
    n.granule = {.count = 2};
    n.sums = means;
    batch_norm_backward_input<one, 2>(Policy{}, x, dy, n, dx.data());
    CHECK(dx == std::vector<double>{5 * (1 - 0.75 + 0.75), 5 * (-0.75 + 0.25), 5 * (-0.75 - 0.25), 5 * (1.25 - 0.75)});
}

/// One value, or equal ones: no variance, and nothing that is not a number.
template<class Policy>
void equal_values() {
    using g = channel_geometry<1, 3>;
    std::vector<float> const x(3 * 4, 0.3f);
    float mean = 0, squares = 0;
    for (std::size_t granule = 0; granule < 3; ++granule)
        batch_norm_gather<g, 4>(Policy{}, x.data(),
                                {{.first = 4 * granule, .count = granule == 2 ? 1u : 4u}, &mean, &squares});
    CHECK(mean == doctest::Approx(0.3));
    CHECK(squares >= 0);
    CHECK(squares < 1e-11);
    float const single[] = {7};
    batch_norm_gather<channel_geometry<1, 1>, 1>(Policy{}, single, {{.count = 1}, &mean, &squares});
    CHECK((mean == 7 && squares == 0));
}

/// Relative errors of the variance, of values around a mean that is 1000 deviations away.
struct variance_errors {
    double two_passes, of_squares;
};
template<class Policy, class T>
variance_errors far_from_zero() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    using g = channel_geometry<2, 14 * 14>;
    constexpr std::size_t lanes = 16;
    shard<g, lanes, T> const s(70, 1000, std::sqrt(3.0)); // uniform in that range has deviation 1
    std::vector<T> const weight(2, T(1)), bias(2, T(0));
    auto const got = computed<Policy>(s, weight, bias);
    auto const right = truth(s, weight, bias);
    CHECK(right.squares[0] / s.values() == doctest::Approx(1).epsilon(0.1));
    double const epsilon = std::numeric_limits<T>::epsilon();
    CHECK(apart(s, got.mean, right.mean, 1000 * 16 * epsilon) <= 1);
    CHECK(apart(s, got.y, right.y, 1000 * 32 * epsilon) <= 1); // that is what the mean's own rounding costs
    variance_errors worst = {};
    for (std::size_t c = 0; c < 2; ++c) {
        T sum = 0, sum_of_squares = 0; // E[x^2] - E[x]^2, the formula with which it cancels
        s.each([&](std::size_t channel, std::size_t i) {
            if (channel == c) {
                sum += s.x[i];
                sum_of_squares += s.x[i] * s.x[i];
            }
        });
        auto const n = static_cast<T>(s.values());
        auto const naive = sum_of_squares - sum / n * sum;
        auto const off = [&](T squares) {
            return static_cast<double>(std::abs((squares - right.squares[c]) / right.squares[c]));
        };
        worst.two_passes = std::max(worst.two_passes, off(got.squares[c]));
        worst.of_squares = std::max(worst.of_squares, off(naive));
    }
    return worst;
}

} // namespace

TEST_SUITE("kernels/batch_norm") {
    TEST_CASE("by hand: granules join, and lanes without a sample do not count") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("equal values have no variance") {
        equal_values<reference>();
        equal_values<portable>();
    }

    TEST_CASE("portable equals reference and the formulas, for every number of lanes and both types") {
        usual_geometries<1, float>();
        usual_geometries<4, float>();
        usual_geometries<6, float>();
        usual_geometries<16, float>();
        usual_geometries<1, double>();
        usual_geometries<8, double>();
    }

    TEST_CASE("portable equals reference: ResNet's images") {
        portable_equals_reference<channel_geometry<4, 28 * 28>, 16, float>(64);
        portable_equals_reference<channel_geometry<8, 7 * 7>, 16, float>(37);
        portable_equals_reference<channel_geometry<8, 7 * 7>, 8, double>(33);
    }

    TEST_CASE("statistics do not cancel: mean 1000, deviation 1") {
        auto const in_float = far_from_zero<portable, float>(), in_double = far_from_zero<portable, double>();
        MESSAGE("relative error of the variance: ", in_float.two_passes, " (float), ", in_double.two_passes,
                " (double); by E[x^2] - E[x]^2 it would be ", in_float.of_squares, " and ", in_double.of_squares);
        CHECK(in_float.two_passes < 1e-4);
        CHECK(in_double.two_passes < 1e-12);
        CHECK(in_float.of_squares > 1e-3); // negative control: the shorter formula would not pass
        CHECK(in_double.of_squares > 1e-12);
        CHECK(far_from_zero<reference, float>().two_passes < 1e-3); // adds one value after the other
        CHECK(far_from_zero<reference, double>().two_passes < 1e-12);
    }
}

} // namespace device_batch_norm_test
