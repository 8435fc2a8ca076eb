// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdio>
#include <trireme/trireme.hpp>

// Threads and zlib have to be linked for this.
int main() {
    trireme::threads::group(2).run([](auto&) {});
    try {
        trireme::fashion_mnist::load("no such folder");
    } catch (trireme::data_error const&) {
        std::printf("Trireme %d.%d.%d\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR, TRIREME_VERSION_PATCH);
    }
}
