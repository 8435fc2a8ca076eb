// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/words.hpp>
#include <trireme/trainer/report.hpp>

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

namespace trireme {

/// Types that observe every step, or every epoch.
template<class O>
concept step_observer = std::invocable<O&, progress_report const&>;
template<class O>
concept epoch_observer = std::invocable<O&, epoch_report const&>;

/// An observer is called after every step, with a progress_report; or after every epoch and its test, with an
/// epoch_report; or both.
template<class O>
concept observer = step_observer<O> || epoch_observer<O>;

/// An observer that does nothing.
struct no_observer {
    void operator()(progress_report const&) const noexcept {}
};

template<class... Where>
struct observer_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0110: this is no observer: it is called with a progress_report const& after every step, with an "
                  "epoch_report const& after every epoch, or with both; give it at least one such operator()");
};

/// Several observers as one: `observers(bar, log, std::ref(mine))` tells each of what it takes, in this order. It
/// copies them, as `fit` does.
template<class... Observers>
class observers {
public:
    using rule = std::conditional_t<(observer<Observers> && ...), no_rule, observer_rule<gets<Observers>...>>;
    static constexpr rule checked{};

    explicit observers(Observers... all) : all_(std::move(all)...) {}

    void operator()(progress_report const& p)
        requires(step_observer<Observers> || ...)
    {
        tell(p);
    }
    void operator()(epoch_report const& e)
        requires(epoch_observer<Observers> || ...)
    {
        tell(e);
    }

private:
    template<class Report>
    void tell(Report const& report) {
        std::apply([&](auto&... each) { (tell(each, report), ...); }, all_);
    }
    template<class Observer, class Report>
    static void tell(Observer& observe, Report const& report) {
        if constexpr (std::invocable<Observer&, Report const&>) observe(report);
    }

    std::tuple<Observers...> all_;
};

} // namespace trireme
