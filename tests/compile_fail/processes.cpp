// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that a group of processes cannot run.
#include "prelude.hpp"
#include <trireme/processes.hpp>

namespace over_processes {
void run(processes::group& group) {
#if defined(A_COPY_OF_PROCESSES)
    // A_COPY_OF_PROCESSES: TRI0070 | wants< | processes::communicator
    // errors <= 1
    group.run([](auto me) { barrier<direct>(me); });
#else
    group.run([](auto& me) { barrier<direct>(me); });
#endif
}
} // namespace over_processes
