// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trainer/log_file.hpp>
#include <trireme/trainer/report.hpp>

#include <memory>
#include <string>
#include <utility>

namespace trireme {

/// An observer that writes JSON lines: an object for every epoch and, if asked for, one for every step, which has the
/// key "batch" as well. Keys are the names of the reports' members. Numbers come back as the same doubles; NaN,
/// infinities and the figures of a test that was not made are null, and so is the accuracy of values. Copies share the
/// file.
/// Errors: data_error if the file cannot be opened, or is to be appended to and has an unfinished line (when the log is
/// made); if it cannot be written, or another log writes it (at the first record).
class json_lines_log {
public:
    explicit json_lines_log(std::string path, log_options const& o = {})
        : file_(std::make_shared<detail::log_file>(std::move(path), o.append)), steps_(o.steps) {}

    void operator()(progress_report const& p) {
        if (!steps_) return;
        detail::log_text line("null");
        line << R"({"epoch": )" << p.epoch << R"(, "batch": )" << p.batch << R"(, "batches": )" << p.batches
             << R"(, "loss": )" << p.loss << R"(, "samples": )" << p.samples << R"(, "seconds": )" << p.seconds
             << "}\n";
        file_->add(line.view());
    }

    void operator()(epoch_report const& e) {
        detail::log_text line("null");
        line << R"({"epoch": )" << e.epoch << R"(, "loss": )" << e.loss;
        if (e.tested)
            line << R"(, "test_loss": )" << e.test.loss << R"(, "test_accuracy": )" << e.test.accuracy;
        else
            line << R"(, "test_loss": null, "test_accuracy": null)";
        line << R"(, "best": )" << (e.best ? "true" : "false") << R"(, "seconds": )" << e.seconds
             << R"(, "samples_per_second": )" << e.samples_per_second << R"(, "devices": )" << e.devices
             << R"(, "sync_share": )" << e.sync_share << R"(, "data_share": )" << e.data_share << "}\n";
        file_->add(line.view());
    }

private:
    std::shared_ptr<detail::log_file> file_;
    bool steps_;
};

} // namespace trireme
