// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/files.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <stdlib.h>
#include <zlib.h>

// Contents of files, memory and the environment, for tests of the readers.
namespace files {

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

/// The environment variable has a value, or none, as long as the object lives.
class environment {
public:
    environment(char const* variable, char const* value) : variable_(variable) {
        if (auto const* old = std::getenv(variable)) old_ = old;
        value != nullptr ? ::setenv(variable, value, 1) : ::unsetenv(variable);
    }
    environment(environment const&) = delete;
    environment& operator=(environment const&) = delete;
    ~environment() { old_ ? ::setenv(variable_, old_->c_str(), 1) : ::unsetenv(variable_); }

private:
    char const* variable_;
    std::optional<std::string> old_;
};

} // namespace files
