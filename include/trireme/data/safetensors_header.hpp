// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/data/json_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// safetensors, the format in which PyTorch's users exchange weights: a number N of 8 bytes, N bytes of JSON that begin
// with '{' and may end with spaces, then the bytes of the tensors. The JSON names each tensor's dtype, shape and place
// [begin, end) in those bytes, which are row-major, little-endian, and covered by the tensors without hole or overlap.
// Source: github.com/huggingface/safetensors, README and safetensors/src/tensor.rs, whose order of tensors we write.

/// Element types, in the order of the reference implementation: by rising alignment, the rest is its choice.
// clang-format off
enum class safetensors_dtype : std::uint8_t {
    boolean, f4, f6_e2m3, f6_e3m2, u8, i8, f8_e5m2, f8_e4m3, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz,
    i16, u16, f16, bf16, i32, u32, f32, c64, f64, i64, u64
};
// clang-format on

/// One tensor of a file: name, type, shape, place. Its bytes lie at [begin, end) of the data, which follow the header.
struct safetensors_entry {
    std::string name = {};                            ///< the tensor's name
    safetensors_dtype dtype = safetensors_dtype::f32; ///< type of its elements
    std::vector<std::size_t> shape = {};              ///< empty for a scalar
    std::uint64_t begin = 0;                          ///< byte of the data that it begins at
    std::uint64_t end = 0;                            ///< byte behind its last one

    std::uint64_t bytes() const noexcept { return end - begin; }
};

/// A tensor to be written; `bytes` are its values, row-major.
struct safetensors_tensor {
    std::string name = {};                            ///< the tensor's name
    safetensors_dtype dtype = safetensors_dtype::f32; ///< type of its elements
    std::vector<std::size_t> shape = {};              ///< extents, the slowest first; empty for a scalar
    std::span<std::byte const> bytes = {};            ///< the values, row-major
};

using safetensors_metadata = std::map<std::string, std::string, std::less<>>;

namespace detail::safetensors {

using detail::append_json;
using detail::in_quotes;

inline constexpr std::uint64_t most_header_bytes = 100'000'000; // the reference implementation refuses more, so do we
inline constexpr std::string_view metadata_key = "__metadata__";

struct kind {
    std::string_view name;
    unsigned bits;
};
inline constexpr kind kinds[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};
static_assert(std::size(kinds) == static_cast<std::size_t>(safetensors_dtype::u64) + 1);

constexpr kind kind_of(safetensors_dtype dtype) noexcept { return kinds[static_cast<std::size_t>(dtype)]; }

/// Nothing if the product of the extents, zeros left aside, passes 64 bits: then it does in somebody's order of
/// multiplying, even if one of them is 0.
inline std::optional<std::uint64_t> bits_of(safetensors_dtype dtype, std::vector<std::size_t> const& shape) noexcept {
    std::uint64_t bits = kind_of(dtype).bits;
    bool empty = false;
    for (auto const extent : shape) {
        if (extent != 0 && bits > std::numeric_limits<std::uint64_t>::max() / extent) return std::nullopt;
        bits *= extent != 0 ? extent : 1;
        empty = empty || extent == 0;
    }
    return empty ? 0 : bits;
}

/// "F32 [2, 3]"
inline std::string described(std::string_view dtype, std::vector<std::size_t> const& shape) {
    auto text = std::string(dtype) + " [";
    for (std::size_t i = 0; i < shape.size() && i < 9; ++i) {
        text += (i == 0 ? "" : ", ") + (i < 8 ? std::to_string(shape[i]) : "...");
    }
    return text + "]";
}

/// Reads the JSON of a header and checks all of it. The format has two levels of objects, and so has this code: what
/// nests deeper is an error at its first bracket, and nothing recurses.
class header : json_reader {
public:
    /// `data` is how many bytes follow the header.
    header(std::string const& path, std::string_view text, std::uint64_t data)
        : json_reader(path, 8, text, "header", "fetch the file again, or write it anew") {
        bool has_metadata = false;
        members("where the header begins", [&](std::string name) {
            if (name != metadata_key) return read_tensor(std::move(name), data);
            if (std::exchange(has_metadata, true)) fail("duplicate key " + in_quotes(name));
            metadata = read_strings("where the metadata begin", "metadata");
        });
        expect_end();
        check_names();
        check_cover(data);
    }

    std::vector<safetensors_entry> entries = {}; ///< by name
    safetensors_metadata metadata = {};

private:
    void read_tensor(std::string name, std::uint64_t data) {
        about_ = "tensor " + in_quotes(name);
        safetensors_entry entry;
        entry.name = std::move(name);
        std::array<bool, 3> seen = {};
        members("where a tensor's description begins", [&](std::string const& field) {
            constexpr std::string_view fields[] = {"dtype", "shape", "data_offsets"};
            auto const which = static_cast<std::size_t>(std::find(fields, fields + 3, field) - fields);
            if (which == 3) fail("a description has dtype, shape and data_offsets, and no " + in_quotes(field));
            if (std::exchange(seen[which], true)) fail("duplicate key " + in_quotes(field));
            if (which == 0) entry.dtype = read_dtype();
            if (which == 1) entry.shape = read_numbers();
            if (which == 2) read_offsets(entry, data);
        });
        if (seen != std::array{true, true, true}) {
            fail(std::string("its description has no ") + (!seen[0] ? "dtype" : !seen[1] ? "shape" : "data_offsets"));
        }
        check_size(entry);
        entries.push_back(std::move(entry));
        about_.clear();
    }

    safetensors_dtype read_dtype() {
        auto const name = read_string("where the name of a dtype begins");
        auto const* const place = std::ranges::find(kinds, name, &kind::name);
        if (place == std::end(kinds)) fail("there is no dtype " + in_quotes(name));
        return static_cast<safetensors_dtype>(place - kinds);
    }

    void read_offsets(safetensors_entry& entry, std::uint64_t data) {
        auto const offsets = read_numbers();
        if (offsets.size() != 2) fail("data_offsets are 2 numbers, not " + std::to_string(offsets.size()));
        entry.begin = offsets[0];
        entry.end = offsets[1];
        auto const place = "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
        if (entry.begin > entry.end) fail(place + " are reversed");
        if (entry.end > data) fail(place + " pass the " + std::to_string(data) + " bytes that follow the header");
    }

    void check_size(safetensors_entry const& entry) const {
        auto const text = described(kind_of(entry.dtype).name, entry.shape);
        auto const bits = bits_of(entry.dtype, entry.shape);
        if (!bits) fail("the size of " + text + " overflows 64 bits");
        if (*bits % 8 != 0) fail(text + " ends within a byte");
        if (*bits / 8 != entry.bytes()) {
            fail(text + " takes " + std::to_string(*bits / 8) + " bytes, and its data_offsets say " +
                 std::to_string(entry.bytes()));
        }
    }

    /// Sorting finds equal names in n log n steps whatever the names are; a hash table may be made to need n^2.
    void check_names() {
        auto const name = &safetensors_entry::name;
        std::ranges::sort(entries, {}, name);
        auto const twice = std::ranges::adjacent_find(entries, {}, name);
        if (twice != entries.end()) fail("duplicate key " + in_quotes(twice->name) + ": two tensors have that name");
    }

    void check_cover(std::uint64_t data) const {
        std::vector<safetensors_entry const*> order;
        order.reserve(entries.size());
        for (auto const& entry : entries) order.push_back(&entry);
        std::ranges::sort(order, {}, [](auto const* entry) { return std::pair(entry->begin, entry->end); });
        std::uint64_t covered = 0;
        for (auto const* const entry : order) {
            if (entry->begin != covered) {
                fail((entry->begin < covered ? "tensors overlap: " : "there is a hole between tensors: ") +
                     in_quotes(entry->name) + " begins at " + std::to_string(entry->begin) +
                     " of the data, and those before it end at " + std::to_string(covered));
            }
            covered = entry->end;
        }
        if (covered != data) {
            fail("trailing bytes: the tensors end at " + std::to_string(covered) + " of the data, which have " +
                 std::to_string(data) + " bytes");
        }
    }
};

inline void append_json(std::string& out, safetensors_tensor const& tensor, std::uint64_t begin) {
    append_json(out, tensor.name);
    out += std::string(R"(:{"dtype":")") + std::string(kind_of(tensor.dtype).name) + R"(","shape":[)";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        if (i != 0) out += ',';
        out += std::to_string(tensor.shape[i]);
    }
    out += R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(begin + tensor.bytes.size()) + "]}";
}

inline void check_tensors(std::vector<safetensors_tensor> const& tensors) {
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (auto const& tensor : tensors) {
        auto const bits = bits_of(tensor.dtype, tensor.shape);
        if (!bits || *bits % 8 != 0 || *bits / 8 != tensor.bytes.size()) {
            throw usage_error("tensor " + in_quotes(tensor.name) + ": " +
                              described(kind_of(tensor.dtype).name, tensor.shape) + " does not take " +
                              std::to_string(tensor.bytes.size()) + " bytes: pass the bytes of all its values");
        }
        names.push_back(tensor.name);
    }
    std::ranges::sort(names);
    auto const twice = std::ranges::adjacent_find(names);
    if (twice != names.end())
        throw usage_error("two tensors are named " + in_quotes(*twice) + ": give each its own name");
    if (std::ranges::binary_search(names, metadata_key)) {
        throw usage_error("no tensor may be named '__metadata__', which is the format's own: pass another name");
    }
}

/// The length and the JSON, padded so that the data begin at a multiple of 8.
inline std::string header_of(std::vector<safetensors_tensor> const& tensors, safetensors_metadata const& metadata) {
    std::string text(8, '\0');
    text += '{';
    if (!metadata.empty()) {
        append_json(text, metadata_key);
        text += ':';
        append_json(text, metadata);
        text += tensors.empty() ? "" : ",";
    }
    std::uint64_t begin = 0;
    for (auto const& tensor : tensors) {
        if (&tensor != tensors.data()) text += ',';
        append_json(text, tensor, begin);
        begin += tensor.bytes.size();
    }
    text += '}';
    text.resize((text.size() + 7) / 8 * 8, ' ');
    auto const length = std::uint64_t{text.size() - 8};
    if (length > most_header_bytes) {
        throw usage_error("names, shapes and metadata take " + std::to_string(length) + " bytes, and at most " +
                          std::to_string(most_header_bytes) + " are allowed: write several files");
    }
    std::memcpy(text.data(), &length, sizeof length);
    return text;
}

} // namespace detail::safetensors

} // namespace trireme
