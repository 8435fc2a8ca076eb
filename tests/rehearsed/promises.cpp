// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of accelerators: rehearsed on the host, beside the host's own training.

#include <rehearsed/trainings.hpp>
#include <support/promises.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

namespace promises {
TEST_SUITE_BEGIN("rehearsed/promises");
TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, on_rehearsal<f64>, on_rehearsal<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_sums, on_rehearsal<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_any_size, on_rehearsal<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, on_rehearsal<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits_in_sums, on_rehearsal<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_strategies, on_rehearsal<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_one_batch, on_rehearsal<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_parts, on_rehearsal<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_loading, on_rehearsal<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_refusal, on_rehearsal<f32>);
TEST_SUITE_END();
} // namespace promises
