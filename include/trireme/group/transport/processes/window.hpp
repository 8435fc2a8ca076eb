// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__linux__)
#error "trireme/processes.hpp: memory that processes share is made with memfd_create, which Linux has"
#endif

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/helper_thread.hpp>
#include <trireme/group/transport/processes/available_memory.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trireme::processes {

/// Memory could not be shared between processes: there is too little, or a peer's cannot be reached.
class window_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Zeroed memory that other processes of the machine can map: a sealed memfd. Its pages are there before the first
/// touch, and nobody can shrink it: neither a full file system nor a peer makes an access end in SIGBUS. It needs no
/// room in /dev/shm, which containers often cut to 64 MB.
class window {
public:
    window() = default;

    /// Takes `bytes`, at least 1, rounded up to pages. Throws window_error, with the numbers, before anything is
    /// touched if there is too little memory. `what` is for messages.
    static window create(std::size_t bytes, char const* what) {
        auto const free = available_memory();
        if (bytes > free)
            throw window_error(std::string(what) + ": " + std::to_string(bytes) +
                               " bytes of shared memory are asked for, and " + std::to_string(free) +
                               " are available on this machine, or to its container: use fewer processes on it, a "
                               "smaller network, or raise the container's memory limit");
        window w;
        w.descriptor_ = memfd_create("trireme", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (w.descriptor_ < 0) refuse(what, "memfd_create", bytes);
        w.bytes_ = bytes;
        if (bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max()) ||
            ftruncate(w.descriptor_, static_cast<off_t>(bytes)) != 0)
            refuse(what, "ftruncate", bytes);
        errno = w.take_pages();
        if (errno != 0) refuse(what, "fallocate", bytes);
        if (fcntl(w.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
            refuse(what, "sealing", bytes);
        w.map(what);
        return w;
    }

    /// Maps the window that process `owner` has as `descriptor`. Throws window_error if it cannot be reached.
    static window open(int owner, int descriptor, std::size_t bytes, char const* what) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/fd/%d", owner, descriptor);
        window w;
        w.descriptor_ = ::open(path, O_RDWR | O_CLOEXEC);
        int const error = errno;
        if (w.descriptor_ < 0)
            throw window_error(std::string(what) + ": " + path + " cannot be opened (" + std::strerror(error) + "): " +
                               remedy(error,
                                      "processes that share memory run as one user and see one another's process "
                                      "numbers; in containers start them in one, or with a common PID namespace"));
        struct stat found{};
        if (fstat(w.descriptor_, &found) != 0 || found.st_size < static_cast<off_t>(bytes))
            throw window_error(std::string(what) + ": " + path + " has " + std::to_string(found.st_size) +
                               " bytes, not the " + std::to_string(bytes) +
                               " that its owner has told: all processes must be of one build");
        w.bytes_ = bytes;
        w.map(what);
        return w;
    }

    window(window&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)),
          descriptor_(std::exchange(other.descriptor_, -1)), kept_(std::exchange(other.kept_, nullptr)),
          kept_bytes_(std::exchange(other.kept_bytes_, 0)) {}
    window& operator=(window&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(descriptor_, other.descriptor_);
        std::swap(kept_, other.kept_);
        std::swap(kept_bytes_, other.kept_bytes_);
        return *this;
    }
    ~window() {
        if (kept_ != nullptr && kept_ != MAP_FAILED)
            munmap(kept_, kept_bytes_); // the memory in it, too
        else if (data_ != nullptr)
            munmap(data_, bytes_);
        close_descriptor();
    }

    void* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    int descriptor() const noexcept { return descriptor_; }
    /// Keeps the memory, which needs none.
    void close_descriptor() noexcept {
        if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
    }
    explicit operator bool() const noexcept { return data_ != nullptr; }

private:
    /// Takes all pages; returns the kernel's error, 0 for none. A signal makes the kernel give back what one call has
    /// taken, and one that comes again and again would do so for ever: signals wait for the end of a piece.
    int take_pages() const noexcept {
        constexpr std::size_t piece = std::size_t{64} << 20;
        int failed = 0;
        for (std::size_t from = 0; from < bytes_ && failed == 0; from += piece) {
            auto const begin = static_cast<off_t>(from), length = static_cast<off_t>(std::min(piece, bytes_ - from));
            failed = without_signals([&] {
                int error = 0;
                do { // signals that cannot be blocked remain
                    error = fallocate(descriptor_, 0, begin, length) == 0 ? 0 : errno;
                } while (error == EINTR);
                return error;
            });
        }
        return failed;
    }

    /// Large ones begin on a huge page, in a piece of the address space that is kept free for it.
    void map(char const* what) {
        bool const huge = bytes_ >= 2 * huge_page;
        void* wanted = nullptr;
        if (huge) {
            kept_bytes_ = bytes_ + huge_page;
            kept_ = mmap(nullptr, kept_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (kept_ == MAP_FAILED) refuse(what, "mmap", bytes_);
            wanted = reinterpret_cast<void*>(round_up(reinterpret_cast<std::uintptr_t>(kept_), huge_page));
        }
        auto* const at = mmap(wanted, bytes_, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_POPULATE | (huge ? MAP_FIXED : 0), descriptor_, 0);
        if (at == MAP_FAILED) refuse(what, "mmap", bytes_);
        data_ = at;
        if (huge) gather_into_huge_pages();
    }
    /// Passes over large arenas are up to three times as fast so; the kernel may refuse (it knows this from 6.1 on).
    void gather_into_huge_pages() const noexcept {
        constexpr int collapse = 25; // MADV_COLLAPSE, which older headers lack
        madvise(data_, bytes_ / huge_page * huge_page, collapse);
    }
    [[noreturn]] TRIREME_COLD static void refuse(char const* what, char const* call, std::size_t bytes) {
        int const error = errno;
        throw window_error(std::string(what) + ": " + std::to_string(bytes) + " bytes of shared memory: " + call +
                           " failed (" + std::strerror(error) + "); " +
                           remedy(error,
                                  "use fewer processes on this machine, a smaller network, or raise the limits of its "
                                  "memory"));
    }
    /// Words that help after an error of the kernel.
    TRIREME_COLD static char const* remedy(int error, char const* otherwise) noexcept {
        return error == EMFILE   ? "raise the limit of open files (ulimit -n)"
               : error == ENFILE ? "raise the machine's limit of open files (fs.file-max)"
                                 : otherwise;
    }

    void* data_ = nullptr;
    std::size_t bytes_ = 0;
    int descriptor_ = -1;
    void* kept_ = nullptr; ///< address space round a large window
    std::size_t kept_bytes_ = 0;
};

} // namespace trireme::processes
