// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of devices that are processes: they train as threads do.

#include <processes/in_processes.hpp>
#include <support/promises.hpp>

#include <doctest/doctest.h>

namespace promises {
using with_copies = in_processes<on_threads<f32>>;
using with_one_copy = in_processes<held_once<f32>, hold_weights<once>>;

TEST_SUITE_BEGIN("processes/promises");
TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, with_copies, with_one_copy);
TEST_CASE_TEMPLATE_INVOKE(promise_of_sums, with_copies);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, with_copies);
TEST_CASE_TEMPLATE_INVOKE(promise_of_strategies, with_copies);
TEST_SUITE_END();
} // namespace promises
