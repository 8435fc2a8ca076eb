// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/path.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace trireme {

/// A file read from front to back, plain or gzip (also of several members): the first two bytes decide which.
///
/// Nothing in the file is believed before it is checked: `read(count)` refuses a count that the file's size rules out,
/// and memory then grows with the bytes that really arrive. Offsets are positions in the decoded stream.
/// Errors: data_error for a file that is missing, not a regular file, damaged, or shorter or longer than promised;
/// usage_error for a path with a zero byte.
/// Cost: one 64 KiB buffer, and 40 KiB inside zlib for gzip.
class gzip_file {
public:
    explicit gzip_file(std::string path) : path_(std::move(path)), buffer_(64 * 1024) {
        // O_NONBLOCK: opening a FIFO must not wait for a writer before we can see that it is one.
        file_.number = ::open(checked_path(path_).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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
        refill();
        zipped_ = end_ >= 2 && buffer_[0] == 0x1f && buffer_[1] == 0x8b;
        if (zipped_) start_inflating();
    }

    gzip_file(gzip_file const&) = delete;
    gzip_file& operator=(gzip_file const&) = delete;

    std::string const& path() const noexcept { return path_; }

    /// Decoded bytes delivered so far.
    std::uint64_t offset() const noexcept { return offset_; }

    /// The file's size on disk.
    std::uint64_t size() const noexcept { return size_; }

    /// No more than this many decoded bytes can follow: exact for a plain file, 1032 times its size for gzip.
    std::uint64_t most_left() const noexcept {
        auto const factor = zipped_ ? deflate_expansion : 1;
        auto const most = std::numeric_limits<std::uint64_t>::max();
        auto const total = size_ > most / factor ? most : size_ * factor;
        return total > offset_ ? total - offset_ : 0;
    }

    /// Fills `out`. `thing` names what is being read, for the message if the file ends first.
    void read(std::span<std::uint8_t> out, char const* thing) { fill(out, 0, thing); }

    /// Reads `count` bytes into new memory.
    /// Memory: `count` for a plain file; for gzip at most 3 times what the stream has decoded to, and 1 MiB.
    std::vector<std::uint8_t> read(std::uint64_t count, char const* thing) {
        std::vector<std::uint8_t> bytes;
        if (count > std::min<std::uint64_t>(most_left(), bytes.max_size())) {
            fail(std::to_string(count) + " bytes of " + thing + " are promised, but in this file of " +
                 std::to_string(size_) + " bytes at most " + std::to_string(most_left()) +
                 " can follow; it is truncated or its header is wrong: fetch it again");
        }
        while (bytes.size() < count) {
            auto const have = bytes.size();
            auto const piece = zipped_ ? std::max<std::uint64_t>(have, 1024 * 1024) : count;
            auto const more = static_cast<std::size_t>(std::min<std::uint64_t>(count - have, piece));
            bytes.resize(have + more);
            fill(std::span(bytes.data() + have, more), count - have - more, thing);
        }
        return bytes;
    }

    /// Checks that nothing follows, and gzip's own checksum and length.
    void expect_end(char const* thing) {
        std::uint8_t extra = 0;
        if (next(&extra, 1) != 0) {
            --offset_; // the position of the first byte too many
            fail(std::string("more bytes follow the end of ") + thing +
                 ", and nothing may; the header is wrong or something was appended: fetch the file again");
        }
    }

private:
    static constexpr std::uint64_t deflate_expansion = 1032; // 258 bytes from 2 bits, the best that the format can do

    struct descriptor {
        descriptor() = default;
        descriptor(descriptor const&) = delete;
        descriptor& operator=(descriptor const&) = delete;
        ~descriptor() {
            if (number >= 0) ::close(number);
        }
        int number = -1;
    };

    struct inflater {
        inflater() = default;
        inflater(inflater const&) = delete;
        inflater& operator=(inflater const&) = delete;
        ~inflater() {
            if (started) ::inflateEnd(&stream);
        }
        ::z_stream stream = {};
        bool started = false;
    };

    static std::string reason(int number) { return std::generic_category().message(number); }

    [[noreturn]] void fail(std::string const& what) const { throw data_error(path_, offset_, what); }

    void start_inflating() {
        auto const state = inflateInit2(&inflater_.stream, 15 + 16); // a 32 KiB window, the gzip format only
        if (state == Z_MEM_ERROR) throw std::bad_alloc();
        if (state != Z_OK) fail("zlib does not start, its library and header differ in version: reinstall zlib");
        inflater_.started = true;
    }

    /// Fills `out`, after which `rest` more bytes of `thing` are due.
    void fill(std::span<std::uint8_t> out, std::uint64_t rest, char const* thing) {
        std::size_t filled = 0;
        while (filled < out.size()) {
            auto const got = next(out.data() + filled, out.size() - filled);
            if (got == 0) {
                fail("the file ends " + std::to_string(out.size() - filled + rest) + " bytes before the end of " +
                     thing + "; it is truncated: fetch it again");
            }
            filled += got;
        }
    }

    /// Fills the empty buffer from disk. False at the end of the file.
    bool refill() {
        next_ = end_ = 0;
        while (end_ < buffer_.size()) {
            auto const got = ::read(file_.number, buffer_.data() + end_, buffer_.size() - end_);
            if (got == 0) break;
            if (got > 0) {
                end_ += static_cast<std::size_t>(got);
            } else if (errno != EINTR) {
                fail("the file cannot be read: " + reason(errno));
            }
        }
        return end_ > 0;
    }

    bool has_input() { return next_ < end_ || refill(); }

    /// Up to `room` decoded bytes; 0 only at the end.
    std::size_t next(std::uint8_t* out, std::size_t room) {
        auto const got = zipped_ ? next_inflated(out, room) : next_plain(out, room);
        offset_ += got;
        return got;
    }

    std::size_t next_plain(std::uint8_t* out, std::size_t room) {
        if (!has_input()) return 0;
        auto const count = std::min(room, end_ - next_);
        std::memcpy(out, buffer_.data() + next_, count);
        next_ += count;
        return count;
    }

    std::size_t next_inflated(std::uint8_t* out, std::size_t room) {
        auto& stream = inflater_.stream;
        auto const space = static_cast<::uInt>(std::min<std::size_t>(room, 1u << 30));
        for (;;) {
            if (!has_input()) {
                if (between_members_) return 0;
                fail("the gzip stream ends early; the file is truncated: fetch it again");
            }
            if (between_members_) {
                if (buffer_[next_] != 0x1f) fail("bytes that are no gzip follow the gzip stream: fetch the file again");
                ::inflateReset(&stream);
                between_members_ = false;
            }
            stream.next_in = buffer_.data() + next_;
            stream.avail_in = static_cast<::uInt>(end_ - next_);
            stream.next_out = out;
            stream.avail_out = space;
            auto const state = ::inflate(&stream, Z_NO_FLUSH);
            next_ = end_ - stream.avail_in;
            auto const got = static_cast<std::size_t>(space - stream.avail_out);
            if (state == Z_MEM_ERROR) throw std::bad_alloc();
            if (state != Z_OK && state != Z_STREAM_END) {
                offset_ += got;
                fail(std::string("the gzip stream is damaged (") +
                     (stream.msg != nullptr ? stream.msg : "no progress") + "): fetch the file again");
            }
            between_members_ = state == Z_STREAM_END;
            if (got != 0) return got;
        }
    }

    std::string path_;
    std::vector<std::uint8_t> buffer_; // bytes [next_, end_) are read from disk and not yet used
    std::size_t next_ = 0;
    std::size_t end_ = 0;
    descriptor file_;
    inflater inflater_;
    bool zipped_ = false;
    bool between_members_ = false;
    std::uint64_t size_ = 0;
    std::uint64_t offset_ = 0;
};

} // namespace trireme
