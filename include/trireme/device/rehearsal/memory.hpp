// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/device/host/memory.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace trireme::rehearsal_runtime {

/// The number of rehearsal devices, the bytes of memory that each has, and those that are taken. For tests; used by one
/// thread.
struct memory_budget {
    static constexpr int most_devices = 8;
    int devices = most_devices;
    std::size_t total = std::size_t{1} << 40;
    std::size_t taken[most_devices] = {};

    /// An area of a device's memory, and what it was taken for.
    struct area {
        std::byte* data;
        std::size_t bytes;
        char const* what;
    };
    std::vector<area> areas;
};
inline memory_budget budget;

/// Zeroed memory of a rehearsal device: the host's.
class memory {
public:
    memory() = default;
    /// Throws usage_error if the device has not so much left.
    memory(int device, std::size_t bytes, char const* what) : device_(device) {
        auto& taken = budget.taken[device];
        if (bytes > budget.total - taken)
            throw usage_error("rehearsal " + std::to_string(device) + " has no memory for the " + what + ": " +
                              std::to_string(bytes) + " bytes were asked for, " + std::to_string(budget.total - taken) +
                              " are free; use a smaller batch, or more devices");
        memory_ = host_memory(bytes);
        taken += bytes;
        if (bytes != 0) budget.areas.push_back({static_cast<std::byte*>(memory_.data()), bytes, what});
    }
    memory(memory&& other) noexcept : device_(other.device_), memory_(std::move(other.memory_)) {}
    memory& operator=(memory&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(memory_, other.memory_);
        return *this;
    }
    ~memory() {
        budget.taken[device_] -= memory_.bytes();
        if (memory_.bytes() != 0) std::erase_if(budget.areas, [this](auto const& a) { return a.data == data(); });
    }

    void* data() const noexcept { return memory_.data(); }
    std::size_t bytes() const noexcept { return memory_.bytes(); }
    int device() const noexcept { return device_; }

private:
    int device_ = 0;
    host_memory memory_;
};

/// Memory of the host for copies to and from devices.
class pinned_memory {
public:
    pinned_memory() = default;
    explicit pinned_memory(std::size_t bytes) : memory_(bytes) {}
    void* data() const noexcept { return memory_.data(); }
    std::size_t bytes() const noexcept { return memory_.bytes(); }

private:
    host_memory memory_;
};

} // namespace trireme::rehearsal_runtime
