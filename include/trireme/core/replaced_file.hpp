// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/regular_file.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trireme::detail {

/// A file that is written beside its place and put there when it is whole; until then what was there stays, also if
/// power is lost. A symbolic link there is replaced, not followed. The writer holds a lock on the file, which the
/// kernel takes from a process that ends: a writer that is killed leaves a .trireme-*.new without one, and the next one
/// in that folder removes it. Errors: data_error with the path and the system's reason; usage_error for an empty path.
class replaced_file {
public:
    /// `mode`: of the new file, less what the process's mask takes.
    explicit replaced_file(std::string const& path, ::mode_t mode = 0666)
        : path_(named(path)), folder_(path.substr(0, path.find_last_of('/') + 1) + "."),
          folder_file_(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (folder_file_.number < 0) fail("the folder cannot be opened", errno);
        struct ::stat about = {};
        if (::lstat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode)) {
            throw data_error(path, "a folder, pipe or device is there, and only a file is replaced: pass another path");
        }
        remove_left_behind();
        open_beside(mode);
    }
    replaced_file(replaced_file const&) = delete;
    replaced_file& operator=(replaced_file const&) = delete;
    ~replaced_file() {
        if (!in_place_) ::unlink(beside_.c_str());
    }

    void write(std::span<std::byte const> bytes) {
        while (!bytes.empty()) {
            auto const done = ::write(file_.number, bytes.data(), bytes.size());
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) fail("writing fails", errno);
            written_ += static_cast<std::uint64_t>(done);
            bytes = bytes.subspan(static_cast<std::size_t>(done));
        }
    }

    /// After this the new file survives a loss of power; before it, the old one does.
    void put_in_place() {
        if (::fsync(file_.number) != 0) fail("the file cannot be synchronised", errno);
        int const copy = ::dup(file_.number); // whose closing tells what writing has not; the lock stays
        if (copy < 0) fail("the file cannot be closed", errno);
        if (::close(copy) != 0 && errno != EINTR) fail("the file cannot be closed", errno);
        if (std::rename(beside_.c_str(), path_.c_str()) != 0) fail("the file cannot be put in its place", errno);
        in_place_ = true;
        // Some file systems cannot synchronise a folder, and say so; there is nothing that they would have to do.
        if (::fsync(folder_file_.number) != 0 && errno != EINVAL && errno != ENOTSUP) {
            fail("the file is in its place, but its folder cannot be synchronised, so a loss of power may undo it",
                 errno);
        }
    }

private:
    static std::string const& named(std::string const& path) {
        if (path.empty())
            throw usage_error("the path of the file to be written is empty: pass its name, and the folder before it");
        return checked_path(path);
    }

    [[noreturn]] void fail(char const* what, int number) const {
        auto const text =
            std::string(what) + " (" + reason(number) + "): check that the folder exists, may be written and has room";
        throw written_ == 0 ? data_error(path_, text) : data_error(path_, written_, text);
    }

    /// The name is new and short, so it fits where the wanted one does; O_EXCL, so nobody's file or link is followed.
    void open_beside(::mode_t mode) {
        static std::atomic<unsigned> count{0};
        for (;;) {
            beside_ = folder_ + "/" + std::string(prefix) + std::to_string(::getpid()) + "-" + std::to_string(++count) +
                      std::string(suffix);
            file_.number = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
            if (file_.number < 0) {
                if (errno == EEXIST) continue;
                fail("no file can be made in the folder", errno);
            }
            // another writer that removes what was left behind may have been here first
            struct ::stat about = {};
            bool const taken = lock(file_.number) == EWOULDBLOCK;
            if (!taken && (::fstat(file_.number, &about) != 0 || about.st_nlink > 0)) return;
            ::close(std::exchange(file_.number, -1));
        }
    }

    static constexpr std::string_view prefix = ".trireme-", suffix = ".new";

    /// Zero, or why not: some file systems have no locks.
    static int lock(int file) noexcept { return ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

    /// True for names that open_beside gives.
    static bool is_ours(std::string_view name) noexcept {
        if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
            return false;
        name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
        return name.find_first_not_of("0123456789-") == std::string_view::npos;
    }

    /// Removes the files of writers that are no more. Whatever goes wrong, they stay.
    void remove_left_behind() const noexcept {
        auto* const all = ::opendir(folder_.c_str());
        if (all == nullptr) return;
        while (auto const* const entry = ::readdir(all)) {
            if (!is_ours(entry->d_name)) continue;
            descriptor const file( // to be written, or some file systems give no lock
                ::openat(folder_file_.number, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
            if (file.number < 0 || lock(file.number) != 0) continue;
            struct ::stat opened = {}, named = {}; // its writer may have put it in its place just before
            if (::fstat(file.number, &opened) == 0 && S_ISREG(opened.st_mode) &&
                ::fstatat(folder_file_.number, entry->d_name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
                ::unlinkat(folder_file_.number, entry->d_name, 0);
        }
        ::closedir(all);
    }

    std::string path_;
    std::string folder_;
    std::string beside_ = {};
    descriptor folder_file_;
    descriptor file_{-1};
    std::uint64_t written_ = 0;
    bool in_place_ = false;
};

} // namespace trireme::detail
