// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

// How far results are from others. A number that is missing or NaN is infinitely far away.
namespace test_support {

template<class T>
double widened(T value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return static_cast<double>(static_cast<float>(value)); // bf16
}

/// The largest of |a[i] - b[i]| / allowed(b[i]).
template<class A, class B, class Allowed>
double most_apart(std::vector<A> const& a, std::vector<B> const& b, Allowed allowed) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double worst = a.size() == b.size() ? 0 : infinity;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
        auto const truth = widened(b[i]), off = std::abs(widened(a[i]) - truth);
        auto const part = off / static_cast<double>(allowed(truth));
        if (!(part <= worst)) worst = std::isnan(part) ? infinity : part;
    }
    return worst;
}

/// The largest of |a[i] - b[i]| / (1 + |b[i]|).
template<class A, class B>
double apart(std::vector<A> const& a, std::vector<B> const& b) {
    return most_apart(a, b, [](double truth) { return 1 + std::abs(truth); });
}

/// The largest of |a[i] - b[i]| / |b[i]|.
template<class A, class B>
double relatively_apart(std::vector<A> const& a, std::vector<B> const& b) {
    return most_apart(a, b, [](double truth) { return std::abs(truth); });
}

/// |a|, of a vector.
template<class A>
double length(std::vector<A> const& a) {
    double squares = 0;
    for (A const& value : a) squares += widened(value) * widened(value);
    return std::sqrt(squares);
}

/// |a - b| / |b|, of vectors; infinite where b is 0.
template<class A, class B>
double distance(std::vector<A> const& a, std::vector<B> const& b) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (a.size() != b.size()) return infinity;
    std::vector<double> difference;
    for (std::size_t i = 0; i < a.size(); ++i) difference.push_back(widened(a[i]) - widened(b[i]));
    double const part = length(difference) / length(b);
    return std::isnan(part) ? infinity : part;
}

template<class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
template<class T>
bool same_bits(std::vector<std::vector<T>> const& a, std::vector<std::vector<T>> const& b) {
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
    return same;
}

} // namespace test_support
