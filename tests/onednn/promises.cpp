// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of oneDNN's kernels: on threads, with one copy of the weights, and in processes.

#include <onednn/by_onednn.hpp>
#include <processes/in_processes.hpp>
#include <support/promises.hpp>

#include <doctest/doctest.h>

namespace promises {
using in_f32 = by_onednn<f32>;
/// The bits are those of a copy per rank.
struct with_one_copy : by_onednn<f32> {
    template<class Network, class... Policies>
    using trainer = typename by_onednn<f32>::template trainer<Network, hold_weights<once>, Policies...>;
    static constexpr bool chooses_strategy = false;
    using reference = by_onednn<f32>;
    static constexpr nearness near = {};
};

TEST_SUITE_BEGIN("onednn/promises");
TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, in_f32, with_one_copy, in_processes<in_f32, kernels<onednn>>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_sums, in_f32);
TEST_CASE_TEMPLATE_INVOKE(promise_of_any_size, in_f32);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, in_f32, by_onednn<bf16>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits_in_sums, in_f32);
TEST_CASE_TEMPLATE_INVOKE(promise_of_loading, in_f32, by_onednn<bf16>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_refusal, in_f32);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bf16, by_onednn<bf16>);
TEST_SUITE_END();
} // namespace promises
