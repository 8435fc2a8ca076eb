// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trainer/log_file.hpp>
#include <trireme/trainer/report.hpp>

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

/// An observer that writes a table: a line of names, then a row for every epoch, or instead for every step. All cells
/// are numbers that come back as the same doubles; the figures of a test that was not made are nan, and so is the
/// accuracy of values. Copies share the file.
/// Errors: data_error if the file cannot be opened (when it is made) or written.
class csv_log {
public:
    explicit csv_log(std::string path, log_options const& o = {})
        : file_(std::make_shared<detail::log_file>(std::move(path), o.append)), steps_(o.steps) {}

    void operator()(progress_report const& p) {
        if (!steps_) return;
        detail::log_text row({});
        row << p.epoch << "," << p.batch << "," << p.batches << "," << p.loss << "," << p.samples << "," << p.seconds
            << "\n";
        add("epoch,batch,batches,loss,samples,seconds\n", row);
    }

    void operator()(epoch_report const& e) {
        if (steps_) return;
        constexpr auto none = std::numeric_limits<double>::quiet_NaN();
        detail::log_text row({});
        row << e.epoch << "," << e.loss << "," << (e.tested ? e.test.loss : none) << ","
            << (e.tested ? e.test.accuracy : none) << "," << (e.best ? 1 : 0) << "," << e.seconds << ","
            << e.samples_per_second << "," << e.devices << "," << e.sync_share << "," << e.data_share << "\n";
        add("epoch,loss,test_loss,test_accuracy,best,seconds,samples_per_second,devices,sync_share,data_share\n", row);
    }

private:
    void add(std::string_view names, detail::log_text const& row) {
        if (file_->size() == 0) file_->add(names);
        file_->add(row.view());
    }

    std::shared_ptr<detail::log_file> file_;
    bool steps_;
};

} // namespace trireme
