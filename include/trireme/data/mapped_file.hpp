// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/regular_file.hpp>

#include <cerrno>
#include <cstddef>
#include <limits>
#include <span>

#include <sys/mman.h>

namespace trireme::detail {

/// A mapped file stands in the address space whole, and the system reads the pages that are touched. It needs no
/// descriptor any more, and stays readable if the file is removed or replaced by another of its name.
///
/// A file that is cut off while it is mapped makes an access behind its new end raise SIGBUS, which ends the process; a
/// file that is overwritten gives other bytes. Neither can be noticed beforehand.
class mapped_file {
public:
    /// Errors: data_error if the file is empty or the system refuses.
    TRIREME_COLD explicit mapped_file(regular_file const& file) {
        if (file.size() == 0) file.fail(0, "the file is empty: write it again");
        if (file.size() > std::numeric_limits<std::size_t>::max() / 2)
            file.fail(0, "the file is larger than the address space: split it");
        size_ = static_cast<std::size_t>(file.size());
        auto* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.number(), 0);
        if (at == MAP_FAILED) file.fail(0, "the file cannot be mapped (" + reason(errno) + "): read it instead");
        data_ = static_cast<std::byte const*>(at);
    }
    mapped_file(mapped_file const&) = delete;
    mapped_file& operator=(mapped_file const&) = delete;
    ~mapped_file() { ::munmap(const_cast<std::byte*>(data_), size_); }

    std::span<std::byte const> bytes() const noexcept { return {data_, size_}; }

private:
    std::byte const* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace trireme::detail
