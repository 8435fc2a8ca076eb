// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <stdlib.h>
#include <zlib.h>

// What the tests of the readers share: files made on the fly, and eyes on memory and errors.

namespace files {

using bytes = std::vector<std::uint8_t>;

/// A new folder that goes away with the test.
class folder {
public:
    folder() {
        auto pattern = (std::filesystem::temp_directory_path() / "trireme-data-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder: " + pattern);
        path_ = pattern;
    }
    folder(folder const&) = delete;
    folder& operator=(folder const&) = delete;
    ~folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::string path(std::string const& name = {}) const { return name.empty() ? path_ : path_ + "/" + name; }

    /// Writes the file and gives its path.
    std::string write(std::string const& name, bytes const& content) const {
        std::ofstream out(path(name), std::ios::binary | std::ios::trunc);
        out.write(reinterpret_cast<char const*>(content.data()), static_cast<std::streamsize>(content.size()));
        out.close();
        if (!out) throw std::runtime_error("cannot write " + path(name));
        return path(name);
    }

private:
    std::string path_;
};

/// One gzip member.
inline bytes zipped(bytes const& content, int level = 6) {
    ::z_stream stream = {};
    if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
        throw std::runtime_error("zlib does not start");
    }
    bytes out(content.size() + content.size() / 8 + 1024); // deflateBound() is too small for level 0
    auto in = content;                                     // zlib's interface is not const
    stream.next_in = in.data();
    stream.avail_in = static_cast<::uInt>(in.size());
    stream.next_out = out.data();
    stream.avail_out = static_cast<::uInt>(out.size());
    auto const state = ::deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    if (state != Z_STREAM_END) throw std::runtime_error("zlib did not finish");
    return out;
}

inline bytes joined(bytes first, bytes const& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

inline bytes random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    bytes content(count);
    for (auto& byte : content) byte = static_cast<std::uint8_t>(random());
    return content;
}

/// 32-bit words, big-endian, as an IDX header has them.
inline bytes words(std::vector<std::uint32_t> const& values) {
    bytes out;
    for (auto const value : values) {
        for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
    }
    return out;
}

inline bytes idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width, bytes const& pixels) {
    return joined(words({0x803, count, height, width}), pixels);
}

inline bytes idx_labels(std::uint32_t count, bytes const& labels) { return joined(words({0x801, count}), labels); }

/// The greatest size that this process' address space has had. It sees memory that is reserved and never touched, and
/// it works under the sanitizers, whose own operator new a test cannot replace.
inline std::uint64_t address_space_peak() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "VmPeak:") {
            std::uint64_t kib = 0;
            status >> kib;
            return kib * 1024;
        }
    }
    throw std::runtime_error("/proc/self/status does not name VmPeak");
}

/// The seed of a randomised test: TRIREME_TEST_SEED, else a new one. Print it.
inline unsigned seed() {
    if (auto const* text = std::getenv("TRIREME_TEST_SEED")) return static_cast<unsigned>(std::stoul(text));
    return std::random_device{}();
}

/// Runs `f`, which must throw data_error about `path` at byte `offset` with `words` in its message.
template<class F>
void expect_data_error(F const& f, std::string const& path, std::uint64_t offset, std::string const& words) {
    CAPTURE(path);
    try {
        f();
    } catch (trireme::data_error const& error) {
        CHECK(error.path() == path);
        CHECK(error.offset() == offset);
        std::string const what = error.what();
        CHECK_MESSAGE(what.find(words) != std::string::npos, "the message is '", what, "', without '", words, "'");
        return;
    }
    FAIL_CHECK("no data_error, wanted one with '", words, "'");
}

/// Runs `f`, which must throw usage_error with `words` in its message.
template<class F>
void expect_usage_error(F const& f, std::string const& words) {
    try {
        f();
    } catch (trireme::usage_error const& error) {
        std::string const what = error.what();
        CHECK_MESSAGE(what.find(words) != std::string::npos, "the message is '", what, "', without '", words, "'");
        return;
    }
    FAIL_CHECK("no usage_error, wanted one with '", words, "'");
}

} // namespace files
