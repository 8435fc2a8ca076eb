// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace trireme {

/// Gives up an object that a device which does not answer may still be using: to destroy it would be to wait for that
/// device. It stays until the process ends, and leak checkers can see why.
template<class T>
void leave_behind(std::unique_ptr<T> object) {
    static std::mutex mutex;
    static auto& all = *new std::vector<T*>;
    std::lock_guard const lock(mutex);
    all.push_back(object.release());
}

} // namespace trireme
