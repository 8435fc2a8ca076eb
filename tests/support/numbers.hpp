// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>

#include <trireme/core/philox.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <vector>

// Numbers for kernel tests, and how far two kernels' results may be apart.

namespace numbers {

/// Set TRIREME_TEST_SEED to another number to test with other numbers; failures print it.
inline std::uint64_t seed() {
    static char const* const text = std::getenv("TRIREME_TEST_SEED");
    static std::uint64_t const value = text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
    return value;
}

/// T itself, or float for bf16, which is made of one and has no numeric_limits.
template<class T>
using register_type = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// n uniform numbers in (-1, 1); `which` tells the arrays of one test apart.
template<class T>
std::vector<T> uniform(std::uint32_t which, std::size_t n, double size = 1) {
    trireme::random_stream const random(seed(), trireme::random_purpose::user, which);
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i)
        values[i] = static_cast<T>(static_cast<register_type<T>>(size * (2 * random.uniform(i) - 1)));
    return values;
}

/// [image][channel][position] as [image][position][channel]; what is behind these values stays.
template<class T>
std::vector<T> last(std::vector<T> const& values, std::size_t images, std::size_t channels, std::size_t positions) {
    auto moved = values;
    for (std::size_t n = 0; n < images; ++n)
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t p = 0; p < positions; ++p)
                moved[(n * positions + p) * channels + c] = values[(n * channels + c) * positions + p];
    return moved;
}

/// n numbers that no kernel computes, to see that all are overwritten.
template<class T>
std::vector<T> unset(std::size_t n) {
    static_assert(!std::is_integral_v<T>);
    return std::vector<T>(n, static_cast<T>(std::numeric_limits<register_type<T>>::quiet_NaN()));
}

/// The largest difference of two results over what rounding explains: 1 is the limit, and a NaN counts as infinite.
/// Each result is a sum of `terms` products of numbers in (-1, 1). Partial sums are about sqrt(terms) / 3, so `terms`
/// roundings of random sign give about epsilon * terms / 6; 2 * terms is twelve times that, and far below one forgotten
/// term.
template<class T>
double apart(std::vector<T> const& a, std::vector<T> const& b, std::size_t terms) {
    double const allowed =
        2 * static_cast<double>(std::numeric_limits<T>::epsilon()) * (static_cast<double>(terms) + 2);
    return test_support::most_apart(a, b, [allowed](double) { return allowed; });
}

/// <a, b>, in double.
template<class T>
double dot(std::vector<T> const& a, std::vector<T> const& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}

/// The count of numbers of this size that lie between a result and the true value; 0 for equal infinities or two NaNs.
template<class T>
double ulps(T result, long double truth) {
    if (std::isnan(truth)) return std::isnan(result) ? 0 : std::numeric_limits<double>::infinity();
    auto const rounded = static_cast<T>(truth);
    if (result == rounded) return 0;
    if (!std::isfinite(result)) return std::numeric_limits<double>::infinity();
    int const exponent =
        std::isfinite(rounded) && rounded != 0 ? std::ilogb(rounded) : std::numeric_limits<T>::max_exponent;
    int const least = std::numeric_limits<T>::min_exponent - 1;
    int const unit = (rounded == 0 || exponent < least ? least : exponent) - std::numeric_limits<T>::digits + 1;
    return static_cast<double>(std::abs(static_cast<long double>(result) - truth) / std::ldexp(1.0L, unit));
}

} // namespace numbers
