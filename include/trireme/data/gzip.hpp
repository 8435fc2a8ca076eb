// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/regular_file.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

namespace trireme {

/// A file read from front to back, plain or gzip (also of several members): the first two bytes decide which.
///
/// Nothing in the file is believed before it is checked: `read(count)` refuses a count that the file's size rules out,
/// and memory then grows with the bytes that really arrive. Offsets are positions in the decoded stream; where the disk
/// fails, in the file.
/// Errors: data_error for a file that is missing, not a regular file, damaged, or shorter or longer than promised;
/// usage_error for a path with a zero byte.
/// Cost: for gzip a 64 KiB buffer, and 40 KiB inside zlib.
///
/// zlib's inflate reads headers, data and checksums of members. Its gzread would find the next member, too, but takes
/// whatever else follows one for the end of the file: appended bytes, and members behind a damaged byte, would vanish.
class gzip_file {
public:
    TRIREME_COLD explicit gzip_file(std::string path) : file_(std::move(path)) {
        std::array<std::byte, 2> magic = {};
        if (size() < 2) return;
        file_.read(0, magic);
        if (magic != std::array{std::byte{0x1f}, std::byte{0x8b}}) return;
        buffer_.resize(64 * 1024);
        auto const state = inflateInit2(&stream_, 15 + 16); // a 32 KiB window, the gzip format only
        if (state == Z_MEM_ERROR) throw std::bad_alloc();
        if (state != Z_OK) fail("zlib does not start, its library and header differ in version: reinstall zlib");
        zipped_ = true;
    }
    ~gzip_file() {
        if (zipped_) ::inflateEnd(&stream_);
    }

    gzip_file(gzip_file const&) = delete;
    gzip_file& operator=(gzip_file const&) = delete;

    std::string const& path() const noexcept { return file_.path(); }

    /// Decoded bytes delivered so far.
    std::uint64_t offset() const noexcept { return offset_; }

    /// The file's size on disk.
    std::uint64_t size() const noexcept { return file_.size(); }

    /// No more than this many decoded bytes can follow: exact for a plain file, 1032 times its size for gzip.
    std::uint64_t most_left() const noexcept {
        auto const factor = zipped_ ? deflate_expansion : 1;
        auto const most = std::numeric_limits<std::uint64_t>::max();
        auto const total = size() > most / factor ? most : size() * factor;
        return total > offset_ ? total - offset_ : 0;
    }

    /// Fills `out`. `thing` names what is being read, for the message if the file ends first.
    TRIREME_COLD void read(std::span<std::uint8_t> out, char const* thing) { fill(out, 0, thing); }

    /// Reads `count` bytes into new memory.
    /// Memory: `count` for a plain file; for gzip at most 3 times what the stream has decoded to, and 1 MiB.
    TRIREME_COLD std::vector<std::uint8_t> read(std::uint64_t count, char const* thing) {
        std::vector<std::uint8_t> bytes;
        if (count > std::min<std::uint64_t>(most_left(), bytes.max_size())) {
            fail(std::to_string(count) + " bytes of " + thing + " are promised, but in this file of " +
                 std::to_string(size()) + " bytes at most " + std::to_string(most_left()) +
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
    TRIREME_COLD void expect_end(char const* thing) {
        std::uint8_t extra = 0;
        if (next(&extra, 1) != 0) {
            --offset_; // the position of the first byte too many
            fail(std::string("more bytes follow the end of ") + thing +
                 ", and nothing may; the header is wrong or something was appended: fetch the file again");
        }
    }

private:
    static constexpr std::uint64_t deflate_expansion = 1032; // 258 bytes from 2 bits, the best that the format can do

    [[noreturn]] void fail(std::string const& what) const { file_.fail(offset_, what); }

    /// Fills `out`, after which `rest` more bytes of `thing` are due.
    TRIREME_COLD void fill(std::span<std::uint8_t> out, std::uint64_t rest, char const* thing) {
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

    /// Bytes of the file as they are; 0 only at its end.
    std::size_t from_disk(std::span<std::byte> out) {
        auto const got = file_.read_some(position_, out);
        position_ += got;
        return got;
    }

    /// Up to `room` decoded bytes; 0 only at the end.
    std::size_t next(std::uint8_t* out, std::size_t room) {
        auto const got = zipped_ ? inflated(out, room) : from_disk(std::as_writable_bytes(std::span(out, room)));
        offset_ += got;
        return got;
    }

    TRIREME_COLD std::size_t inflated(std::uint8_t* out, std::size_t room) {
        auto const space = static_cast<::uInt>(std::min<std::size_t>(room, 1u << 30));
        for (;;) {
            if (stream_.avail_in == 0) {
                stream_.next_in = buffer_.data();
                stream_.avail_in = static_cast<::uInt>(from_disk(std::as_writable_bytes(std::span(buffer_))));
            }
            if (stream_.avail_in == 0) {
                if (between_members_) return 0;
                fail("the gzip stream ends early; the file is truncated: fetch it again");
            }
            if (between_members_) {
                if (*stream_.next_in != 0x1f)
                    fail("bytes that are no gzip follow the gzip stream: fetch the file again");
                ::inflateReset(&stream_);
                between_members_ = false;
            }
            stream_.next_out = out;
            stream_.avail_out = space;
            auto const state = ::inflate(&stream_, Z_NO_FLUSH);
            auto const got = static_cast<std::size_t>(space - stream_.avail_out);
            if (state == Z_MEM_ERROR) throw std::bad_alloc();
            if (state != Z_OK && state != Z_STREAM_END) {
                offset_ += got;
                fail(std::string("the gzip stream is damaged (") +
                     (stream_.msg != nullptr ? stream_.msg : "no progress") + "): fetch the file again");
            }
            between_members_ = state == Z_STREAM_END;
            if (got != 0) return got;
        }
    }

    detail::regular_file file_;
    std::uint64_t position_ = 0; // in the file; offset_ is in what it decodes to
    std::uint64_t offset_ = 0;
    ::z_stream stream_ = {};
    std::vector<std::uint8_t> buffer_; // the next avail_in bytes of it, at next_in, are not yet inflated
    bool zipped_ = false;
    bool between_members_ = false;
};

} // namespace trireme
