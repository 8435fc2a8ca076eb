// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "result_file.hpp"

#include <trireme/schedule/pipeline/trace.hpp>

#include <cstdio>
#include <exception>

/// Runs `f()`; afterwards, and also if it throws, the trainer's tasks are in the file, if there is one: after an error
/// all that were complete.
template<class Trainer, class F>
void traced_into(result_file* file, Trainer const& trainer, F&& f) {
    auto const write = [&] {
        if (file != nullptr && file->wanted()) file->write(trireme::trace_json(trainer.traced()));
    };
    try {
        f();
    } catch (...) {
        try {
            write();
        } catch (std::exception const& e) { // not in the place of what went wrong before
            std::fprintf(stderr, "%s\n", e.what());
        }
        throw;
    }
    write();
}
