// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/networks.hpp>

#include <trireme/trireme.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

// Trainings on images that are changed in every step, beside trainings on images that a test has changed.
namespace test_changing {
using namespace trireme;
using test_support::same_bits;

inline constexpr std::size_t channels = 2, height = 5, width = 7, values = channels * height * width;
using net =
    network<input<channels, height, width>, conv2d<3, kernel<3>>, batch_norm<per_shard>, relu, flatten, linear<4>>;
template<class Device, class... Policies>
using any = test_networks::any_replicas<Device, net, cross_entropy, sgd, Policies...>;

/// `N`: bytes, or wide numbers.
template<class N>
struct images {
    std::vector<N> numbers;
    std::vector<int> labels;

    explicit images(std::size_t n) {
        for (std::size_t i = 0; i < n * values; ++i) numbers.push_back(static_cast<N>(1 + (i * 37) % 200));
        for (std::size_t i = 0; i < n; ++i) labels.push_back(static_cast<int>(i % 4));
    }
    samples_in_memory samples() const {
        return samples_in_memory(numbers, make_shape(channels, height, width), labels, 4).scaled(1.0 / 128);
    }
    /// As a step is to see them: the image moved, with zeros where it has left, and what is right and left of it.
    images changed(image_changes const& how, std::uint64_t seed, std::uint32_t step) const {
        images made = *this;
        for (std::uint32_t i = 0; i < labels.size(); ++i) {
            random_stream const r(seed, random_purpose::image_changes, step, i);
            int const p = how.crop_padding;
            int const down = static_cast<int>(r.below(0, 2 * how.crop_padding + 1u)) - p;
            int const right = static_cast<int>(r.below(1, 2 * how.crop_padding + 1u)) - p;
            bool const flips = how.flip && r.below(2, 2) == 1;
            for (int c = 0; c < int(channels); ++c)
                for (int y = 0; y < int(height); ++y)
                    for (int x = 0; x < int(width); ++x) {
                        int const from_y = y + down, from_x = (flips ? int(width) - 1 - x : x) + right;
                        auto const at = [&](int row, int column) {
                            return i * values + static_cast<std::size_t>((c * int(height) + row) * int(width) + column);
                        };
                        bool const inside = from_y >= 0 && from_y < int(height) && from_x >= 0 && from_x < int(width);
                        made.numbers[at(y, x)] = inside ? numbers[at(from_y, from_x)] : N{0};
                    }
        }
        return made;
    }
};

/// Each step sees the images changed anew, by one rule on any number of devices up to `most`; an evaluation and a
/// prediction see them as they are.
template<class Device, class N, class... Policies>
void see_the_same_changes(int most = 8) {
    using t = any<Device, Policies...>;
    images<N> const all(40);
    image_changes const how{.crop_padding = 2, .flip = true};
    auto const made = [&](int devices) {
        return t({.learning_rate = 0.1f, .batch = 40, .seed = 11, .logical_shards = 8}, {.devices = devices});
    };
    t by_hand = made(1);
    for (std::uint32_t step = 1; step <= 3; ++step) {
        auto const now = all.changed(how, 11, step);
        by_hand.step(now.samples());
        CHECK(now.numbers != all.numbers);
        CHECK(now.numbers != all.changed(how, 11, step + 1).numbers);
    }
    for (int devices = 1; devices <= most; ++devices) {
        CAPTURE(devices);
        t changing = made(devices);
        for (int step = 0; step < 3; ++step) changing.step(augmented(all.samples(), how));
        CHECK(same_bits(changing.gather_parameters(), by_hand.gather_parameters()));
        CHECK(changing.evaluate(augmented(all.samples(), how)).loss == by_hand.evaluate(all.samples()).loss);
        auto const said = changing.predict(augmented(all.samples(), how)), plain = changing.predict(all.samples());
        CHECK(std::vector(said.values().begin(), said.values().end()) ==
              std::vector(plain.values().begin(), plain.values().end()));
    }
}

} // namespace test_changing
