// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of a GPU and of several ranks on one, beside the host's own training.

#include <cuda/on_gpu.hpp>
#include <support/promises.hpp>

#include <trireme/cuda.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace promises {
using by_libraries = on_gpu<f32, kernels<cuda_library_kernels>>;
using by_block_programs = on_gpu<f32, kernels<cuda_block_kernels>>;

TEST_SUITE_BEGIN("cuda/promises");
TEST_CASE_TEMPLATE_INVOKE(promise_of_the_reference, on_gpu<f64>, on_gpu<f32>, by_libraries, by_block_programs);
TEST_CASE_TEMPLATE_INVOKE(promise_of_sums, on_gpu<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_any_size, on_gpu<f64>, on_gpu<f32>, by_libraries, by_block_programs);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, on_gpu<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits_in_sums, on_gpu<f64>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_strategies, by_block_programs);
TEST_CASE_TEMPLATE_INVOKE(promise_of_loading, on_gpu<f32>);
TEST_CASE_TEMPLATE_INVOKE(promise_of_refusal, on_gpu<f64>);

TEST_CASE("LeNet learns, and is judged like the host judges it") {
    using lenet_on_gpu = data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<gpu, dp<1>>>>;
    lenet_on_gpu t({.learning_rate = 0.5f, .batch = 50}, cuda_test::patient(lenet_on_gpu::run_options{}));
    data_parallel_trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<1>>>> judge({.learning_rate = 0.5f});
    auto const images = made_up(500);
    auto const before = t.evaluate(images);
    for (auto const& epoch : t.fit({images, {}}, {.epochs = 20})) static_cast<void>(epoch);
    auto const after = t.evaluate(images);
    CHECK(after.loss < before.loss);
    judge.load_parameters(weights(t));
    auto const judged = judge.evaluate(images);
    CHECK(judged.loss == doctest::Approx(after.loss).epsilon(1e-4));
    CHECK(std::abs(judged.accuracy - after.accuracy) <= 0.01);
}
TEST_SUITE_END();
} // namespace promises
