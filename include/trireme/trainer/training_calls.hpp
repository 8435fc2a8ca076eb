// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/words.hpp>
#include <trireme/trainer/fit.hpp>

#include <concepts>
#include <type_traits>

namespace trireme {

/// Arguments of `fit` and `train` that are not training data, then options.
template<class... Where>
struct training_call_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0149: fit and train take training data, then options: t.train(training_set{learnt, tested}, "
                  "{.epochs = 10}); training data are two sources of samples in one object, as a dataset is, and as "
                  "split gives them; without tests pass training_set{learnt}");
};

namespace detail {

/// True for the first two arguments of `fit` and `train` as they are to be.
template<class Data, class Options>
inline constexpr bool is_training = training_data<Data> && std::convertible_to<Options const&, fit_options>;

/// Type of a missing third argument: no_observer, or fit_options where two sets of samples precede the options.
template<class Data, class Options>
using default_observer = std::conditional_t<is_training<Data, Options>, no_observer, fit_options>;

/// Default options of a call whose first two arguments are no training data and options: the compiler refuses it.
template<class... Given>
fit_options no_training() {
    [[maybe_unused]] static constexpr training_call_rule<gets<Given>...> checked{};
    return {};
}
/// Default options of a call that has none: the compiler refuses it.
template<class Data>
fit_options no_options() {
    if constexpr (training_data<Data>)
        return no_training<Data>();
    else
        return no_training<Data, fit_options>(); // the rule that the data break anyway, so that it is one error
}

} // namespace detail
} // namespace trireme
