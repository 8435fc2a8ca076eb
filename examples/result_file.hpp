// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

/// A file for what a run finds, which is refused before the run if it cannot be written. What is in it stays until the
/// first writing takes its place, but for the first `kept` bytes, which stay for good; a file that is not there comes
/// with the first writing, so that a run which ends before leaves none.
class result_file {
public:
    result_file(char const* flag, std::string path, std::size_t kept = 0)
        : flag_(flag), path_(std::move(path)), kept_(static_cast<::off_t>(kept)) {
        if (path_.empty()) return;
        if (comes_with_first_writing()) return;
        open();
        if (file_ < 0)
            throw trireme::usage_error(std::string(flag) + ' ' + path_ + ": cannot be written (" +
                                       (errno == ENXIO ? "a pipe that nobody reads" : std::strerror(errno)) +
                                       "); name a file in a folder that exists and is yours");
    }
    result_file(result_file const&) = delete;
    result_file& operator=(result_file const&) = delete;
    ~result_file() {
        if (file_ >= 0) ::close(file_);
    }

    bool wanted() const { return !path_.empty(); }
    void write(std::string const& text) {
        if (file_ < 0) open();
        struct ::stat about = {};
        bool well = file_ >= 0;
        well = well && (std::exchange(begun_, true) || ::fstat(file_, &about) != 0 || !S_ISREG(about.st_mode) ||
                        (::ftruncate(file_, kept_) == 0 && ::lseek(file_, kept_, SEEK_SET) == kept_));
        for (std::size_t at = 0; well && at < text.size();) {
            auto const done = ::write(file_, text.data() + at, text.size() - at);
            if (done > 0) at += static_cast<std::size_t>(done);
            well = done > 0 || (done < 0 && errno == EINTR);
        }
        if (!well)
            throw std::runtime_error(std::string(flag_) + ' ' + path_ + ": writing failed (" + std::strerror(errno) +
                                     ")");
    }

private:
    /// True if the file is not there, and can be made: it is removed again at once.
    bool comes_with_first_writing() const {
        std::error_code unknown;
        std::filesystem::path target = path_; // of links, to a file that may not be there
        for (int links = 0; links < 40 && std::filesystem::is_symlink(target, unknown); ++links)
            target = target.parent_path() / std::filesystem::read_symlink(target, unknown);
        int const made = ::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (made < 0) return false;
        struct ::stat about = {};
        bool const is_empty = ::fstat(made, &about) == 0 && about.st_size == 0; // another process may have found it
        ::close(made);
        return is_empty && ::unlink(target.c_str()) == 0;
    }
    void open() {
        // a pipe without a reader would have to wait for one
        file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
        if (file_ >= 0) ::fcntl(file_, F_SETFL, 0);
    }

    char const* flag_;
    std::string path_;
    ::off_t kept_;
    bool begun_ = false;
    int file_ = -1;
};

/// Runs `f()`, which saves what a run has made: a file that cannot be written is no wrong flag then, but a failure.
template<class F>
void saving(F const& f) {
    try {
        f();
    } catch (trireme::data_error const& e) {
        throw std::runtime_error(e.what());
    }
}
