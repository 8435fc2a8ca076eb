// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/data/text_cursor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// JSON as our files have it: objects, strings, lists of whole numbers. Source: RFC 8259.

namespace trireme::detail {

/// The first byte that is not part of well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, at most
/// U+10FFFF); the size if there is none.
inline std::size_t utf8_fault(std::string_view text) noexcept {
    auto const byte = [text](std::size_t i) -> unsigned {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
    };
    for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
        auto const first = byte(at);
        auto const second = byte(at + 1);
        if (first >= 0x80 && (first < 0xC2 || first > 0xF4)) return at;
        length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        for (std::size_t i = 1; i < length; ++i) {
            if ((byte(at + i) & 0xC0) != 0x80) return at;
        }
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
            (first == 0xF4 && second > 0x8F)) {
            return at;
        }
    }
    return text.size();
}

inline void append_utf8(std::string& out, std::uint32_t code) {
    auto const tail = [&](unsigned shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | code >> 6);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | code >> 12);
    } else {
        out += static_cast<char>(0xF0 | code >> 18);
        tail(12);
    }
    if (code >= 0x800) tail(6);
    if (code >= 0x80) tail(0);
}

/// Reads JSON, and says where it is none. How deep objects may nest says who derives: what nests deeper is an error at
/// its first bracket, and nothing recurses. Errors: data_error with the path and the byte.
class json_reader : protected text_cursor {
protected:
    /// `remedy`: what a reader of the message may do.
    json_reader(std::string const& path, std::uint64_t begins, std::string_view text, char const* what,
                char const* remedy)
        : text_cursor(text), path_(path), begins_(begins), what_(what), remedy_(remedy) {
        at_ = utf8_fault(text);
        if (at_ != text.size()) fail("the " + what_ + " must be UTF-8, and here is " + found());
        at_ = 0;
    }

    [[noreturn]] void fail(std::string const& what) const {
        throw data_error(path_, begins_ + at_, (about_.empty() ? "" : about_ + ": ") + what + "; " + remedy_);
    }

    std::string found() const {
        if (at_ == text_.size()) return "the " + what_ + "'s end";
        auto const byte = static_cast<unsigned char>(text_[at_]);
        if (byte > 0x20 && byte < 0x7F) return std::string("'") + text_[at_] + "'";
        return std::string("byte 0x") + "0123456789abcdef"[byte >> 4] + "0123456789abcdef"[byte & 15];
    }

    void expect(char wanted, char const* where) {
        if (!take(wanted)) {
            fail(std::string("'") + wanted + "' is wanted " + where + ", and here is " + found());
        }
    }

    /// An object: calls `member` with each name, which then reads the value.
    template<class F>
    void members(char const* where, F const& member) {
        expect('{', where);
        if (take('}')) return;
        do {
            auto name = read_string("where a name begins");
            expect(':', "after a name");
            member(std::move(name));
        } while (take(','));
        expect('}', "or ',' after a value");
    }

    /// An object whose values are strings; `of`: what it is.
    std::map<std::string, std::string, std::less<>> read_strings(char const* where, std::string const& of) {
        std::map<std::string, std::string, std::less<>> all;
        members(where, [&](std::string name) {
            auto value = read_string(("where a value of the " + of + " begins, which are all strings").c_str());
            auto const [place, is_new] = all.try_emplace(std::move(name), std::move(value));
            if (!is_new) fail("duplicate key " + in_quotes(place->first) + " in the " + of);
        });
        return all;
    }

    void expect_end() {
        skip_space();
        if (at_ != text_.size()) fail("only spaces may follow the " + what_ + "'s last brace, and here is " + found());
    }

    std::string read_string(char const* where) {
        expect('"', where);
        std::string out;
        for (;;) {
            auto const from = at_;
            while (at_ < text_.size() && !next_is('"') && !next_is('\\') &&
                   static_cast<unsigned char>(text_[at_]) >= 0x20) {
                ++at_;
            }
            out.append(text_, from, at_ - from);
            if (at_ == text_.size()) fail("the " + what_ + " ends inside a string");
            if (next_is('"')) break;
            if (!next_is('\\')) fail("control characters must be escaped in a string, and here is " + found());
            ++at_;
            read_escape(out);
        }
        ++at_;
        return out;
    }

    void read_escape(std::string& out) {
        constexpr std::string_view letters = "\"\\/bfnrt";
        constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        if (next_is('u')) {
            append_utf8(out, read_code());
        } else if (auto const which = at_ < text_.size() ? letters.find(text_[at_]) : letters.npos;
                   which != letters.npos) {
            out += meanings[which];
            ++at_;
        } else {
            fail("JSON has no such escape: a backslash and " + found());
        }
    }

    /// After the backslash: u and 4 digits, or two of these that are a surrogate pair.
    std::uint32_t read_code() {
        auto const code = read_unit();
        if (code < 0xD800 || code > 0xDFFF) return code;
        if (code < 0xDC00 && next_is('\\')) {
            ++at_;
            if (next_is('u')) {
                auto const low = read_unit();
                if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            }
        }
        fail("half of a surrogate pair stands alone in a string's escapes");
    }

    std::uint32_t read_unit() {
        ++at_; // the u
        std::uint32_t unit = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            constexpr std::string_view digits = "0123456789abcdef0123456789ABCDEF";
            auto const digit = at_ < text_.size() ? digits.find(text_[at_]) : digits.npos;
            if (digit == digits.npos) fail("4 hexadecimal digits are wanted after \\u, and here is " + found());
            unit = unit << 4 | static_cast<std::uint32_t>(digit & 15);
        }
        return unit;
    }

    std::size_t read_number() {
        skip_space();
        if (next_is('-')) fail("a number is negative, and here numbers are at least 0");
        auto const from = at_;
        std::size_t number = 0;
        for (; next_is_digit(); ++at_) {
            auto const digit = static_cast<std::size_t>(text_[at_] - '0');
            if (number > (std::numeric_limits<std::size_t>::max() - digit) / 10) fail("a number is 2^64 or more");
            number = 10 * number + digit;
        }
        if (at_ == from) fail("a whole number is wanted, and here is " + found());
        if (text_[from] == '0' && at_ - from > 1) fail("a number has a leading zero");
        if (next_is('.') || next_is('e') || next_is('E')) fail("numbers have no fraction or exponent here");
        return number;
    }

    std::vector<std::size_t> read_numbers() {
        expect('[', "where a list of numbers begins");
        std::vector<std::size_t> numbers;
        if (take(']')) return numbers;
        do {
            numbers.push_back(read_number());
        } while (take(','));
        expect(']', "or ',' after a number");
        return numbers;
    }

    std::string const& path_;
    std::uint64_t begins_; ///< the text, at this byte of the file
    std::string what_;     ///< the text is, for messages
    char const* remedy_;
    std::string about_ = {}; ///< which part is being read, for messages
};

/// Adds a string in quotes. Errors: usage_error if it is not UTF-8.
inline void append_json(std::string& out, std::string_view text) {
    constexpr std::string_view plain = "\"\\\b\f\n\r\t";
    constexpr std::string_view letters = "\"\\bfnrt";
    if (utf8_fault(text) != text.size()) {
        throw usage_error("JSON is UTF-8, and " + in_quotes(text) + " is not: pass names in UTF-8");
    }
    out += '"';
    for (char const letter : text) {
        if (auto const which = plain.find(letter); which != plain.npos) {
            out += '\\';
            out += letters[which];
        } else if (auto const byte = static_cast<unsigned char>(letter); byte < 0x20) {
            out += std::string("\\u00") + "01"[byte >> 4] + "0123456789abcdef"[byte & 15];
        } else {
            out += letter;
        }
    }
    out += '"';
}

/// Adds an object whose values are strings.
inline void append_json(std::string& out, std::map<std::string, std::string, std::less<>> const& strings) {
    for (char mark = '{'; auto const& [name, value] : strings) {
        out += std::exchange(mark, ',');
        append_json(out, name);
        out += ':';
        append_json(out, value);
    }
    out += strings.empty() ? "{}" : "}";
}

} // namespace trireme::detail
