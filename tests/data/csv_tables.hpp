// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "files.hpp"

#include <trireme/data/csv.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// Tables that tests write, and eyes on the samples and errors of theirs.

namespace csv_tables {

using namespace trireme;
using test_support::fault;
using test_support::fault_of;

using strings = std::vector<std::string>;
using doubles = std::vector<double>;

/// A file that holds `text`, and goes away with the test.
class file {
public:
    explicit file(std::string const& text)
        : path_(folder_.write("table.csv", files::bytes(text.begin(), text.end()))) {}

    std::string const& path() const { return path_; }

private:
    files::folder folder_;
    std::string path_;
};

inline csv_table table_of(std::string const& text, csv_options const& options = {}) {
    file const f(text);
    return read_csv(f.path(), options);
}

/// All fields, row by row, in [ ] each.
inline std::string shown(csv_table const& t) {
    std::string all;
    for (std::size_t r = 0; r < t.rows(); ++r)
        for (std::size_t c = 0; c < t.columns(); ++c) all += "[" + std::string(t.text(r, c)) + "]";
    return all;
}

inline fault fault_in(std::string const& text, csv_options const& options = {}) {
    return fault_of([&] { table_of(text, options); });
}

template<class N>
std::vector<N> row(sample_rows const& rows, std::size_t i) {
    REQUIRE(rows.kind == kind_of<N>());
    std::vector<N> all(rows.size());
    std::memcpy(all.data(), rows.of(i), rows.bytes());
    return all;
}

inline std::vector<int> classes_of(owned_samples const& s) {
    std::vector<int> all;
    for (std::size_t i = 0; i < s.size(); ++i) all.push_back(row<std::int32_t>(s.targets(), i)[0]);
    return all;
}

inline std::vector<std::string> names_of(owned_samples const& s) {
    return {s.class_names().begin(), s.class_names().end()};
}

} // namespace csv_tables
