// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of a GPU with bf16 between the layers, the channels first or last.

#include <cuda/on_gpu.hpp>
#include <support/networks.hpp>
#include <support/promises.hpp>

#include <trireme/cuda.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace promises {
using in_bf16 = on_gpu_with_wide_layers<bf16>;
template<class Kernels>
using channels_last_by = on_gpu_with_wide_layers<bf16, kernels<channels_last<Kernels>>>;

TEST_SUITE_BEGIN("cuda/promises in bf16");
TEST_CASE_TEMPLATE_INVOKE(promise_of_bf16, in_bf16);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, in_bf16, channels_last_by<cuda_kernels>);

TEST_CASE("channels last, the same network: parameters move alike, whatever computes") {
    std::vector<std::size_t> const sizes = {48, 48, 48, 48, 30};
    auto const of = [&]<class Way>(Way*) {
        return Way::template trained<any_layout<Way, wide_layers>>({{.batch = 48, .logical_shards = 4}, {.devices = 1}},
                                                                   {false}, sizes);
    };
    auto const first = of(static_cast<in_bf16*>(nullptr));
    auto const before = weights(any_layout<in_bf16, wide_layers>({.seed = 3}));
    auto const near = [&](auto const& last) {
        REQUIRE(last.told.size() == first.told.size());
        for (std::size_t i = 0; i < first.told.size(); ++i) {
            double const allowed = i % 3 == 2 ? 0.034 : 0.02; // an accuracy: one of 30 samples may be judged otherwise
            CHECK(std::abs(last.told[i] - first.told[i]) < allowed * (1 + std::abs(first.told[i])));
        }
        CHECK(moved_apart<wide_layers>(before, last.numbers, first.numbers) < 0.2);
    };
    near(of(static_cast<channels_last_by<cuda_kernels>*>(nullptr)));
    near(of(static_cast<channels_last_by<cuda_block_kernels>*>(nullptr)));
    near(of(static_cast<channels_last_by<cuda_library_kernels>*>(nullptr)));
}
TEST_SUITE_END();
} // namespace promises
