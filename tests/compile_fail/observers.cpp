// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Observers: what a training is watched by.
// On the page: observers
#include "prelude.hpp"

namespace tri0110 {
// A function that takes neither report would never be called.
#if defined(TAKES_A_LOSS)
// TAKES_A_LOSS: TRI0110 | progress_report const& | epoch_report const& | gets<
// errors <= 1
inline void watch(double loss) { std::cout << loss << '\n'; }
#elif defined(TAKES_WHAT_IT_CHANGES)
// TAKES_WHAT_IT_CHANGES: TRI0110 | progress_report const& | epoch_report const& | gets<
// errors <= 1
inline void watch(epoch_report& epoch) { epoch.loss = 0; }
#elif defined(AMONG_OTHERS)
// AMONG_OTHERS: TRI0110 | progress_report const& | epoch_report const& | gets<int>
inline auto const watched_by = observers([](epoch_report const&) {}, 7);
inline void watch(epoch_report const& epoch) { std::cout << epoch.loss << '\n'; }
#else
inline void watch(epoch_report const& epoch) { std::cout << epoch.loss << '\n'; }
#endif
inline void learn(my_trainer<>& t, dataset const& data) { t.train(data, {.epochs = 10}, &watch); }
} // namespace tri0110
