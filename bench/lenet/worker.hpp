// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../made_up.hpp"
#include "../step_worker.hpp"
#include "network.hpp"

#include <cstddef>

// Workers that train LeNet in Trireme share the network, the number of images and a measurement.
namespace bench {

using namespace trireme;

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
