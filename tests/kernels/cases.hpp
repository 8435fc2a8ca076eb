// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

// Sizes, weights of classes and guarded outputs that tests of several kernels use.

namespace kernel_cases {

/// The counts of numbers that a convolution reads and writes, of one sample.
template<class G>
struct sizes {
    static constexpr std::size_t taps = G::channels * G::kernel * G::kernel;
    static constexpr std::size_t x = G::channels * G::height * G::width;
    static constexpr std::size_t w = G::out_channels * taps;
    static constexpr std::size_t b = G::out_channels;
    static constexpr std::size_t y = G::out_channels * G::out_height * G::out_width;
};

/// A geometry's parameters, as a program spells them.
template<class G>
std::string text_of_conv2d() {
    std::string text = "conv2d_geometry<";
    for (auto size : {G::channels, G::height, G::width, G::out_channels, G::kernel, G::padding})
        text += std::to_string(size) + ", ";
    return text + std::to_string(G::stride) + ">";
}

/// Weights of classes: 0.5, 1, 1.5, 0, and so on.
template<std::size_t Classes>
struct some_weights {
    struct list {
        double of[Classes] = {};
        constexpr list() noexcept {
            for (std::size_t c = 0; c < Classes; ++c) of[c] = c % 4 == 3 ? 0 : 0.5 + 0.5 * double(c % 4);
        }
    };
    static constexpr list all{};
    static constexpr double const (&of)[Classes] = all.of;
};

/// n numbers at an address of this alignment, between two guards that no kernel may touch.
template<class T, std::size_t Alignment = alignof(T)>
class guarded {
public:
    explicit guarded(std::vector<T> const& numbers) : guarded(numbers.size()) {
        std::copy(numbers.begin(), numbers.end(), begin_);
    }
    explicit guarded(std::size_t n, T value = std::numeric_limits<T>::quiet_NaN())
        : n_(n), all_(n + 2 * length + Alignment / sizeof(T), guard) {
        void* at = all_.data() + length;
        std::size_t space = n * sizeof(T) + Alignment;
        begin_ = static_cast<T*>(std::align(Alignment, n * sizeof(T), at, space));
        std::fill_n(begin_, n, value);
    }
    guarded(guarded const&) = delete;
    guarded& operator=(guarded const&) = delete;

    T* data() noexcept { return begin_; }
    std::vector<T> numbers() const { return std::vector<T>(begin_, begin_ + n_); }
    bool intact() const noexcept {
        auto const is_guard = [](T value) { return value == guard; };
        return std::all_of(all_.data(), static_cast<T const*>(begin_), is_guard) &&
               std::all_of(static_cast<T const*>(begin_) + n_, all_.data() + all_.size(), is_guard);
    }

private:
    static constexpr std::size_t length = 64; // more numbers than any register
    static constexpr T guard = 12345;
    std::size_t n_;
    std::vector<T> all_;
    T* begin_;
};

} // namespace kernel_cases
