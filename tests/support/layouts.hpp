// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

// Trainings on several layouts.
namespace test_layouts {

/// Trainers are made, and none is looked at.
inline constexpr auto unseen = [](auto const& make) { make([](auto const&) {}); };

/// Trainings on these numbers of devices and stages have the bits of one device, which are finite and are returned.
/// `train(trainer)` tells all numbers that a training leaves. `look(make)` calls make(taken), which makes a trainer and
/// hands it to `taken`, as test_support::as_planned does.
template<class Trainer, class Train, class Look = decltype(unseen)>
std::vector<double> have_one_devices_bits(typename Trainer::options const& training,
                                          std::vector<std::pair<int, int>> const& layouts, Train const& train,
                                          Look const& look = unseen) {
    Trainer one(training);
    std::vector<double> const wanted = train(one);
    for (double const x : wanted) CHECK(std::isfinite(x));
    for (auto const& layout : layouts) {
        int const devices = layout.first, stages = layout.second;
        CAPTURE(devices);
        CAPTURE(stages);
        look([&](auto const& taken) {
            Trainer many(training, {.devices = devices, .stages = stages});
            taken(many);
            CHECK(test_support::same_bits(train(many), wanted));
        });
    }
    return wanted;
}

} // namespace test_layouts
