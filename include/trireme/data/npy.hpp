// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/data/mapped_file.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/text_cursor.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

static_assert(std::endian::native == std::endian::little,
              "npy files are read as they are, little-endian: use a little-endian host");

// npy, the format of numpy.save: the bytes \x93NUMPY, a version, the header's length (2 bytes in version 1.0, 4 in 2.0
// and 3.0), the header, a Python dictionary of descr, fortran_order and shape, and then the numbers.
// Source: numpy.org/doc/stable/reference/generated/numpy.lib.format.html

namespace detail::npy {

inline constexpr std::uint64_t most_header_bytes = 1 << 20; // those of numbers have about a hundred
inline constexpr std::size_t most_dimensions = max_rank + 1;

/// A checked header: the numbers take exactly the bytes from `begin` to the end of the file.
struct header {
    number_kind kind = number_kind::u8;
    std::vector<std::size_t> shape = {};
    std::size_t numbers = 0;
    std::size_t bytes = 0;
    std::uint64_t begin = 0;
};

inline std::size_t bytes_of(number_kind kind) {
    return with_number_of(kind, [](auto n) { return sizeof n; });
}

/// "(2, 3)", "(2,)"
inline std::string tuple(std::vector<std::size_t> const& shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

/// Reads the dictionary. It has one level, and so has this code.
class parser : text_cursor {
public:
    parser(regular_file const& file, std::string_view text, std::uint64_t from)
        : text_cursor(text), file_(file), from_(from) {}

    TRIREME_COLD header parsed() {
        std::optional<number_kind> kind;
        std::optional<bool> fortran;
        std::optional<std::vector<std::size_t>> shape;
        expect('{', "where the dictionary begins");
        while (!take('}')) {
            auto const key = read_string("where a key begins");
            expect(':', "after a key");
            auto const once = [&](bool known) {
                if (known) fail("the key " + in_quotes(key) + " stands there twice" + again);
            };
            if (key == "descr") {
                once(kind.has_value());
                kind = read_kind();
            } else if (key == "shape") {
                once(shape.has_value());
                shape = read_shape();
            } else if (key == "fortran_order") {
                once(fortran.has_value());
                fortran = read_bool();
            } else {
                fail("the header has descr, fortran_order and shape, and no " + in_quotes(key) + again);
            }
            if (!take(',')) {
                expect('}', "or ',' after a value");
                break;
            }
        }
        skip_space();
        if (at_ != text_.size()) fail("only spaces may follow the dictionary, and here is " + found() + again);
        if (!kind || !fortran || !shape)
            fail(std::string("the header has no ") + (!kind ? "descr" : !shape ? "shape" : "fortran_order") + again);
        if (*fortran && shape->size() > 1)
            fail("the numbers lie column by column (fortran_order): save numpy.ascontiguousarray(array)");
        return sized(*kind, std::move(*shape));
    }

private:
    static constexpr char const* again = "; the file is damaged, or not written by numpy.save: save the array again";

    [[noreturn]] void fail(std::string const& what) const { file_.fail(from_ + at_, what); }

    std::string found() const { return at_ == text_.size() ? "the header's end" : in_quotes(text_.substr(at_, 1)); }
    void expect(char wanted, char const* where) {
        if (!take(wanted))
            fail(std::string("'") + wanted + "' is wanted " + where + ", and here is " + found() + again);
    }

    std::string_view read_string(char const* where) {
        skip_space();
        if (!next_is('\'') && !next_is('"'))
            fail(std::string("a quote is wanted ") + where + ", and here is " + found() + again);
        auto const end = text_.find(text_[at_], at_ + 1);
        if (end == text_.npos) fail(std::string("a string is never closed") + again);
        auto const content = text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return content;
    }

    bool read_bool() {
        skip_space();
        for (bool const value : {true, false}) {
            std::string_view const word = value ? "True" : "False";
            if (!text_.substr(at_).starts_with(word)) continue;
            at_ += word.size();
            return value;
        }
        fail("fortran_order is True or False, and here is " + found() + again);
    }

    std::vector<std::size_t> read_shape() {
        expect('(', "where the shape begins");
        std::vector<std::size_t> shape;
        bool comma = false;
        while (!take(')')) {
            if (!shape.empty() && !comma) fail("')' is wanted or ',' after an extent, and here is " + found() + again);
            if (shape.size() == most_dimensions)
                fail("the array has more than " + std::to_string(most_dimensions) +
                     " dimensions, one of samples and 4 of a sample: save array.reshape(len(array), -1)");
            shape.push_back(read_extent());
            comma = take(',');
        }
        if (shape.size() == 1 && !comma) fail(std::string("a tuple of one number ends with a comma") + again);
        return shape;
    }

    std::size_t read_extent() {
        skip_space();
        auto const from = at_;
        std::size_t number = 0;
        for (; next_is_digit(); ++at_) {
            auto const digit = static_cast<std::size_t>(text_[at_] - '0');
            if (number > (std::numeric_limits<std::size_t>::max() - digit) / 10)
                fail(std::string("an extent is 2^64 or more") + again);
            number = 10 * number + digit;
        }
        if (at_ == from) fail("a whole number is wanted in the shape, and here is " + found() + again);
        return number;
    }

    number_kind read_kind() {
        skip_space();
        if (next_is('['))
            fail("the array is structured, with fields of several types: save one field of it, as array['x'], or "
                 "numpy.lib.recfunctions.structured_to_unstructured(array)");
        auto const begin = at_;
        auto const text = read_string("where the type begins");
        struct type {
            std::string_view name;
            number_kind kind;
        };
        static constexpr type types[] = {{"b1", number_kind::u8},  {"u1", number_kind::u8},  {"u2", number_kind::u16},
                                         {"u4", number_kind::u32}, {"u8", number_kind::u64}, {"i1", number_kind::i8},
                                         {"i2", number_kind::i16}, {"i4", number_kind::i32}, {"i8", number_kind::i64},
                                         {"f4", number_kind::f32}, {"f8", number_kind::f64}};
        auto const order = text.empty() ? '\0' : text[0];
        for (auto const& each : types) {
            if (order == '\0' || std::string_view("<>|=").find(order) == text.npos || text.substr(1) != each.name)
                continue;
            auto const one_byte = bytes_of(each.kind) == 1;
            if (one_byte || order == '<' || order == '=') return each.kind;
            at_ = begin;
            if (order == '>')
                fail("the numbers are big-endian (" + in_quotes(text) +
                     "): save array.astype(array.dtype.newbyteorder('<'))");
        }
        at_ = begin;
        fail("numbers of type " + in_quotes(text) + remedy_for(text.size() > 1 ? text[1] : '\0', text));
    }

    static std::string remedy_for(char letter, std::string_view text) {
        switch (letter) {
        case 'u':
        case 'm':
        case 'M':
            return " are not read: save array.astype(numpy.int64)";
        case 'c':
            return " are complex: save numpy.abs(array), or array.real and array.imag as two arrays";
        case 'O':
            return " are Python's objects, and to read them is to run code: save array.astype(numpy.float32)";
        case 'S':
        case 'U':
        case 'a':
            return " are text: save their classes, numpy.unique(array, return_inverse=True)[1]";
        case 'V':
            return " are structures: save one field of the array, as array['x']";
        default:
            return std::string(" are not read") + (text.empty() ? ", a type is wanted" : "") +
                   ": save array.astype(numpy.float32)";
        }
    }

    /// Compares what the header promises with the size of the file, before any memory is taken.
    header sized(number_kind kind, std::vector<std::size_t> shape) const {
        header made{kind, std::move(shape), 1, 0, from_ + text_.size()};
        auto const each = bytes_of(kind);
        bool empty = false;
        for (auto const extent : made.shape) { // zeros left aside: in which order one multiplies must not matter
            empty = empty || extent == 0;
            if (extent == 0) continue;
            if (made.numbers > std::numeric_limits<std::size_t>::max() / each / extent)
                fail("the shape " + tuple(made.shape) + " overflows: no file holds so many numbers" + again);
            made.numbers *= extent;
        }
        if (empty) made.numbers = 0;
        made.bytes = made.numbers * each;
        auto const follow = file_.size() - made.begin;
        if (made.bytes != follow)
            file_.fail(made.begin, "numbers of shape " + tuple(made.shape) + " take " + std::to_string(made.bytes) +
                                       " bytes, and " + std::to_string(follow) + " follow the header: " +
                                       (made.bytes > follow ? "the file is truncated, fetch or save it again"
                                                            : "there are trailing bytes, save the array alone"));
        return made;
    }

    regular_file const& file_;
    std::uint64_t from_;
};

TRIREME_COLD inline header header_of(regular_file const& file) {
    std::byte begin[12] = {};
    auto const known = std::min<std::uint64_t>(file.size(), sizeof begin);
    file.read(0, std::span(begin).first(static_cast<std::size_t>(known)));
    if (known < 10 || std::memcmp(begin, "\x93NUMPY", 6) != 0)
        file.fail(0, "an npy file begins with \\x93NUMPY, a version and a header, and this one does not: pass a file "
                     "that numpy.save has written (an .npz is an archive of them: unpack it)");
    auto const version = std::to_integer<unsigned>(begin[6]), revision = std::to_integer<unsigned>(begin[7]);
    if (version < 1 || version > 3 || revision != 0)
        file.fail(6, "the file has version " + std::to_string(version) + "." + std::to_string(revision) +
                         " of the format, and 1.0, 2.0 and 3.0 are read: save the array again");
    std::uint64_t const from = version == 1 ? 10 : 12;
    if (known < from) file.fail(known, "the file ends within its header: fetch or save it again");
    std::uint64_t length = 0;
    for (auto i = from; i > 8; --i) length = length << 8 | std::to_integer<std::uint64_t>(begin[i - 1]);
    if (length > file.size() - from || length > most_header_bytes)
        file.fail(8, "the header is said to have " + std::to_string(length) + " bytes, and it has at most " +
                         std::to_string(std::min(file.size() - from, most_header_bytes)) +
                         " here; the file is truncated or damaged: fetch or save it again");
    std::string text(static_cast<std::size_t>(length), '\0');
    file.read(from, std::as_writable_bytes(std::span(text)));
    return parser(file, text, from).parsed();
}

} // namespace detail::npy

/// An array of a file, of any type of number_kind; booleans are 0 or 1 of u8. The content never changes.
///
/// A value like a pointer: copies share one storage, which lives as long as any of them, or of their samples.
class npy_array {
public:
    /// read_npy and map_npy construct arrays: the numbers begin at `data`, which `holder` keeps.
    npy_array(std::string path, detail::npy::header header, std::byte const* data, std::shared_ptr<void const> holder,
              bool mapped = false)
        : path_(std::move(path)), header_(std::move(header)), data_(data), holder_(std::move(holder)), mapped_(mapped) {
    }

    std::string const& path() const noexcept { return path_; }
    number_kind kind() const noexcept { return header_.kind; }
    std::vector<std::size_t> const& shape() const noexcept { return header_.shape; } ///< empty for a single number
    std::size_t size() const noexcept { return header_.numbers; }                    ///< numbers in all
    std::shared_ptr<void const> holder() const noexcept { return holder_; }
    bool mapped() const noexcept { return mapped_; } ///< true: the numbers are not in memory, but in the file

    /// All numbers, the last dimension running fastest. Valid as long as any copy.
    /// Errors: usage_error if they have another type than N.
    template<sample_number N>
    std::span<N const> numbers() const {
        if (kind_of<N>() != kind())
            throw usage_error("the numbers of " + path_ +
                              " have another type than was asked for: look at kind(), or save array.astype(...)");
        return {reinterpret_cast<N const*>(data_), size()};
    }

    /// One row for each entry of the first dimension, in the shape of the others; (1,) if there are none.
    /// Errors: data_error for a single number, or none.
    TRIREME_COLD sample_rows rows() const {
        if (shape().empty())
            fail("the array is a single number, and samples are one behind the other: save array.reshape(1, 1)");
        if (size() == 0)
            fail("an array of shape " + detail::npy::tuple(shape()) + " has no numbers: save at least one sample");
        sample_rows all;
        all.data = data_;
        all.kind = kind();
        all.shape.rank = shape().size() == 1 ? 1 : static_cast<int>(shape().size()) - 1;
        all.shape.extent[0] = 1;
        for (std::size_t d = 1; d < shape().size(); ++d) all.shape.extent[d - 1] = shape()[d];
        all.stride = all.bytes();
        all.mapped = mapped_;
        return all;
    }

    /// Refuses what the array holds.
    [[noreturn]] TRIREME_COLD void fail(std::string const& what, std::size_t number = 0) const {
        throw data_error(path_, header_.begin + number * detail::npy::bytes_of(kind()), what);
    }

private:
    std::string path_;
    detail::npy::header header_;
    std::byte const* data_;
    std::shared_ptr<void const> holder_;
    bool mapped_;
};

/// Reads an array into memory.
/// Errors: data_error for a file that is missing, no regular file, truncated, damaged, hostile, or of a type or order
/// that is not read, with the words of Python that save it otherwise; for one that is larger than the memory.
/// Memory: the numbers, once their size has been compared with that of the file.
TRIREME_COLD inline npy_array read_npy(std::string const& path) {
    detail::regular_file const file(path);
    auto header = detail::npy::header_of(file);
    auto const bytes = std::make_shared<std::vector<std::byte>>();
    try {
        bytes->resize(header.bytes);
    } catch (std::bad_alloc const&) {
        file.fail(header.begin, "the numbers take " + std::to_string(header.bytes) +
                                    " bytes of memory, which are not to be had: use map_npy, which reads what is used");
    }
    file.read(header.begin, *bytes);
    return {path, std::move(header), bytes->data(), bytes};
}

/// Maps an array that may be larger than the memory: the system reads the pages that are touched, and gives them up for
/// others. Shuffled samples then come from the disk one by one. Samples of it that are split or standardised are views,
/// which leave the numbers in the file.
///
/// Nobody may change the file while the array or samples of it are in use. Overwritten numbers are seen as they are
/// then; a file that is cut off makes an access raise SIGBUS, which ends the process. To replace it is safe: write
/// another file, and give it the name.
/// Errors: data_error as read_npy has them.
TRIREME_COLD inline npy_array map_npy(std::string const& path) {
    detail::regular_file const file(path);
    auto header = detail::npy::header_of(file);
    if (auto const each = detail::npy::bytes_of(header.kind); header.begin % each != 0)
        file.fail(header.begin, "the numbers begin at no multiple of their " + std::to_string(each) +
                                    " bytes, as they do in files of numpy.save: save the array again, or use read_npy");
    auto const mapped = std::make_shared<detail::mapped_file const>(file);
    auto const* const numbers = mapped->bytes().data() + header.begin;
    return {path, std::move(header), numbers, mapped, true};
}

namespace detail::npy {

TRIREME_COLD inline void check_pair(npy_array const& inputs, npy_array const& targets) {
    (void)inputs.rows();
    (void)targets.rows();
    if (inputs.shape()[0] != targets.shape()[0])
        targets.fail("there are " + std::to_string(targets.shape()[0]) + " targets for the " +
                     std::to_string(inputs.shape()[0]) + " inputs of " + inputs.path() +
                     ", and each needs one: pass two files that belong together");
}

} // namespace detail::npy

/// Inputs of one array as samples, with the class of each, a whole number in [0, classes), from another. The inputs are
/// not copied; the classes are, so that those that were checked are those that are used.
/// Errors: data_error if there are not as many of both, the classes are no whole numbers, more than one for a sample,
/// or out of range, with the index of the first; usage_error for `classes`.
TRIREME_COLD inline owned_samples npy_samples(npy_array const& inputs, npy_array const& labels, std::size_t classes) {
    detail::npy::check_pair(inputs, labels);
    if (classes == 0 || classes > 0x7FFFFFFF)
        throw usage_error("samples have 1 to 2^31 - 1 classes, not " + std::to_string(classes) +
                          "; pass the number of different labels");
    if (labels.rows().size() != 1)
        labels.fail("labels of shape " + detail::npy::tuple(labels.shape()) + " are more than one for a sample: save " +
                    "one class for each, as numpy.argmax(array, axis=1) gives them");
    auto own = std::make_shared<std::pair<std::shared_ptr<void const>, std::vector<std::int32_t>>>();
    own->first = inputs.holder();
    own->second.reserve(labels.size());
    with_number_of(labels.kind(), [&]<class N>(N) {
        if constexpr (std::integral<N>) {
            for (auto const& each : labels.numbers<N>()) {
                N const label = static_cast<N const volatile&>(each); // read once
                if (static_cast<std::uint64_t>(label) >= classes)     // negative ones are above 2^63
                    labels.fail("label " + std::to_string(own->second.size()) + " is " + std::to_string(label) +
                                    ", and labels lie in [0, " + std::to_string(classes) +
                                    "): correct it, or pass the right number of classes",
                                own->second.size());
                own->second.push_back(static_cast<std::int32_t>(label));
            }
        } else {
            labels.fail("classes are whole numbers, and these are not: save array.astype(numpy.int64)");
        }
    });
    auto targets = rows_of(own->second.data(), make_shape(1));
    targets.classes = classes;
    return {own, inputs.shape()[0], inputs.rows(), targets};
}

/// Inputs of one array as samples without targets, for predictions. Nothing is copied.
/// Errors: data_error for a single number, or none.
TRIREME_COLD inline owned_samples npy_samples(npy_array const& inputs) {
    auto const rows = inputs.rows();
    return {inputs.holder(), inputs.shape()[0], rows, {}};
}

/// Inputs of one array as samples, with the values that a network is to give for each from another. Nothing is copied.
/// Errors: data_error if there are not as many of both.
TRIREME_COLD inline owned_samples npy_samples(npy_array const& inputs, npy_array const& targets) {
    detail::npy::check_pair(inputs, targets);
    auto own = std::make_shared<std::pair<std::shared_ptr<void const>, std::shared_ptr<void const>>>(inputs.holder(),
                                                                                                     targets.holder());
    return {std::move(own), inputs.shape()[0], inputs.rows(), targets.rows()};
}

} // namespace trireme
