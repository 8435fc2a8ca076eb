// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <stdlib.h>
#include <sys/resource.h>

// Files that tests make on the fly, and the errors about them.
namespace files {

using bytes = std::vector<std::uint8_t>;

/// A new folder goes away with the test.
class folder {
public:
    folder() {
        auto pattern = (std::filesystem::temp_directory_path() / "trireme-test-XXXXXX").string();
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

inline bytes content_of(std::string const& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
inline std::string text_of(std::string const& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// The limit of the size of all files that this process writes is that of a full disk: writing beyond it fails.
class file_limit {
public:
    explicit file_limit(::rlim_t size) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
        struct ::rlimit const limit = {size, before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    file_limit(file_limit const&) = delete;
    file_limit& operator=(file_limit const&) = delete;
    ~file_limit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    void (*handler_)(int);
    struct ::rlimit before_ = {};
};

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
