// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What every trainer promises, of accelerators with bf16 between the layers, the channels first or last.

#include <rehearsed/trainings.hpp>
#include <support/promises.hpp>

#include <trireme/rehearsal.hpp>

#include <support/compare.hpp>
#include <support/networks.hpp>

#include <doctest/doctest.h>

#include <cstddef>

namespace promises {
using in_bf16 = on_rehearsal<bf16>;
using channels_last_in_bf16 = on_rehearsal<bf16, kernels<channels_last<rehearsal::kernels>>>;

TEST_SUITE_BEGIN("rehearsed/promises in bf16");
TEST_CASE_TEMPLATE_INVOKE(promise_of_bf16, in_bf16, channels_last_in_bf16);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits, in_bf16, channels_last_in_bf16);
TEST_CASE_TEMPLATE_INVOKE(promise_of_bits_in_sums, in_bf16, channels_last_in_bf16);
TEST_CASE_TEMPLATE_INVOKE(promise_of_loading, in_bf16, channels_last_in_bf16);

TEST_CASE("channels last, the same network: parameters move alike") {
    // statistics and gradients are added in another order; a value that is then rounded the other way moves a small
    // tensor by a fifth (0.18 with clang 14 and AVX2, 0.02 with g++ 12)
    using of_first = any_layout<in_bf16, every_layer>;
    using of_last = any_layout<channels_last_in_bf16, every_layer>;
    auto const order = in_bf16::orders().front();
    auto const before = weights(of_first({.seed = 3}));
    for (std::size_t const shards : {std::size_t{0}, std::size_t{4}}) {
        CAPTURE(shards);
        auto const is = channels_last_in_bf16::trained<of_last>(
            {{.batch = 64, .logical_shards = shards}, {.devices = 2}}, order, {64});
        auto const wanted =
            in_bf16::trained<of_first>({{.batch = 64, .logical_shards = shards}, {.devices = 2}}, order, {64});
        CHECK(test_support::apart(is.told, wanted.told) < 0.007);
        CHECK(moved_apart<every_layer>(before, is.numbers, wanted.numbers) < 0.2);
    }
}

TEST_CASE("values take half of the memory of those in float, but for bytes that layers save") {
    std::size_t saved = 0; // of a sample
    for (std::size_t i = 0; i < every_layer::depth; ++i) saved += every_layer::row(i).description.saved_bytes;
    using narrow = any_layout<in_bf16, every_layer>;
    using wide = any_layout<on_rehearsal<f32>, every_layer>;
    for (int const ranks : {1, 3}) {
        auto const is = narrow::plan(batch{60}, narrow::layout_of({.batch = 60}, {.devices = ranks}));
        auto const other = wide::plan(batch{60}, wide::layout_of({.batch = 60}, {.devices = ranks}));
        auto const samples = 60 / static_cast<std::size_t>(ranks);
        CHECK(2 * is.memory(0).activations < other.memory(0).activations + samples * saved + 1024);
        CHECK(is.memory(0).parameters < other.memory(0).parameters * 5 / 2);
        CHECK(is.wire_bytes_per_step() == other.wire_bytes_per_step());
    }
}
TEST_SUITE_END();
} // namespace promises
