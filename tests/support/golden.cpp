// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <support/golden.hpp>
#include <trireme/data/safetensors.hpp>

#include <cstddef>
#include <functional>
#include <numeric>
#include <span>

// A library of its own: one compilation of the reader, and one file that knows the folder's path.
namespace trireme_golden {
namespace {

using trireme::safetensors_entry;
using trireme::safetensors_file;

[[noreturn]] void fail(safetensors_file const& opened, safetensors_entry const& entry, char const* wanted) {
    namespace format = trireme::detail::safetensors;
    throw trireme::data_error(opened.path(), 8, // where the header begins
                              "tensor " + format::in_quotes(entry.name) + " is " +
                                  format::described(format::kind_of(entry.dtype).name, entry.shape) +
                                  ", and wanted is " + wanted + ": ask for another tensor, or write the file anew");
}

std::size_t size_of(safetensors_file const& opened, safetensors_entry const& entry) {
    auto const size = std::accumulate(entry.shape.begin(), entry.shape.end(), std::size_t{1}, std::multiplies<>());
    if (size == 0) fail(opened, entry, "at least one value");
    return size;
}

} // namespace

file::file(std::string const& name) : path_(TRIREME_TEST_GOLDEN "/" + name + ".safetensors") {}

double file::number(std::string const& tensor) const {
    double value = 0;
    safetensors_file(path_).read(tensor, {}, std::span(&value, 1));
    return value;
}

std::vector<double> file::numbers(std::string const& tensor) const {
    safetensors_file const opened(path_);
    auto const& entry = opened.at(tensor);
    std::vector<double> values(size_of(opened, entry));
    opened.read(tensor, entry.shape, values);
    return values;
}

std::vector<std::int64_t> file::integers(std::string const& tensor) const {
    safetensors_file const opened(path_);
    auto const& entry = opened.at(tensor);
    if (entry.dtype != trireme::safetensors_dtype::i64) fail(opened, entry, "I64");
    std::vector<std::int64_t> values(size_of(opened, entry));
    opened.read(entry, std::as_writable_bytes(std::span(values)));
    return values;
}

} // namespace trireme_golden
