// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/schedule/pipeline/trace.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

/// A file for what a run finds, which is refused before the run if it cannot be written. `append`: behind what is
/// there.
class result_file {
public:
    result_file(char const* flag, std::string path, bool append = false) : flag_(flag), path_(std::move(path)) {
        if (path_.empty()) return;
        out_.open(path_, append ? std::ios::app : std::ios::out);
        if (!out_)
            throw trireme::usage_error(std::string(flag) + ' ' + path_ + ": cannot be written (" +
                                       std::strerror(errno) + "); name a file in a folder that exists and is yours");
    }
    bool wanted() const { return !path_.empty(); }
    void write(std::string const& text) {
        out_ << text << std::flush;
        if (!out_) throw std::runtime_error(std::string(flag_) + ' ' + path_ + ": writing failed; is the disk full?");
    }

private:
    char const* flag_;
    std::string path_;
    std::ofstream out_;
};

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
        write();
        throw;
    }
    write();
}
