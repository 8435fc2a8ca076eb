// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/device/host/own_process.hpp>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
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
/// the disk nothing stays, so that the next one begins a line. Opening it changes nothing: of several processes that
/// open one file, that of rank 0 writes. A file has one log that replaces what it held, or any number of logs that
/// append to it.
/// Errors: data_error if it cannot be opened or written, if another log writes it, or if it is to be appended to and
/// does not end with a line, or not begin with `names`.
class log_file {
public:
    /// `names`: the first line of the file; empty if records are the first.
    TRIREME_COLD log_file(std::string path, bool append, std::string_view names = {})
        : path_(std::move(path)), append_(append), names_(names),
          file_(::open(checked_path(path_).c_str(),
                       (append ? O_RDWR | O_APPEND : O_WRONLY) | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666)) {
        if (file_.number < 0) fail("the log cannot be opened", errno);
        struct ::stat about = {};
        if (::fstat(file_.number, &about) != 0) fail("the log cannot be examined", errno);
        if (!S_ISREG(about.st_mode))
            throw data_error(path_, "a pipe or device is there, and logs are files: pass another path");
        if (append) check_content();
    }
    log_file(log_file const&) = delete;
    log_file& operator=(log_file const&) = delete;
    ~log_file() {
        // a process that was forked may have the file open; its copy of this log has the same lock, and leaves it alone
        if (begun_ && begun_->is_this()) unlock();
    }

    void add(std::string_view record) {
        if (!begun_) begin();
        if (size_ == 0) write(names_);
        write(record);
    }

private:
    /// Keeps other logs off the file, until this one ends: what one writes, others would overwrite. File systems that
    /// have no locks go without.
    TRIREME_COLD void begin() {
        try {
            if (append_)
                begin_appending();
            else if (!lock(LOCK_EX))
                refuse();
            else if (::ftruncate(file_.number, 0) != 0)
                fail("the log cannot be emptied", errno);
        } catch (...) {
            unlock();
            throw;
        }
        begun_.emplace();
    }

    /// Logs that append share a lock. The lock of one log alone covers the look at an empty file and the names that it
    /// is to begin with: two logs whose first records meet would both write them. A log that goes from one lock to the
    /// other has none for a moment, in which the file may change, and so it looks again. Another log's own lock ends
    /// within the tries, unless that log replaces the file.
    void begin_appending() {
        for (int tries = 0; tries < 300; ++tries) {
            if (lock(LOCK_EX)) {
                check_content();
                if (size_ == 0) write(names_);
            }
            if (lock(LOCK_SH)) { // also where others append, which keep the first lock from this one
                check_content();
                if (size_ != 0 || names_.empty()) return;
            }
            unlock(); // so that one of two such logs gets the lock of one alone
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        refuse();
    }

    /// False if another log's lock forbids it; then this log has none.
    bool lock(int kind) const noexcept { return ::flock(file_.number, kind | LOCK_NB) == 0 || errno != EWOULDBLOCK; }
    void unlock() const noexcept { ::flock(file_.number, LOCK_UN); }

    [[noreturn]] TRIREME_COLD void refuse() const {
        throw data_error(path_, "another log writes this file, of this program or of another: pass a path of its own "
                                "for each log");
    }

    TRIREME_COLD void check_content() {
        struct ::stat about = {};
        if (::fstat(file_.number, &about) != 0) fail("the log cannot be examined", errno);
        size_ = static_cast<std::uint64_t>(about.st_size);
        if (size_ == 0) return;
        if (read(size_ - 1, 1) != "\n")
            throw data_error(path_, size_,
                             "the file ends in the midst of a line, and a log is to go on in it: end "
                             "that line or remove it, or pass another path");
        if (read(0, names_.size()) != names_)
            throw data_error(path_, "the file does not begin with the line " +
                                        std::string(names_.substr(0, names_.size() - 1)) +
                                        ", of the columns that a log is to append: pass another path, or do not "
                                        "append, which replaces the file");
    }

    /// So many bytes from byte `at` on, or as many as there are.
    std::string read(std::uint64_t at, std::size_t bytes) const {
        std::string text(bytes, '\0');
        auto const got = ::pread(file_.number, text.data(), bytes, static_cast<::off_t>(at));
        if (got < 0) fail("the log cannot be read", errno);
        text.resize(static_cast<std::size_t>(got));
        return text;
    }

    void write(std::string_view text) {
        auto begin = size_;
        while (!text.empty()) {
            auto const done = ::write(file_.number, text.data(), text.size());
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) {
                auto const why = errno;
                cut_off(begin);
                fail("writing the log fails", why);
            }
            auto const bytes = static_cast<std::uint64_t>(done);
            auto const end = append_ ? static_cast<std::uint64_t>(::lseek(file_.number, 0, SEEK_CUR)) : size_ + bytes;
            if (end - bytes != size_) begin = end - bytes; // other logs have appended before it
            size_ = end;
            text.remove_prefix(static_cast<std::size_t>(done));
        }
    }

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
    std::string_view names_;
    descriptor file_;
    std::uint64_t size_ = 0;           ///< the end of this log's last record, or of what it has found
    std::optional<own_process> begun_; ///< the process that has locked the file
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
