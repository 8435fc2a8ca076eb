// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "result_file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

/// Bytes at the begin of a log that stay if a training goes on behind step `made`: the lines of steps up to it, and
/// lines of others. What follows are steps that were made, but not saved, and a line that was not written to its end. A
/// pipe or a terminal keeps nothing.
inline std::size_t bytes_up_to_step(std::string const& path, std::uint64_t made) {
    if (std::error_code none; !std::filesystem::is_regular_file(path, none)) return 0;
    std::ifstream in(path, std::ios::binary);
    std::size_t kept = 0;
    for (std::string line; std::getline(in, line); kept += line.size() + 1) {
        unsigned long long step = 0;
        bool const ours = std::sscanf(line.c_str(), R"({"step": %llu,)", &step) == 1;
        if (in.eof() || (ours && step > made)) break;
    }
    return kept;
}

/// One JSON object per step, on disk as soon as the step is over. A log that cannot be written any more ends no
/// training: it is said once.
class step_log {
public:
    /// `made`: the steps that the training has made before.
    step_log(std::string const& path, std::uint64_t made)
        : file_("--log", path, made != 0 ? bytes_up_to_step(path, made) : 0) {}

    /// `more`: further members of the object.
    void write(std::uint64_t step, double loss, double rate, double tokens_per_second, char const* more) {
        if (!file_.wanted() || !whole_) return;
        char line[300];
        std::snprintf(line, sizeof line,
                      R"({"step": %llu, "loss": %.17g, "rate": %.17g, "tokens_per_second": %.17g%s})"
                      "\n",
                      static_cast<unsigned long long>(step), loss, rate, tokens_per_second, more);
        try {
            file_.write(line);
        } catch (std::runtime_error const& e) {
            whole_ = false;
            std::fprintf(stderr, "gpt: %s\n", e.what());
        }
    }
    bool whole() const { return whole_; }

private:
    result_file file_;
    bool whole_ = true;
};
