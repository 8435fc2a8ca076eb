// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What bf16 between the layers takes: a processor, and memory.

#include <onednn/by_onednn.hpp>
#include <support/promises.hpp>

#include <trireme/onednn.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace onednn_bf16_test {
using namespace trireme;
using promises::any_layout;
using promises::by_onednn;
using test_networks::lenet;

TEST_SUITE("onednn/bf16") {
    TEST_CASE("a processor without AVX-512 is told so") {
        std::string const own = std::filesystem::read_symlink("/proc/self/exe").string();
        auto const played =
            "ONEDNN_MAX_CPU_ISA=AVX2 '" + own +
            "' --no-skip --no-colors --test-case='onednn on AVX2*' | grep -q 'cases: *1 | *1 passed | *0 failed'";
        CHECK(std::system(played.c_str()) == 0); // doctest ends well, too, where no case has this name
    }
    TEST_CASE("onednn on AVX2, in a process of its own" * doctest::skip()) {
        CHECK_THROWS_WITH_AS((trainer<lenet, cross_entropy, sgd, kernels<onednn>, precision<bf16>>{}),
                             doctest::Contains("oneDNN has no bf16 for this processor, it takes AVX-512"),
                             device_error);
    }

    TEST_CASE("activations take half of the memory") {
        using t = any_layout<by_onednn<bf16>, by_onednn<bf16>::layers>;
        using wide = any_layout<by_onednn<f32>, by_onednn<f32>::layers>;
        auto const memory = []<class Trainer>(Trainer*) {
            return Trainer::plan(batch{64}, Trainer::layout_of({.batch = 64}, {.devices = 2})).memory(0);
        };
        auto const bf = memory(static_cast<t*>(nullptr)), f = memory(static_cast<wide*>(nullptr));
        CHECK(bf.parameters == f.parameters);
        CHECK(bf.gradients == f.gradients);
        CHECK(bf.activations * 10 < f.activations * 6);
        CHECK(bf.workspace < f.workspace);
    }
}

} // namespace onednn_bf16_test
