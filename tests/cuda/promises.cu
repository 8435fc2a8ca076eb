// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of a GPU and of several ranks on one, beside the host's own training.

#include <cuda/on_gpu.hpp>
#include <trainer/promises.hpp>

#include <trireme/cuda.hpp>

#include <doctest/doctest.h>

namespace promises {
using by_libraries = on_gpu<f32, kernels<cuda_library_kernels>>;
using by_block_programs = on_gpu<f32, kernels<cuda_block_kernels>>;

TEST_SUITE_BEGIN("cuda/promises");
TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, on_gpu<f64>, on_gpu<f32>, by_libraries, by_block_programs);
TEST_CASE_TEMPLATE_INVOKE(promise_of_sums, on_gpu<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_any_size, by_block_programs);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, on_gpu<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits_in_sums, on_gpu<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_strategies, by_block_programs);
TEST_CASE_TEMPLATE_INVOKE(promise_of_loading, on_gpu<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_refusal, on_gpu<f32>);
TEST_SUITE_END();
} // namespace promises
