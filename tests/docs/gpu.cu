// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of docs/gpu.md.
#include <trireme/cuda.hpp>

#include <doctest/doctest.h>

using namespace trireme;

namespace gpu_guide {

using net = network<input<1, 28, 28>, flatten, linear<10>>;

// [gpu]
using on_processors = trainer<net, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<ring>>;
using on_gpus = trainer<net, cross_entropy, sgd, on<mesh<gpu, dp<2>>>, reduce_by<ring>>;
// [/gpu]

// [tokens]
using decoder = gpt<gpt_sizes{.layers = 2, .width = 384, .heads = 6, .context = 256, .vocabulary = 50257}>;
using tokens_on_gpus = trainer<decoder, cross_entropy, adamw, on<mesh<gpu, dp<2>>>, precision<bf16>>;
// [/tokens]

// [channels_last]
using in_bf16 =
    trainer<net, cross_entropy, sgd, on<mesh<gpu, dp<1>>>, precision<bf16>, kernels<channels_last<cuda_kernels>>>;
// [/channels_last]

} // namespace gpu_guide

TEST_SUITE("docs/gpu") {
    TEST_CASE("the same program, the same plan of what travels") {
        using namespace gpu_guide;
        static_assert(on_gpus::plan(batch{64}).wire_bytes_per_step() ==
                      on_processors::plan(batch{64}).wire_bytes_per_step());
        using channels_first = trainer<net, cross_entropy, sgd, on<mesh<gpu, dp<1>>>, precision<bf16>>;
        static_assert(in_bf16::plan(batch{64}).memory(0).total() == channels_first::plan(batch{64}).memory(0).total());
        // [processes]
        on_gpus::run_options const r{.processes = process_of{.index = 1, .count = 4, .id_file = "/shared/run-17"}};
        // [/processes]
        CHECK_THROWS_AS((on_gpus{{.batch = 64}, r}), usage_error); // transport<peer> is for one process
        on_gpus const t{{.batch = 64}, {.share_devices = true}};
        CHECK(t.devices() == 2);
        tokens_on_gpus const of_tokens{{.batch = 4}, {.share_devices = true}};
        CHECK(of_tokens.devices() == 2);
    }
}
