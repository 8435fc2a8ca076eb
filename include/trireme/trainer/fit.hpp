// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/trainer/observers.hpp>
#include <trireme/trainer/report.hpp>

#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// A figure of a test by which the epochs of a fit are compared: the lower loss or the higher accuracy is better.
enum class test_figure : bool { loss, accuracy };

/// Options of `fit` and `train`. Ranks that are processes give the same options: each decides by itself, from figures
/// that are equal on all of them.
struct fit_options {
    int epochs = 1;         ///< epochs; the most of them, if there is patience
    int test_every = 1;     ///< epochs from one test to the next; the last epoch has one, too
    int patience = 0;       ///< tests in a row without a gain, after which training ends; 0: no end
    double least_gain = 0;  ///< gains of the figure count if they are larger than this
    bool keep_best = false; ///< true: the fit ends with the weights of the epoch that had the best test
    test_figure best_by = test_figure::loss; ///< the figure that tests are compared by
};

namespace detail {

/// True if a trainer's outputs are right or wrong.
template<class Trainer>
inline constexpr bool has_accuracy =
    Trainer::loss_type::describe(Trainer::network_type::output_extents::shape).has_answers();

/// Throws usage_error for options that break a rule.
TRIREME_COLD inline void check_fit_options(fit_options const& o, bool has_tests, bool has_accuracy = true) {
    auto const refuse = [](std::string const& what) { throw usage_error(what); };
    if (o.epochs < 0) refuse("epochs = " + std::to_string(o.epochs) + ": it must not be negative");
    if (o.test_every < 1)
        refuse("test_every = " + std::to_string(o.test_every) +
               ": tests are at least one epoch apart; for a fit without tests leave out data.test");
    if (o.patience < 0)
        refuse("patience = " + std::to_string(o.patience) +
               ": it counts tests, so it must not be negative; 0 trains all epochs");
    if (!(o.least_gain >= 0 && o.least_gain <= std::numeric_limits<double>::max()))
        refuse("least_gain = " + number_text(o.least_gain) + ": it must be zero, or positive and finite");
    if (o.least_gain > 0 && o.patience == 0)
        refuse("least_gain = " + number_text(o.least_gain) +
               ": it tells which gains renew the patience, and there is none; set patience, too");
    if (has_tests && o.best_by == test_figure::accuracy && !has_accuracy)
        refuse("best_by = test_figure::accuracy: values are not right or wrong, so that this loss has no accuracy; "
               "compare epochs by test_figure::loss");
    if (has_tests) return;
    if (o.patience > 0)
        refuse("patience = " + std::to_string(o.patience) +
               ": it counts tests without a gain, and data.test is empty; give the data set a test part, or leave out "
               "patience");
    if (o.keep_best)
        refuse("keep_best: the best epoch is found by its test, and data.test is empty; give the data set a test "
               "part, or leave out keep_best");
}

/// Compares the tests of a fit.
class test_record {
public:
    /// Takes the figures of the next test. True if they are the best so far, which NaN never is.
    bool take(evaluation const& test, fit_options const& o) noexcept {
        return with_default_floats([&] {
            auto const cost = o.best_by == test_figure::loss ? test.loss : -test.accuracy;
            bool const gains = cost < gained_ - o.least_gain;
            without_gain_ = gains ? 0 : without_gain_ + 1;
            if (gains) gained_ = cost;
            bool const best = cost < best_;
            if (best) best_ = cost;
            return best;
        });
    }
    /// Tests since the last one that gained.
    int without_gain() const noexcept { return without_gain_; }

private:
    double best_ = std::numeric_limits<double>::infinity(), gained_ = best_;
    int without_gain_ = 0;
};

} // namespace detail

/// Types like training_set: two sources of samples, which move into what `fit` returns.
template<class D>
concept training_data = std::move_constructible<D> && requires(D const& d) {
    { d.train } -> sample_source;
    { d.test } -> sample_source;
};

/// The epochs of a training run, trained one by one as they are reached: an input range of epoch_report. The trainer
/// must outlive it. Leaving the loop early leaves the trainer as it was after the last epoch.
template<class Trainer, class Observer, training_data Data>
class epoch_range {
public:
    epoch_range(Trainer& t, Data data, fit_options const& o, Observer observe)
        : trainer_(&t), data_(std::move(data)), options_(o), observe_(std::move(observe)) {}

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
    bool over() const noexcept { return over_; }

    /// The report of the epoch that had the best test so far; without any its `epoch` is 0.
    epoch_report const& best() const noexcept { return best_; }

    /// Sets parameters and running statistics of the trainer to those after the best epoch so far, bit for bit; what
    /// the optimizer keeps stays. A fit that is iterated to its end does it by itself. Every process of the trainer
    /// calls it. Throws usage_error without the option keep_best.
    TRIREME_COLD void restore_best() {
        if (!options_.keep_best)
            throw usage_error("restore_best: this fit keeps no weights; give it the option keep_best = true");
        if (best_.epoch == 0) return;
        trainer_->load_parameters(parameters_);
        if (!buffers_.empty()) trainer_->load_buffers(buffers_);
    }

private:
    void next() {
        bool const stops = options_.patience > 0 && tests_.without_gain() >= options_.patience;
        if (done_ >= options_.epochs || stops) {
            if (!over_ && options_.keep_best && best_.epoch != done_) restore_best();
            over_ = true;
            return;
        }
        report_ = trainer_->train_epoch(data_.train, ++done_, options_.epochs, observe_);
        if (data_.test.size() > 0 && (done_ % options_.test_every == 0 || done_ == options_.epochs)) {
            report_.test = trainer_->evaluate(data_.test);
            report_.tested = true;
            report_.of_values = !detail::has_accuracy<Trainer>;
            report_.best = tests_.take(report_.test, options_);
        }
        if (report_.best) {
            best_ = report_;
            if (options_.keep_best) keep_weights();
        }
        if constexpr (epoch_observer<Observer>)
            if (trainer_->rank() == 0) observe_(std::as_const(report_));
    }

    TRIREME_COLD void keep_weights() {
        parameters_ = trainer_->gather_parameters();
        buffers_ = trainer_->gather_buffers();
    }

    Trainer* trainer_;
    Data data_;
    fit_options options_;
    Observer observe_;
    int done_ = 0; ///< epochs
    bool over_ = false;
    epoch_report report_, best_;
    detail::test_record tests_;
    std::vector<typename Trainer::value_type> parameters_, buffers_; ///< of the best epoch, with keep_best
};

} // namespace trireme
