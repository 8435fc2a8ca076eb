// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// nvcc takes every header of the host, evaluates its static_asserts in its own pass as well as in the host compiler's,
// and both agree on a network and its plan.
#include <trireme/trireme.hpp>

int main() {}
