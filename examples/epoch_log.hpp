// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "result_file.hpp"

#include <trireme/data/json_text.hpp>
#include <trireme/parallel/layout.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
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
    explicit log_file(std::string path) : file_("--log", std::move(path)) {}

    /// `trainer` has just ended the epoch. All processes call it: stages give their parameters together.
    template<class Flags, class Trainer, class Report>
    void write(Flags const& flags, std::string const& strategy, Trainer& trainer, Report const& e) {
        auto const weights = trainer.gather_parameters();
        if (!file_.wanted()) return;
        auto const l = trainer.plan().layout;
        char loss[32] = "null", sync[32] = "null"; // JSON has no NaN
        if (std::isfinite(e.loss)) std::snprintf(loss, sizeof loss, "%.17g", e.loss);
        if (std::isfinite(e.sync_share)) std::snprintf(sync, sizeof sync, "%.17g", e.sync_share);
        char begin[100], end[600];
        std::snprintf(begin, sizeof begin, R"({"devices": %d, "stages": %d, "micro_batches": %zu, "schedule": )",
                      l.replicas, l.stages, l.shards_of_device(0).size());
        std::snprintf(end, sizeof end,
                      R"(, "strategy": "%s", "batch": %zu, "seed": %llu, "reproducible": %zu, )"
                      R"("epoch": %d, "loss": %s, "test_accuracy": %.17g, "samples_per_second": %.17g, )"
                      R"("sync_share": %s, "data_share": %.17g, "weights_hash": "%016llx"})",
                      strategy.c_str(), flags.batch, static_cast<unsigned long long>(flags.seed), flags.reproducible,
                      e.epoch, loss, e.test.accuracy, e.samples_per_second, sync, e.data_share,
                      static_cast<unsigned long long>(weights_hash(weights)));
        std::string line = begin;
        trireme::detail::append_json(line, flags.schedule); // the path of a file, maybe
        file_.write(line + end + "\n");
    }

private:
    result_file file_;
};
