// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that a group cannot run. What compiles takes the communicator by reference, named or not.
// On the page: groups
#include "prelude.hpp"

namespace tri0070 {
// A communicator counts the steps that its rank has completed, and its peers wait for these counts. A copy would go on
// from where it was made: from the second run on it would read what its peers have not written yet. So communicators
// cannot be copied.
void run(threads::group& group) {
#if defined(A_COPY_OF_THREADS)
    // A_COPY_OF_THREADS: TRI0070: a group runs a function that takes the communicator of its rank by reference
    // | write [](auto& me) { ... } | wants< | threads::communicator
    // errors <= 1
    group.run([](auto me) { barrier<direct>(me); });
#elif defined(A_NAMED_COPY)
    // A_NAMED_COPY: TRI0070 | threads::communicator
    // errors <= 1
    group.run([](threads::communicator me) { barrier<direct>(me); });
#elif defined(NO_PARAMETER)
    // NO_PARAMETER: TRI0070 | write [](auto& me) { ... }
    // errors <= 1
    group.run([] {});
#else
    group.run([](auto& me) { barrier<direct>(me); });
#endif
}
} // namespace tri0070

namespace by_name {
void run(threads::group& group) {
    group.run([](threads::communicator& me) { barrier<direct>(me); });
}
} // namespace by_name
