// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/left_behind.hpp>
#include <trireme/device/accelerator.hpp>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace trireme {

/// Copies `bytes` of the host to a device's memory, before a step needs them; `rank` is for the message. Throws
/// deadline_error if the device has not taken them by then.
template<accelerator Device>
void upload_table(int rank, int device, void* to, void const* from, std::size_t bytes,
                  std::chrono::duration<double> limit) {
    struct transfer {
        typename Device::pinned_memory host;
        typename Device::stream copying;
        typename Device::event copied;
    };
    std::unique_ptr<transfer> t(new transfer{typename Device::pinned_memory(bytes), typename Device::stream(device),
                                             typename Device::event(device)});
    std::memcpy(t->host.data(), from, bytes);
    t->copying.copy(to, t->host.data(), bytes);
    t->copying.record(t->copied);
    if (await(t->copied, deadline::in(limit))) return;
    leave_behind(std::move(t));
    throw deadline_error(rank, std::string(Device::name) + " " + std::to_string(device) + " did not take a table of " +
                                   std::to_string(bytes) +
                                   " bytes within the deadline: is another program keeping it busy?");
}

} // namespace trireme
