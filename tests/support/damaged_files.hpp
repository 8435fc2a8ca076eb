// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/seed.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

// Random damage to files: readers refuse it with an error of ours, or read what is there.

namespace files {

/// A copy of `whole` with 1 to 6 damages: bits flipped, bytes of `spice` put in, stretches removed, doubled or moved,
/// or the end cut off.
inline bytes damaged(bytes whole, std::string_view spice, std::mt19937& random) {
    auto const below = [&](std::size_t n) { return n == 0 ? 0 : std::size_t{random()} % n; };
    for (auto left = 1 + below(6); left > 0; --left) {
        auto const at = below(whole.size() + 1);
        auto const from = whole.begin() + std::ptrdiff_t(at);
        auto const length = std::min(whole.size() - at, 1 + below(9));
        switch (below(6)) {
        case 0:
            if (at < whole.size()) whole[at] = static_cast<std::uint8_t>(whole[at] ^ (1u << below(8)));
            break;
        case 1:
            whole.insert(from, static_cast<std::uint8_t>(spice[below(spice.size())]));
            break;
        case 2:
            if (at < whole.size()) whole[at] = static_cast<std::uint8_t>(spice[below(spice.size())]);
            break;
        case 3:
            whole.erase(from, from + std::ptrdiff_t(length));
            break;
        case 4: {
            bytes const stretch(from, from + std::ptrdiff_t(length));
            whole.insert(whole.begin() + std::ptrdiff_t(below(whole.size() + 1)), stretch.begin(), stretch.end());
            break;
        }
        default:
            if (below(4) == 0) whole.resize(at);
        }
    }
    return whole;
}

/// Function `read`, called with the paths of `times` damaged copies, refuses this many. Anything but data_error and
/// usage_error fails the test.
template<class Read>
int refused_when_damaged(int times, bytes const& whole, std::string_view spice, Read const& read) {
    folder const somewhere;
    std::mt19937 random(test_seed());
    int refused = 0;
    for (int i = 0; i < times; ++i) {
        auto const path = somewhere.write("damaged", damaged(whole, spice, random));
        CAPTURE(i);
        try {
            read(path);
        } catch (trireme::data_error const& e) {
            CHECK(e.path() == path);
            ++refused;
        } catch (trireme::usage_error const&) {
            ++refused;
        }
    }
    return refused;
}

} // namespace files
