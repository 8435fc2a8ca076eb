// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/core/regular_file.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace trireme::detail::csv {

// CSV: lines of fields with a separator between them. A field may stand in quotes, in which separators and newlines are
// part of it and a quote is written twice. Blanks around a field are no part of it, unless they stand in quotes. Lines
// end with \n or \r\n, the last one may end with the file; lines of nothing but blanks are passed over. A mark of UTF-8
// may come first. Numbers are written with a point, or with a comma, as the options say, whatever the locale.
// Source: RFC 4180, which knows neither blanks around fields nor empty lines.

inline constexpr std::uint64_t most_bytes = 0xFFFFFFFE; // places in the text take 32 bits
inline constexpr std::string_view usual_separators = ",;|\t";

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

inline std::string_view without_blanks(std::string_view text) noexcept {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

inline std::optional<std::int64_t> whole_number(std::string_view text) noexcept {
    text = without_blanks(text);
    std::int64_t value = 0;
    auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
    return value;
}

/// A text that is not empty becomes a finite number; std::errc{} if it is one.
inline std::errc read_number(std::string_view text, char decimal, double& value) {
    std::string with_point;
    if (decimal != '.') {
        if (text.find('.') != std::string_view::npos) return std::errc::invalid_argument;
        with_point = text;
        std::ranges::replace(with_point, decimal, '.');
        text = with_point;
    }
    // from_chars takes no +, but names of numbers.
    auto const* begin = text.data();
    auto const* const end = begin + text.size();
    if (*begin == '+') ++begin;
    auto const* const digit = begin != end && *begin == '-' && text.front() != '+' ? begin + 1 : begin;
    if (digit == end || (*digit != '.' && (*digit < '0' || *digit > '9'))) return std::errc::invalid_argument;
    auto const [stop, error] = std::from_chars(begin, end, value);
    return stop == end ? error : std::errc::invalid_argument;
}

/// A separator as C++ writes it.
inline std::string written(char separator) {
    return separator == '\t' ? "'\\t'" : in_quotes(std::string_view(&separator, 1));
}

/// The place at which a line of fields begins.
struct place {
    std::uint32_t line = 0; // from 1
    std::uint32_t byte = 0;
};

/// A file taken to pieces. Fields stand one behind the other in `text`, without quotes and separators.
struct content {
    std::string path = {};
    std::string text = {};
    std::vector<std::uint32_t> starts = {}; // of each field in `text`, and its end
    std::vector<place> lines = {};
    std::size_t columns = 0; // fields of each line
    bool header = true;
    char separator = ',';

    std::string_view field(std::size_t i) const noexcept {
        return std::string_view(text).substr(starts[i], starts[i + 1] - starts[i]);
    }

    std::string name(std::size_t column) const {
        return header ? std::string(field(column)) : std::to_string(column + 1);
    }

    /// The first usual separator in the first line other than the given one, if that line is a single field; else \0.
    char other_separator() const {
        if (columns == 1)
            for (char const c : field(0))
                if (c != separator && usual_separators.find(c) != std::string_view::npos) return c;
        return '\0';
    }

    /// The remedy for a first line that another separator would split; empty if none would.
    TRIREME_COLD std::string remedy_for_separator() const {
        auto const other = other_separator();
        if (other == '\0') return {};
        return ", or pass csv_options::separator = " + written(other) + ", which stands in line " +
               std::to_string(lines[0].line);
    }

    [[noreturn]] TRIREME_COLD void fail(place where, std::size_t column, std::string const& what) const {
        auto const named = header && column < columns ? " (" + in_quotes(name(column)) + ")" : "";
        throw data_error(path, where.byte,
                         "line " + std::to_string(where.line) + ", column " + std::to_string(column + 1) + named +
                             ": " + what);
    }
};

/// Takes a file to pieces, in the memory that holds it: what has been read makes room for what is kept of it. Nothing
/// recurses, and each byte is looked at a constant number of times.
/// Memory: 1 byte for each of the file, 4 for each field, 8 for each line, and what vectors have in reserve.
class parser {
public:
    TRIREME_COLD parser(regular_file const& file, char separator, bool header) : separator_(separator) {
        if (usual_separators.find(separator_) == std::string_view::npos)
            throw usage_error("the separator of a csv file is " + written(separator_) +
                              ", and must be ',', ';', '|' or a tabulator: pass one of these");
        if (file.size() > most_bytes)
            file.fail(0, "the file has " + std::to_string(file.size()) +
                             " bytes, and a csv file is held in memory, "
                             "with at most " +
                             std::to_string(most_bytes) +
                             ": split it, or write it by numpy.save, for which there is map_npy");
        made_.path = file.path();
        made_.header = header;
        made_.separator = separator;
        made_.text.resize(static_cast<std::size_t>(file.size()));
        file.read(0, std::as_writable_bytes(std::span(made_.text)));
    }

    TRIREME_COLD content parsed() && {
        if (made_.text.starts_with("\xEF\xBB\xBF")) at_ = 3;
        while (at_ < made_.text.size()) read_line();
        made_.starts.push_back(static_cast<std::uint32_t>(kept_));
        made_.text.resize(kept_);
        if (made_.lines.empty()) throw data_error(made_.path, 0, "the file is empty: write a line for each sample");
        if (made_.header) check_names();
        if (made_.header && made_.lines.size() == 1)
            throw data_error(made_.path, made_.lines[0].byte,
                             "the file has a line of names, and no line of values: write a line for each sample, or "
                             "pass .header = false if this is one");
        return std::move(made_);
    }

private:
    bool next_is(char wanted) const noexcept { return at_ < made_.text.size() && made_.text[at_] == wanted; }
    bool at_line_end() const noexcept {
        return at_ == made_.text.size() || next_is('\n') ||
               (next_is('\r') && at_ + 1 < made_.text.size() && made_.text[at_ + 1] == '\n');
    }
    void skip_blanks() noexcept {
        while (at_ < made_.text.size() && is_blank(made_.text[at_]) && made_.text[at_] != separator_) ++at_;
    }
    void skip_line_end() noexcept {
        if (next_is('\r')) ++at_;
        if (next_is('\n')) ++at_;
        ++line_;
    }
    void keep(std::size_t from, std::size_t end) noexcept {
        std::memmove(made_.text.data() + kept_, made_.text.data() + from, end - from);
        kept_ += end - from;
    }

    [[noreturn]] void fail(std::string const& what) const { made_.fail(field_, column_, what); }
    [[noreturn]] void fail_by_zero() const {
        fail("the file holds a zero byte, and text has none: save it as text in UTF-8");
    }

    TRIREME_COLD void read_line() {
        place const begin = {line_, static_cast<std::uint32_t>(at_)};
        skip_blanks();
        if (at_line_end()) return skip_line_end();
        at_ = begin.byte;
        for (column_ = 0;; ++column_, ++at_) {
            read_field();
            if (!next_is(separator_)) break;
        }
        skip_line_end();
        auto const fields = column_ + 1;
        if (made_.lines.empty()) made_.columns = fields;
        if (fields != made_.columns) {
            auto const few = fields < made_.columns;
            made_.fail(begin, few ? fields : made_.columns,
                       std::string(few ? "there is no such field" : "a field too many") + "; this line has " +
                           std::to_string(fields) + ", and line " + std::to_string(made_.lines[0].line) + " has " +
                           std::to_string(made_.columns) +
                           ": give all lines as many fields, and put text with a separator in it in quotes" +
                           made_.remedy_for_separator() + remedy_for_comma());
        }
        made_.lines.push_back(begin);
    }

    /// The remedy for a comma before a fraction that splits a line, where the first line has no comma: the text behind
    /// the last comma begins with a digit.
    TRIREME_COLD std::string remedy_for_comma() const {
        auto const last = std::string_view(made_.text).substr(made_.starts.back(), kept_ - made_.starts.back());
        if (made_.columns != 1 || separator_ != ',' || last.empty() || last[0] < '0' || last[0] > '9') return {};
        auto const other = made_.other_separator();
        return "; if a comma stands before fractions, pass csv_options::decimal = ',' and csv_options::separator = " +
               written(other == '\0' ? ';' : other);
    }

    void read_field() {
        made_.starts.push_back(static_cast<std::uint32_t>(kept_));
        field_ = {line_, static_cast<std::uint32_t>(at_)};
        skip_blanks();
        if (next_is('"')) return read_quoted();
        auto const from = at_;
        auto end = at_;
        for (; !at_line_end() && !next_is(separator_); ++at_) {
            auto const c = made_.text[at_];
            if (c == '\0') fail_by_zero();
            if (c == '"')
                fail("a quote stands inside a field that begins without one: put the whole field in quotes, and write "
                     "each quote in it twice");
            if (c == '\r') fail("a carriage return stands without a newline: end lines with a newline, or with both");
            if (!is_blank(c)) end = at_ + 1;
        }
        keep(from, end);
    }

    void read_quoted() {
        do { // each stretch ends before a quote
            auto const from = ++at_;
            for (; at_ < made_.text.size() && made_.text[at_] != '"'; ++at_) {
                if (made_.text[at_] == '\0') fail_by_zero();
                if (made_.text[at_] == '\n') ++line_;
            }
            if (at_ == made_.text.size())
                fail("the quote at the beginning of this field is never closed: close it, and write quotes inside of "
                     "quotes twice");
            ++at_;
            keep(from, next_is('"') ? at_ : at_ - 1); // of two quotes one is kept
        } while (next_is('"'));
        skip_blanks();
        if (!at_line_end() && !next_is(separator_))
            fail("text follows the closing quote of a field: write quotes inside of quotes twice, and a separator "
                 "behind the field");
    }

    void check_names() const {
        std::vector<std::uint32_t> order(made_.columns);
        std::iota(order.begin(), order.end(), std::uint32_t{0});
        auto const name = [this](std::uint32_t i) { return made_.field(i); };
        std::ranges::sort(order, [&](auto a, auto b) { return std::pair(name(a), a) < std::pair(name(b), b); });
        auto const twice = std::ranges::adjacent_find(order, {}, name);
        if (twice != order.end())
            made_.fail(made_.lines[0], twice[1],
                       "column " + std::to_string(*twice + 1) +
                           " has the same name: give each its own, or pass .header = false if this line holds values");
    }

    content made_;
    char separator_;
    std::size_t at_ = 0;
    std::size_t kept_ = 0;
    std::size_t column_ = 0;
    std::uint32_t line_ = 1;
    place field_;
};

} // namespace trireme::detail::csv
