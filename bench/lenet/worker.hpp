// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trireme.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

// What the workers share that train LeNet in Trireme: the network, made-up images, a measurement.
namespace bench {

using namespace trireme;

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

/// Different ones, drawn in an order that is shuffled anew in every epoch.
inline constexpr std::size_t images = 8192;

inline labelled_images made_up_images() {
    random_stream const random(0, random_purpose::user);
    std::vector<std::uint8_t> pixels(images * 28 * 28), labels(images);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    return {pixels, labels, 28, 28, 10};
}

/// Trains epochs until `over(seconds, epochs)`; returns samples per second.
template<class Trainer, class Over>
double measure(Trainer& trainer, labelled_images const& all, Over&& over) {
    double seconds = 0;
    int epochs = 0;
    for (auto const& epoch : trainer.fit({all, {}}, {.epochs = 1 << 20})) {
        seconds += epoch.seconds;
        if (over(seconds, ++epochs)) break;
    }
    return epochs * static_cast<double>(images) / seconds;
}

} // namespace bench
