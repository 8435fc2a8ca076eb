// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "files.hpp"

#include <trireme/data/npy.hpp>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

// Arrays as numpy.save writes them, for tests that have samples in files.

namespace files {

/// An npy file of version 1.0; `numbers` may end early, and the file is filled up with zeros, which take no disk.
inline std::string write_npy(folder const& in, std::string const& name, std::string const& type,
                             std::vector<std::size_t> const& shape, std::size_t size_of_number, bytes const& numbers) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
    auto total = size_of_number;
    for (auto const extent : shape) {
        header += std::to_string(extent) + ", ";
        total *= extent;
    }
    header += "), }";
    header.resize(117, ' ');
    bytes content{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    content.insert(content.end(), header.begin(), header.end());
    content.push_back('\n');
    auto const path = in.write(name, joined(std::move(content), numbers));
    std::filesystem::resize_file(path, 128 + total);
    return path;
}

template<class N>
bytes bytes_of(std::vector<N> const& numbers) {
    bytes out(numbers.size() * sizeof(N));
    if (!out.empty()) std::memcpy(out.data(), numbers.data(), out.size());
    return out;
}

/// The name of a type in an npy file.
template<trireme::sample_number N>
std::string npy_type() {
    auto const letter = std::floating_point<N> ? 'f' : std::unsigned_integral<N> ? 'u' : 'i';
    return std::string(1, sizeof(N) == 1 ? '|' : '<') + letter + std::to_string(sizeof(N));
}

} // namespace files
