// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/data/safetensors.hpp>

#include "files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

// What the tests of safetensors share: files made by hand, and what is said about them.

namespace safetensors_files {

using files::bytes;
using files::content_of;

inline bytes with_length(std::uint64_t length, std::string const& json, bytes const& data = {}) {
    bytes content(8);
    std::memcpy(content.data(), &length, 8);
    content.insert(content.end(), json.begin(), json.end());
    return files::joined(content, data);
}

inline bytes file_of(std::string const& json, bytes const& data = {}) { return with_length(json.size(), json, data); }

/// The header of a file with one tensor 'a'.
inline std::string described(std::string const& dtype, std::string const& shape, std::string const& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

template<class T>
std::span<std::byte const> raw(std::vector<T> const& values) {
    return std::as_bytes(std::span(values));
}

inline bytes bytes_of(trireme::safetensors_file const& file, trireme::safetensors_entry const& entry) {
    bytes content(static_cast<std::size_t>(entry.bytes()));
    file.read(entry, std::as_writable_bytes(std::span(content)));
    return content;
}

/// Writes a new file, with no old one to be overwritten: for that some file systems wait for the disk.
inline std::string write_new(files::folder const& folder, bytes const& content) {
    std::filesystem::remove(folder.path("new"));
    return folder.write("new", content);
}

/// The data_error about a file of that content says this, and names the path and a byte of it; "accepted" without.
inline std::string complaint(files::folder const& folder, bytes const& content) {
    auto const path = write_new(folder, content);
    try {
        trireme::safetensors_file const file(path);
    } catch (trireme::data_error const& error) {
        CHECK(error.path() == path);
        CHECK(error.offset() <= content.size());
        CHECK(std::strlen(error.what()) < 1000); // however long the names in it are
        return error.what();
    }
    return "accepted";
}

} // namespace safetensors_files
