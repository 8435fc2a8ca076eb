// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace trireme {

/// Accelerators of one process that read one another's memory. One thread drives all of them; rank r is device r, or,
/// where ranks share devices, device r modulo their number.
template<accelerator Device>
class peer_group {
public:
    /// Throws usage_error if there are fewer devices than ranks and they are not to be shared, or if two devices cannot
    /// reach each other's memory.
    explicit peer_group(int ranks, bool share_devices = false,
                        std::chrono::duration<double> wait_limit = std::chrono::seconds(30))
        : device_(static_cast<std::size_t>(ranks)), wait_limit_(wait_limit) {
        int const present = Device::count();
        if (ranks > present && !share_devices) refuse_number(ranks, present);
        for (int r = 0; r < ranks; ++r) device_[static_cast<std::size_t>(r)] = r % present;
        for (int a = 0; a < present && a < ranks; ++a)
            for (int b = 0; b < present && b < ranks; ++b) {
                if (!Device::reaches(a, b)) refuse_pair(a, b);
                if (a != b) Device::enable_peers(a, b);
            }
    }

    /// The part of a group that these ranks are.
    peer_group(peer_group const& whole, std::vector<int> const& members) : wait_limit_(whole.wait_limit_) {
        for (int const r : members) device_.push_back(whole.device_of(r));
    }

    int size() const noexcept { return static_cast<int>(device_.size()); }
    int device_of(int rank) const noexcept { return device_[static_cast<std::size_t>(rank)]; }

    std::chrono::duration<double> wait_limit() const noexcept { return wait_limit_; }

private:
    [[noreturn]] TRIREME_COLD static void refuse_number(int ranks, int present) {
        std::string const name = Device::name;
        throw usage_error("a mesh of " + std::to_string(ranks) + " devices of kind " + name + " was asked for, and " +
                          std::to_string(present) + (present == 1 ? " is" : " are") +
                          " there: use a smaller mesh, or let ranks share a device with the option share_devices");
    }
    [[noreturn]] TRIREME_COLD static void refuse_pair(int a, int b) {
        std::string const name = Device::name;
        throw usage_error(name + " " + std::to_string(a) + " cannot read the memory of " + name + " " +
                          std::to_string(b) +
                          ": transport<peer> needs that; choose devices that are connected, or transport<nccl>");
    }

    std::vector<int> device_;
    std::chrono::duration<double> wait_limit_;
};

} // namespace trireme
