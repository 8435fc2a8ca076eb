// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/quoted.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/data/csv_parser.hpp>
#include <trireme/data/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace trireme {

/// Options of a file: how it is written, and what stands for values that are not there.
struct csv_options {
    bool header = true;                 ///< true: the first line names the columns; else their names are "1", "2", ...
    char separator = ',';               ///< the character between fields: ',', ';', '|' or '\t'
    char decimal = '.';                 ///< the character before the fraction of a number: '.' or ','
    std::optional<double> missing = {}; ///< replaces numbers that are not there; without it they are an error
    std::vector<std::string> missing_words = {"NA", "NaN", "nan"}; ///< fields that count as empty, quoted or not
};

/// Columns of a table that become samples: either `targets` or `classes` is given, or `inputs` alone, for predictions.
struct csv_columns {
    /// Columns in this order; empty: all but the targets, which then all have names.
    std::vector<std::string> inputs = {};
    /// Words of those inputs that hold words, as csv_table::words() gives them. Each word becomes an input of its own,
    /// in this order: 1 in the rows that have it, else 0.
    std::map<std::string, std::vector<std::string>> words = {};
    std::vector<std::string> targets = {}; ///< numbers that the network is to give
    std::string classes = {};              ///< the column that holds the class of each row
    /// Names of the classes by their numbers, as another table's samples have them, class_names(). Empty: the different
    /// fields of the column, sorted, by their values if all are whole numbers.
    std::vector<std::string> class_names = {};
    std::size_t class_count = 0; ///< classes, if the column holds their numbers, 0 ... count - 1; 0: it holds names
};

namespace detail::csv {

/// "'a', 'b', 'c', ...": at most 20 names.
template<class Name>
std::string listed(std::size_t count, Name const& name) {
    std::string text;
    for (std::size_t i = 0; i < count && i <= 20; ++i)
        text += (i == 0 ? "" : ", ") + (i < 20 ? in_quotes(name(i)) : std::string("..."));
    return text;
}

/// A name_finder looks up the number of a name in a list. The list must outlive it.
class name_finder {
public:
    /// Errors: usage_error for two names that are alike; `what` says whose they are.
    TRIREME_COLD name_finder(std::vector<std::string> const& names, std::string const& what) : names_(&names) {
        for (auto const& name : names) known_.emplace_back(name, static_cast<std::int32_t>(known_.size()));
        std::ranges::sort(known_);
        auto const twice = std::ranges::adjacent_find(known_, {}, [](auto const& k) { return k.first; });
        if (twice != known_.end())
            throw usage_error("two " + what + " are named " + in_quotes(twice->first) + ": give each its own name");
    }

    std::vector<std::string> const& names() const noexcept { return *names_; }

    /// The number of a name; -1 if there is no such name. 07 is the name 7 if there is no other.
    std::int32_t number_of(std::string_view text) const {
        auto number = find(text);
        if (number < 0)
            if (auto const value = whole_number(text)) number = find(std::to_string(*value));
        return number;
    }

private:
    std::int32_t find(std::string_view text) const {
        auto const found = std::ranges::lower_bound(known_, text, {}, [](auto const& k) { return k.first; });
        return found != known_.end() && found->first == text ? found->second : -1;
    }

    std::vector<std::string> const* names_;
    std::vector<std::pair<std::string_view, std::int32_t>> known_; // sorted
};

/// A column of inputs: numbers, or words.
struct input_column {
    std::size_t column = 0;
    std::optional<name_finder> words = {}; ///< none: numbers

    std::size_t size() const noexcept { return words ? words->names().size() : 1; }
};

/// A number is asked for by csv_table::numbers(), or as a target or an input of samples.
enum class number_use { numbers, target, input };

inline constexpr std::size_t most_words = 1000; // of a column: each is an input

} // namespace detail::csv

/// The content of a csv file: columns with names, rows of fields, each of which is text until a column is asked for as
/// numbers or as classes.
///
///     auto const table = read_csv("iris.csv");
///     auto const flowers = table.samples({.classes = "species"}); // inputs: all other columns
///
/// A missing value is an empty field, or one of csv_options::missing_words.
class csv_table {
public:
    /// The rows of a file: read_csv.
    csv_table(detail::csv::content content, csv_options options)
        : content_(std::move(content)), options_(std::move(options)) {
        if (options_.missing && !std::isfinite(*options_.missing))
            throw usage_error("csv_options::missing is no finite number, and samples consist of those: pass one");
        if (options_.decimal != '.' && options_.decimal != ',')
            throw usage_error("csv_options::decimal is " + detail::csv::written(options_.decimal) +
                              ", and must be '.' or ',': pass one of these");
        if (options_.decimal == ',' && content_.separator == ',') check_quotes();
    }

    std::size_t rows() const noexcept { return content_.lines.size() - (content_.header ? 1 : 0); }
    std::size_t columns() const noexcept { return content_.columns; }

    /// Names of the columns, as in the file.
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (std::size_t c = 0; c < columns(); ++c) all.push_back(content_.name(c));
        return all;
    }

    /// The number of the column with this name, from 0.
    /// Errors: data_error if there is none, with the names there are.
    TRIREME_COLD std::size_t column(std::string_view name) const {
        for (std::size_t c = 0; c < columns(); ++c)
            if (content_.name(c) == name) return c;
        throw data_error(content_.path, content_.lines[0].byte,
                         "there is no column " + detail::in_quotes(name) + " among the " + std::to_string(columns()) +
                             ": " + detail::csv::listed(columns(), [&](auto c) { return content_.name(c); }) +
                             "; pass one of these" + content_.remedy_for_separator());
    }

    /// A field as it stands in the file, without its quotes and the blanks around it. Valid as long as the table.
    /// Errors: usage_error if there is no such row or column.
    std::string_view text(std::size_t row, std::size_t column) const {
        if (row >= rows() || column >= columns())
            throw usage_error("row " + std::to_string(row) + ", column " + std::to_string(column) +
                              " is not in this table of " + std::to_string(rows()) + " rows and " +
                              std::to_string(columns()) + " columns; count from 0");
        return field(row, column);
    }

    /// A column of numbers.
    /// Errors: data_error with line and column, for a field that is no finite number, or a missing value that
    /// csv_options::missing does not replace.
    TRIREME_COLD std::vector<double> numbers(std::string_view name) const {
        auto const c = column(name);
        std::vector<double> all;
        all.reserve(rows());
        for (std::size_t r = 0; r < rows(); ++r) all.push_back(number(r, c, detail::csv::number_use::numbers));
        return all;
    }

    /// The different words of each of these columns, sorted, by their values if all are whole numbers. Kept, they
    /// number the words of other tables likewise. Blanks around a word are no part of it, nor in quotes.
    ///
    ///     auto const words = table.words({"colour"}); // {"colour", {"green", "red"}}
    ///     auto const train = table.samples({.words = words, .classes = "species"});
    ///     auto const asked = other.samples({.inputs = {"length", "colour"}, .words = words});
    ///
    /// Errors: data_error as for column(), with line and column for a word that is missing, and for a column of more
    /// than 1000 different words.
    TRIREME_COLD std::map<std::string, std::vector<std::string>> words(std::vector<std::string> const& columns) const {
        std::map<std::string, std::vector<std::string>> all;
        for (auto const& name : columns) {
            auto const c = column(name);
            auto words = different([&](auto r) { return word(r, c); });
            if (words.size() > detail::csv::most_words)
                content_.fail(content_.lines[0], c,
                              "the column has " + std::to_string(words.size()) + " different words, and at most " +
                                  std::to_string(detail::csv::most_words) +
                                  " can become inputs, each of its own: leave the column out, as one of identifiers, "
                                  "or write rare words as one, 'other'");
            all.insert_or_assign(name, std::move(words));
        }
        return all;
    }

    /// The rows as samples, which own their memory; the table is no longer needed. Numbers are doubles, as exact as
    /// they are written. `inputs` alone, which names() may be, are samples without targets, for predictions.
    /// Errors: data_error as for numbers() and column(), and for a word or a class that is missing or none of those
    /// wanted; usage_error for columns that contradict one another.
    TRIREME_COLD owned_samples samples(csv_columns const& wanted) const {
        bool const inputs_alone = wanted.targets.empty() && wanted.classes.empty() && !wanted.inputs.empty() &&
                                  wanted.class_names.empty() && wanted.class_count == 0;
        if (!inputs_alone && wanted.targets.empty() == wanted.classes.empty())
            throw usage_error("samples have either classes or targets: pass .classes = \"NAME\" for a column of "
                              "classes, or .targets = {\"NAME\"} for columns of numbers; for predictions, which want "
                              "neither, pass .inputs alone" +
                              remedy_for_unnamed());
        if (wanted.classes.empty() && (!wanted.class_names.empty() || wanted.class_count != 0))
            throw usage_error(std::string(wanted.class_count != 0 ? "class_count" : "class_names") +
                              " is about a column of classes, and .targets are numbers: pass .classes = \"NAME\" for "
                              "the column, or leave it out");
        std::vector<char> taken(columns(), 0);
        auto const targets = chosen(wanted.classes.empty() ? wanted.targets : std::vector{wanted.classes}, taken);
        auto inputs = chosen(wanted.inputs, taken);
        for (std::size_t c = 0; c < columns() && wanted.inputs.empty(); ++c) {
            if (taken[c] != 0) continue;
            if (content_.header && content_.name(c).empty())
                throw usage_error("column " + std::to_string(c + 1) + " of " + content_.path +
                                  " has no name, as the index that pandas writes: name the columns that are inputs, "
                                  ".inputs = {\"NAME\", ...}, or give it a name if it is one");
            inputs.push_back(c);
        }
        if (inputs.empty())
            throw usage_error("no column is left for the inputs: a sample needs at least one number beside its "
                              "target" +
                              content_.remedy_for_separator());
        auto const encoded = with_words(inputs, wanted.words);
        std::size_t width = 0;
        for (auto const& each : encoded) width += each.size();
        auto const of_input = make_shape(width);
        auto numbers_of_inputs = table_of(encoded, width, detail::csv::number_use::input);
        if (inputs_alone) return owned_samples(std::move(numbers_of_inputs), of_input);
        if (wanted.classes.empty())
            return owned_samples(std::move(numbers_of_inputs), of_input,
                                 table_of(with_words(targets, {}), targets.size(), detail::csv::number_use::target),
                                 make_shape(targets.size()));
        auto [labels, names] = labels_of(targets[0], wanted);
        auto const classes = wanted.class_count != 0 ? wanted.class_count : names.size();
        return owned_samples(std::move(numbers_of_inputs), of_input, std::move(labels), classes, std::move(names));
    }

private:
    struct class_labels {
        std::vector<std::int32_t> numbers = {};
        std::vector<std::string> names = {};
    };

    /// Commas both separate fields and stand before fractions: then such a number is in quotes. Where none is, the
    /// separators have split the numbers, or there are no fractions.
    TRIREME_COLD void check_quotes() const {
        for (std::size_t r = 0; r < rows(); ++r)
            for (std::size_t c = 0; c < columns(); ++c)
                if (field(r, c).find(',') != std::string_view::npos) return;
        throw usage_error("csv_options::decimal and csv_options::separator are both ',', and no field of " +
                          content_.path +
                          " has a comma in quotes: pass csv_options::separator = ';', or what is between its fields, "
                          "or leave out decimal");
    }

    /// The remedy for the first column without a name, which .classes cannot ask for.
    TRIREME_COLD std::string remedy_for_unnamed() const {
        for (std::size_t c = 0; c < columns(); ++c)
            if (content_.name(c).empty())
                return "; column " + std::to_string(c + 1) + " of " + content_.path +
                       " has no name: give it one in the first line, or take it away";
        return {};
    }

    std::string_view field(std::size_t row, std::size_t column) const noexcept {
        return content_.field((row + (content_.header ? 1 : 0)) * columns() + column);
    }

    [[noreturn]] TRIREME_COLD void fail(std::size_t row, std::size_t column, std::string const& what) const {
        content_.fail(content_.lines[row + (content_.header ? 1 : 0)], column, what);
    }

    bool is_missing(std::string_view text) const noexcept {
        return text.empty() || std::ranges::find(options_.missing_words, text) != options_.missing_words.end();
    }

    double number(std::size_t row, std::size_t column, detail::csv::number_use use) const {
        auto const text = detail::csv::without_blanks(field(row, column));
        if (is_missing(text)) {
            if (options_.missing) return *options_.missing;
            fail(row, column,
                 "a number is missing" + (text.empty() ? "" : " (" + detail::in_quotes(text) + ")") +
                     ": fill it in, leave out the line or the column, or pass csv_options::missing, which replaces it");
        }
        double value = 0;
        auto const error = detail::csv::read_number(text, options_.decimal, value);
        if (error == std::errc{}) return value;
        if (error == std::errc::result_out_of_range)
            fail(row, column, detail::in_quotes(text) + " is too large or too small for a double: scale the column");
        fail(row, column, detail::in_quotes(text) + " is no finite number: " + remedy_for_number(text, column, use));
    }

    TRIREME_COLD std::string remedy_for_number(std::string_view text, std::size_t column,
                                               detail::csv::number_use use) const {
        bool const point = options_.decimal == '.';
        char const other = point ? ',' : '.';
        std::string const mark = point ? "comma" : "point";
        std::string remedy =
            point ? "write it as 1.5 or 1e-3" : "with csv_options::decimal = ',' write it as 1,5 or 1e-3";
        auto const joined = text.find_first_of(detail::csv::usual_separators) != std::string_view::npos;
        auto const separator = joined ? content_.remedy_for_separator() : std::string();
        std::string without(text);
        double ignored = 0;
        if (std::erase(without, other) == 0 ||
            detail::csv::read_number(without, options_.decimal, ignored) != std::errc{})
            remedy += separator.empty() ? remedy_for_column(column, use) : "";
        else if (detail::csv::read_number(text, other, ignored) == std::errc{})
            remedy += "; pass csv_options::decimal = " + detail::csv::written(other) + " if the " + mark +
                      " stands before the fraction, or leave the " + mark + " out if it separates thousands";
        else
            remedy += ", without " + mark + "s between thousands";
        return remedy + separator;
    }

    /// The remedy for a column that may hold words. An answer among the inputs would be learnt from itself, so .classes
    /// comes before .words.
    TRIREME_COLD std::string remedy_for_column(std::size_t column, detail::csv::number_use use) const {
        if (use == detail::csv::number_use::numbers) return ", or read the column by csv_table::text()";
        auto name = detail::in_quotes(content_.name(column));
        name.front() = name.back() = '"';
        auto const classes = name == "\"\"" ? ".classes, once it has a name," : ".classes = " + name;
        if (use == detail::csv::number_use::target)
            return ", or ask for this column as " + classes + " instead of .targets if it holds classes";
        return ", name the columns that are inputs in .inputs, or ask for this one as " + classes +
               " in place of other targets if it is the answer, and as .words = table.words({" + name +
               "}), each of which becomes an input, only if it is not";
    }

    /// The columns with these names, which become `taken`.
    std::vector<std::size_t> chosen(std::vector<std::string> const& names, std::vector<char>& taken) const {
        std::vector<std::size_t> all;
        for (auto const& name : names) {
            auto const c = column(name);
            if (std::exchange(taken[c], char{1}) != 0)
                throw usage_error("column " + detail::in_quotes(name) +
                                  " is asked for twice: a column is an input or a target, and either once");
            all.push_back(c);
        }
        return all;
    }

    /// Columns with their words; each list of words belongs to one of them.
    std::vector<detail::csv::input_column>
    with_words(std::vector<std::size_t> const& columns,
               std::map<std::string, std::vector<std::string>> const& words) const {
        std::vector<detail::csv::input_column> all;
        for (auto const c : columns) all.push_back({c});
        for (auto const& [name, list] : words) {
            auto const of_name = std::ranges::find(all, column(name), &detail::csv::input_column::column);
            if (of_name == all.end())
                throw usage_error("column " + detail::in_quotes(name) +
                                  " has .words, and is no input: name it in .inputs, too, or leave out its words");
            if (list.empty())
                throw usage_error("column " + detail::in_quotes(name) +
                                  " has an empty list of words: pass those that csv_table::words() gives");
            of_name->words.emplace(list, "words of " + detail::in_quotes(name));
        }
        return all;
    }

    std::vector<double> table_of(std::vector<detail::csv::input_column> const& columns, std::size_t width,
                                 detail::csv::number_use use) const {
        std::vector<double> all(rows() * width);
        std::size_t at = 0;
        for (std::size_t r = 0; r < rows(); ++r)
            for (auto const& each : columns) {
                if (each.words)
                    all[at + number_among(*each.words, r, each.column)] = 1;
                else
                    all[at] = number(r, each.column, use);
                at += each.size();
            }
        return all;
    }

    std::size_t number_among(detail::csv::name_finder const& known, std::size_t row, std::size_t column) const {
        auto const& words = known.names();
        auto const text = word(row, column);
        auto const number = known.number_of(text);
        if (number < 0)
            fail(row, column,
                 detail::in_quotes(text) + " is none of the " + std::to_string(words.size()) + " words " +
                     detail::csv::listed(words.size(), [&](auto i) { return std::string_view(words[i]); }) +
                     ": correct it, leave out the line, or take the words from a table that has all of them");
        return static_cast<std::size_t>(number);
    }

    /// A field of a column of words, which is there.
    std::string_view word(std::size_t row, std::size_t column) const {
        auto const text = detail::csv::without_blanks(field(row, column));
        if (is_missing(text))
            fail(row, column,
                 "a word is missing" + (text.empty() ? "" : " (" + detail::in_quotes(text) + ")") +
                     ": fill it in, as 'unknown', or leave out the line or the column; if the field is a word, leave "
                     "it out of csv_options::missing_words");
        return text;
    }

    /// The different texts that `text_of(row)` gives, sorted: by their values if all are whole numbers.
    template<class TextOf>
    std::vector<std::string> different(TextOf const& text_of) const {
        std::vector<std::string> names;
        std::vector<std::int64_t> values;
        for (std::size_t r = 0; r < rows(); ++r) {
            auto const value = detail::csv::whole_number(text_of(r));
            if (!value) break;
            values.push_back(*value);
        }
        if (values.size() == rows()) {
            std::ranges::sort(values);
            values.erase(std::unique(values.begin(), values.end()), values.end());
            for (auto const value : values) names.push_back(std::to_string(value));
        } else {
            std::vector<std::string_view> texts;
            for (std::size_t r = 0; r < rows(); ++r) texts.push_back(text_of(r));
            std::ranges::sort(texts);
            names.assign(texts.begin(), std::unique(texts.begin(), texts.end())); // clang 14 knows no ranges::unique
        }
        return names;
    }

    /// A field of a column of classes, which is there.
    std::string_view class_text(std::size_t row, std::size_t column) const {
        auto const text = field(row, column);
        if (is_missing(text))
            fail(row, column,
                 "a class is missing" + (text.empty() ? "" : " (" + detail::in_quotes(text) + ")") +
                     ": fill it in or leave out the line; if the field is the name of a class, leave it out of "
                     "csv_options::missing_words");
        return text;
    }

    class_labels labels_of(std::size_t column, csv_columns const& wanted) const {
        if (wanted.class_count != 0) {
            if (!wanted.class_names.empty())
                throw usage_error("class_names and class_count both number the classes: pass one of them");
            return numbered(column, wanted.class_count);
        }
        if (!wanted.class_names.empty()) return named(column, wanted.class_names);
        return named(column, different([&](auto r) { return class_text(r, column); }));
    }

    class_labels numbered(std::size_t column, std::size_t count) const {
        if (count > 0x7FFFFFFF) throw usage_error("class_count is above 2^31 - 1: pass the number of classes");
        class_labels made;
        for (std::size_t r = 0; r < rows(); ++r) {
            auto const text = class_text(r, column);
            auto const value = detail::csv::whole_number(text);
            if (!value || *value < 0 || static_cast<std::uint64_t>(*value) >= count)
                fail(r, column,
                     detail::in_quotes(text) + " is no class in [0, " + std::to_string(count) +
                         "): correct it, pass a larger class_count, or none if these are names");
            made.numbers.push_back(static_cast<std::int32_t>(*value));
        }
        return made;
    }

    class_labels named(std::size_t column, std::vector<std::string> const& names) const {
        detail::csv::name_finder const known(names, "classes");
        class_labels made{{}, names};
        for (std::size_t r = 0; r < rows(); ++r) {
            auto const text = class_text(r, column);
            auto const number = known.number_of(text);
            if (number < 0)
                fail(r, column,
                     detail::in_quotes(text) + " is none of the " + std::to_string(names.size()) + " classes " +
                         detail::csv::listed(names.size(), [&](auto i) { return std::string_view(names[i]); }) +
                         ": correct it, or take the names from a table that has all classes");
            made.numbers.push_back(number);
        }
        return made;
    }

    detail::csv::content content_;
    csv_options options_;
};

/// Reads a csv file whole, and checks its form: quotes, number of fields, names.
/// Errors: data_error with line and column, for a file that is missing, no regular file, empty, above 4 GiB, or not
/// csv (data/csv_parser.hpp says what is); usage_error for a separator that cannot be one, or that is the decimal
/// comma, too, though no field has one in quotes. Memory: a table takes at most 13 times its file (20 while it grows),
/// samples 8 bytes for each number.
TRIREME_COLD inline csv_table read_csv(std::string const& path, csv_options options = {}) {
    detail::regular_file const file(path);
    auto content = detail::csv::parser(file, options.separator, options.header).parsed();
    return {std::move(content), std::move(options)};
}

} // namespace trireme
