// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of devices that are threads.

#include <support/promises.hpp>

#include <doctest/doctest.h>

namespace promises {
TEST_SUITE_BEGIN("trainer/promises");
TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, held_once<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_any_size, held_once<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, on_threads<f32>, held_once<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits_in_sums, on_threads<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_strategies, on_threads<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_one_batch, on_threads<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_loading, on_threads<f32>, held_once<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_refusal, on_threads<f32>, held_once<f32>);
TEST_SUITE_END();
} // namespace promises
