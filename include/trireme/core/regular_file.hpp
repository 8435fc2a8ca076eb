// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trireme::detail {

/// The system's words for an errno.
inline std::string reason(int number) { return std::generic_category().message(number); }

/// Closes the file.
struct descriptor {
    explicit descriptor(int opened) noexcept : number(opened) {}
    descriptor(descriptor const&) = delete;
    descriptor& operator=(descriptor const&) = delete;
    ~descriptor() {
        if (number >= 0) ::close(number);
    }
    int number;
};

/// A regular file that is open for reading at any place, also by several threads at a time.
class regular_file {
public:
    /// `flags`: more of open's, as O_NOFOLLOW.
    TRIREME_COLD explicit regular_file(std::string path, int flags = 0)
        // O_NONBLOCK: opening a FIFO must not wait for a writer before we can see that it is one.
        : path_(std::move(path)),
          file_(::open(checked_path(path_).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags)) {
        if (file_.number < 0) {
            fail("the file cannot be opened (" + reason(errno) + "): check the path and its permissions");
        }
        struct ::stat about = {};
        if (::fstat(file_.number, &about) != 0) fail("the file cannot be examined: " + reason(errno));
        if (!S_ISREG(about.st_mode)) {
            fail(std::string("data is read from regular files only, and this is ") +
                 (S_ISDIR(about.st_mode)    ? "a folder; pass the path of a file in it"
                  : S_ISFIFO(about.st_mode) ? "a pipe; save its content to a file first"
                                            : "a device or socket; save its content to a file first"));
        }
        size_ = static_cast<std::uint64_t>(about.st_size);
    }

    std::string const& path() const noexcept { return path_; }

    /// Bytes in the file when it was opened.
    std::uint64_t size() const noexcept { return size_; }

    /// The descriptor, open as long as this.
    int number() const noexcept { return file_.number; }

    [[noreturn]] void fail(std::string const& what) const { throw data_error(path_, what); }
    [[noreturn]] void fail(std::uint64_t at, std::string const& what) const { throw data_error(path_, at, what); }

    /// Bytes from byte `at` on, as many as the disk gives at once; 0 only where the file ends.
    std::size_t read_some(std::uint64_t at, std::span<std::byte> out) const {
        for (;;) {
            auto const got = ::pread(file_.number, out.data(), out.size(), static_cast<::off_t>(at));
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR) fail(at, "the file cannot be read: " + reason(errno));
        }
    }

    /// Fills `out` from byte `at` on.
    void read(std::uint64_t at, std::span<std::byte> out) const {
        while (!out.empty()) {
            auto const got = read_some(at, out);
            if (got == 0) {
                fail(at, "the file had " + std::to_string(size_) +
                             " bytes when it was opened, and now ends here: let nobody change it while it is read");
            }
            at += got;
            out = out.subspan(got);
        }
    }

private:
    std::string path_;
    descriptor file_;
    std::uint64_t size_ = 0;
};

} // namespace trireme::detail
