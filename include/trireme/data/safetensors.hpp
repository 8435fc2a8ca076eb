// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/core/replaced_file.hpp>
#include <trireme/data/safetensors_header.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace trireme {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian and their bytes are copied as they are: use a little-endian host");

/// Values that the wanted type cannot hold, as of F64 in a float: an error, or rounded to the nearest.
enum class safetensors_narrowing : bool { refused, rounded };

namespace detail::safetensors {

/// IEEE 754's binary16: 5 bits of exponent, 10 of fraction. Storage only.
struct half {
    std::uint16_t bits = 0;

    explicit operator float() const noexcept {
        auto const sign = (bits & 0x8000u) << 16;
        auto const exponent = bits >> 10 & 0x1Fu;
        auto const fraction = bits & 0x3FFu;
        if (exponent == 0) { // no leading 1: a multiple of 2^-24
            auto const size = static_cast<float>(fraction) * 0x1p-24f;
            return sign != 0 ? -size : size;
        }
        return std::bit_cast<float>(sign | (exponent == 0x1F ? 0xFF : exponent + 112) << 23 | fraction << 13);
    }
};

} // namespace detail::safetensors

/// A safetensors file, open for reading. All of its header is checked before anything else: names, shapes and places of
/// the tensors are true when the constructor returns. What is read afterwards is not held: each read goes to the file.
///
/// Errors: data_error for a file that is missing, not a regular file, damaged, hostile, or changed while it is open.
/// Memory: at most 20 times the header, which is at most as long as the file and as 100 MB, whatever numbers are in it.
/// Threads: several may read at a time.
class safetensors_file {
public:
    explicit safetensors_file(std::string path) : file_(std::move(path)) {
        auto const length = header_length();
        std::string text(static_cast<std::size_t>(length), '\0');
        file_.read(8, std::as_writable_bytes(std::span(text)));
        data_ = 8 + length;
        detail::safetensors::header header(file_.path(), text, file_.size() - data_);
        tensors_ = std::move(header.entries);
        metadata_ = std::move(header.metadata);
    }

    std::string const& path() const noexcept { return file_.path(); }
    std::vector<safetensors_entry> const& tensors() const noexcept { return tensors_; } ///< by name
    safetensors_metadata const& metadata() const noexcept { return metadata_; }

    /// Null if there is no such tensor.
    safetensors_entry const* find(std::string_view name) const noexcept {
        auto const place = std::ranges::lower_bound(tensors_, name, {}, &safetensors_entry::name);
        return place != tensors_.end() && place->name == name ? &*place : nullptr;
    }

    /// Errors: data_error if there is no such tensor.
    safetensors_entry const& at(std::string_view name) const {
        if (auto const* entry = find(name)) return *entry;
        std::string names;
        for (std::size_t i = 0; i < tensors_.size() && i < 4; ++i) {
            names += (i == 0 ? ": " : ", ") + detail::safetensors::in_quotes(tensors_[i].name);
        }
        file_.fail(data_, "there is no tensor " + detail::safetensors::in_quotes(name) + " among the " +
                              std::to_string(tensors_.size()) + " of this file" + names +
                              (tensors_.size() > 4 ? ", ...; " : "; ") + "pass a file of this network");
    }

    /// Reads the bytes of a tensor of this file into `out`, which has room for just these.
    void read(safetensors_entry const& entry, std::span<std::byte> out) const {
        if (out.size() != entry.bytes()) {
            throw usage_error("tensor " + detail::safetensors::in_quotes(entry.name) + " has " +
                              std::to_string(entry.bytes()) + " bytes, and the span passed has " +
                              std::to_string(out.size()) + ": pass one of that size");
        }
        if (entry.end > file_.size() - data_) {
            throw usage_error("tensor " + detail::safetensors::in_quotes(entry.name) + " is not one of the file " +
                              path() + ": pass what its at() or find() gives");
        }
        file_.read(data_ + entry.begin, out);
    }

    /// Reads the values of a tensor that must have this name and shape, and be F32, BF16 or F16, whose values a float
    /// holds exactly (F32 bit for bit); or F64, if rounding it is allowed.
    /// Errors: data_error names what the file has instead; usage_error if `out` has not the size of `shape`.
    void read(std::string_view name, std::vector<std::size_t> const& shape, std::span<float> out,
              safetensors_narrowing narrowing = safetensors_narrowing::refused) const {
        read_values(name, shape, out, narrowing);
    }

    /// Reads the values of a tensor that must have this name and shape as doubles, from F64 (bit for bit), F32, BF16
    /// and F16. Errors: as above.
    void read(std::string_view name, std::vector<std::size_t> const& shape, std::span<double> out) const {
        read_values(name, shape, out, safetensors_narrowing::refused);
    }

private:
    std::uint64_t header_length() const {
        auto const size = file_.size();
        std::uint64_t length = 0;
        if (size < 10) {
            file_.fail(size, "a safetensors file has at least 10 bytes, and this one " + std::to_string(size) +
                                 "; it is truncated or something else: fetch it again");
        }
        file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
        auto const most = std::min<std::uint64_t>(size - 8, detail::safetensors::most_header_bytes);
        if (length < 2 || length > most) {
            file_.fail(0, "the header is said to have " + std::to_string(length) + " bytes, and in this file of " +
                              std::to_string(size) + " bytes it has 2 to " + std::to_string(most) +
                              "; it is truncated or no safetensors file: fetch it again");
        }
        std::byte first = {};
        file_.read(8, std::span(&first, 1));
        if (first != std::byte{'{'}) {
            file_.fail(8, "the header must begin with '{', and this one does not: pass a safetensors file");
        }
        return length;
    }

    template<class T>
    void read_values(std::string_view name, std::vector<std::size_t> const& shape, std::span<T> out,
                     safetensors_narrowing narrowing) const {
        namespace format = detail::safetensors;
        auto const bits = format::bits_of(safetensors_dtype::u8, shape);
        if (!bits || *bits / 8 != out.size()) {
            throw usage_error("tensor " + format::in_quotes(name) + ": the span passed has " +
                              std::to_string(out.size()) + " values for " + format::described("the shape", shape) +
                              ": pass one of that size");
        }
        auto const& entry = at(name);
        auto const fail = [&](std::string_view dtypes, char const* remedy) {
            file_.fail(data_ + entry.begin, "tensor " + format::in_quotes(name) + " is " +
                                                format::described(format::kind_of(entry.dtype).name, entry.shape) +
                                                ", and wanted is " + format::described(dtypes, shape) + ": " + remedy);
        };
        constexpr bool to_float = std::same_as<T, float>;
        auto const dtypes = to_float ? "F32 (or BF16, F16)" : "F64 (or F32, BF16, F16)";
        if (entry.shape != shape) fail(dtypes, "pass a file of this network, saved in its layout");
        switch (entry.dtype) {
        case safetensors_dtype::f32:
            return convert<float>(entry, out);
        case safetensors_dtype::bf16:
            return convert<bf16>(entry, out);
        case safetensors_dtype::f16:
            return convert<format::half>(entry, out);
        case safetensors_dtype::f64:
            if (!to_float || narrowing == safetensors_narrowing::rounded) return convert<double>(entry, out);
            fail(dtypes, "load it into numbers as wide, precision<f64>, or read the tensor by safetensors_file with "
                         "safetensors_narrowing::rounded");
            break;
        default:
            fail(dtypes, "save it so, or read its bytes and convert them");
        }
    }

    template<class Stored, class T>
    void convert(safetensors_entry const& entry, std::span<T> out) const {
        if constexpr (std::same_as<Stored, T>) {
            file_.read(data_ + entry.begin, std::as_writable_bytes(out));
        } else {
            std::array<Stored, 2048> piece;
            for (std::size_t done = 0; done < out.size();) {
                auto const count = std::min(piece.size(), out.size() - done);
                file_.read(data_ + entry.begin + done * sizeof(Stored),
                           std::as_writable_bytes(std::span(piece).first(count)));
                for (std::size_t i = 0; i < count; ++i) out[done + i] = value<T>(piece[i]);
                done += count;
            }
        }
    }

    template<class T, class Stored>
    static T value(Stored stored) noexcept {
        if constexpr (std::floating_point<Stored>) {
            return static_cast<T>(stored);
        } else {
            return static_cast<T>(static_cast<float>(stored));
        }
    }

    detail::regular_file file_;
    std::uint64_t data_ = 0; // where the tensors' bytes begin
    std::vector<safetensors_entry> tensors_ = {};
    safetensors_metadata metadata_ = {};
};

/// Writes the tensors to a new file, which then replaces what is at `path`: whoever reads sees the old file or the
/// whole new one, also if this fails or power is lost. Tensors are sorted by dtype, those of the greatest alignment
/// first, then by name: equal tensors and metadata give equal bytes, those of the reference implementation. A symbolic
/// link at `path` is replaced, not followed. A process that is killed here may leave a .trireme-*.new in the folder,
/// which the next write into that folder removes. Errors: data_error with the path and the system's reason; usage_error
/// for tensors that no file can hold, or a path with a zero byte.
inline void write_safetensors(std::string const& path, std::vector<safetensors_tensor> tensors,
                              safetensors_metadata const& metadata = {}) {
    detail::safetensors::check_tensors(tensors);
    std::ranges::sort(tensors, [](safetensors_tensor const& a, safetensors_tensor const& b) {
        return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
    });
    auto const header = detail::safetensors::header_of(tensors, metadata);
    detail::replaced_file file(path);
    file.write(std::as_bytes(std::span(header)));
    for (auto const& tensor : tensors) file.write(tensor.bytes);
    file.put_in_place();
}

} // namespace trireme
