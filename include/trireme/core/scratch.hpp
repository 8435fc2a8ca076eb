// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme::detail {

/// Class `scratch` is the working memory of proofs and prices, in constant expressions, too.
template<class T>
class scratch {
public:
    constexpr explicit scratch(std::size_t n) : data_(new T[n]{}), size_(n) {}
    constexpr scratch(std::size_t n, T all) : scratch(n) { fill(all); }
    scratch(scratch const&) = delete;
    scratch& operator=(scratch const&) = delete;
    constexpr ~scratch() { delete[] data_; }
    constexpr T& operator[](std::size_t i) { return data_[i]; }
    constexpr T* data() { return data_; }
    constexpr void fill(T x) {
        for (std::size_t i = 0; i < size_; ++i) data_[i] = x;
    }

private:
    T* data_;
    std::size_t size_;
};

} // namespace trireme::detail
