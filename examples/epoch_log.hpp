// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

/// 64-bit FNV-1a of the parameters' bytes: two runs with equal hashes have, for all practical purposes, equal weights.
inline std::uint64_t weights_hash(std::span<float const> weights) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (auto const byte : std::as_bytes(weights))
        hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
    return hash;
}

/// JSON lines, one per epoch and run, on disk as soon as the epoch is over.
class log_file {
public:
    explicit log_file(std::string path) : path_(std::move(path)) {
        if (path_.empty()) return;
        out_.open(path_);
        if (!out_)
            throw trireme::usage_error("--log " + path_ + ": cannot be written (" + std::strerror(errno) +
                                       "); name a file in a folder that exists and is yours");
    }

    /// `trainer` has just ended the epoch. All processes call it: stages give their parameters together.
    template<class Flags, class Trainer, class Report>
    void write(Flags const& flags, std::string const& strategy, Trainer& trainer, Report const& e) {
        auto const weights = trainer.gather_parameters();
        if (path_.empty()) return;
        auto const l = trainer.plan().layout;
        char loss[32] = "null", sync[32] = "null"; // JSON has no NaN
        if (std::isfinite(e.loss)) std::snprintf(loss, sizeof loss, "%.17g", e.loss);
        if (std::isfinite(e.sync_share)) std::snprintf(sync, sizeof sync, "%.17g", e.sync_share);
        char line[700];
        std::snprintf(line, sizeof line,
                      R"({"devices": %d, "stages": %d, "micro_batches": %zu, "schedule": "%s", )"
                      R"("strategy": "%s", "batch": %zu, "seed": %llu, "reproducible": %zu, )"
                      R"("epoch": %d, "loss": %s, "test_accuracy": %.17g, "samples_per_second": %.17g, )"
                      R"("sync_share": %s, "data_share": %.17g, "weights_hash": "%016llx"})",
                      l.replicas, l.stages, l.shards_of_device(0).size(), flags.schedule.c_str(), strategy.c_str(),
                      flags.batch, static_cast<unsigned long long>(flags.seed), flags.reproducible, e.epoch, loss,
                      e.test.accuracy, e.samples_per_second, sync, e.data_share,
                      static_cast<unsigned long long>(weights_hash(weights)));
        out_ << line << std::endl;
        if (!out_) throw std::runtime_error("--log " + path_ + ": writing failed; is the disk full?");
    }

private:
    std::string path_;
    std::ofstream out_;
};
