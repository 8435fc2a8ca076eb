// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trainer/log_file.hpp>
#include <trireme/trainer/report.hpp>

#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace trireme {

/// An observer that writes a table: a line of names, then a row for every epoch, or instead for every step. All cells
/// are numbers that come back as the same doubles; the figures of a test that was not made are nan, and so is the
/// accuracy of values. Copies share the file.
/// Errors: data_error if the file cannot be opened, or is to be appended to and has other columns or an unfinished line
/// (when the log is made); if it cannot be written, or another log writes it (at the first record).
class csv_log {
public:
    explicit csv_log(std::string path, log_options const& o = {})
        : file_(std::make_shared<detail::log_file>(
              std::move(path), o.append,
              o.steps ? "epoch,batch,batches,loss,samples,seconds\n"
                      : "epoch,loss,test_loss,test_accuracy,best,seconds,samples_per_second,devices,sync_share,"
                        "data_share\n")),
          steps_(o.steps) {}

    void operator()(progress_report const& p) {
        if (!steps_) return;
        detail::log_text row({});
        row << p.epoch << "," << p.batch << "," << p.batches << "," << p.loss << "," << p.samples << "," << p.seconds
            << "\n";
        file_->add(row.view());
    }

    void operator()(epoch_report const& e) {
        if (steps_) return;
        constexpr auto none = std::numeric_limits<double>::quiet_NaN();
        detail::log_text row({});
        row << e.epoch << "," << e.loss << "," << (e.tested ? e.test.loss : none) << ","
            << (e.tested ? e.test.accuracy : none) << "," << (e.best ? 1 : 0) << "," << e.seconds << ","
            << e.samples_per_second << "," << e.devices << "," << e.sync_share << "," << e.data_share << "\n";
        file_->add(row.view());
    }

private:
    std::shared_ptr<detail::log_file> file_;
    bool steps_;
};

} // namespace trireme
