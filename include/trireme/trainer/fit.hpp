// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/data/dataset.hpp>
#include <trireme/trainer/report.hpp>

#include <cstddef>
#include <iterator>
#include <utility>

namespace trireme {

struct fit_options {
    int epochs = 1;
};

struct no_observer {
    void operator()(progress_report const&) const noexcept {}
};

/// What a network learns from, and what it is judged by: like `dataset`, of any sources.
template<class D>
concept training_data = requires(D const& d) {
    { d.train } -> sample_source;
    { d.test } -> sample_source;
};

/// The epochs of a training run, trained one by one as they are reached: an input range of epoch_report. The trainer
/// must outlive it. Leaving the loop early leaves the trainer as it was after the last epoch.
template<class Trainer, class Observer, training_data Data>
class epoch_range {
public:
    epoch_range(Trainer& t, Data data, fit_options const& o, Observer observe)
        : trainer_(&t), data_(std::move(data)), epochs_(o.epochs), observe_(std::move(observe)) {}

    class iterator {
    public:
        using iterator_concept = std::input_iterator_tag;
        using value_type = epoch_report;
        using difference_type = std::ptrdiff_t;

        iterator() = default;
        explicit iterator(epoch_range* range) : range_(range) { range_->next(); }
        epoch_report const& operator*() const noexcept { return range_->report_; }
        epoch_report const* operator->() const noexcept { return &range_->report_; }
        iterator& operator++() {
            range_->next();
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(iterator const& i, std::default_sentinel_t) noexcept { return i.range_->over(); }

    private:
        epoch_range* range_ = nullptr;
    };

    iterator begin() { return iterator(this); }
    std::default_sentinel_t end() const noexcept { return {}; }

    /// True once the last epoch has been handed out.
    bool over() const noexcept { return done_ > epochs_; }

private:
    void next() {
        if (++done_ > epochs_) return;
        report_ = trainer_->train_epoch(data_.train, done_, epochs_, observe_);
        if (data_.test.size() > 0) {
            report_.test = trainer_->evaluate(data_.test);
            report_.tested = true;
        }
    }

    Trainer* trainer_;
    Data data_;
    int epochs_;
    Observer observe_;
    int done_ = 0;
    epoch_report report_;
};

} // namespace trireme
