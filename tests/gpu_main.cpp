// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The main program of tests that need a GPU. Without one they are skipped: exit code 77.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstdio>

int main(int argc, char** argv) {
    constexpr int skipped = 77;
    int devices = 0;
    auto const status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0) {
        std::printf("skipped: no GPU can be used (%s)\n",
                    status != cudaSuccess ? cudaGetErrorString(status) : "there is none");
        return skipped;
    }
    return doctest::Context(argc, argv).run();
}
