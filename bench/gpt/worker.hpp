// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../made_up.hpp"
#include "../step_worker.hpp"

#include <trireme/trireme.hpp>

#include <cstddef>

// What the workers share that train a GPT in Trireme, byte by byte: the networks, their texts, the replicas' program.
namespace gpt_bench {

using namespace trireme;

/// A network, and the length of its windows.
template<std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Context>
struct byte_gpt {
    using network = gpt<layers<Layers>, width<Width>, heads<Heads>, context<Context>, vocabulary<byte_vocabulary>>;

    static bench::made_up_text text() { return {1024, Context}; }
};
using width128 = byte_gpt<4, 128, 4, 128>;
using width256 = byte_gpt<6, 256, 8, 256>;

inline constexpr float learning_rate = 1e-3f;

/// The program WORKER BATCH DEVICES.
template<class Gpt>
int run(int argc, char** argv) {
    using trainer_type =
        trainer<typename Gpt::network, cross_entropy, adamw, on<mesh<host, dp<dynamic>>>, hold_weights<once>>;
    return bench::steps_main<trainer_type>(argc, argv, {.learning_rate = learning_rate, .weight_decay = 0.01f},
                                           Gpt::text());
}

} // namespace gpt_bench
