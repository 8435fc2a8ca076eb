// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../made_up.hpp"
#include "../step_worker.hpp"

#include <trireme/trireme.hpp>

#include <cstddef>

// What the workers share that train LeNet in Trireme: the network, how many images, a measurement.
namespace bench {

using namespace trireme;

using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

/// Different ones, drawn in an order that is shuffled anew in every epoch.
inline constexpr std::size_t images = 8192;

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
