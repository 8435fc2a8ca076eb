// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/regular_file.hpp>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trireme {

/// Options of logs in text files.
struct log_options {
    bool steps = false;  ///< a record for every step; csv_log: instead of those of epochs
    bool append = false; ///< true keeps what the file holds already; else the first record replaces it
};

namespace detail {

/// A file that grows by whole records, each on its way to the disk when `add` returns; of a record that does not fit on
/// the disk nothing stays, so that the next one begins a line. Opening it changes nothing: of
/// several processes that open one file, that of rank 0 writes.
/// Errors: data_error if it cannot be opened or written.
class log_file {
public:
    TRIREME_COLD log_file(std::string path, bool append)
        : path_(std::move(path)), append_(append),
          file_(::open(checked_path(path_).c_str(),
                       O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (append ? O_APPEND : 0), 0666)) {
        if (file_.number < 0) fail("the log cannot be opened", errno);
        struct ::stat about = {};
        if (::fstat(file_.number, &about) != 0) fail("the log cannot be examined", errno);
        if (!S_ISREG(about.st_mode))
            throw data_error(path_, "a pipe or device is there, and logs are files: pass another path");
        size_ = append ? static_cast<std::uint64_t>(about.st_size) : 0;
    }

    std::uint64_t size() const noexcept { return size_; }

    void add(std::string_view record) {
        if (!append_ && size_ == 0 && ::ftruncate(file_.number, 0) != 0) fail("the log cannot be emptied", errno);
        auto const begin = size_;
        while (!record.empty()) {
            auto const done = ::write(file_.number, record.data(), record.size());
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) {
                auto const why = errno;
                cut_off(begin);
                fail("writing the log fails", why);
            }
            size_ += static_cast<std::uint64_t>(done);
            record.remove_prefix(static_cast<std::size_t>(done));
        }
    }

private:
    /// Takes away what a record has left behind byte `begin`, unless another program has written behind it.
    TRIREME_COLD void cut_off(std::uint64_t begin) noexcept {
        struct ::stat about = {};
        if (::fstat(file_.number, &about) != 0 || static_cast<std::uint64_t>(about.st_size) != size_) return;
        auto const end = static_cast<::off_t>(begin);
        if (::ftruncate(file_.number, end) == 0 && ::lseek(file_.number, end, SEEK_SET) == end) size_ = begin;
    }

    [[noreturn]] TRIREME_COLD void fail(char const* what, int number) const {
        auto const text =
            std::string(what) + " (" + reason(number) + "): check that the folder exists, may be written and has room";
        throw size_ == 0 ? data_error(path_, text) : data_error(path_, size_, text);
    }

    std::string path_;
    bool append_;
    descriptor file_;
    std::uint64_t size_ = 0;
};

/// One record of a text log, without allocation. Numbers are in the fewest digits that tell them from all others.
class log_text {
public:
    /// `not_finite`: what stands for NaN and infinities; if empty they are nan, inf and -inf.
    explicit log_text(std::string_view not_finite) noexcept : not_finite_(not_finite) {}

    log_text& operator<<(std::string_view text) noexcept {
        text = text.substr(0, room());
        std::memcpy(text_ + size_, text.data(), text.size());
        size_ += text.size();
        return *this;
    }
    log_text& operator<<(char const* text) noexcept { return *this << std::string_view(text); }
    log_text& operator<<(double value) noexcept {
        if (std::isfinite(value)) return put(value);
        if (!not_finite_.empty()) return *this << not_finite_;
        return *this << (std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    }
    template<std::integral N>
    log_text& operator<<(N value) noexcept {
        return put(value);
    }
    std::string_view view() const noexcept { return {text_, size_}; }

private:
    std::size_t room() const noexcept { return sizeof text_ - size_; }
    template<class N>
    log_text& put(N value) noexcept {
        auto const [end, error] = std::to_chars(text_ + size_, text_ + sizeof text_, value);
        if (error == std::errc()) size_ = static_cast<std::size_t>(end - text_);
        return *this;
    }

    std::string_view not_finite_;
    char text_[1024]; // records have at most twelve numbers of at most 24 digits
    std::size_t size_ = 0;
};

} // namespace detail
} // namespace trireme
